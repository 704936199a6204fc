from __future__ import annotations

import pytest

from pegboard.dialects.values import tuple_items

TEXT, NUMBER = {"type": "string"}, {"type": "number", "title": "N"}
ORDER = {"description": "Its first items, in this order: string, N."}
CASES = {
    "exactly these": (
        {"prefixItems": [TEXT, NUMBER], "maxItems": 2},
        {"maxItems": 2, **ORDER, "items": {"anyOf": [TEXT, NUMBER]}},
        [" prefixItems"],
    ),
    "all the same": ({"prefixItems": [TEXT, TEXT], "maxItems": 2}, {"maxItems": 2, "items": TEXT}, []),
    "more of the same": ({"prefixItems": [TEXT], "items": TEXT}, {"items": TEXT}, []),
    "then others": (
        {"prefixItems": [TEXT, NUMBER], "items": {"type": "null"}},
        {**ORDER, "items": {"anyOf": [TEXT, NUMBER, {"type": "null"}]}},
        [" prefixItems"],
    ),
    "then anything": ({"prefixItems": [TEXT, NUMBER]}, {**ORDER, "items": {}}, [" prefixItems"]),
    "no tuple": ({"items": TEXT}, {"items": TEXT}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_first_items_become_items(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(tuple_items(), schema) == (expected, changes)


def test_a_closed_tuple_ends_after_its_items(apply):
    assert apply(tuple_items(closed=True), {"prefixItems": [TEXT, NUMBER]}) == (
        {"maxItems": 2, **ORDER, "items": {"anyOf": [TEXT, NUMBER]}},
        [" prefixItems"],
    )
    assert apply(tuple_items(closed=True), {"prefixItems": [TEXT], "items": {}, "maxItems": 3}) == (
        {"maxItems": 3, "description": "Its first items, in this order: string.", "items": {}},
        [" prefixItems"],
    )
