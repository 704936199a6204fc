"""The plugin with its settings, and installed as a wheel."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pegboard import ToolRegistry, register_plugin, tool
from pegboard.config import trust
from pegboard_commands.plugin import Commands

PATTERN = {"a": {"type": "string", "pattern": 1}}
TRUE = {"description": "Runs.", "command": ["true"], "read_only": True}


@tool
def greet() -> str:
    """Greets."""
    return "hello"


def registry_with(settings):
    registry = ToolRegistry()
    registry.register(greet)
    return registry, register_plugin(registry, Commands, "commands", settings=settings)


def test_tools_come_from_the_settings(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "dice.py").write_text("def default() -> str:\n    return 'one'\n")
    registry, record = registry_with({"tools": {"run": TRUE}, "folders": [str(tmp_path)]})
    assert record.status == "loaded"
    assert registry.call_sync("run").text == "(no output)"
    assert registry.call_sync("dice").text == "one"


def test_without_settings_nothing_is_registered():
    registry, record = registry_with({})
    assert record.status == "loaded"
    assert [tool.name for tool in asyncio.run(registry.resolve())] == ["greet"]
    assert registry.contributions.catalogue.toolsets == ()


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"tols": {"run": TRUE}}, "plugins.commands.tols: unknown key"),
        ({"tools": {"bad": {"description": "x"}}}, "plugins.commands.tools.bad: command"),
        ({"tools": {"a b": TRUE}}, "plugins.commands.tools.a b: 'a b' can't be a tool's name"),
        ({"tools": {"bad": {**TRUE, "command": ["x", "{a}"], "arguments": PATTERN}}}, "plugins.commands.tools.bad: "),
        ({"folders": ["tools"]}, "isn't an absolute path"),
        ({"folders": "/x"}, "has to be a list of absolute paths"),
        ({"watch": "yes"}, "plugins.commands.watch: has to be true or false"),
    ],
)
def test_other_invalid_settings_are_left_out(settings, wrong):
    settings = {**settings, "tools": {"run": TRUE, **settings.get("tools", {})}}
    registry, record = registry_with(settings)
    assert (record.status, wrong in (record.cause or "")) == ("partial", True)
    assert registry.call_sync("run").text == "(no output)"
    assert registry.call_sync("greet").text == "hello"


def test_tools_have_to_be_a_table():
    _, record = registry_with({"tools": [TRUE]})
    assert "plugins.commands.tools: has to be a table of tools: [plugins.commands.tools.NAME]" in (record.cause or "")


def test_a_missing_program_is_a_problem_until_it_is_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    registry, record = registry_with({"tools": {"run": TRUE, "missing": {**TRUE, "command": ["nosuch_program"]}}})
    assert record.status == "loaded"

    def causes():
        return [problem.cause for problem in asyncio.run(registry.resolve()).problems]

    (cause,) = causes()
    assert "plugins.commands.tools.missing: there is no program 'nosuch_program'" in cause
    (tmp_path / "nosuch_program").write_text("#!/bin/sh\n")
    (tmp_path / "nosuch_program").chmod(0o755)
    assert causes() == []


def test_an_untrusted_script_of_a_project_isnt_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / ".git").mkdir()
    script = tmp_path / "script"
    script.write_text("touch was_run")
    registry, _ = registry_with({"tools": {"run": {**TRUE, "command": ["sh", str(script)], "cwd": str(tmp_path)}}})
    result = registry.call_sync("run")
    assert (result.kind, "isn't trusted as it is" in result.text) == ("tool_failure", True)
    assert not (tmp_path / "was_run").exists()
    trust(script)
    assert not registry.call_sync("run").is_error
    assert (tmp_path / "was_run").exists()


def environment(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    given = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "PEGBOARD_", "PYTHON"))}
    return {**given, "HOME": str(home), "PEGBOARD_BLOCK": "mcp,search"}


@pytest.mark.slow
def test_a_listing_reports_an_endless_file_and_has_the_other_tools(tmp_path):
    folder = tmp_path / "mine" / "tools"
    folder.mkdir(parents=True)
    (folder / "dice.py").write_text("def default() -> str:\n    return 'one'\n")
    (folder / "endless.py").write_text("import threading\nthreading.Event().wait()\n")
    words = ["list", "--plugin", "commands", "--set", f"commands.folders:={json.dumps([str(folder.parent)])}"]
    done = subprocess.run(
        [sys.executable, "-m", "pegboard", *words],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["dice"]
    assert f"{folder}/endless.py: it is still loading" in done.stderr


def put(path, source):
    """Writes a file atomically, so that the watcher never sees an incomplete one."""
    whole = path.parents[1] / "whole"
    whole.write_text(source)
    whole.replace(path)


@pytest.mark.slow
def test_watch_shows_added_changed_broken_and_removed_tools(tmp_path):
    folder = tmp_path / "mine" / "tools"
    folder.mkdir(parents=True)
    words = ["-m", "pegboard", "watch", "--set", f"commands.folders:={json.dumps([str(folder.parent)])}"]
    with subprocess.Popen(
        [sys.executable, *words], cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, text=True
    ) as running:
        source = 'def default() -> str:\n    """Rolls."""\n    return "one"\n'
        put(folder / "dice.py", source)
        assert running.stdout.readline() == "added    dice  Rolls.\n"
        put(folder / "dice.py", source.replace("one", "two"))
        assert running.stdout.readline() == "changed  dice  Rolls.\n"
        put(folder / "broken.py", "def (")
        assert running.stdout.readline().startswith(f"broken   {folder}/broken.py: SyntaxError")
        (folder / "dice.py").unlink()
        assert running.stdout.readline() == "removed  dice\n"
        (folder / "broken.py").unlink()
        assert running.stdout.readline() == f"removed  {folder}/broken.py\n"
        running.terminate()
        assert running.wait(60) == 0


@pytest.mark.slow
def test_the_plugin_works_installed_as_a_wheel(tmp_path):
    """Installed as by an installer, without the checkout; `nox -s wheels` builds the wheel itself."""
    source, site = Path(__file__).parents[1], tmp_path / "site"
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    shutil.copytree(source / "src" / "pegboard_commands", site / "pegboard_commands")
    info = site / f"pegboard_commands-{project['version']}.dist-info"
    info.mkdir()
    (name, thing), *_ = project["entry-points"]["pegboard"].items()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(f"[pegboard]\n{name} = {thing}\n")
    (info / "RECORD").write_text("".join(f"{path.relative_to(site)},,\n" for path in site.rglob("*") if path.is_file()))
    code = (
        "import pegboard, pegboard_commands, sys; assert pegboard_commands.__file__.startswith(sys.argv[1]);"
        "r = pegboard.load(block=['mcp'], settings={'commands': {'tools': {'run': {'description': 'x',"
        "'read_only': True, 'command': ['echo', 'hello']}}}}); print(r.call_sync('run').text)"
    )
    env = {**environment(tmp_path), "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", code, str(site)], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "hello\n", done.stderr
