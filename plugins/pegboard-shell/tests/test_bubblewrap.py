"""The sandbox of the real bubblewrap; `conftest.py` leaves this file out where there is none that works."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from pegboard import Once, Reject
from pegboard.testing import ScriptedApprover

OWN = Path("/tmp/pegboard-shell-own")


@pytest.fixture
def box(board):
    """Runs commands in the sandbox; each question is answered with no."""

    def make(level="workspace-write", **settings):
        registry = board(mode="never_ask", sandbox=level, **settings)

        async def run(command, **arguments):
            return await registry.call("shell", {"command": command, **arguments})

        return run

    return make


async def test_a_command_changes_what_is_below_the_root_and_nothing_else(box, top, tmp_path):
    run = box()
    outside = tmp_path / "outside"
    result = await run(f"touch inside; touch {outside}; touch {OWN} && echo own")
    assert (top / "inside").exists()
    assert not outside.exists()
    assert "own\n" in result.text
    assert not OWN.exists()  # noqa: ASYNC240  (a look)
    assert result.metadata["sandbox"] == "workspace-write"


async def test_at_the_level_read_only_nothing_is_changed(box, top):
    result = await box("read-only")("touch inside")
    assert not (top / "inside").exists()
    assert result.metadata["exit_code"] == 1
    assert "where it changes nothing and reaches no network. shell_unsandboxed" in result.text


async def test_what_counts_as_reading_can_change_nothing(box, top, monkeypatch):
    (top / "data").write_text("one\n")
    monkeypatch.setattr("pegboard_shell.tools.only_reads", lambda _arguments: True)
    result = await box()("echo two >> data")
    assert (top / "data").read_text() == "one\n"
    assert "Read-only file system" in result.text


async def test_git_finds_no_hooks_that_a_command_has_written(box, top):
    (top / ".git" / "hooks").mkdir(parents=True)
    await box()("touch .git/hooks/pre-commit; mv .git moved; mkdir -p .git/hooks; touch .git/hooks/pre-commit")
    assert not (top / ".git" / "hooks" / "pre-commit").exists()
    assert not (top / "moved").exists()


async def test_there_is_no_network_unless_it_is_given(box):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
        assert (await box()(["bash", "-c", line])).metadata["exit_code"] != 0
        assert (await box(network=True)(["bash", "-c", line])).metadata["exit_code"] == 0


async def test_no_capability_is_left_and_no_process_outside_is_seen(box):
    result = await box()("grep CapEff /proc/self/status; ls /proc | grep -c '^[0-9]'; ls /run | wc -l")
    rights, processes, sockets = result.text.splitlines()[:3]
    assert int(rights.split()[1], 16) == 0
    assert int(processes) < 10
    assert sockets == "0"


async def test_what_a_command_leaves_ends_with_its_sandbox(box, top):
    """The daemon has left the group, and says by a file which process it is, seen from outside."""
    ready = top / "ready"
    os.mkfifo(ready)
    (top / "daemon.sh").write_text("echo up > ready; exec sleep 98765.4321\n")
    running = asyncio.create_task(box()("setsid bash daemon.sh >/dev/null 2>&1 & cat ready"))
    assert (await running).text.startswith("up\n")
    assert not running_with("98765.4321")


def running_with(word: str) -> list[Path]:
    """The processes that have this word in their command."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [place] if word in place.read_text().split("\0") else []
    return found


async def test_a_sandboxed_command_is_ended_at_its_limit_and_as_a_session(board, box):
    run = box()
    assert (await run("trap '' TERM; sleep 10000; sleep 10000", timeout=0.3)).metadata["exit_code"] == 124
    registry = board(mode="never_ask", sandbox="workspace-write")
    started = await registry.call("shell", {"command": "cat", "background": True, "wait": 0.01})
    key = started.metadata["session"]
    said = await registry.call("write_stdin", {"session": key, "text": "heard\n", "until": "heard", "wait": 60})
    assert said.text.startswith("heard\n"), "what can't leave the sandbox isn't asked about"
    assert not (await registry.call("end_session", {"session": key})).is_error


async def test_what_destroys_asks_in_the_sandbox_too(box, top):
    (top / "file").write_text("")
    assert (await box()("rm file")).is_error
    assert (top / "file").exists()


async def test_leaving_the_sandbox_asks_and_says_so(board, tmp_path):
    registry = board(mode="default", sandbox="workspace-write")
    outside = tmp_path / "outside"
    with ScriptedApprover([Reject("not that"), Once()]) as approver:
        registry.approver = approver
        assert (await registry.call("shell_unsandboxed", {"command": f"touch {outside}"})).is_error
        assert not outside.exists()
        assert not (await registry.call("shell_unsandboxed", {"command": f"touch {outside}"})).is_error
    assert outside.exists()
    shown = approver.requests[0].to_text()
    assert "OUTSIDE OF THE SANDBOX" in shown
    assert f"touch {outside}" in shown
