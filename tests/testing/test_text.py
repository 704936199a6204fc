"""Texts at the bounds of a schema."""

from __future__ import annotations

import pytest

from pegboard.testing.text import MOST_CHARACTERS, texts


def by_label(schema) -> dict:
    return dict(texts(schema))


def test_lengths_are_kept() -> None:
    found = by_label({"minLength": 8, "maxLength": 12})
    assert len(found["sample"]) == len(found["the shortest text"]) == 8
    assert len(found["the longest text"]) == 12


def test_without_bounds_an_empty_and_a_long_text_are_tried() -> None:
    found = by_label({})
    assert found["the shortest text"] == ""
    assert len(found["a long text"]) == 1_000


def test_texts_without_end_arent_made() -> None:
    assert by_label({"minLength": MOST_CHARACTERS + 1}) == {}
    assert "the longest text" not in by_label({"maxLength": MOST_CHARACTERS + 1})


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"format": "date"}, "2024-02-29"),
        ({"contentEncoding": "base64"}, "c2FtcGxl"),
        ({"pattern": "^x{3}$"}, "xxx"),
        ({"format": "unheard-of"}, "sample"),
    ],
)
def test_a_text_looks_as_its_schema_says(schema, text) -> None:
    assert by_label(schema)["sample"] == text


def test_an_unreadable_pattern_gives_no_text() -> None:
    assert by_label({"pattern": "^(?=a)b"}) == {}
