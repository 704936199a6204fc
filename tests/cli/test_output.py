"""Tables, blocks and JSON."""

from __future__ import annotations

import json

import pytest

from pegboard import ImageContent, ToolResult
from pegboard.catalogue import PluginRecord
from pegboard.cli.output import (
    Finding,
    block,
    error_text,
    explanation_text,
    findings_text,
    json_line,
    json_pretty,
    json_rows,
    one_line,
    plugins_table,
    result_text,
    rows_text,
    size_text,
)
from pegboard.cli.terminal import Screen
from pegboard.toolsets.resolve import Explanation, _Reason

NASTY = "a\x1b[31m\u202eb\u200b"
SEEN = "a\\u{1b}[31m\\u{202e}b\\u{200b}"
TERMINAL = Screen(30, 10)

PLUGINS = [
    PluginRecord("files", "pegboard-files", "0.1.0", "listed", ("pegboard_register_tools",), ("a", "b")),
    PluginRecord("bad", "pegboard-bad", "2", "quarantined", cause=NASTY),
    PluginRecord("own"),
]


def test_what_hides_is_visible_in_every_text():
    assert one_line(f" {NASTY}\n x ") == f"{SEEN} x"
    assert block(f"{NASTY}\nx\n", indent="  ") == f"  {SEEN}\n  x\n"
    assert rows_text(("A", "B"), [(NASTY, "x")]).splitlines()[1] == f"{SEEN}  x"
    assert json_pretty(NASTY) == '"a\\u001b[31m\\u202eb\\u200b"'
    assert json.loads(json_line({NASTY: NASTY})) == {NASTY: NASTY}
    assert json_line({NASTY: NASTY}).isascii()


def test_a_block_is_broken_to_the_screen():
    assert block("word " * 7, TERMINAL, indent="    ") == "    word word word word word\n    word word\n"
    assert block("", TERMINAL) == ""


def test_a_table_is_cut_to_the_screen():
    assert rows_text(("NAME", "TEXT"), [("a", "漢字" * 20)], TERMINAL).splitlines()[1] == "a     " + "漢字" * 5 + "漢…"
    assert rows_text(("NAME", "TEXT"), [("a", "x" * 99)]).splitlines()[1] == f"a     {'x' * 99}"


def test_json_arrays_have_a_value_a_line():
    assert json_rows([{"a": 1}, "é"]) == '[\n{"a":1},\n"é"\n]\n'
    assert json_rows([]) == "[]\n"


def test_plugins():
    lines = plugins_table(PLUGINS).splitlines()
    assert lines[0].split() == ["PLUGIN", "DISTRIBUTION", "STATUS", "TOOLS", "HOOKS"]
    assert lines[1].split() == ["files", "pegboard-files", "0.1.0", "listed", "2", "register_tools"]
    assert lines[2].split() == ["bad", "pegboard-bad", "2", "quarantined", "0"]
    assert lines[3] == f"    {SEEN}"
    assert lines[4].split() == ["own", "loaded", "0"]
    assert f"\x1b[31m{SEEN}\x1b[0m" in plugins_table(PLUGINS, Screen(colour=True))


def test_plugins_as_json():
    first = json.loads(json_rows(plugin.to_json() for plugin in PLUGINS))[0]
    assert list(first) == ["name", "distribution", "version", "status", "hooks", "tools", "cause"]
    assert first["tools"] == ["a", "b"]


def test_findings():
    found = [Finding("plugin 'x'", "broke", "mend it"), Finding("cache", "gone")]
    assert findings_text(found) == "plugin 'x'\n  broke\n  mend it\ncache\n  gone\n"
    assert found[0].to_json() == {"subject": "plugin 'x'", "cause": "broke", "fix": "mend it"}


def test_an_explanation():
    reasons = (_Reason("offered", "in", "by the host"), _Reason("where", "out", NASTY))
    told = Explanation("x", offered=False, reasons=reasons, notes=("a toolset failed",))
    assert explanation_text(told) == (
        f"x: not offered\n  + offered: by the host\n  - where: {SEEN}\n  note: a toolset failed\n"
    )
    assert "\x1b[32moffered" in explanation_text(Explanation("x", offered=True, reasons=()), Screen(colour=True))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult("words"), "words\n"),
        (ToolResult(("a\n", "", "b")), "a\nb\n"),
        (ToolResult('{"a": 1}', {"a": 1}), '{\n  "a": 1\n}\n'),
        (ToolResult("in words", {"a": 1}), "in words\n"),
        (ToolResult(ImageContent(b"x"), {"a": 1}), "[image image/png, 1 B]\n"),
        (ToolResult('{"result": "x"}', {"result": "x"}), "x\n"),
        (ToolResult('{"result": 3}', {"result": 3}), "3\n"),
        (ToolResult("[1]", [1]), "[\n  1\n]\n"),
        (ToolResult("for the model", {"a": 1}, display="for people"), "for people\n"),
        (ToolResult(()), ""),
    ],
)
def test_a_result(result, text):
    assert result_text(result) == text


def test_a_terminal_sees_what_a_result_hides_and_a_pipe_gets_it_as_it_is():
    assert result_text(ToolResult(f"{NASTY}\n\tx\r\n"), TERMINAL) == f"{SEEN}\n\tx\n"
    assert result_text(ToolResult(f"{NASTY}\n\tx\r\n")) == f"{NASTY}\n\tx\r\n"
    assert result_text(ToolResult("word " * 20), TERMINAL) == "word " * 20 + "\n"


def test_an_error():
    result = ToolResult.error("timeout", NASTY)
    assert error_text(result) == f"error (timeout): {SEEN}\n"
    assert error_text(result, Screen(colour=True)) == f"\x1b[31merror (timeout): {SEEN}\x1b[0m\n"
    assert error_text(ToolResult("x", is_error=True)) == "error: x\n"
    assert json.loads(json_line(result.to_json()))["isError"] is True


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (12_345, "12.3 kB"), (5e6, "5 MB"), (5e12, "5000 GB")]
)
def test_sizes(size, text):
    assert size_text(size) == text
