from __future__ import annotations

import pytest

from pegboard.dialects.values import arrays_need_items

CASES = {
    "an array": ({"type": "array"}, {"type": "array", "items": {}}, []),
    "or null": ({"type": ["null", "array"]}, {"type": ["null", "array"], "items": {}}, []),
    "with items": ({"type": "array", "items": {"type": "null"}}, {"type": "array", "items": {"type": "null"}}, []),
    "no array": ({"type": "object"}, {"type": "object"}, []),
    "a list of types without one": ({"type": ["string"]}, {"type": ["string"]}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(arrays_need_items, schema) == (expected, changes)
