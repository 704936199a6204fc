from __future__ import annotations

import pytest

from pegboard.dialects.objects import require_all

CASES = {
    "optional": (
        {"properties": {"a": {"type": "string"}, "b": {"type": "null"}, "c": {"type": "integer"}}, "required": ["c"]},
        {
            "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "null"}, "c": {"type": "integer"}},
            "required": ["a", "b", "c"],
        },
        [],
    ),
    "required": (
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        [],
    ),
    "no such property": ({"properties": {}, "required": ["a"]}, {"properties": {}, "required": []}, [" required!"]),
    "no object": ({"type": "string"}, {"type": "string"}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(require_all, schema) == (expected, changes)
