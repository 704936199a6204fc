"""More attempts to get round rules: by what arguments are encoded in, and by what a tool works out of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard import Permissions, Rule, Tool
from pegboard.tools.spec import ToolSpec


def made(**facts):
    return Tool(ToolSpec("probe", **facts))


def decided(called, arguments, *rules):
    return Permissions(rules).decide(called, arguments).action


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"data": {"contentEncoding": "base64"}}},
        {"properties": {"data": {"type": "array", "items": {"contentEncoding": "base64"}}}},
        {"properties": {"data": {"$ref": "#/$defs/Script"}}, "$defs": {"Script": {"contentEncoding": "base64"}}},
        {"properties": {"data": {}}, "anyOf": [{"properties": {"data": {"contentEncoding": "base64"}}}]},
    ],
)
@pytest.mark.parametrize("arguments", [{"permission_arguments": {"data": "command"}}, {}])
def test_what_comes_as_base64_is_unreadable(schema, arguments):
    called = made(input_schema={"type": "object", **schema}, **arguments)
    for rule in (
        Rule("probe", "rm *", "deny", field="data"),
        Rule("probe", "rm *", "deny", field="data", kind="command"),
    ):
        assert decided(called, {"data": "cm0geA=="}, rule) == "deny"
        assert Permissions([rule]).settled(called) is False
    assert decided(called, {"data": "cm0geA=="}, Rule("probe", "*", "ask"), Rule("probe", "cm*", "allow")) == "ask"
    other = made(input_schema={"type": "object", "properties": {**schema["properties"], "a": {}}})
    assert decided(other, {"data": "cm0geA==", "a": "x"}, Rule("probe", "rm *", "deny", field="a")) == "allow"


def test_what_a_tool_decodes_for_rules_is_read():
    schema = {"type": "object", "properties": {"data": {"contentEncoding": "base64"}}}
    options = {"permission_arguments": {"data": "command"}, "permission_values": lambda *_: {"data": "rm x"}}
    called = Tool.from_schema("probe", schema, lambda arguments: "", **options)
    for words, action in (("rm *", "deny"), ("ls *", "allow")):
        rules = Rule("probe", "*", "allow"), Rule("probe", words, "deny")
        assert decided(called, {"data": "cm0geA=="}, *rules) == action


@pytest.mark.parametrize("path", ["./~/key", ".//././/~/key"])
def test_a_home_folder_that_pathlib_finds_behind_a_dot_counts(tmp_path, monkeypatch, path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert Path(path).expanduser() == tmp_path / "home" / "key"
    called = made(permission_arguments={"path": "path"})
    assert decided(called, {"path": path}, Rule("probe", f"{tmp_path}/home/*", "deny")) == "deny"
    rules = Rule("probe", "*", "ask"), Rule("probe", f"{tmp_path}/~/*", "allow")
    assert decided(called, {"path": path}, *rules) == "ask"
    assert decided(called, {"path": "./a/~/key"}, Rule("probe", "*", "ask"), Rule("probe", "a/*", "allow")) == "allow"
