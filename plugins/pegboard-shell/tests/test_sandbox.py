"""Detection of the sandbox, and its command."""

from __future__ import annotations

import pytest

from pegboard import ModelRequest, Once, Permissions, Rule
from pegboard.testing import ScriptedApprover
from pegboard_shell.sandbox import MISSING, Sandbox, may_be_by_sandbox


async def test_the_tool_that_leaves_the_sandbox_is_offered_only_with_one(make_registry):
    works = Sandbox("workspace-write").obstacle is None
    for level, offered in (("none", False), ("workspace-write", works)):
        registry = make_registry(mode="default", sandbox=level)
        request = await registry.process(ModelRequest(tools=await registry.resolve()))
        assert ("shell_unsandboxed" in [tool.name for tool in request.tools]) is offered


@pytest.mark.parametrize(
    ("program", "cause"),
    [("/nowhere/bwrap", "/nowhere/bwrap failed (FileNotFoundError)"), ("/bin/false", "exit code 1")],
)
async def test_a_sandbox_that_doesnt_work_isnt_used_and_the_prompt_says_so(make_registry, monkeypatch, program, cause):
    monkeypatch.setattr("pegboard_shell.sandbox.shutil.which", lambda *_arguments, **_options: program)
    registry = make_registry(mode="default", sandbox="workspace-write")
    with ScriptedApprover([Once()]) as approver:
        registry.approver = approver
        assert (await registry.call("shell", {"command": "echo ran"})).text.startswith("ran\n")
    assert f"no sandbox works: {cause}" in approver.requests[0].to_text()


async def test_without_bubblewrap_the_prompt_says_so(make_registry, monkeypatch):
    monkeypatch.setattr("pegboard_shell.sandbox._SEARCH_PATH", "/nowhere")
    registry = make_registry(mode="default", sandbox="workspace-write")
    registry.permissions = Permissions([Rule("shell", "echo *", "ask")])
    with ScriptedApprover([Once()]) as approver:
        registry.approver = approver
        await registry.call("shell", {"command": "echo ran"})
    assert MISSING in approver.requests[0].to_text()


def test_at_the_root_of_the_file_system_nothing_may_be_changed():
    box = Sandbox("workspace-write", program="/usr/bin/bwrap")
    assert "--bind" not in box.wrap(["true"], "/", "/")
    assert "--bind" in box.wrap(["true"], "/srv", "/srv")
    assert "--bind" not in box.wrap(["true"], "/srv", "/srv", reads=True)


def test_errors_that_a_sandbox_may_have_caused_are_recognized():
    assert may_be_by_sandbox("touch: cannot touch '/x': Read-only file system")
    assert may_be_by_sandbox("curl: (6) Could not resolve host: example.org")
    assert may_be_by_sandbox("curl: (7) Failed to connect to 192.0.2.1 port 80 after 0 ms: Couldn't connect to server")
    assert may_be_by_sandbox("  errno: -101,\n  code: 'ENETUNREACH',")
    assert may_be_by_sandbox("bwrap: execvp /tmp/venv/bin/python: No such file or directory")
    assert not may_be_by_sandbox("cat: notes: No such file or directory")
    assert not may_be_by_sandbox("2 failed, 3 passed")
