"""Command-line programs as tools: values stay within their words, and rules see the whole command."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback

import pytest

from pegboard import Once, PegboardError, Permissions, ReadonlyContext, Rule, ToolRegistry
from pegboard.schema.converter import read_table
from pegboard.testing import ScriptedApprover
from pegboard_commands import ToolSettings, command_tool

TEXT = {"type": "string"}


def settings(command, arguments=None, **more):
    facts = {"description": "Runs.", "read_only": True, "command": command, "arguments": arguments or {}, **more}
    return read_table(ToolSettings, facts, "tools.probe")


def registry_with(*given, approver=None, permissions=None, **more):
    registry = ToolRegistry(approver=approver, permissions=permissions)
    registry.register(command_tool("probe", settings(*given, **more)))
    return registry


def words(result):
    return result.metadata["command"]


def test_a_value_is_always_one_word():
    registry = registry_with(["printf", "%s|", "{a}", "x={a}", "{{{a}}}"], {"a": TEXT})
    for value in ("a b", "$HOME", "`id`", "'; rm x", "*", "", "{b}", "a\nb"):
        result = registry.call_sync("probe", {"a": value})
        assert result.text == f"{value}|x={value}|{{{value}}}|"


def test_a_value_cant_become_an_option():
    registry = registry_with(["printf", "%s", "--author={a}", "{a}"], {"a": TEXT})
    for value in ("-x", "--output=x", "-"):
        result = registry.call_sync("probe", {"a": value})
        assert (result.kind, "must not begin with '-'" in result.text) == ("invalid_arguments", True)
    assert (
        registry_with(["printf", "%s", "--author={a}"], {"a": TEXT}).call_sync("probe", {"a": "-x"}).text
        == "--author=-x"
    )
    numbers = registry_with(["printf", "%s", "{n}"], {"n": {"type": "integer"}})
    assert numbers.call_sync("probe", {"n": -1}).kind == "invalid_arguments"
    for bound in ({"minimum": -5}, {"exclusiveMinimum": -5.5}):
        below = registry_with(["printf", "%s", "--", "{n}"], {"n": {"type": "integer", **bound}})
        assert below.call_sync("probe", {"n": -1}).text == "---1"
    lists = registry_with(["printf", "%s", "{l}"], {"l": {"type": "array"}})
    assert lists.call_sync("probe", {"l": ["a", "-b"]}).kind == "invalid_arguments"
    free = registry_with(["printf", "%s", "--", "{a}"], {"a": {"type": "string", "options": True}})
    assert free.call_sync("probe", {"a": "-x"}).text == "---x"


def test_a_value_with_a_nul_is_refused():
    registry = registry_with(["printf", "x{a}"], {"a": TEXT})
    assert "NUL" in registry.call_sync("probe", {"a": "\0"}).text


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({}, ["git", "log", "-n", "10"]),
        ({"count": 3, "author": "ann"}, ["git", "log", "--author", "ann", "-n", "3"]),
        ({"all": True}, ["git", "log", "--all", "-n", "10"]),
        ({"all": False, "paths": []}, ["git", "log", "-n", "10"]),
        ({"paths": ["a", "b c"]}, ["git", "log", "-n", "10", "--", "a", "b c"]),
    ],
)
def test_a_nested_list_is_left_out_without_its_argument(arguments, wanted):
    command = ["git", "log", ["--author", "{author}"], ["--all{all}"], "-n", "{count}", ["--", "{paths}"]]
    given = settings(
        command,
        {
            "author": TEXT,
            "all": {"type": "boolean"},
            "count": {"type": "integer", "default": 10},
            "paths": {"type": "array"},
        },
    )
    assert given.words(given.with_defaults(arguments)) == wanted
    assert given.schema["required"] == []


def test_arguments_are_typed_and_required_outside_of_nested_lists():
    registry = registry_with(["printf", "%s", "{n}"], {"n": {"type": "integer", "minimum": 1, "maximum": 5}})
    for arguments in ({}, {"n": "1"}, {"n": 6}, {"n": 1, "m": 1}):
        assert registry.call_sync("probe", arguments).kind == "invalid_arguments"
    assert registry.call_sync("probe", {"n": 5}).text == "5"


def test_rules_see_the_whole_command():
    facts = ["git", "push", "{where}"], {"where": TEXT}
    allow, deny = Rule("shell", "git push origin *", "allow"), Rule("probe", "git push *", "deny")
    assert registry_with(*facts, read_only=False).call_sync("probe", {"where": "origin"}).kind == "denied"
    with ScriptedApprover([Once()]) as approver:
        registry_with(*facts, read_only=False, approver=approver).call_sync("probe", {"where": "a b"})
    (request,) = approver.requests
    assert (request.permission, request.patterns) == ("shell", ("git push 'a b'",))
    assert request.preview.summary == "git push 'a b'"
    denied = registry_with(*facts, permissions=Permissions([deny])).call_sync("probe", {"where": "x"})
    assert denied.kind == "denied"
    decided = Permissions([allow]).decide(
        registry_with(*facts, read_only=False).get("probe"), {"where": "x; rm -rf /"}, context=ReadonlyContext()
    )
    assert decided.action == "ask"


def test_a_read_only_program_needs_no_permission():
    assert registry_with(["true"]).call_sync("probe").text == "(no output)"
    assert registry_with(["true"], read_only=False).call_sync("probe").kind == "denied"
    assert registry_with(["true"], read_only=False, permission="").call_sync("probe").text == "(no output)"
    assert registry_with(["true"], permission="disk").call_sync("probe").kind == "denied"


def test_a_result_has_both_outputs_and_the_exit_code():
    registry = registry_with(["sh", "-c", "echo out; echo bad >&2; exit 3"])
    result = registry.call_sync("probe")
    assert (result.kind, result.metadata["exit_code"]) == ("tool_failure", 3)
    assert result.text == "sh failed with exit code 3:\nout\n[stderr]\nbad"
    assert not registry_with(["sh", "-c", "exit 1"], success=[0, 1]).call_sync("probe").is_error


def test_a_program_that_hangs_or_writes_too_much_is_ended(lifeline):
    hangs = registry_with(["sh", "-c", f"{lifeline.hold} sleep 600 & wait"], timeout=0.3).call_sync("probe")
    assert (hangs.kind, "took more than 0.3 s and was killed" in hangs.text) == ("timeout", True)
    lifeline.wait()
    floods = registry_with(["yes"]).call_sync("probe")
    assert (floods.kind, "wrote more than 1,000,000 bytes" in floods.text) == ("limit", True)


@pytest.mark.slow
@pytest.mark.parametrize("script", ["exec sleep 600", "exec sleep 600 >&- 2>&-", "trap '' TERM; while :; do :; done"])
def test_nothing_of_a_tool_works_on_after_the_time_limit(lifeline, script):
    threads = set(threading.enumerate())
    registry = registry_with(["sh", "-c", f"{lifeline.hold} {script}"], timeout=0.3)
    assert registry.call_sync("probe").kind == "timeout"
    lifeline.wait()
    frames = sys._current_frames()
    working = {each: traceback.extract_stack(frames[each.ident]) for each in {*threading.enumerate()} - threads}
    assert not [frame for stack in working.values() for frame in stack if "pegboard_commands" in frame.filename]


def test_a_missing_program_is_an_error_result():
    result = registry_with(["nosuch"]).call_sync("probe")
    assert (result.kind, "there is no program 'nosuch'" in result.text) == ("tool_failure", True)


def test_standard_input_and_the_working_folder(tmp_path):
    registry = registry_with(["sh", "-c", "pwd; cat"], {"text": TEXT}, stdin="<{text}>")
    result = registry.call_sync("probe", {"text": "-a\nb"}, ReadonlyContext(work_dir=str(tmp_path)))
    assert result.text == f"{os.path.realpath(tmp_path)}\n<-a\nb>"


def test_a_program_gets_few_variables(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "secret")
    assert "MY_TOKEN" not in registry_with(["env"]).call_sync("probe").text
    assert "MY_TOKEN=secret" in registry_with(["env"], inherit=["MY_TOKEN"]).call_sync("probe").text


def test_the_default_concurrency_depends_on_read_only():
    assert command_tool("probe", settings(["true"])).spec.concurrency.mode == "shared"
    assert command_tool("probe", settings(["true"], read_only=False)).spec.concurrency.mode == "exclusive"


@pytest.mark.parametrize(
    ("facts", "wrong"),
    [
        ({"command": []}, "begin with the name of a program"),
        ({"command": ["{a}"]}, "without placeholders"),
        ({"command": [["git"]]}, "begin with"),
        ({"command": "git log"}, "has to be a list"),
        ({"command": ["bin/x"]}, "relative path"),
        ({"command": ["x", 3]}, "command[1]: has to be a text"),
        ({"command": ["x", "{a!r}"], "arguments": {"a": TEXT}}, "is not an argument's name"),
        ({"command": ["x", "{"]}, "command[1]"),
        ({"command": ["x", "{b}"], "arguments": {"a": TEXT}}, "there is no argument 'b'"),
        ({"command": ["x"], "arguments": {"a": TEXT}}, "command has no {a}"),
        ({"command": ["x", "{a}"], "arguments": {"a": {"type": "object"}}}, "type has to be one of"),
        ({"command": ["x", "a={a}"], "arguments": {"a": {"type": "array"}}}, "has to be a whole word"),
        ({"command": ["x", "{a}"], "arguments": {"a": {"type": "boolean"}}}, "put it in a nested list"),
        ({"command": ["x"], "timeout": -1}, "timeout"),
        ({"command": ["x"], "read_onl": True}, "did you mean 'read_only'"),
        ({}, "begin with"),
    ],
)
def test_invalid_settings_of_a_tool_are_refused(facts, wrong):
    with pytest.raises(ValueError, match=r"^tools\.probe") as raised:
        read_table(ToolSettings, {"description": "x", **facts}, "tools.probe")
    assert wrong.lower() in str(raised.value).lower()


def test_an_invalid_name_or_schema_is_refused():
    with pytest.raises(ValueError, match="can't be a tool's name"):
        command_tool("a b", settings(["true"]))
    with pytest.raises(PegboardError):
        command_tool("probe", settings(["x", "{a}"], {"a": {"type": "string", "minLength": "x"}}))


def test_defaults_are_part_of_the_command():
    registry = registry_with(["printf", "%s ", "{a}"], {"a": {"type": "string", "default": "d"}})
    result = registry.call_sync("probe")
    assert (json.dumps(words(result)), result.text) == ('["printf", "%s ", "d"]', "d ")
