from __future__ import annotations

import pytest

from pegboard_clients.dialects.combinators import (
    Conjunction,
    isolate_any_of,
    merge_all_of,
    one_of_to_any_of,
    root_object,
)
from pegboard_clients.dialects.dialect import Place

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def all_of(*parts, **more):
    return {**more, "allOf": list(parts)}


TABLES: dict[object, dict[str, tuple]] = {}
TABLES[merge_all_of] = {
    "objects": (
        all_of({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": WHOLE}}),
        {"type": "object", "properties": {"a": TEXT, "b": WHOLE}, "required": ["a"]},
    ),
    "types": (all_of({"type": ["number", "null"]}, {"type": ["integer", "string"]}), WHOLE),
    "bounds": (
        all_of({"minimum": 1, "maximum": 9, "minLength": 2}, {"minimum": 3, "maximum": 5, "minLength": 1}),
        {"minimum": 3, "maximum": 5, "minLength": 2},
    ),
    "values": (all_of({"enum": [1, 2, 3]}, {"enum": [3, 2.0]}), {"enum": [2, 3]}),
    "the same constant": (all_of({"const": 1}, {"const": 1.0}), {"const": 1}),
    "lists": (
        all_of({"required": ["a"], "uniqueItems": False}, {"required": ["b", "a"], "uniqueItems": True}),
        {"required": ["a", "b"], "uniqueItems": True},
    ),
    "names of keys": (
        all_of({"propertyNames": {"minLength": 1}}, {"propertyNames": {"minLength": 2}}),
        {"propertyNames": {"minLength": 2}},
    ),
    "unions": (all_of({"anyOf": [TEXT, WHOLE]}, {"anyOf": [{"type": "number"}, {"type": "null"}]}), {"anyOf": [WHOLE]}),
    "notes": (
        all_of(
            {"description": "one", "title": "t"}, {"description": "two", "title": "u"}, description="own", type="null"
        ),
        {"description": "own one two", "type": "null", "title": "t"},
    ),
    "the same property twice": (
        all_of({"properties": {"a": {"minimum": 1}}}, {"properties": {"a": WHOLE}}),
        {"properties": {"a": {"minimum": 1, "type": "integer"}}},
    ),
    "a closed part closes all": (
        all_of({"properties": {"a": TEXT}, "additionalProperties": False}, {"properties": {"b": TEXT}}),
        {"properties": {"a": TEXT}, "additionalProperties": False},
    ),
    "other keys of both": (
        all_of({"additionalProperties": {"minimum": 1}}, {"additionalProperties": WHOLE, "properties": {"a": {}}}),
        {"additionalProperties": {"minimum": 1, "type": "integer"}, "properties": {"a": {"minimum": 1}}},
    ),
    "patterns of keys": (
        all_of({"patternProperties": {"^a": TEXT}, "properties": {"x": {}}}, {"patternProperties": {"^b": WHOLE}}),
        {"patternProperties": {"^b": WHOLE, "^a": TEXT}, "properties": {"x": {}}},
    ),
    "patterns of keys, closed": (
        all_of({"patternProperties": {"^a": TEXT}}, {"additionalProperties": False}),
        {"patternProperties": {"^a": TEXT}, "additionalProperties": False},
        [" patternProperties"],
    ),
    "items": (all_of({"items": TEXT}, {"items": {"title": "t"}}), {"items": {"type": "string", "title": "t"}}),
    "items that contradict": (all_of({"items": TEXT}, {"items": WHOLE}), {"items": TEXT}, [" items"]),
    "items by place": (
        all_of({"prefixItems": [WHOLE]}, {"items": TEXT, "minItems": 1}),
        {"prefixItems": [WHOLE], "minItems": 1},
        [" items"],
    ),
    "two patterns": (
        all_of({"pattern": "^a"}, {"pattern": "b$"}),
        {"pattern": "^a", "description": "Matches the pattern b$."},
        [" pattern"],
    ),
    "one condition": (all_of({"if": TEXT, "then": {}}, {"title": "t"}), {"if": TEXT, "then": {}, "title": "t"}),
    "two conditions": (
        all_of({"if": TEXT, "then": {"minLength": 1}}, {"if": WHOLE, "then": {"minimum": 1}}),
        {"if": TEXT, "then": {"minLength": 1}, "description": 'If it fits {"type":"integer"}: it fits {"minimum":1}.'},
        [" if"],
    ),
    "the same condition twice": (all_of({"contains": {}}, {"contains": {}}), {"contains": {}}),
    "too many alternatives": (
        all_of({"anyOf": [{"minimum": at} for at in range(9)]}, {"anyOf": [{"title": "a"}, {"title": "b"}]}),
        {"anyOf": [{"minimum": at} for at in range(9)], "description": 'Fits one of: {"title":"a"}, {"title":"b"}.'},
        [" anyOf"],
    ),
    "parts within parts": (
        all_of(all_of(TEXT, {"minLength": 1}), {"maxLength": 2}),
        {"type": "string", "minLength": 1, "maxLength": 2},
    ),
    "a reference with notes stays": (
        {"items": all_of({"$ref": "#/$defs/A"}, description="d", default=None), "$defs": {"A": TEXT}},
        {"items": {"$ref": "#/$defs/A", "description": "d", "default": None}, "$defs": {"A": TEXT}},
    ),
    "a reference with rules is written out": (
        {"items": {"$ref": "#/$defs/A", "minLength": 1}, "$defs": {"A": TEXT}},
        {"items": {"minLength": 1, "type": "string"}, "$defs": {"A": TEXT}},
    ),
    "a contradiction": ({"items": all_of(TEXT, WHOLE, title="t")}, {"items": {"title": "t"}}, ["/items allOf"]),
    "a contradiction in what is required": (
        {"items": all_of({"properties": {"a": TEXT}}, {"properties": {"a": WHOLE}, "required": ["a"]})},
        {"items": {}},
        ["/items allOf"],
    ),
    "a contradiction in what is optional": (
        all_of({"properties": {"a": TEXT}}, {"properties": {"a": WHOLE}}),
        {"properties": {}},
    ),
    "a contradiction of constants": (all_of({"const": 1}, {"const": 2}), {}, [" allOf"]),
    "a contradiction of values": (all_of({"enum": [1]}, {"enum": [2]}), {}, [" allOf"]),
    "a contradiction of unions": (all_of({"anyOf": [TEXT]}, {"anyOf": [WHOLE]}), {}, [" allOf"]),
}


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


NULL = {"type": "null"}


def at(schema, **more):
    """A schema below the root."""
    return {"items": schema, **more}


TABLES[isolate_any_of] = {
    "rules go into each": (
        at({"minLength": 1, "title": "t", "anyOf": [TEXT, {"title": "u"}]}),
        at({"title": "t", "anyOf": [{"minLength": 1, "type": "string"}, {"minLength": 1, "title": "u"}]}),
    ),
    "what is ruled out goes": (
        at({"type": ["string", "null"], "anyOf": [TEXT, NULL, {"type": "integer"}]}),
        at({"anyOf": [TEXT, NULL]}),
    ),
    "all ruled out": (at({"type": "string", "anyOf": [NULL]}), at(TEXT), ["/items anyOf"]),
    "notes may stay": (at({"anyOf": [TEXT, NULL], "default": 1}),),
    "one is no union": (
        at({"anyOf": [{**TEXT, "description": "inner"}], "description": "outer"}),
        at({**TEXT, "description": "outer inner"}),
    ),
    "one without words": (at({"anyOf": [TEXT], "description": "outer"}), at({**TEXT, "description": "outer"})),
    "the same twice": (at({"anyOf": [TEXT, NULL, TEXT]}), at({"anyOf": [TEXT, NULL]})),
    "unions in unions": (at({"anyOf": [{"anyOf": [TEXT, NULL]}, {"anyOf": [NULL]}]}), at({"anyOf": [TEXT, NULL]})),
    "a union within what is moved": (
        at({"properties": {"a": {}}, "anyOf": [{"anyOf": [{"type": "object"}]}]}),
        at({"properties": {"a": {}}, "type": "object"}),
    ),
    "a reference is written out": (
        at({"minLength": 1, "anyOf": [{"$ref": "#/$defs/A"}, NULL]}, **{"$defs": {"A": TEXT}}),
        at({"anyOf": [{"minLength": 1, "type": "string"}, {"minLength": 1, "type": "null"}]}, **{"$defs": {"A": TEXT}}),
    ),
    "a reference alone stays": (at({"anyOf": [{"$ref": "#/$defs/A"}]}),),
    "the root": ({"type": "object", "anyOf": [TEXT]},),
}


def test_a_union_of_itself_ends(apply):
    union = {"anyOf": [{"$ref": "#/$defs/A"}, NULL], "minProperties": 1}
    schema = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "object", "properties": {"x": union}}}}
    spread, changes = apply(isolate_any_of, schema)
    inner = spread["$defs"]["A"]["properties"]["x"]["anyOf"][0]
    assert inner["properties"]["x"] == {"anyOf": union["anyOf"]}
    assert changes == ["/$defs/A/properties/x/anyOf/0/properties/x anyOf"]


def tool(*required, **properties):
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


TABLES[one_of_to_any_of] = {
    "told apart by type": (
        {"oneOf": [{"type": "string"}, {"type": ["integer", "null"]}]},
        {"anyOf": [{"type": "string"}, {"type": ["integer", "null"]}]},
    ),
    "an integer is a number": (
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        {"anyOf": [{"type": "integer"}, {"type": "number"}], "description": "Exactly one of the alternatives."},
        [" oneOf"],
    ),
    "told apart by a tag": (
        {"description": "D.", "oneOf": [tool("k", k={"const": "a"}), tool("k", k={"const": "b"})]},
        {
            "description": "D. Exactly one of the alternatives.",
            "anyOf": [tool("k", k={"const": "a"}), tool("k", k={"const": "b"})],
        },
        [" oneOf"],
    ),
    "types that aren't known": (
        {"oneOf": [{"required": ["k"]}, TEXT]},
        {"anyOf": [{"required": ["k"]}, TEXT], "description": "Exactly one of the alternatives."},
        [" oneOf"],
    ),
    "one": ({"oneOf": [{}]}, {"anyOf": [{}]}),
    "a boolean": ({"oneOf": [True]}, {"anyOf": [True]}),
    "beside anyOf": (
        {"oneOf": [{"type": "null"}], "anyOf": [{}], "allOf": [{"title": "t"}]},
        {"anyOf": [{}], "allOf": [{"title": "t"}, {"anyOf": [{"type": "null"}]}]},
    ),
}

STEP = root_object("anyOf", "oneOf", "allOf", "enum", "const", "not")


TABLES[STEP] = {
    "plain": (tool(a=TEXT),),
    "no type": ({"properties": {"a": TEXT}}, tool(a=TEXT)),
    "an object or null": ({"type": ["object", "null"]}, {"type": "object"}),
    "no object": ({"type": "string"}, {"type": "object"}, [" type!"]),
    "a reference": (
        {"$ref": "#/$defs/A", "title": "t", "$defs": {"A": tool(a=TEXT)}},
        {"title": "t", **tool(a=TEXT), "$defs": {"A": tool(a=TEXT)}},
    ),
    "allOf": ({**tool(a=TEXT), "allOf": [tool("b", b=WHOLE), {"required": ["a"]}]}, tool("b", "a", a=TEXT, b=WHOLE)),
    "a contradiction": ({**tool(a=TEXT), "allOf": [TEXT]}, tool(a=TEXT), [" allOf"]),
    "which to give": (
        {**tool(a=TEXT, b=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {**tool(a=TEXT, b=TEXT), "description": "Needs one of: a; b."},
        [" anyOf"],
    ),
    "all need the same": (
        {**tool("c", a=TEXT, c=TEXT), "oneOf": [{"required": ["a", "c"]}, {"required": ["a"]}]},
        tool("c", "a", a=TEXT, c=TEXT),
        [" oneOf"],
    ),
    "alternatives with properties": (
        {
            "type": "object",
            "oneOf": [
                {**tool("kind", "a", kind={"const": "x"}, a=TEXT), "additionalProperties": False, "description": "X."},
                {**tool("kind", kind={"const": "y"}, b=WHOLE), "additionalProperties": False},
            ],
        },
        {
            **tool("kind", kind={"anyOf": [{"const": "x"}, {"const": "y"}]}, a=TEXT, b=WHOLE),
            "additionalProperties": False,
            "description": "X.",
        },
        [" oneOf"],
    ),
    "the root's own rule and those of all": (
        {**tool(a=WHOLE), "anyOf": [{"properties": {"a": {"minimum": 1}}}, {"properties": {"a": {"maximum": -1}}}]},
        tool(a={"type": "integer", "anyOf": [{"minimum": 1}, {"maximum": -1}]}),
        [" anyOf"],
    ),
    "the root's own rule and those of some": (
        {**tool(a=WHOLE), "anyOf": [{"properties": {"a": {"minimum": 1}}}, {}]},
        tool(a=WHOLE),
        [" anyOf"],
    ),
    "rules that contradict the root's": (
        {**tool(a=WHOLE), "anyOf": [{"properties": {"a": TEXT}}]},
        tool(a=WHOLE),
        [" anyOf"],
    ),
    "a closed root stays so": (
        {**tool(a=TEXT), "additionalProperties": False, "anyOf": [{"properties": {"b": TEXT}}, True]},
        {**tool(a=TEXT), "additionalProperties": False},
        [" anyOf"],
    ),
    "booleans": (
        {"type": "object", "anyOf": [tool(a=True, b=False), tool(b=TEXT), False]},
        tool(a={}, b=TEXT),
        [" anyOf"],
    ),
    "alternatives that are no objects": (
        {"type": "object", "anyOf": [TEXT, {"allOf": [TEXT, WHOLE]}]},
        {"type": "object"},
        [" anyOf"],
    ),
    "values": (
        {"type": "object", "enum": [{"a": 1}], "not": {"required": ["b"]}},
        {"type": "object", "description": 'One of: {"a":1}. Must not fit {"required":["b"]}.'},
        [" enum", " not"],
    ),
}


def test_allowed_keywords_stay_at_the_root(apply):
    schema = {"type": "object", "anyOf": [{}], "allOf": [{}], "not": {}}
    assert apply(root_object("oneOf"), schema) == (schema, [])
    assert apply(root_object("oneOf"), {**schema, "type": ["object"]}) == (schema, [])


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"anyOf": [True, {"properties": {"b": {}}}]}, {"a": {}, "b": {}}),
        ({"anyOf": [False, {"properties": {"b": {}}}]}, {"a": {}, "b": {}}),
        (True, {"a": {}}),
    ],
    ids=["true in a union", "false in a union", "true"],
)
def test_booleans_in_all_of_are_schemas_too(part, expected, apply):
    schema = {"type": "object", "anyOf": [{"properties": {"a": {}}}], "allOf": [part]}
    assert apply(root_object("anyOf", "oneOf", "allOf"), schema)[0] == {"type": "object", "properties": expected}


def test_each_step_rewrites_as_in_its_table(step, schema, expected, changes, apply):
    assert apply(step, schema) == (expected, changes)
