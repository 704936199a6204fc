"""Attempts to make hooks run untrusted files."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from pegboard import ReadonlyContext, ToolRegistry, register_plugin, tool
from pegboard.config import trust
from pegboard_hooks import CommandHooks, HookSettings


@tool(read_only=True)
def act() -> str:
    """Acts."""
    return "acted"


def registry_with(*command: str, **more: Any) -> ToolRegistry:
    """A registry with a hook before each call."""
    registry = ToolRegistry()
    registry.register(act)
    register_plugin(registry, CommandHooks([HookSettings(command=command, **more)]), "hooks")
    return registry


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A home folder without trusted files."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONFIG", "STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    return home


@pytest.fixture
def project(home, tmp_path, monkeypatch) -> Path:
    """A checkout with scripts that write a file."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    mark = project / "mark"
    (project / "check.sh").write_text(f"#!/bin/sh\necho >> {mark}\n")
    (project / "check.py").write_text(f"#!{sys.executable}\nopen({str(mark)!r}, 'w')\n")
    (project / "check.awk").write_text(f'BEGIN {{ print > "{mark}" }}\n')
    (project / "check.mk").write_text(f"all:\n\techo >> {mark}\n")
    (project / "check.pl").write_text(f"open(F, '>', '{mark}')\n")
    for module in ("json", "check_module"):
        (project / f"{module}.py").write_text((project / "check.py").read_text())
    for script in project.glob("check.*"):
        script.chmod(0o755)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "link.sh").symlink_to(project / "check.sh")
    (tmp_path / "outside" / "folder").symlink_to(project)
    (project / "out.sh").symlink_to(tmp_path / "outside" / "out.sh")
    shutil.copy(project / "check.sh", tmp_path / "outside" / "out.sh")
    monkeypatch.chdir(project)
    return project


COMMANDS = """
{0}/check.sh
{0}/check.py
{0}/../project/check.sh
{0}//./check.sh
/proc/self/cwd/check.sh
{1}/link.sh
{1}/folder/check.sh
{0}/out.sh
sh {0}/check.sh
sh {1}/link.sh
sh -e {0}/check.sh
sh +e {0}/check.sh
sh -o errexit {0}/check.sh
sh -s {0}/check.sh
bash -- {0}/check.sh
bash -O extglob {0}/check.sh
bash --init-file {0}/check.sh -i -c true
python3 -I -X utf8 {0}/check.py
python3 -W ignore {0}/check.py
env sh {0}/check.sh
env A=b sh {0}/check.sh
env -i PATH=/bin:/usr/bin sh {0}/check.sh
env -u X sh {0}/check.sh
nice sh {0}/check.sh
nice -n 5 sh {0}/check.sh
timeout 5 sh {0}/check.sh
nohup sh {0}/check.sh
xargs -a /dev/null sh {0}/check.sh
awk -f {0}/check.awk
awk -f{0}/check.awk
find {0} -maxdepth 0 -exec sh {0}/check.sh ;
find {0} -maxdepth 0 -exec {0}/check.sh ;
make -f {0}/check.mk
make --file={0}/check.mk
make -sf{0}/check.mk
perl {0}/check.pl
sh -c .{2}{0}/check.sh
sh -c '{0}/check.sh'
bash --rcfile {0}/check.sh -ic true
python3 -c exec(open("{0}/check.py").read())
python3 -ic exec(open("{0}/check.py").read())
env python3 {0}/check.py
env {0}/check.sh
nice {1}/link.sh
env env nice -n 1 sh {1}/folder/check.sh
sh check.sh
./check.sh
env sh ./check.sh
env sh check.sh
check.sh
""".strip().splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_script_of_a_project_isnt_run_as_a_hook_before_it_is_trusted(project, tmp_path, command):
    words = [word.format(project, tmp_path / "outside", " ") for word in command.split()]
    try:
        registry = registry_with(*words)
    except ValueError:  # it would be looked up in the call's folder
        return
    assert registry.call_sync("act", {}, ReadonlyContext(work_dir=str(project))).is_error
    assert not (project / "mark").exists()


@pytest.mark.parametrize(
    "setting",
    [
        "BASH_ENV={0}/check.sh",
        "BASH_ENV=check.sh",
        "ENV={1}/link.sh",
        "PERL5OPT=-d:check {0}/check.pl",
        "NODE_OPTIONS=--require={0}/check.pl",
    ],
)
@pytest.mark.parametrize("inherits", [False, True])
def test_a_script_that_a_variable_names_isnt_run(project, tmp_path, monkeypatch, setting, inherits):
    variable, _, value = setting.format(project, tmp_path / "outside").partition("=")
    monkeypatch.setenv(variable, value)
    more = {"inherit": (variable,)} if inherits else {"env": {variable: value}}
    result = registry_with("bash", "-c", "true", **more).call_sync("act", {}, ReadonlyContext(work_dir=str(project)))
    assert "isn't trusted as it is" in (result.detail or "")
    assert not (project / "mark").exists()


@pytest.mark.parametrize("words", [["-c", "import json"], ["-m", "check_module"], ["-Bm", "json.tool"], ["-"]])
def test_python_imports_nothing_from_the_calls_folder(project, words):
    registry = registry_with(sys.executable, *words)
    registry.call_sync("act", {}, ReadonlyContext(work_dir=str(project)))
    assert not (project / "mark").exists()


def test_a_trusted_script_that_was_changed_isnt_run(project):
    script = project / "check.sh"
    trust(script)
    registry = registry_with("sh", str(script))
    assert registry.call_sync("act").text == "acted"
    (project / "mark").unlink()
    for turn in (
        lambda: script.write_text(script.read_text() + "\n"),
        lambda: (script.unlink(), script.symlink_to("out.sh")),
        lambda: (script.unlink(), os.mkfifo(script)),
        lambda: (script.unlink(), script.mkdir()),
    ):
        turn()
        assert registry.call_sync("act").is_error
        assert not (project / "mark").exists()
