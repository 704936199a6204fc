from __future__ import annotations

import pytest

from pegboard.dialects.objects import close_objects

CASES = {
    "open": (
        {"type": "object", "properties": {"a": {"type": ["object", "null"]}}},
        {
            "type": "object",
            "properties": {"a": {"properties": {}, "type": ["object", "null"], "additionalProperties": False}},
            "additionalProperties": False,
        },
        ["/properties/a additionalProperties", " additionalProperties"],
    ),
    "welcoming": (
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "properties": {}, "additionalProperties": False},
        [],
    ),
    "closed": (
        {"properties": {}, "additionalProperties": False},
        {"properties": {}, "additionalProperties": False},
        [],
    ),
    "no object": ({"type": ["string", "null"]}, {"type": ["string", "null"]}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(close_objects, schema) == (expected, changes)
