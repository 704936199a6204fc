from __future__ import annotations

import pytest

from pegboard.dialects.objects import property_names

STEP = property_names(r"[A-Za-z0-9_.-]{1,64}")

CASES = {
    "optional": (
        {"properties": {"a b": {}, "c": {}}, "required": ["c"]},
        {"properties": {"c": {}}, "required": ["c"]},
        ["/properties/a b properties"],
    ),
    "required": (
        {"properties": {"a/b": {}}, "required": ["a/b"]},
        {"properties": {}, "required": []},
        ["/properties/a~1b properties!"],
    ),
    "below": (
        {"items": {"properties": {"x" * 65: {}}}},
        {"items": {"properties": {}}},
        [f"/items/properties/{'x' * 65} properties"],
    ),
    "fitting": ({"properties": {"a.b-c_D9": {}}}, {"properties": {"a.b-c_D9": {}}}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(STEP, schema) == (expected, changes)


def test_a_narrower_pattern_takes_fewer_names(apply):
    schema = {"properties": {"a-b": {}, "9a": {}, "_a9": {}}}
    assert apply(property_names(r"[A-Za-z_][A-Za-z0-9_]{0,63}"), schema)[0] == {"properties": {"_a9": {}}}
