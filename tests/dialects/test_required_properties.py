from __future__ import annotations

import pytest

from pegboard.dialects.objects import required_properties

TEXT = {"type": "string"}

CASES = {
    "all are there": ({"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"a": TEXT}, "required": ["a"]}),
    "nothing is required": ({"properties": {"a": TEXT}}, {"properties": {"a": TEXT}}),
    "one is missing": (
        {"properties": {"a": TEXT}, "required": ["b", "a"]},
        {"properties": {"a": TEXT, "b": {}}, "required": ["b", "a"]},
    ),
    "no properties": ({"required": ["a"]}, {"required": ["a"], "properties": {"a": {}}}),
    "others have a type": (
        {"required": ["a"], "additionalProperties": TEXT},
        {"required": ["a"], "additionalProperties": TEXT, "properties": {"a": TEXT}},
    ),
    "no others are taken": (
        {"required": ["a"], "additionalProperties": False},
        {"required": ["a"], "additionalProperties": False, "properties": {"a": {}}},
    ),
    "deep inside": (
        {"items": {"anyOf": [{"required": ["a"]}]}},
        {"items": {"anyOf": [{"required": ["a"], "properties": {"a": {}}}]}},
    ),
    "a property of that name": ({"properties": {"required": TEXT}}, {"properties": {"required": TEXT}}),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected = CASES[case]
    assert apply(required_properties, schema) == (expected, [])
