from __future__ import annotations

import pytest

from pegboard.dialects.values import const_to_enum

CASES = {
    "a constant": ({"title": "t", "const": 1, "type": "integer"}, {"title": "t", "enum": [1], "type": "integer"}, []),
    "null": ({"items": {"const": None}}, {"items": {"enum": [None]}}, []),
    "among others": ({"enum": [1, 2], "const": 1.0}, {"enum": [1.0]}, []),
    "not among others": ({"enum": [1, 2], "const": True}, {"enum": [1, 2]}, [" const"]),
    "a property of that name": ({"properties": {"const": {}}}, {"properties": {"const": {}}}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(const_to_enum, schema) == (expected, changes)
