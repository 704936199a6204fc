from __future__ import annotations

import pytest

from pegboard.dialects.keywords import modern_draft

CASES = {
    "a list of items": (
        {"items": [{"type": "string"}, True], "additionalItems": False},
        {"prefixItems": [{"type": "string"}, True], "items": False},
        [],
    ),
    "a list of items with others open": ({"items": [{}]}, {"prefixItems": [{}]}, []),
    "an empty list of items": ({"items": [], "additionalItems": {"type": "null"}}, {"items": {"type": "null"}}, []),
    "a list within a list": (
        {"items": [{"items": [{"type": "null"}]}]},
        {"prefixItems": [{"prefixItems": [{"type": "null"}]}]},
        [],
    ),
    "dependencies": (
        {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
        {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
        [],
    ),
    "dependencies of one kind": (
        {"dependencies": {"c": {"required": ["d"]}}},
        {"dependentSchemas": {"c": {"required": ["d"]}}},
        [],
    ),
    "dependencies on names only": ({"dependencies": {"a": ["b"]}}, {"dependentRequired": {"a": ["b"]}}, []),
    "bounds of draft 4": (
        {"minimum": 1, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False},
        {"exclusiveMinimum": 1, "maximum": 9},
        [],
    ),
    "an exclusive bound without a bound": ({"exclusiveMinimum": True}, {}, []),
    "another draft": ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, {"type": "object"}, []),
    "this draft": (
        {"$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema"},
        [],
    ),
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
        [],
    ),
    "names of properties are no keywords": (
        {"properties": {"items": {"type": "string"}, "dependencies": {"const": {"items": [1]}}}},
        {"properties": {"items": {"type": "string"}, "dependencies": {"const": {"items": [1]}}}},
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(modern_draft, schema) == (expected, changes)
