from __future__ import annotations

import pytest

from pegboard_clients.dialects.keywords import (
    Counts,
    Within,
    counts_of,
    formats,
    is_plain,
    least_items,
    modern_draft,
    only_keywords,
    patterns,
    well_formed,
    whole_bounds,
)

TABLES: dict[object, dict[str, tuple]] = {}
TABLES[well_formed] = {
    "sound": ({"type": "object", "properties": {"a": True}},),
    "properties that are none": ({"properties": None}, {}, [" properties"]),
    "a property that is no schema": (
        {"properties": {"a": 3, "b": {"type": "text"}}},
        {"properties": {"b": {}}},
        [" properties", "/properties/b type"],
    ),
    "types": ({"type": ["string", "text"]}, {}, [" type"]),
    "a type that is none": ({"type": 3}, {}, [" type"]),
    "lists of schemas": ({"anyOf": [], "allOf": [{}, 1], "oneOf": 3}, {"allOf": [{}]}, [" allOf", " anyOf", " oneOf"]),
    "names": ({"required": ["a", 1], "title": 4}, {"required": ["a"]}, [" required", " title"]),
    "names twice": ({"required": ["a", "a"]}, {}, [" required"]),
    "names that are no list": ({"required": True}, {}, [" required"]),
    "numbers": (
        {"minimum": "1", "minLength": -1, "maxLength": 1.5, "multipleOf": 0, "maxItems": True, "minItems": 2.0},
        {"minItems": 2.0},
        [" maxItems", " maxLength", " minLength", " minimum", " multipleOf"],
    ),
    "dependents": (
        {"dependentRequired": {"a": ["b"], "c": 1}, "dependentSchemas": 1},
        {"dependentRequired": {"a": ["b"]}},
        [" dependentRequired", " dependentSchemas"],
    ),
    "dependents that are no object": ({"dependentRequired": []}, {}, [" dependentRequired"]),
    "sound dependents": ({"dependentRequired": {"a": ["b"]}},),
    "a flag and a list": ({"uniqueItems": 1, "enum": 3, "examples": {}}, {}, [" enum", " examples", " uniqueItems"]),
    "the same value twice": ({"enum": [1, 1.0, True]}, {"enum": [1, True]}),
    "unknown keywords": ({"x-note": {"type": 3}},),
}

TABLES[modern_draft] = {
    "a list of items": (
        {"items": [{"type": "string"}, True], "additionalItems": False},
        {"prefixItems": [{"type": "string"}, True], "items": False},
    ),
    "a list of items with others open": ({"items": [{}]}, {"prefixItems": [{}]}),
    "an empty list of items": ({"items": [], "additionalItems": {"type": "null"}}, {"items": {"type": "null"}}),
    "a list within a list": (
        {"items": [{"items": [{"type": "null"}]}]},
        {"prefixItems": [{"prefixItems": [{"type": "null"}]}]},
    ),
    "dependencies": (
        {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
        {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
    ),
    "dependencies of one kind": (
        {"dependencies": {"c": {"required": ["d"]}}},
        {"dependentSchemas": {"c": {"required": ["d"]}}},
    ),
    "dependencies on names only": ({"dependencies": {"a": ["b"]}}, {"dependentRequired": {"a": ["b"]}}),
    "bounds of draft 4": (
        {"minimum": 1, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False},
        {"exclusiveMinimum": 1, "maximum": 9},
    ),
    "an exclusive bound without a bound": ({"exclusiveMinimum": True}, {}),
    "another draft": ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, {"type": "object"}),
    "this draft": ({"$schema": "https://json-schema.org/draft/2020-12/schema"},),
    "what a reference hid in draft 7": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"a": {"$ref": "#/definitions/A", "minimum": 3, "description": "d"}},
            "definitions": {"A": {"id": "x", "type": "integer"}},
        },
        {
            "properties": {"a": {"$ref": "#/definitions/A", "description": "d"}},
            "definitions": {"A": {"type": "integer"}},
        },
    ),
    "names of properties are no keywords": (
        {"properties": {"items": {"type": "string"}, "dependencies": {"const": {"items": [1]}}}},
    ),
}

STEP = only_keywords(("type", "description"))

TABLES[STEP] = {
    "told": ({"minimum": 1, "type": "integer"}, {"type": "integer", "description": "At least 1."}, [" minimum"]),
    "after the description": (
        {"description": "D.", "not": {"const": 1}},
        {"description": 'D. Must not fit {"const":1}.'},
        [" not"],
    ),
    "without words": ({"contentSchema": {"a": 1}}, {}, [" contentSchema"]),
    "nothing lost": ({"$comment": "c", "uniqueItems": False, "additionalProperties": True, "propertyNames": {}}, {}),
    "conditions": (
        {"if": {"a": 1}, "then": {"b": 1}, "else": {"c": 1}},
        {"description": 'If it fits {"a":1}: it fits {"b":1}; otherwise it fits {"c":1}.'},
        [" if"],
    ),
    "a condition without an outcome": ({"if": {"a": 1}}, {}, [" if"]),
    "there already": (
        {"description": "At least 1 character.", "minLength": 1},
        {"description": "At least 1 character."},
        [" minLength"],
    ),
    "lengths": (
        {"minLength": 1, "maxLength": 2},
        {"description": "At least 1 character. At most 2 characters."},
        [" minLength", " maxLength"],
    ),
    "all that has words": (
        {
            "uniqueItems": True,
            "deprecated": True,
            "readOnly": True,
            "writeOnly": True,
            "minItems": 2,
            "maxItems": 1,
            "dependentRequired": {"a": ["b", "c"], "d": []},
            "examples": [1, "x"],
            "default": None,
        },
        {
            "description": "No item twice. Deprecated. Read only. Write only. At least 2 items. At most 1 item. "
            'With a, b, c must be given too. Examples: 1, "x". Default: null.'
        },
        [
            " uniqueItems",
            " deprecated",
            " readOnly",
            " writeOnly",
            " minItems",
            " maxItems",
            " dependentRequired",
            " examples",
            " default",
        ],
    ),
}


def test_long_values_and_lists_are_cut(apply):
    schema, _ = apply(only_keywords(("description",)), {"enum": list(range(60)), "const": "x" * 300})
    assert schema["description"].endswith("….")
    assert "49 and 10 more." in schema["description"]


STEP_FORMATS = formats(("date",))

TABLES[STEP_FORMATS] = {
    "known": ({"format": "date"},),
    "unknown": ({"format": "iban", "type": "string"}, {"type": "string", "description": "Format: iban."}, [" format"]),
    "none": ({"properties": {"format": {}}},),
}


PLAIN = ["^a$", r"\\1", r"[(?=]", r"(?:a|b)\.", r"[\]1]\d", "(?P<name>a)", r"[^]\1]", "b"]
NEEDS_MORE = ["(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", r"(a)\1", r"\\\2", r"\k<name>"]


@pytest.mark.parametrize("pattern", [*PLAIN, *NEEDS_MORE, r"\ba"])
def test_patterns_that_every_engine_reads(pattern):
    assert is_plain(pattern) == (pattern not in NEEDS_MORE)
    assert is_plain(pattern, word_bounds=False) == (pattern in PLAIN)


TABLES[patterns()] = {
    "look-around": (
        {"items": {"pattern": "(?=a)"}, "pattern": "a"},
        {"items": {"description": "Matches the pattern (?=a)."}, "pattern": "a"},
        ["/items pattern"],
    )
}

TABLES[whole_bounds] = {
    "more than": ({"type": "integer", "exclusiveMinimum": 3}, {"type": "integer", "minimum": 4}),
    "at least more": ({"type": "integer", "exclusiveMinimum": 3, "minimum": 9}, {"type": "integer", "minimum": 9}),
    "at most more": ({"type": "integer", "exclusiveMaximum": 3, "maximum": 9}, {"type": "integer", "maximum": 2}),
    "a fraction": ({"type": "integer", "exclusiveMaximum": 3.5},),
    "of any number": ({"type": "number", "exclusiveMinimum": 3},),
}

TABLES[least_items(1)] = {
    "one": ({"minItems": 1},),
    "more": ({"minItems": 3}, {"minItems": 1, "description": "At least 3 items."}, [" minItems"]),
}


def tool(**properties):
    return {"type": "object", "properties": properties}


def test_everything_is_counted():
    schema = {
        **tool(
            ab={"type": ["string", "null"], "enum": ["xyz", None]},
            c=tool(d={"const": "w"}, e={"$ref": "#/$defs/Node"}),
            f={"anyOf": [{"type": "integer"}, {"type": "null"}]},
        ),
        "required": ["ab", "c"],
        "$defs": {"Node": tool(next={"$ref": "#/$defs/Node"}), "Other": {"type": "null"}},
    }
    assert counts_of(schema) == Counts(properties=6, levels=3, enum_values=3, characters=23, optional=4, unions=2)


@pytest.mark.parametrize(
    ("limits", "schema", "what"),
    [
        (Counts(properties=1), tool(a={}, b={}), "2 properties"),
        (Counts(levels=1), tool(a=tool()), "2 levels"),
        (Counts(enum_values=1), {"enum": [1, 2]}, "2 values"),
        (Counts(characters=2), tool(abc={}), "3 characters"),
        (Counts(optional=0), tool(a={}), "1 optional"),
        (Counts(unions=0), tool(a={"anyOf": []}), "1 properties of several"),
    ],
)
def test_each_limit_refuses(limits, schema, what):
    rewritten = Within(limits)(schema)
    assert rewritten.refused
    assert rewritten.schema is schema
    assert [change.what.startswith(what) for change in rewritten.changes] == [True]


def test_at_the_limit_nothing_is_refused():
    assert not Within(Counts(properties=2, levels=1, optional=2))(tool(a={}, b={})).changes


def test_each_step_rewrites_as_in_its_table(step, schema, expected, changes, apply):
    assert apply(step, schema) == (expected, changes)


def test_a_schema_that_is_wrong_in_too_many_places_is_refused(monkeypatch):
    monkeypatch.setattr("pegboard_clients.dialects.keywords.MOST_ERRORS", 100)
    rewritten = well_formed({"properties": {f"p{number}": 5 for number in range(100)}})
    assert rewritten.refused
    assert rewritten.schema == {"type": "object"}
