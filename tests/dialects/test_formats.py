from __future__ import annotations

import pytest

from pegboard.dialects.keywords import formats

STEP = formats(("date",))

CASES = {
    "known": ({"format": "date"}, {"format": "date"}, []),
    "unknown": ({"format": "iban", "type": "string"}, {"type": "string", "description": "Format: iban."}, [" format"]),
    "none": ({"properties": {"format": {}}}, {"properties": {"format": {}}}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(STEP, schema) == (expected, changes)
