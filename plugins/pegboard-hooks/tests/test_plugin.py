"""The plugin with its settings, and settings that have moved to pegboard-commands."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest

import pegboard_commands
import pegboard_hooks
from pegboard import ToolRegistry, register_plugin, tool
from pegboard.config import trust
from pegboard_commands.plugin import Commands
from pegboard_hooks.plugin import Hooks

DENY = {"command": ["sh", "-c", "echo no >&2; exit 2"], "timeout": 30.0}
TRUE = {"description": "Runs.", "command": ["true"], "read_only": True}


@tool
def greet() -> str:
    """Greets."""
    return "hello"


def registry_with(settings):
    registry = ToolRegistry()
    registry.register(greet)
    return registry, register_plugin(registry, Hooks, "hooks", settings=settings)


def test_without_hooks_there_are_no_callbacks():
    for settings in ({}, {"tools": {"run": TRUE}}):
        registry, record = registry_with(settings)
        assert record.status == "loaded"
        assert not any(
            registry.contributions.catalogue.callbacks(stage) for stage in ("before_tool", "after_tool", "approve_call")
        )


def problems_of(registry):
    return [problem.cause for problem in asyncio.run(registry.resolve()).problems]


def test_moved_settings_work_with_a_warning_that_names_their_new_place(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "dice.py").write_text("def default() -> str:\n    return 'one'\n")
    settings = {"before": [{**DENY, "where": "name:run"}], "tools": {"run": TRUE}, "folders": [str(tmp_path)]}
    registry, record = registry_with(settings)
    assert record.status == "loaded"
    assert registry.call_sync("run").text == "run was denied: no"
    assert registry.call_sync("dice").text == "one"
    tools, folders = problems_of(registry)
    assert tools.startswith("plugins.hooks.tools is plugins.commands.tools now: move it there")
    assert folders.startswith("plugins.hooks.folders is plugins.commands.folders now")
    new, _ = registry_with({"before": [{**DENY, "where": "name:run"}]})
    register_plugin(new, Commands, "commands", settings={"tools": {"run": TRUE}, "folders": [str(tmp_path)]})
    assert (new.call_sync("run").text, new.call_sync("dice").text) == ("run was denied: no", "one")
    assert problems_of(new) == []


def test_both_places_may_have_tools(tmp_path):
    registry, _ = registry_with({"tools": {"run": TRUE, "old": {**TRUE, "command": ["nosuch_old"]}}})
    new = {"tools": {"go": TRUE, "new": {**TRUE, "command": ["nosuch_new"]}}}
    assert register_plugin(registry, Commands, "commands", settings=new).status == "loaded"
    assert {registry.call_sync(name).text for name in ("run", "go")} == {"(no output)"}
    found = "\n".join(problems_of(registry))
    assert "plugins.hooks.tools.old: there is no program 'nosuch_old'" in found
    assert "plugins.commands.tools.new: there is no program 'nosuch_new'" in found


def test_moved_names_are_found_with_a_warning():
    for name in ("FileToolset", "ToolSettings", "command_tool"):
        with pytest.warns(DeprecationWarning, match=rf"pegboard_hooks\.{name} is pegboard_commands\.{name} now"):
            assert getattr(pegboard_hooks, name) is getattr(pegboard_commands, name)
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        pegboard_hooks.nosuch  # noqa: B018


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"before": [{**DENY, "comand": "x"}]}, "plugins.hooks.before[0].comand"),
        ({"before": DENY}, "plugins.hooks.before: has to be a list of tables"),
        ({"befor": [DENY]}, "plugins.hooks.befor: unknown key"),
        ({"before": [{**DENY, "timeout": 31.0}]}, "plugins.hooks.before[0].timeout: 31 is more than 30 seconds, which"),
    ],
)
def test_with_invalid_hooks_before_calls_no_call_runs(settings, wrong):
    registry, record = registry_with({**settings, "tools": {"run": TRUE}})
    assert (record.status, wrong in (record.cause or "")) == ("quarantined", True)
    result = registry.call_sync("greet")
    assert (result.kind, wrong in (result.detail or "")) == ("denied", True)


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"after": [{"command": []}]}, "plugins.hooks.after[0]: command"),
        ({"tools": {"bad": {"description": "x"}}}, "plugins.hooks.tools.bad: command"),
        ({"watch": "yes"}, "plugins.hooks.watch: has to be true or false"),
    ],
)
def test_other_invalid_settings_are_left_out(settings, wrong):
    settings = {**settings, "tools": {"run": TRUE, **settings.get("tools", {})}}
    registry, record = registry_with(settings)
    assert (record.status, wrong in (record.cause or "")) == ("partial", True)
    assert registry.call_sync("run").text == "(no output)"
    assert registry.call_sync("greet").text == "hello"


def test_a_missing_program_is_a_problem_until_it_is_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    registry, record = registry_with({"after": [{"command": ["nosuch_hook"]}]})
    assert record.status == "loaded"
    (cause,) = problems_of(registry)
    assert "plugins.hooks.after[0]: there is no program 'nosuch_hook'" in cause
    (tmp_path / "nosuch_hook").write_text("#!/bin/sh\n")
    (tmp_path / "nosuch_hook").chmod(0o755)
    assert problems_of(registry) == []


def test_an_untrusted_script_of_a_project_isnt_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / ".git").mkdir()
    script = tmp_path / "script"
    script.write_text("touch was_run")
    registry, _ = registry_with({"before": [{"command": ["sh", str(script)], "cwd": str(tmp_path)}]})
    result = registry.call_sync("greet")
    assert (result.kind, "isn't trusted as it is" in (result.detail or "")) == ("callback_failure", True)
    assert not (tmp_path / "was_run").exists()
    trust(script)
    assert not registry.call_sync("greet").is_error
    assert (tmp_path / "was_run").exists()


def environment(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    given = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "PEGBOARD_", "PYTHON"))}
    return {**given, "HOME": str(home), "PEGBOARD_BLOCK": "mcp,search"}


@pytest.mark.slow
def test_a_projects_settings_have_no_effect_until_they_are_trusted(tmp_path):
    project, run = tmp_path / "project", {"cwd": tmp_path / "project", "env": environment(tmp_path), "text": True}
    project.mkdir()
    (project / "pegboard.toml").write_text(
        '[plugins.commands.tools.evil]\ndescription = "x"\nread_only = true\ncommand = ["touch", "was_run"]\n'
        '[[plugins.hooks.before]]\ncommand = ["touch", "was_asked"]\n'
    )

    def registry(*words):
        return subprocess.run([sys.executable, "-m", "pegboard", *words], **run, capture_output=True, check=False)

    assert "evil" not in registry("list").stdout
    assert registry("call", "glob", "pattern=*").returncode == 0
    assert [path.name for path in project.iterdir()] == ["pegboard.toml"]
    assert registry("config", "trust", "pegboard.toml").returncode == 0
    assert "evil" in registry("list").stdout
    assert registry("call", "evil").returncode == 0
    assert (project / "was_asked").exists()
    assert (project / "was_run").exists()


@pytest.mark.slow
def test_hooks_still_run_if_a_file_ends_the_process(tmp_path):
    folder = tmp_path / "mine" / "tools"
    folder.mkdir(parents=True)
    (folder / "ends.py").write_text("import os\nos._exit(3)\n")
    run = {**TRUE, "command": ["touch", str(tmp_path / "was_run")]}
    settings = {"folders": [str(folder.parent)], "before": [DENY], "tools": {"run": run}}
    given = [word for key, value in settings.items() for word in ("--set", f"hooks.{key}:={json.dumps(value)}")]
    words = [sys.executable, "-m", "pegboard", "call", "run", *given]
    done = subprocess.run(words, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert (done.returncode, "run was denied: no" in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "was_run").exists()
