from __future__ import annotations

import pytest

from pegboard.dialects.values import type_lists

CASES = {
    "two types": (
        {"type": ["string", "null"], "minLength": 1, "description": "d"},
        {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}], "description": "d"},
        [],
    ),
    "one type": ({"type": ["string"]}, {"type": "string"}, []),
    "values": (
        {"type": ["integer", "string", "null"], "enum": ["a", 1, 2.0, None, "b"]},
        {
            "anyOf": [
                {"type": "integer", "enum": [1, 2.0]},
                {"type": "string", "enum": ["a", "b"]},
                {"type": "null"},
            ]
        },
        [],
    ),
    "values of one of the types": ({"type": ["string", "null"], "enum": ["a"]}, {"type": "string", "enum": ["a"]}, []),
    "values of none": ({"type": ["string", "null"], "enum": [1]}, {"enum": []}, []),
    "every integer is a number": (
        {"type": ["integer", "number", "null"], "enum": [1, 1.5, None], "minimum": 1},
        {"anyOf": [{"type": "number", "minimum": 1, "enum": [1, 1.5]}, {"type": "null"}]},
        [],
    ),
    "beside anyOf": ({"type": ["string", "null"], "anyOf": [{}]}, {"type": ["string", "null"], "anyOf": [{}]}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(type_lists, schema) == (expected, changes)
