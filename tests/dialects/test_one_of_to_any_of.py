from __future__ import annotations

import pytest

from pegboard.dialects.combinators import one_of_to_any_of

CASES = {
    "told apart by type": (
        {"oneOf": [{"type": "string"}, {"type": ["integer", "null"]}]},
        {"anyOf": [{"type": "string"}, {"type": ["integer", "null"]}]},
        [],
    ),
    "an integer is a number": (
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        {"anyOf": [{"type": "integer"}, {"type": "number"}], "description": "Exactly one of the alternatives."},
        [" oneOf"],
    ),
    "told apart by a tag": (
        {
            "oneOf": [
                {"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"enum": ["b", "c"]}}, "required": ["k", "x"]},
            ]
        },
        {
            "anyOf": [
                {"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"enum": ["b", "c"]}}, "required": ["k", "x"]},
            ]
        },
        [],
    ),
    "a tag that isn't one": (
        {
            "description": "D.",
            "oneOf": [
                {"type": "object", "properties": {"k": {"enum": [1]}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]},
            ],
        },
        {
            "description": "D. Exactly one of the alternatives.",
            "anyOf": [
                {"type": "object", "properties": {"k": {"enum": [1]}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]},
            ],
        },
        [" oneOf"],
    ),
    "a tag without a schema": (
        {"oneOf": [{"type": "object", "required": ["k"]}, {"type": "object", "required": ["k"]}]},
        {
            "anyOf": [{"type": "object", "required": ["k"]}, {"type": "object", "required": ["k"]}],
            "description": "Exactly one of the alternatives.",
        },
        [" oneOf"],
    ),
    "one": ({"oneOf": [{}]}, {"anyOf": [{}]}, []),
    "a boolean": ({"oneOf": [True]}, {"anyOf": [True]}, []),
    "beside anyOf": (
        {"oneOf": [{"type": "null"}], "anyOf": [{}], "allOf": [{"title": "t"}]},
        {"anyOf": [{}], "allOf": [{"title": "t"}, {"anyOf": [{"type": "null"}]}]},
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(one_of_to_any_of, schema) == (expected, changes)
