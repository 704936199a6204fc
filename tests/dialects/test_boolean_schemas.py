from __future__ import annotations

import pytest

from pegboard.dialects.values import boolean_schemas

CASES = {
    "true": ({"items": True, "anyOf": [True, {"type": "null"}]}, {"items": {}, "anyOf": [{}, {"type": "null"}]}, []),
    "what may stay": ({"additionalProperties": False}, {"additionalProperties": False}, []),
    "no items": ({"items": False}, {"maxItems": 0}, []),
    "no further items": (
        {"prefixItems": [True, {}], "items": False, "maxItems": 9},
        {"prefixItems": [{}, {}], "maxItems": 2},
        [],
    ),
    "no such alternative": ({"oneOf": [False, {"type": "null"}]}, {"oneOf": [{"type": "null"}]}, []),
    "no alternative at all": ({"anyOf": [False]}, {"anyOf": [{"not": {}}]}, []),
    "never": (
        {"allOf": [False], "not": False, "contains": False},
        {"allOf": [{"not": {}}], "not": {"not": {}}, "contains": {"not": {}}},
        [],
    ),
    "a forbidden property of a closed object": (
        {"properties": {"a": False, "b": True}, "required": ["a", "b"], "additionalProperties": False},
        {"properties": {"b": {}}, "required": ["b"], "additionalProperties": False},
        [],
    ),
    "a forbidden property of an open object": (
        {"properties": {"a": False}},
        {"properties": {}},
        [" properties"],
    ),
    "by name": (
        {"patternProperties": {"^a": True}, "$defs": {"A": False}},
        {"patternProperties": {"^a": {}}, "$defs": {"A": {"not": {}}}},
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(boolean_schemas, schema) == (expected, changes)
