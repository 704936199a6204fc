from __future__ import annotations

import pytest

from pegboard.dialects.keywords import bounds_into_description, least_items, whole_bounds

STEP = bounds_into_description("minLength", "maxLength", "pattern")

CASES = {
    "moved": (
        {"minLength": 1, "maxLength": 2, "pattern": "^a", "title": "t"},
        {"title": "t", "description": "At least 1 character. At most 2 characters. Matches the pattern ^a."},
        [" minLength", " maxLength", " pattern"],
    ),
    "not one of them": ({"minimum": 1}, {"minimum": 1}, []),
    "said already": (
        {"description": "At least 1 character.", "minLength": 1},
        {"description": "At least 1 character."},
        [" minLength"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(STEP, schema) == (expected, changes)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "integer", "exclusiveMinimum": 3}, {"type": "integer", "minimum": 4}),
        ({"type": "integer", "exclusiveMinimum": 3, "minimum": 9}, {"type": "integer", "minimum": 9}),
        ({"type": "integer", "exclusiveMaximum": 3, "maximum": 9}, {"type": "integer", "maximum": 2}),
        ({"type": "integer", "exclusiveMaximum": 3.5}, {"type": "integer", "exclusiveMaximum": 3.5}),
        ({"type": "number", "exclusiveMinimum": 3}, {"type": "number", "exclusiveMinimum": 3}),
    ],
)
def test_exclusive_bounds_of_integers_become_inclusive(apply, given, expected):
    assert apply(whole_bounds, given) == (expected, [])


def test_a_larger_least_number_of_items_is_told(apply):
    assert apply(least_items(1), {"minItems": 1}) == ({"minItems": 1}, [])
    assert apply(least_items(1), {"minItems": 3}) == (
        {"minItems": 1, "description": "At least 3 items."},
        [" minItems"],
    )
