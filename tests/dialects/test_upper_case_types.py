from __future__ import annotations

import pytest

from pegboard_google.gemini import upper_case_types

CASES = {
    "types": (
        {"type": "object", "properties": {"type": {"type": "string"}}},
        {"type": "OBJECT", "properties": {"type": {"type": "STRING"}}},
        [],
    ),
    "none": ({"anyOf": [{"type": "null"}]}, {"anyOf": [{"type": "NULL"}]}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(upper_case_types, schema) == (expected, changes)
