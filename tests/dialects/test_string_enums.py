from __future__ import annotations

import pytest

from pegboard.dialects.values import plain_enums, string_enums

CASES = {
    "strings": ({"enum": ["a"]}, {"enum": ["a"]}, []),
    "numbers": ({"type": "integer", "enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2."}, [" enum"]),
    "an empty string": ({"enum": ["a", ""]}, {"description": 'One of: "a", "".'}, [" enum"]),
    "none": ({"properties": {"enum": {}}}, {"properties": {"enum": {}}}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(string_enums, schema) == (expected, changes)


PLAIN = {
    "strings, numbers and null": ({"enum": ["a", 1, 2.5, None]}, {"enum": ["a", 1, 2.5, None]}, []),
    "a boolean": ({"type": "boolean", "enum": [True]}, {"type": "boolean", "description": "One of: true."}, [" enum"]),
    "an object": ({"enum": ["a", {"b": 1}]}, {"description": 'One of: "a", {"b":1}.'}, [" enum"]),
    "an array": ({"enum": [[]], "description": "None."}, {"description": "None. One of: []."}, [" enum"]),
    "none": ({"properties": {"enum": {}}}, {"properties": {"enum": {}}}, []),
}


@pytest.mark.parametrize("case", PLAIN)
def test_plain_cases(case, apply):
    schema, expected, changes = PLAIN[case]
    assert apply(plain_enums, schema) == (expected, changes)
