"""What works on Linux and macOS only says so on Windows, which a child process simulates."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

WINDOWS = """
import asyncio, multiprocessing, pathlib, platformdirs, subprocess, sys, tempfile  # choose by the system
import os

for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for name in ("fork", "forkpty", "geteuid", "getuid", "killpg", "mkfifo", "pidfd_open", "setsid"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"):
    delattr(os, name)
os.supports_dir_fd = set()
os.name = "windows"  # 'nt' would have pathlib make paths that this system hasn't
"""
WHY = "it works on Linux and macOS, but not on Windows"
CANT = ["files", "hooks", "llm", "processes", "shell"]


@pytest.fixture
def on_windows(tmp_path):
    """Runs code, or a command, in a child process without what Windows lacks."""
    names = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "PEGBOARD_"))}

    def run(*words, code="from pegboard.__main__ import run; run()"):
        argv = [sys.executable, "-c", WINDOWS + code, *words]
        env = {**names, "HOME": str(tmp_path)}
        return subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=300)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("live", [[], ["--live"]])
def test_plugins_that_cant_work_say_so_and_the_others_are_loaded(on_windows, live):
    """From their manifests, and when they are imported."""
    done = on_windows(*live, "plugins", "--json")
    plugins = {each["name"]: each for each in json.loads(done.stdout)["plugins"]}
    refused = {name: each["cause"] for name, each in plugins.items() if each["status"] == "quarantined"}
    assert {name: refused.get(name) for name in CANT} == dict.fromkeys(CANT, WHY), done.stderr
    assert plugins["memory"]["status"] in {"listed", "loaded"}
    assert {*refused} == {*CANT}


@pytest.mark.slow
def test_doctor_says_so(on_windows):
    done = on_windows("doctor")
    assert (done.stdout.count(WHY), "failed to load" in done.stdout) == (len(CANT), False), done.stderr


@pytest.mark.slow
def test_parts_that_cant_work_say_so(on_windows, tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "dice.py").write_text("def default() -> str:\n    return 'one'\n")
    code = f"""
from pegboard import ToolRegistry, register_plugin
from pegboard_commands.plugin import Commands
from pegboard_guard.guard import Guard

registry = ToolRegistry()
tools = {{"run": {{"description": "Runs.", "command": ["true"]}}}}
settings = {{"tools": tools, "folders": [{str(tmp_path)!r}]}}
print(register_plugin(registry, Commands, "commands", settings=settings).cause)
print(registry.call_sync("dice").text)
print(register_plugin(ToolRegistry(), Guard, "guard", settings={{"journal": {{"file": "j.jsonl"}}}}).cause)
"""
    done = on_windows(code=code)
    commands, dice, guard = done.stdout.splitlines()
    assert "plugins.commands: tools and click work on Linux and macOS, but not on Windows" in commands
    assert dice == "one"
    assert "a journal works on Linux and macOS, but not on Windows" in guard


@pytest.mark.slow
def test_a_program_isnt_started(on_windows):
    code = """
import sys
from pegboard.programs import OutputBuffer, RunningProgram

program = RunningProgram([sys.executable, "--version"], OutputBuffer(1000))
program.start()
program.join(60)
print(program.is_over, program.pid, program.failure)
"""
    assert on_windows(code=code).stdout == "True None programs can be run on Linux and macOS, but not on Windows\n"
