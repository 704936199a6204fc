"""The sandbox with the real bubblewrap; `conftest.py` ignores this file if it doesn't work."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from pegboard import Once, Permissions, Reject, Rule
from pegboard.testing import ScriptedApprover

OWN = Path("/tmp/pegboard-shell-own")


@pytest.fixture
def box(make_registry):
    """Runs commands in the sandbox; each prompt is rejected."""

    def make(level="workspace-write", **settings):
        registry = make_registry(mode="never_ask", sandbox=level, **settings)

        async def run(command, **arguments):
            return await registry.call("shell", {"command": command, **arguments})

        return run

    return make


async def test_a_command_changes_only_files_below_the_root(box, top, tmp_path):
    run = box()
    outside = tmp_path / "outside"
    result = await run(f"touch inside; touch {outside}; touch {OWN} && echo own")
    assert (top / "inside").exists()
    assert not outside.exists()
    assert "own\n" in result.text
    assert not OWN.exists()  # noqa: ASYNC240  (one check)
    assert result.metadata["sandbox"] == "workspace-write"


async def test_at_the_level_read_only_nothing_can_be_changed(box, top):
    result = await box("read-only")("touch inside")
    assert not (top / "inside").exists()
    assert result.metadata["exit_code"] == 1
    assert "and can't change files. If that is why it failed, call shell_unsandboxed" in result.text


async def test_a_read_only_command_can_change_nothing(box, top, monkeypatch):
    (top / "data").write_text("one\n")
    monkeypatch.setattr("pegboard_shell.tools.only_reads", lambda _arguments: True)
    result = await box()("echo two >> data")
    assert (top / "data").read_text() == "one\n"
    assert "Read-only file system" in result.text


@pytest.mark.parametrize(("background", "level"), [(False, "read-only"), (True, "workspace-write")])
async def test_a_prompt_names_what_a_command_may_change(make_registry, background, level):
    registry = make_registry(mode="default", sandbox="workspace-write")
    registry.permissions = Permissions([Rule("shell", "ls *", "ask")])
    with ScriptedApprover([Reject("no")]) as approver:
        registry.approver = approver
        await registry.call("shell", {"command": "ls -l", "background": background})
    assert f"in a sandbox: {level}, no network" in approver.requests[0].to_text()


async def test_a_command_cant_write_git_hooks(box, top):
    (top / ".git" / "hooks").mkdir(parents=True)
    await box()("touch .git/hooks/pre-commit; mv .git moved; mkdir -p .git/hooks; touch .git/hooks/pre-commit")
    assert not (top / ".git" / "hooks" / "pre-commit").exists()
    assert not (top / "moved").exists()


async def test_there_is_no_network_unless_enabled(box):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
        assert (await box()(["bash", "-c", line])).metadata["exit_code"] != 0
        assert (await box(network=True)(["bash", "-c", line])).metadata["exit_code"] == 0


async def test_there_are_no_capabilities_and_no_processes_of_the_host(box):
    result = await box()("grep CapEff /proc/self/status; ls /proc | grep -c '^[0-9]'; ls /run | wc -l")
    rights, processes, sockets = result.text.splitlines()[:3]
    assert int(rights.split()[1], 16) == 0
    assert int(processes) < 10
    assert sockets == "0"


async def test_processes_that_a_command_leaves_end_with_its_sandbox(box, top, processes_with):
    """Also a daemon that has left the process group."""
    ready = top / "ready"
    os.mkfifo(ready)
    (top / "daemon.sh").write_text("echo up > ready; exec sleep 98765.4321\n")
    running = asyncio.create_task(box()("setsid bash daemon.sh >/dev/null 2>&1 & cat ready"))
    assert (await running).text.startswith("up\n")
    assert not processes_with("98765.4321")


async def test_a_sandboxed_command_is_ended_at_its_limit_and_as_a_session(make_registry, box):
    run = box()
    assert (await run("trap '' TERM; sleep 10000; sleep 10000", timeout=0.3)).metadata["exit_code"] == 124
    registry = make_registry(mode="never_ask", sandbox="workspace-write")
    started = await registry.call("shell", {"command": "cat", "background": True, "wait": 0.01})
    key = started.metadata["session"]
    written = await registry.call("write_stdin", {"session": key, "text": "hello\n", "until": "hello", "wait": 60})
    assert written.text.startswith("hello\n"), "input in the sandbox needs no confirmation"
    assert not (await registry.call("end_session", {"session": key})).is_error


async def test_destructive_commands_ask_in_the_sandbox_too(box, top):
    (top / "file").write_text("")
    assert (await box()("rm file")).is_error
    assert (top / "file").exists()


async def test_leaving_the_sandbox_asks_and_the_prompt_says_so(make_registry, tmp_path):
    registry = make_registry(mode="default", sandbox="workspace-write")
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
