from __future__ import annotations

import pytest

from pegboard.dialects.combinators import Conjunction, NothingFitsError, merge_all_of, same
from pegboard.dialects.dialect import Place

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def all_of(*parts, **more):
    return {**more, "allOf": list(parts)}


CASES = {
    "objects": (
        all_of({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": WHOLE}}),
        {"type": "object", "properties": {"a": TEXT, "b": WHOLE}, "required": ["a"]},
        [],
    ),
    "types": (all_of({"type": ["number", "null"]}, {"type": ["integer", "string"]}), WHOLE, []),
    "bounds": (
        all_of({"minimum": 1, "maximum": 9, "minLength": 2}, {"minimum": 3, "maximum": 5, "minLength": 1}),
        {"minimum": 3, "maximum": 5, "minLength": 2},
        [],
    ),
    "values": (all_of({"enum": [1, 2, 3]}, {"enum": [3, 2.0]}), {"enum": [2, 3]}, []),
    "the same constant": (all_of({"const": 1}, {"const": 1.0}), {"const": 1}, []),
    "multiples": (all_of({"multipleOf": 4}, {"multipleOf": 6}), {"multipleOf": 12}, []),
    "lists": (
        all_of({"required": ["a"], "uniqueItems": False}, {"required": ["b", "a"], "uniqueItems": True}),
        {"required": ["a", "b"], "uniqueItems": True},
        [],
    ),
    "names that need others": (
        all_of({"dependentRequired": {"a": ["b"]}}, {"dependentRequired": {"a": ["c"], "d": []}}),
        {"dependentRequired": {"a": ["b", "c"], "d": []}},
        [],
    ),
    "what must not be": (all_of({"not": TEXT}, {"not": WHOLE}), {"not": {"anyOf": [TEXT, WHOLE]}}, []),
    "names of keys": (
        all_of({"propertyNames": {"minLength": 1}}, {"propertyNames": {"minLength": 2}}),
        {"propertyNames": {"minLength": 2}},
        [],
    ),
    "unions": (
        all_of({"anyOf": [TEXT, WHOLE]}, {"anyOf": [{"type": "number"}, {"type": "null"}]}),
        {"anyOf": [WHOLE]},
        [],
    ),
    "notes": (
        all_of(
            {"description": "one", "title": "t"}, {"description": "two", "title": "u"}, description="own", type="null"
        ),
        {"description": "own one two", "type": "null", "title": "t"},
        [],
    ),
    "the same property twice": (
        all_of({"properties": {"a": {"minimum": 1}}}, {"properties": {"a": WHOLE}}),
        {"properties": {"a": {"minimum": 1, "type": "integer"}}},
        [],
    ),
    "a closed part closes all": (
        all_of({"properties": {"a": TEXT}, "additionalProperties": False}, {"properties": {"b": TEXT}}),
        {"properties": {"a": TEXT}, "additionalProperties": False},
        [],
    ),
    "other keys of both": (
        all_of({"additionalProperties": {"minimum": 1}}, {"additionalProperties": WHOLE, "properties": {"a": {}}}),
        {"additionalProperties": {"minimum": 1, "type": "integer"}, "properties": {"a": {"minimum": 1}}},
        [],
    ),
    "patterns of keys": (
        all_of({"patternProperties": {"^a": TEXT}, "properties": {"x": {}}}, {"patternProperties": {"^b": WHOLE}}),
        {"patternProperties": {"^b": WHOLE, "^a": TEXT}, "properties": {"x": {}}},
        [],
    ),
    "patterns of keys, closed": (
        all_of({"patternProperties": {"^a": TEXT}}, {"additionalProperties": False}),
        {"patternProperties": {"^a": TEXT}, "additionalProperties": False},
        [" patternProperties"],
    ),
    "items": (
        all_of({"prefixItems": [{"minimum": 1}], "items": TEXT}, {"items": {"title": "t"}}),
        {"prefixItems": [{"minimum": 1, "title": "t"}], "items": {"type": "string", "title": "t"}},
        [],
    ),
    "no item at some place": (
        all_of({"prefixItems": [WHOLE, TEXT]}, {"prefixItems": [WHOLE], "items": WHOLE}),
        {"maxItems": 1, "prefixItems": [WHOLE], "items": WHOLE},
        [],
    ),
    "two patterns": (
        all_of({"pattern": "^a"}, {"pattern": "b$"}),
        {"pattern": "^a", "description": "Matches the pattern b$."},
        [" pattern"],
    ),
    "multiples that aren't whole": (
        all_of({"multipleOf": 0.5}, {"multipleOf": 2}),
        {"multipleOf": 0.5, "description": "A multiple of 2."},
        [" multipleOf"],
    ),
    "one condition": (all_of({"if": TEXT, "then": {}}, {"title": "t"}), {"if": TEXT, "then": {}, "title": "t"}, []),
    "two conditions": (
        all_of({"if": TEXT, "then": {"minLength": 1}}, {"if": WHOLE, "then": {"minimum": 1}}),
        {
            "if": TEXT,
            "then": {"minLength": 1},
            "description": 'If it fits {"type":"integer"}: it fits {"minimum":1}.',
        },
        [" if"],
    ),
    "the same condition twice": (all_of({"contains": {}}, {"contains": {}}), {"contains": {}}, []),
    "too many alternatives": (
        all_of({"anyOf": [{"minimum": at} for at in range(9)]}, {"anyOf": [{"title": "a"}, {"title": "b"}]}),
        {
            "anyOf": [{"minimum": at} for at in range(9)],
            "description": 'Fits one of: {"title":"a"}, {"title":"b"}.',
        },
        [" anyOf"],
    ),
    "parts within parts": (
        all_of(all_of(TEXT, {"minLength": 1}), {"maxLength": 2}),
        {"type": "string", "minLength": 1, "maxLength": 2},
        [],
    ),
    "a reference with notes stays": (
        {"items": all_of({"$ref": "#/$defs/A"}, description="d", default=None), "$defs": {"A": TEXT}},
        {"items": {"$ref": "#/$defs/A", "description": "d", "default": None}, "$defs": {"A": TEXT}},
        [],
    ),
    "a reference with rules is written out": (
        {"items": {"$ref": "#/$defs/A", "minLength": 1}, "$defs": {"A": TEXT}},
        {"items": {"minLength": 1, "type": "string"}, "$defs": {"A": TEXT}},
        [],
    ),
    "a contradiction": (
        {"items": all_of(TEXT, WHOLE, title="t")},
        {"items": {"title": "t"}},
        ["/items allOf"],
    ),
    "a contradiction in what is required": (
        {"items": all_of({"properties": {"a": TEXT}}, {"properties": {"a": WHOLE}, "required": ["a"]})},
        {"items": {}},
        ["/items allOf"],
    ),
    "a contradiction in what is optional": (
        all_of({"properties": {"a": TEXT}}, {"properties": {"a": WHOLE}}),
        {"properties": {}},
        [],
    ),
    "a contradiction of constants": (all_of({"const": 1}, {"const": 2}), {}, [" allOf"]),
    "a contradiction of values": (all_of({"enum": [1]}, {"enum": [2]}), {}, [" allOf"]),
    "a contradiction of bounds": (all_of({"type": "integer", "minimum": 3}, {"maximum": 2}), {}, [" allOf"]),
    "bounds of what the type isn't": (
        all_of({"type": "string", "minimum": 3}, {"maximum": 2}),
        {"type": "string", "minimum": 3, "maximum": 2},
        [],
    ),
    "bounds that meet only for numbers": (
        all_of({"minimum": 3}, {"maximum": 2}),
        {"minimum": 3, "maximum": 2},
        [],
    ),
    "a contradiction of unions": (all_of({"anyOf": [TEXT]}, {"anyOf": [WHOLE]}), {}, [" allOf"]),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(merge_all_of, schema) == (expected, changes)


def test_a_type_merged_with_itself_below_ends(apply):
    part = {"allOf": [{"$ref": "#/$defs/A"}, {"required": ["x"]}]}
    schema = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "object", "properties": {"x": part}}}}
    merged, changes = apply(merge_all_of, schema)
    assert merged["$defs"]["A"]["properties"]["x"] == {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/A"}},
        "required": ["x"],
    }
    assert changes == ["/$defs/A/properties/x/properties/x allOf"]


def test_a_type_of_nothing_but_itself_ends(apply):
    schema, _ = apply(
        merge_all_of,
        {
            "items": {"allOf": [{"$ref": "#/$defs/A"}, {}]},
            "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}, {"minimum": 1}]}},
        },
    )
    assert schema["items"] == {"$ref": "#/$defs/A"}


def test_two_recursive_types_merge_as_far_as_they_repeat(apply):
    definitions = {
        name: {"type": "object", "properties": {"next": {"$ref": f"#/$defs/{name}"}, name: TEXT}} for name in "AB"
    }
    schema = {"items": {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}, "$defs": definitions}
    merged, changes = apply(merge_all_of, schema)
    below = merged["items"]["properties"]["next"]
    assert sorted(below["properties"]) == ["A", "B", "next"]
    assert below["properties"]["next"] == {"$ref": "#/$defs/A"}
    assert [change.rpartition(" ")[2] for change in changes] == ["allOf"]


def test_merging_ends_when_its_budget_is_spent():
    spent, place = Conjunction({}, left=0), Place()
    assert spent.of(TEXT, {"minLength": 1}, place) == TEXT
    assert spent.flat({"allOf": [TEXT, {"minLength": 1}]}, place) == {}
    assert {change.keyword for change in place.changes} == {"allOf"}


def test_nothing_added_is_nothing_changed():
    join = Conjunction({})
    assert join.of(TEXT, {}, Place()) is TEXT
    assert join.of({}, TEXT, Place()) is TEXT
    assert join.of(TEXT, dict(TEXT), Place()) is TEXT
    assert join.of(TEXT, {"title": "t"}, Place()) == {**TEXT, "title": "t"}


def test_what_contradicts_is_raised():
    with pytest.raises(NothingFitsError):
        Conjunction({}).of(TEXT, WHOLE, Place())


def test_equality_is_that_of_json():
    assert same({"a": 1}, {"a": 1.0})
    assert not same({"a": 1}, {"a": True})
