"""What a stream can show."""

from __future__ import annotations

import io
import sys

import click
import pytest

from pegboard.cli.terminal import PLAIN, Screen, Status, redirect_stdout, screen_of, wrapped, write_long


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


# Long texts go through a pager where somebody looks ------------------------------------------------------------------


@pytest.fixture
def paged(monkeypatch):
    """What went through the pager, with colour or without."""
    texts: list[tuple[str, bool]] = []
    monkeypatch.setattr(click, "echo_via_pager", lambda text, color: texts.append((text, color)))
    return texts


@pytest.mark.parametrize(("screen", "lines"), [(PLAIN, 99), (Screen(80, 10), 9)])
def test_what_fits_is_written(paged, capsys, screen, lines):
    write_long("x\n" * lines, screen)
    assert (paged, capsys.readouterr().out) == ([], "x\n" * lines)


def test_what_is_longer_than_the_terminal_is_paged(paged, capsys):
    write_long("x\n" * 10, Screen(80, 10, colour=True))
    assert (paged, capsys.readouterr().out) == ([("x\n" * 9 + "x", True)], "")


# The line that tells how far long work is ----------------------------------------------------------------------------

TERMINAL = Screen(30, 10)


def test_a_terminal_sees_it_and_it_goes_away(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with Status(TERMINAL) as status:
        status.show("loading plugin files")
        status.show("x\x1b")
    assert capsys.readouterr().err == ("\rloading plugin files" + "\rx\\u{1b}" + " " * 13 + "\r" + " " * 7 + "\r")


def test_a_bar_shows_how_much_is_done(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    Status(TERMINAL).show("half", 0.5)
    assert capsys.readouterr().err == "\r[##########----------] half"
    Status(TERMINAL).show("over", 7)
    assert capsys.readouterr().err == "\r[####################] over"


def test_it_never_wraps(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    Status(TERMINAL).show("x" * 99)
    assert len(capsys.readouterr().err) == 30


def test_what_else_is_written_stands_on_a_line_of_its_own(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    real = sys.stderr
    with Status(TERMINAL) as status:
        status.show("busy")
        sys.stderr.write("hello\n")
        assert sys.stderr.encoding == real.encoding
    assert sys.stderr is real
    assert "\rbusy\r    \rhello\n" in capsys.readouterr().err


def test_nobody_looks(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with Status(PLAIN) as status:
        status.show("x")
    monkeypatch.setenv("TERM", "dumb")
    with Status(TERMINAL) as status:
        status.show("x")
    assert capsys.readouterr().err == ""


def test_it_is_put_back_whatever_happens(capsys):
    real = sys.stdout

    def fail() -> None:
        with redirect_stdout(), redirect_stdout():
            sys.stdout.write("aside\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert sys.stdout is real
    sys.stdout.write("ours\n")
    assert capsys.readouterr() == ("ours\n", "aside\n")
