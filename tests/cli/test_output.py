"""Tables, blocks and JSON."""

from __future__ import annotations

import io
import json
import sys
from base64 import b64decode

import pytest

from pegboard import ImageContent, ToolResult
from pegboard.cli import (
    Screen,
    Status,
    image_escapes,
    json_line,
    json_pretty,
    json_rows,
    one_line,
    rows_text,
    write_unbuffered,
)
from pegboard.cli.output import PLAIN, block, failure_text, redirect_stdout, result_text, screen_of, wrap_text
from pegboard.testing import watch_side_effects

NASTY = "a\x1b[31m\u202eb\u200b"
SEEN = "a\\u{1b}[31m\\u{202e}b\\u{200b}"
TERMINAL = Screen(30)


def test_hidden_characters_are_visible_in_every_text():
    assert one_line(f" {NASTY}\n x ") == f"{SEEN} x"
    assert block(f"{NASTY}\nx\n", indent="  ") == f"  {SEEN}\n  x\n"
    assert rows_text(("A", "B"), [(NASTY, "x")]).splitlines()[1] == f"{SEEN}  x"
    assert json_pretty(NASTY) == '"a\\u001b[31m\\u202eb\\u200b"'
    assert json.loads(json_line({NASTY: NASTY})) == {NASTY: NASTY}
    assert json_line({NASTY: NASTY}).isascii()


def test_a_block_is_wrapped_to_the_screen():
    assert block("word " * 7, TERMINAL, indent="    ") == "    word word word word word\n    word word\n"
    assert block("", TERMINAL) == ""


def test_a_table_is_wrapped_to_the_screen():
    lines = ["a     " + "漢字" * 6, *["      " + "漢字" * 6] * 2, "      " + "漢字" * 2]
    assert rows_text(("NAME", "TEXT"), [("a", "漢字" * 20)], TERMINAL).splitlines()[1:] == lines
    assert rows_text(("NAME", "TEXT"), [("a", "x" * 99)]).splitlines()[1] == f"a     {'x' * 99}"


def test_json_lists_have_one_value_per_line():
    assert json_rows("each", [{"a": 1}, "é"]) == '{"each":[\n{"a":1},\n"é"\n]}\n'
    assert json_rows("each", []) == '{"each":[]}\n'


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult("words"), "words\n"),
        (ToolResult(("a\n", "", "b")), "a\nb\n"),
        (ToolResult('{"a": 1}', {"a": 1}), '{\n  "a": 1\n}\n'),
        (ToolResult("in words", {"a": 1}), "in words\n"),
        (ToolResult(ImageContent(b"x"), {"a": 1}), "[image image/png, 1 byte]\n"),
        (ToolResult('{"result": "x"}', {"result": "x"}), "x\n"),
        (ToolResult('{"result": 3}', {"result": 3}), "3\n"),
        (ToolResult("[1]", [1]), "[\n  1\n]\n"),
        (ToolResult("for the model", {"a": 1}, display="for people"), "for people\n"),
        (ToolResult(()), ""),
    ],
)
def test_a_result(result, text):
    assert result_text(result) == text


def test_hidden_characters_of_a_result_are_visible_on_a_terminal_only():
    assert result_text(ToolResult(f"{NASTY}\n\tx\r\n"), TERMINAL) == f"{SEEN}\n\tx\n"
    assert result_text(ToolResult(f"{NASTY}\n\tx\r\n")) == f"{NASTY}\n\tx\r\n"
    assert result_text(ToolResult("word " * 20), TERMINAL) == "word " * 20 + "\n"


def test_an_error():
    result = ToolResult.error("timeout", NASTY)
    assert failure_text(result) == f"error (timeout): {SEEN}\n"
    assert failure_text(result, Screen(colour=True)) == f"\x1b[31merror (timeout): {SEEN}\x1b[0m\n"
    assert failure_text(ToolResult("x", is_error=True)) == "error (tool_failure): x\n"
    assert json.loads(json_line(result.to_json()))["isError"] is True


# What a stream can show ----------------------------------------------------------------------------------------------


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return -1


def test_the_screen_of_a_stream():
    assert screen_of(FakeTerminal(), {"COLUMNS": "33"}) == Screen(33, colour=True)
    assert screen_of(FakeTerminal(), {}).is_terminal
    assert screen_of(io.StringIO(), {"COLUMNS": "33"}) == PLAIN
    assert not PLAIN.is_terminal
    assert screen_of(io.StringIO(), {"FORCE_COLOR": "1"}) == Screen(colour=True)
    assert not screen_of(FakeTerminal(), {"NO_COLOR": "1"}).colour
    (stream := io.StringIO()).close()
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
def test_lines_are_wrapped_between_words(text, width, lines):
    assert wrap_text(text, width) == lines


# The status line -----------------------------------------------------------------------------------------------------


def test_the_status_line_is_redrawn_and_erased(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with Status(TERMINAL) as status:
        status.show("loading plugin files")
        status.show("x\x1b")
    assert capsys.readouterr().err == ("\rloading plugin files" + "\rx\\u{1b}" + " " * 13 + "\r" + " " * 7 + "\r")


@pytest.mark.parametrize(
    ("text", "done", "shown"),
    [
        ("half", 0.5, "\r[##########----------] half"),
        ("over", 7, "\r[####################] over"),
        ("x" * 99, None, "\r" + "x" * 28 + "…"),  # it never wraps
    ],
)
def test_a_bar_shows_how_much_is_done(capsys, monkeypatch, text, done, shown):
    monkeypatch.setenv("TERM", "xterm")
    Status(TERMINAL).show(text, done)
    assert capsys.readouterr().err == shown


def test_other_output_erases_the_status_line_first(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    real = sys.stderr
    with Status(TERMINAL) as status:
        status.show("busy")
        sys.stderr.write("hello\n")
        assert sys.stderr.encoding == real.encoding
    assert sys.stderr is real
    assert "\rbusy\r    \rhello\n" in capsys.readouterr().err


def test_no_status_line_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with Status(PLAIN) as status:
        status.show("x")
    monkeypatch.setenv("TERM", "dumb")
    with Status(TERMINAL) as status:
        status.show("x")
    assert capsys.readouterr().err == ""


def test_a_redirection_is_undone_after_an_exception(capsys):
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


def test_write_through_bypasses_the_redirection(capsys):
    with redirect_stdout(), watch_side_effects([]):
        sys.stdout.write("the plugin's\n")
        write_unbuffered("ours\n")
    assert capsys.readouterr() == ("ours\n", "the plugin's\n")


PICTURE = ToolResult([ImageContent(b"\x89PNG" + b"x" * 4000), ImageContent(b"gif", "image/gif")])


def test_kitty_gets_png_in_pieces():
    shown = image_escapes(PICTURE, TERMINAL, {"KITTY_WINDOW_ID": "1"})
    first, second, end = shown.split("\x1b\\")
    assert (first.partition(";")[0], second.partition(";")[0], end) == ("\x1b_Ga=T,f=100,m=1", "\x1b_Gm=0", "\n")
    assert b64decode(first.partition(";")[2] + second.partition(";")[2]) == PICTURE.content[0].data


@pytest.mark.parametrize("environ", [{"TERM_PROGRAM": "WezTerm"}, {"LC_TERMINAL": "iTerm2"}])
def test_iterm_gets_images_of_any_type_in_one_piece(environ):
    shown = image_escapes(PICTURE, TERMINAL, environ)
    assert shown.count("\x1b]1337;File=inline=1;size=") == 2
    assert shown.endswith("size=3:Z2lm\a\n")


@pytest.mark.parametrize(
    ("screen", "environ"),
    [(TERMINAL, {}), (TERMINAL, {"KITTY_WINDOW_ID": "1", "TMUX": "x"}), (PLAIN, {"KITTY_WINDOW_ID": "1"})],
)
def test_images_are_not_shown_on_other_outputs(screen, environ):
    assert image_escapes(PICTURE, screen, environ) == ""
