"""Registries with the shell tools in an empty folder, and checks of running processes."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pegboard import Limits, Permissions, ToolRegistry, ToolResult, register_plugin
from pegboard.programs import running
from pegboard_shell import Plugin, sandbox, sessions

sandbox._PROBE_SECONDS = 120.0  # on a busy machine, too, all workers have to collect the same tests
collect_ignore = ["test_bubblewrap.py"] if sandbox.Sandbox("workspace-write").obstacle else []
PLAIN = {"sandbox": "none", "grace": 0.2}


@pytest.fixture
def top(tmp_path) -> Path:
    """The root of the commands."""
    folder = tmp_path / "top"
    folder.mkdir()
    return folder


@pytest.fixture
def make_registry(top) -> Callable[..., ToolRegistry]:
    """Creates registries with the tools; by default without a sandbox and without prompts."""

    def make(*, mode: str = "bypass", **settings: Any) -> ToolRegistry:
        # The grace gives a cancelled command time to end on a busy machine.
        registry = ToolRegistry(limits=Limits(grace=60), permissions=Permissions(mode=mode))
        register_plugin(registry, Plugin, "shell", settings={"root": str(top), **PLAIN, **settings})
        return registry

    return make


@pytest.fixture
def run(make_registry) -> Callable[..., Any]:
    """Runs a command with the tool `shell`."""
    registry = make_registry()

    async def shell(command: str | list[str], **arguments: Any) -> ToolResult:
        return await registry.call("shell", {"command": command, **arguments})

    return shell


@pytest.fixture
def fifo(tmp_path) -> Callable[[], Path]:
    """Creates named pipes: reading one waits until a command has written to it."""
    made = []

    def make() -> Path:
        made.append(tmp_path / f"pipe{len(made)}")
        os.mkfifo(made[-1])
        return made[-1]

    return make


@pytest.fixture(autouse=True)
def no_running_commands(monkeypatch) -> Iterator[None]:
    """Fails a test that leaves a command running, however long it takes to end on a busy machine."""
    monkeypatch.setattr(running, "_DEATH_SECONDS", 60.0)
    monkeypatch.setattr(sessions, "_END_SECONDS", 60.0)
    yield
    for _ in range(300):
        if not (left := command_threads()):
            break
        left[0].join(0.1)
        if left[0].is_alive():
            gc.collect()  # a registry's sessions end with it
    assert not command_threads()


def command_threads() -> list[threading.Thread]:
    """The threads of running commands."""
    return [each for each in threading.enumerate() if each.name.startswith("pegboard-program ")]


@pytest.fixture
def is_running() -> Callable[[int], bool]:
    """Whether a process runs; a zombie doesn't."""

    def look(pid: int) -> bool:
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        if Path("/proc/self/stat").exists():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    return look


@pytest.fixture
def processes_with() -> Callable[[str], list[Path]]:
    """The processes with this word in their command line."""

    def find(word: str) -> list[Path]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            place = folder / "cmdline"
            with suppress(OSError):  # it may end meanwhile
                found += [place] if word.encode() in place.read_bytes().split(b"\0") else []
        return found

    return find


@pytest.fixture
def join() -> Callable[[], None]:
    """Blocks until the threads of commands have ended."""

    def wait() -> None:
        for thread in command_threads():
            thread.join(30)

    return wait
