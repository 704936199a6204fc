from __future__ import annotations

import pytest

from pegboard.request.dialects.property_names import ANTHROPIC_NAME, GEMINI_NAME, property_names

STEP = property_names(ANTHROPIC_NAME)

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


def test_gemini_takes_fewer_names(apply):
    schema = {"properties": {"a-b": {}, "9a": {}, "_a9": {}}}
    assert apply(property_names(GEMINI_NAME), schema)[0] == {"properties": {"_a9": {}}}
