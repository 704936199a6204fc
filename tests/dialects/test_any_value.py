from __future__ import annotations

import pytest

from pegboard.dialects.values import any_value

CASES = {
    "anything": (
        {"description": "d"},
        {
            "description": "d",
            "type": ["string", "number", "boolean", "object", "array", "null"],
            "items": {"type": ["string", "number", "boolean", "object", "null"]},
        },
        [" type"],
    ),
    "with items": (
        {"items": {"type": "null"}},
        {"items": {"type": "null"}, "type": ["string", "number", "boolean", "object", "array", "null"]},
        [],
    ),
    "typed": ({"type": "string"}, {"type": "string"}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(any_value, schema) == (expected, changes)
