"""JSON from outside into a value, strictly."""

from __future__ import annotations

import pytest
from attrs import frozen

from pegboard.dispatch.approval.request import parsed, structured
from pegboard.errors import PendingError


@frozen
class Point:
    x: float
    name: str = ""


def test_data_becomes_a_value():
    assert structured(Point, {"x": 1}, "a point") == Point(1.0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "not a point: x: required, missing"),
        ({"x": True}, "not a point: x: must be a number"),
        ({"x": 1, "y": 2}, "not a point: y: unknown key"),
        ([], "not a point"),
        ({"x": float("inf")}, "not a point"),
        ({"x": {1}}, "not a point"),
    ],
)
def test_anything_else_is_refused_with_its_path(data, reason):
    with pytest.raises(PendingError, match=reason):
        structured(Point, data, "a point")


def test_text_is_parsed():
    assert parsed(' {"a": [1, 2.5, null, "ä"]} ', 100, "it") == {"a": [1, 2.5, None, "ä"]}
    assert parsed(b"7", 1, "it") == 7


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a": 1, "a": 2}', "NaN", "Infinity", "1e400", '"\\ud800"', "\ud800", b"\xff", "[" * 300, "12345678901"],
)
def test_text_that_is_no_json_by_the_letter_is_refused(text):
    with pytest.raises(PendingError, match="not it: "):
        parsed(text, 300 if "[" in str(text) else 10 if text == "12345678901" else 100, "it")
