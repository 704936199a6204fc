from __future__ import annotations

import pytest

from pegboard.dialects.values import unevaluated

CASES = {
    "alone": ({"unevaluatedProperties": False}, {"additionalProperties": False}, []),
    "beside its kin": (
        {"additionalProperties": True, "unevaluatedProperties": False},
        {"additionalProperties": True},
        [],
    ),
    "with others about": (
        {"anyOf": [{}], "unevaluatedProperties": False},
        {"anyOf": [{}], "unevaluatedProperties": False},
        [],
    ),
    "items": ({"unevaluatedItems": {"type": "null"}}, {"items": {"type": "null"}}, []),
    "no items": ({"prefixItems": [{}], "unevaluatedItems": False}, {"prefixItems": [{}], "maxItems": 1}, []),
    "any items": ({"unevaluatedItems": True}, {}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(unevaluated, schema) == (expected, changes)
