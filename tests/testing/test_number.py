"""Numbers at the bounds of a schema."""

from __future__ import annotations

import math

from pegboard.testing.number import numbers


def by_label(schema, *, whole: bool) -> dict:
    return dict(reversed(list(numbers(schema, whole=whole))))


def test_whole_numbers_stay_within_fractional_bounds() -> None:
    found = by_label({"minimum": 1.5, "maximum": 4.5}, whole=True)
    assert (found["the least"], found["the most"]) == (2, 4)


def test_exclusive_bounds_are_stepped_over() -> None:
    schema = {"exclusiveMinimum": 0, "exclusiveMaximum": 1}
    found = by_label(schema, whole=False)
    assert (found["the least"], found["the most"]) == (math.nextafter(0, 1), math.nextafter(1, 0))
    found = by_label({"exclusiveMinimum": 0, "exclusiveMaximum": 9}, whole=True)
    assert (found["the least"], found["the most"]) == (1, 8)


def test_draft_4_flags_are_no_bounds() -> None:
    """`exclusiveMinimum: true` says something of `minimum`."""
    found = by_label({"minimum": 3, "exclusiveMinimum": True, "exclusiveMaximum": True}, whole=True)
    assert found["the least"] == 3


def test_multiples_are_stepped_to() -> None:
    assert 14 in {value for _, value in numbers({"minimum": 8, "multipleOf": 7}, whole=True)}


def test_without_bounds_large_numbers_of_both_signs_are_tried() -> None:
    found = by_label({}, whole=True)
    assert found["the least"] < -(2**30)
    assert found["the most"] > 2**30
    assert isinstance(found["a whole number as a fraction"], float)
