"""The line that tells how far long work is."""

from __future__ import annotations

import sys

from pegboard import ToolContext
from pegboard.cli.progress import Status
from pegboard.cli.screen import PLAIN, Screen

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


def test_a_calls_progress_is_shown_and_its_partial_results_are_not(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    context = ToolContext(listener=Status(TERMINAL).tell)
    context.report(1, 4, "read")
    context.report(2)
    context.emit("partial")
    assert capsys.readouterr().err == "\r[#####---------------] read\r" + " " * 27
