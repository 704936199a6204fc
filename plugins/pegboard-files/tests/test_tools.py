"""The plugin and its settings."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

import pegboard_files
from pegboard import ToolRegistry
from pegboard.testing import check_plugin
from pegboard_files.tools import Settings, settings_from


@pytest.fixture
def board(top) -> ToolRegistry:
    registry = ToolRegistry()
    pegboard_files.pegboard_register_tools(registry.register, {"root": str(top)})
    return registry


def test_the_plugin_stands_behind_one_entry_point():
    (entry,) = [each for each in entry_points(group="pegboard") if each.name == "files"]
    assert entry.load() is pegboard_files


def test_four_tools_hang_on_the_board_as_safe_readers(board):
    specs = {tool.name: tool.spec for tool in board.tools()}
    assert sorted(specs) == ["glob", "grep", "list_directory", "read_file"]
    for spec in specs.values():
        assert spec.annotations.to_json() == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }
        assert spec.tags == ("files",)
        assert spec.permission is None, "what only reads needs no permission"
        assert spec.permission_arguments == {"path": "path"}
        assert spec.concurrency.mode == "shared"
        assert spec.title
        assert spec.description


def test_every_parameter_is_described_and_bounded(board):
    for tool in board.tools():
        schema = tool.spec.input_schema
        assert schema["additionalProperties"] is False
        for name, part in schema["properties"].items():
            assert part["description"], (tool.name, name)
            if part["type"] == "integer":
                assert "minimum" in part, (tool.name, name)
            if part["type"] == "string":
                assert "maxLength" in part or "enum" in part, (tool.name, name)


def test_the_schemas_of_read_file_and_grep_are_as_documented(board):
    specs = {tool.name: tool.spec for tool in board.tools()}
    read = specs["read_file"].input_schema
    assert read["required"] == ["path"]
    assert read["properties"]["offset"] == {
        "type": "integer",
        "minimum": 1,
        "description": "The number of the first line to read; the first line of a file is 1.",
        "default": 1,
    }
    assert (read["properties"]["limit"]["minimum"], read["properties"]["limit"]["maximum"]) == (1, 2_000)
    assert specs["read_file"].output_schema is None
    grep = specs["grep"]
    assert grep.input_schema["required"] == ["pattern"]
    assert list(grep.input_schema["properties"]) == [
        *("pattern", "path", "literal", "case", "include", "exclude", "context", "mode", "limit", "hidden", "no_ignore")
    ]
    assert grep.input_schema["properties"]["mode"]["enum"] == ["matches", "files", "counts"]
    assert grep.output_schema["required"] == ["matches", "files", "searched", "truncated"]


def test_a_call_gives_text_for_the_model_and_data_for_programs(write, board):
    write({"src/a.py": "def find():\n    return 1\n"})
    result = board.call_sync("grep", {"pattern": "def", "path": "src"})
    assert not result.is_error
    assert result.text == "src/a.py\n1:def find():"
    assert result.structured_content["matches"][0]["line"] == 1
    listed = board.call_sync("list_directory", '{"path": "src"}')
    assert listed.structured_content["entries"] == [{"name": "a.py", "kind": "file", "size": 25}]
    found = board.call_sync("glob", {"pattern": "*.py"})
    assert found.text == "src/a.py"
    read = board.call_sync("read_file", {"path": "src/a.py", "limit": 1})
    assert read.text == "1\tdef find():\n[Lines 1-1 of 2. Read on with offset=2.]"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("read_file", {"path": "../secret.txt"}), "outside of the folder"),
        (("read_file", {"path": "/etc/passwd"}), "outside of the folder"),
        (("read_file", {"path": "a.txt", "offset": 0}), "offset: must be at least 1"),
        (("read_file", {"path": ""}), "path: must have at least 1 character"),
        (("grep", {"pattern": "x", "limit": 9_999}), "limit: must be at most 2000"),
        (("grep", {"pattern": "("}), "not a valid regular expression"),
        (("glob", {"pattern": "["}), "not a valid pattern"),
        (("list_directory", {"path": "nowhere"}), "there is no 'nowhere'"),
    ],
)
def test_what_a_model_does_wrong_is_an_error_result_that_says_what(top, write, board, call, text):
    write({"a.txt": "x\n"})
    result = board.call_sync(*call)
    assert result.is_error
    assert text in result.text
    assert str(top) not in result.text


def test_results_are_json_whatever_files_are_called(top, board):
    try:
        os.close(os.open(os.fsencode(top) + b"/caf\xe9.txt", os.O_CREAT | os.O_WRONLY))
    except OSError:
        (top / "caf\n.txt").write_text("")  # some file systems of macOS only take UTF-8
    for name, arguments in (("list_directory", {}), ("glob", {"pattern": "*"}), ("grep", {"pattern": "x"})):
        result = board.call_sync(name, arguments)
        assert not result.is_error
        json.dumps(result.to_json(), ensure_ascii=False).encode()


def test_a_wrong_setting_is_refused_before_anything_is_registered():
    brought: list[object] = []
    with pytest.raises(ValueError, match=r"plugins\.files\.roots: there is no such setting\. Did you mean 'root'\?"):
        pegboard_files.pegboard_register_tools(brought.append, {"roots": "/"})
    assert brought == []


def test_a_system_without_directory_descriptors_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(RuntimeError, match="Linux and macOS"):
        pegboard_files.pegboard_register_tools(print, {})


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("", ("re2", "pathspec", "bracex", "attrs", "pegboard_files.tools", "asyncio", "difflib")),
        ("pegboard_files.pegboard_register_tools([].append, {})", ("re2", "pathspec", "bracex", "mimetypes")),
    ],
)
def test_what_only_a_call_needs_waits_for_it(code, heavy):
    """Listing imports plugins without a manifest."""
    code = f"import sys, pegboard_files; {code}\nprint([name for name in {heavy!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("table", "settings"),
    [
        ({}, Settings(root=None, hidden=False, no_ignore=False, time_limit=30.0)),
        (table := {"root": "~/work", "hidden": True, "no_ignore": True, "time_limit": 5}, Settings(**table)),
    ],
)
def test_settings_are_read(table, settings):
    assert settings_from(table) == settings


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"rooot": "x"}, "plugins.files.rooot: there is no such setting. Did you mean 'root'?"),
        ({"x": 1}, "plugins.files.x: there is no such setting. Known are root, hidden, no_ignore, time_limit."),
        ({"root": 1}, "plugins.files.root: 1 is not the path of a folder."),
        ({"root": ""}, "plugins.files.root: '' is not the path of a folder."),
        ({"root": "a\0b"}, "plugins.files.root: 'a\\x00b' is not the path of a folder."),
        ({"hidden": "yes"}, "plugins.files.hidden: 'yes' is not true or false."),
        ({"no_ignore": 1}, "plugins.files.no_ignore: 1 is not true or false."),
        ({"time_limit": 0}, "plugins.files.time_limit: 0 is not a number of seconds above 0."),
        ({"time_limit": True}, "plugins.files.time_limit: True is not a number of seconds above 0."),
        ({"time_limit": math.nan}, "plugins.files.time_limit: nan is not a number of seconds above 0."),
        ({"time_limit": math.inf}, "plugins.files.time_limit: inf is not a number of seconds above 0."),
    ],
)
def test_a_mistake_is_named_with_its_key_and_value(table, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        settings_from(table)


def test_the_plugin_keeps_the_contract() -> None:
    """It loads whole, its manifest is true, its schemas judge as they say, importing it is cheap."""
    check_plugin("files")
