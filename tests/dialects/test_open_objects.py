from __future__ import annotations

import pytest

from pegboard.dialects.objects import open_objects

CASES = {
    "a map": (
        {"properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}},
        {"properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}},
        ["/properties/a additionalProperties!"],
    ),
    "any object": (
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        ["/properties/a properties!"],
    ),
    "no parameters": ({"type": "object"}, {"type": "object"}, []),
    "closed": (
        {"type": "object", "additionalProperties": False},
        {"type": "object", "additionalProperties": False},
        [],
    ),
    "no object": ({"type": "string"}, {"type": "string"}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(open_objects, schema) == (expected, changes)
