from __future__ import annotations

import pytest

from pegboard.dialects.references import named_definitions

CASES = {
    "nothing to name": ({"type": "object"}, {"type": "object"}, []),
    "unused definitions go": ({"$defs": {"A": {}}, "type": "object"}, {"type": "object"}, []),
    "definitions of draft 7": (
        {"items": {"$ref": "#/definitions/A"}, "definitions": {"A": {"type": "null"}}},
        {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "null"}}},
        [],
    ),
    "a pointer elsewhere": (
        {"properties": {"a": {"type": "null"}, "b": {"$ref": "#/properties/a", "title": "t"}}},
        {
            "properties": {"a": {"type": "null"}, "b": {"$ref": "#/$defs/a", "title": "t"}},
            "$defs": {"a": {"type": "null"}},
        },
        [],
    ),
    "the root": (
        {"properties": {"a": {"$ref": "#"}}},
        {
            "properties": {"a": {"$ref": "#/$defs/root"}},
            "$defs": {"root": {"properties": {"a": {"$ref": "#/$defs/root"}}}},
        },
        [],
    ),
    "an anchor and a dynamic one": (
        {
            "$id": "urn:x",
            "anyOf": [{"$ref": "#one"}, {"$dynamicRef": "#two"}],
            "$defs": {"A": {"$anchor": "one", "type": "null"}, "B": {"$dynamicAnchor": "two", "type": "string"}},
        },
        {
            "anyOf": [{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/two"}],
            "$defs": {"one": {"type": "null"}, "two": {"type": "string"}},
        },
        [],
    ),
    "names that need escapes": (
        {"items": {"$ref": "#/$defs/Page%5Bint%5D~1x"}, "$defs": {"Page[int]/x": {"type": "null"}}},
        {"items": {"$ref": "#/$defs/Page_5Bint_5D_1x"}, "$defs": {"Page_5Bint_5D_1x": {"type": "null"}}},
        [],
    ),
    "the same name twice": (
        {
            "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/definitions/A"}, {"$ref": "#/$defs/A"}],
            "$defs": {"A": {"type": "null"}},
            "definitions": {"A": {"type": "string"}},
        },
        {
            "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A_2"}, {"$ref": "#/$defs/A"}],
            "$defs": {"A_2": {"type": "string"}, "A": {"type": "null"}},
        },
        [],
    ),
    "nothing is fetched": ({"$ref": "https://example.com/x", "title": "t"}, {"title": "t"}, [" $ref"]),
    "nowhere": ({"items": {"$ref": "#/$defs/A"}}, {"items": {}}, ["/items $ref"]),
    "no text": ({"items": {"$ref": 3}}, {"items": {}}, ["/items $ref"]),
    "booleans": (
        {"anyOf": [{"$ref": "#/$defs/T"}, {"$ref": "#/$defs/F"}], "$defs": {"T": True, "F": False}},
        {"anyOf": [{}, {"not": {}}]},
        [],
    ),
    "data is no schema": ({"items": {"$ref": "#/enum"}, "enum": [1]}, {"items": {}, "enum": [1]}, ["/items $ref"]),
    "values are no schemas": (
        {"enum": [{"$ref": "#/a"}, [{"$ref": "#/b"}]]},
        {"enum": [{"$ref": "#/a"}, [{"$ref": "#/b"}]]},
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(named_definitions, schema) == (expected, changes)


def test_definitions_end_where_the_schema_is_too_large(monkeypatch, apply):
    """What has a name already keeps it."""
    monkeypatch.setattr("pegboard.dialects.references.MOST_SCHEMAS", 1)
    refs = [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]
    schema, changes = apply(named_definitions, {"anyOf": refs, "$defs": {"A": {}, "B": {}}})
    assert schema == {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}, {}], "$defs": {"A": {}}}
    assert changes == ["/anyOf/2 $ref"]
