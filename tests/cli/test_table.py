"""A table for a terminal."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, strategies as st

from pegboard.cli.table import cells, fit, table, terminal_width, tool_table, wants_colour


@pytest.mark.parametrize(
    ("head", "rows", "width", "text"),
    [
        (("A", "LONGER", "C"), [("aaa", "b", "c"), ("a", "", "")], 80, "A    LONGER  C\naaa  b       c\na\n"),
        (("A", "B"), [("aa", "one two three")], 12, "A   B\naa  one two\n    three\n"),
        (("A", "B"), [("漢字", "x"), ("ab", "y")], 80, "A     B\n漢字  x\nab    y\n"),  # wide characters take two cells
    ],
)
def test_columns_are_aligned_and_the_last_is_wrapped(head, rows, width, text):
    assert table(head, rows, width=width) == text


def test_a_table_of_tools_is_wrapped_and_counted():
    rows = [("aa", "p", "one two 漢字漢字"), ("b", "", "")]
    lines = ["TOOL  PLUGIN  SUMMARY", "aa    p       one two", "              漢字漢字", "b", "2 tools"]
    assert tool_table(rows, width=22) == "".join(f"{line}\n" for line in lines)
    assert "".join(tool_table([("aa", "p", "x" * 999)], width=74).split()[5:-2]) == "x" * 159 + "…"
    assert tool_table(rows[1:], width=22).endswith("\n1 tool\n")


@pytest.mark.parametrize("word", ["漢字" * 9, "notebooks" * 3, "👩\u200d💻" * 9, "e\u0301" * 20])
def test_a_word_wider_than_its_column_is_wrapped(word):
    lines = tool_table([("aa", "p", f"see {word} too")], width=22).splitlines()[1:-1]
    assert all(cells(line) <= 22 for line in lines)
    assert "".join("".join(line[14:].split()) for line in lines) == f"see{word}too"


def test_columns_that_do_not_fit_are_below_the_first():
    text = table(("A", "B", "C"), [("a", "b" * 12, "one two three"), ("b", "", "")], width=20)
    assert text == "A\n  B  C\na\n  bbbbbbbbbbbb one\n  two three\nb\n"


@given(st.lists(st.tuples(*[st.text(st.sampled_from("ab 漢"), max_size=30).map(str.strip)] * 3)), st.integers(12, 60))
def test_no_line_is_wider_than_the_screen(rows, width):
    assert all(cells(line) <= width for line in table(("A", "B", "C"), rows, width=width).splitlines())


def test_the_head_is_bold_in_colour():
    assert table(("A",), [], width=80, colour=True) == "\x1b[1mA\x1b[0m\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("abc", 3), ("é", 1), ("e\u0301", 1), ("漢", 2), ("👩\u200d💻", 2), ("❤\ufe0f", 2)],
)
def test_cells_are_counted(text, count):
    assert cells(text) == count


@given(st.text(), st.integers(2, 40))
def test_a_fitted_text_fits(text, width):
    assert cells(fit(text, width)) <= width
    assert fit(text, max(cells(text), 1)) == text  # one that fits stays


def test_the_width_of_a_terminal(monkeypatch):
    monkeypatch.setattr(os, "get_terminal_size", lambda _fd: os.terminal_size((100, 50)))
    assert [terminal_width(1, {"COLUMNS": given}) for given in ("", "40", "0", "x")] == [100, 40, 100, 100]


def test_the_default_width(monkeypatch, tmp_path):
    with (tmp_path / "f").open("w") as file:
        assert terminal_width(file.fileno(), {}) == 80
    monkeypatch.setattr(os, "get_terminal_size", lambda _fd: os.terminal_size((0, 0)))
    assert terminal_width(1, {}) == 80


@pytest.mark.parametrize(
    ("environ", "on_terminal", "colour"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour_follows_the_environment(environ, on_terminal, colour):
    assert wants_colour(environ, on_terminal=on_terminal) is colour
