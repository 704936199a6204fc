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
from pegboard_hooks.plugin import Hooks

DENY = {"command": ["sh", "-c", "echo no >&2; exit 2"], "timeout": 30.0}
PATTERN = {"a": {"type": "string", "pattern": 1}}
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


def test_hooks_and_tools_come_from_the_settings(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "dice.py").write_text("def default() -> str:\n    return 'one'\n")
    settings = {"before": [{**DENY, "where": "name:run"}], "tools": {"run": TRUE}, "folders": [str(tmp_path)]}
    registry, record = registry_with(settings)
    assert record.status == "loaded"
    assert registry.call_sync("run").text == "run was denied: no"
    assert registry.call_sync("dice").text == "one"


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
        ({"tools": {"a b": TRUE}}, "plugins.hooks.tools.a b: 'a b' can't be a tool's name"),
        ({"tools": {"bad": {**TRUE, "command": ["x", "{a}"], "arguments": PATTERN}}}, "plugins.hooks.tools.bad: "),
        ({"folders": ["tools"]}, "isn't an absolute path"),
        ({"folders": "/x"}, "has to be a list of absolute paths"),
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
    tools = {"run": TRUE, "missing": {**TRUE, "command": ["nosuch_program"]}}
    registry, record = registry_with({"tools": tools, "after": [{"command": ["nosuch_hook"]}]})
    assert record.status == "loaded"

    def causes():
        return [problem.cause for problem in asyncio.run(registry.resolve()).problems]

    first, second = causes()
    assert "plugins.hooks.after[0]: there is no program 'nosuch_hook'" in first
    assert "plugins.hooks.tools.missing: there is no program 'nosuch_program'" in second
    for name in ("nosuch_hook", "nosuch_program"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert causes() == []


@pytest.mark.parametrize("kind", ["before", "tools"])
def test_an_untrusted_script_of_a_project_isnt_run(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / ".git").mkdir()
    script = tmp_path / "script"
    script.write_text("touch was_run")
    command = {"command": ["sh", str(script)], "cwd": str(tmp_path)}
    settings = {"before": [command]} if kind == "before" else {"tools": {"run": {**TRUE, **command}}}
    registry, _ = registry_with(settings)
    result = registry.call_sync("greet" if kind == "before" else "run")
    assert "isn't trusted as it is" in (result.detail or "") + result.text
    assert result.kind == ("callback_failure" if kind == "before" else "tool_failure")
    assert not (tmp_path / "was_run").exists()
    trust(script)
    assert not registry.call_sync("greet" if kind == "before" else "run").is_error
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
        '[plugins.hooks.tools.evil]\ndescription = "x"\nread_only = true\ncommand = ["touch", "was_run"]\n'
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


@pytest.mark.slow
def test_a_listing_reports_an_endless_file_and_has_the_other_tools(tmp_path):
    folder = tmp_path / "mine" / "tools"
    folder.mkdir(parents=True)
    (folder / "dice.py").write_text("def default() -> str:\n    return 'one'\n")
    (folder / "endless.py").write_text("import threading\nthreading.Event().wait()\n")
    words = ["list", "--plugin", "hooks", "--set", f"hooks.folders:={json.dumps([str(folder.parent)])}"]
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
    words = ["-m", "pegboard", "watch", "--set", f"hooks.folders:={json.dumps([str(folder.parent)])}"]
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
    shutil.copytree(source / "src" / "pegboard_hooks", site / "pegboard_hooks")
    info = site / f"pegboard_hooks-{project['version']}.dist-info"
    info.mkdir()
    (name, thing), *_ = project["entry-points"]["pegboard"].items()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(f"[pegboard]\n{name} = {thing}\n")
    (info / "RECORD").write_text("".join(f"{path.relative_to(site)},,\n" for path in site.rglob("*") if path.is_file()))
    code = (
        "import pegboard, pegboard_hooks, sys; assert pegboard_hooks.__file__.startswith(sys.argv[1]);"
        "r = pegboard.load(block=['mcp'], settings={'hooks': {'tools': {'run': {'description': 'x', 'read_only': True,"
        "'command': ['echo', 'hello']}}}}); print(r.call_sync('run').text)"
    )
    env = {**environment(tmp_path), "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", code, str(site)], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "hello\n", done.stderr
