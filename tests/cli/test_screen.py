"""What a stream can show."""

from __future__ import annotations

import io

import pytest

from pegboard.cli.screen import PLAIN, Screen, screen_of, wrapped


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return -1


@pytest.mark.parametrize(
    ("environ", "on_terminal", "colour"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": ""}, False, False),
    ],
)
def test_colour(environ, on_terminal, colour):
    assert screen_of(Terminal() if on_terminal else io.StringIO(), environ).colour is colour


def test_size():
    assert screen_of(Terminal(), {"COLUMNS": "33", "LINES": "7"}) == Screen(33, 7, colour=True)
    assert screen_of(Terminal(), {}).is_terminal
    assert screen_of(io.StringIO(), {"COLUMNS": "33"}) == PLAIN
    assert not PLAIN.is_terminal


def test_a_stream_that_is_closed_is_no_terminal():
    stream = io.StringIO()
    stream.close()
    assert screen_of(stream, {}) == PLAIN


def test_styles_show_where_there_is_colour():
    assert Screen(colour=True).styled("x", "red") == "\x1b[31mx\x1b[0m"
    assert Screen(colour=True).styled("", "red") == ""
    assert Screen(colour=True).styled("x", "") == "x"
    assert PLAIN.styled("x", "red") == "x"


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("a b c", None, ["a b c"]),
        ("a b c", 3, ["a b", "c"]),
        ("  aa bb", 5, ["  aa", "  bb"]),
        ("a\n\nb", 9, ["a", "", "b"]),
        ("longer", 3, ["longer"]),
        ("a longer", 3, ["a", "longer"]),
        ("漢字 漢", 4, ["漢字", "漢"]),
    ],
)
def test_lines_are_broken_between_words(text, width, lines):
    assert wrapped(text, width) == lines
