"""Calls whose caller has ended: their executor keeps the results, and the next process gets them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from pegboard import (
    Once,
    PendingCalls,
    Permissions,
    Policy,
    ReadonlyContext,
    Reject,
    Rule,
    ToolCall,
    ToolError,
    ToolRegistry,
    ToolResult,
    tool,
    tool_of,
)
from pegboard.approval import MemoryGrants, ask_later
from pegboard.execution import ExecutionRequest, ExecutionResponse, LocalExecutor, PermissionRequired
from pegboard_guard import FileApprovals

KEY = "a key of sixteen bytes or more"
ANN = ReadonlyContext(session="s", user="ann")
DENY = Permissions([Rule("delete", "*", "deny")])
CALL = ToolCall("delete", {"path": "a"}, "toolu_1")


@tool(destructive=True)
def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


class Engine:
    """Executor that runs each key once, and keeps its response in a folder, as an engine elsewhere does."""

    def __init__(self, folder, far=delete):
        self.folder, self.local, self.runs = (
            Path(folder),
            LocalExecutor([far], permissions=Permissions(mode="bypass")),
            0,
        )

    def file(self, key):
        return self.folder / key.replace(":", "-")

    async def attach(self, key):
        if not self.file(key).exists():
            return None
        return ExecutionResponse.from_json(json.loads(self.file(key).read_text()))

    async def execute(self, request):
        if (response := await self.attach(request.key)) is not None:
            return response
        self.runs += 1
        response = await self.local.execute(ExecutionRequest.from_json(request.to_json()))
        self.file(request.key).write_text(json.dumps(response.to_json()))
        if "KILLED_WHILE_IT_RUNS" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        return response


def make_registry(executor, grants=None, function=delete, **policy):
    registry = ToolRegistry(grants=grants)
    registry.register(tool_of(function).evolve(policy=Policy(executor="engine", **policy)))
    registry.add("executors", "engine", executor)
    return registry


def answered(registry, pending, answer=None, **options):
    answers = {call.id: answer or Once() for call in pending}
    return asyncio.run(registry.resume(pending, answers, context=ANN, **options)).results[0]


def suspended(registry):
    return asyncio.run(registry.dispatch([CALL], context=ANN, approver=ask_later)).pending


def dispatched(registry, context=ANN, **options):
    return asyncio.run(registry.dispatch([CALL], context=context, **options)).results[0]


def asking(asked, answer=None):
    """An approver that gives an answer, and adds the call's name to `asked`."""

    async def approver(request, context):
        asked.append(request.call.name)
        return answer or Once()

    return approver


ASK = """
import sys
from dispatch.executors.test_attach import KEY, Engine, make_registry, suspended
sys.stdout.write(suspended(make_registry(Engine("."))).dumps(KEY))
"""

ANSWER = """
import sys
from dispatch.executors.test_attach import KEY, Engine, FileApprovals, PendingCalls, answered, make_registry
pending = PendingCalls.loads(sys.stdin.read(), KEY)
print(answered(make_registry(Engine("."), FileApprovals("approvals.json")), pending).text)
"""


@pytest.mark.slow
def test_an_approved_call_whose_caller_was_killed_gets_the_result_that_its_executor_keeps(pytestconfig, tmp_path):
    def run(script, given="", **variables):
        environment = {**os.environ, "PYTHONPATH": str(pytestconfig.rootpath / "tests"), **variables}
        command = [sys.executable, "-c", script]
        return subprocess.run(
            command, input=given, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    text = run(ASK).stdout
    assert run(ANSWER, text, KILLED_WHILE_IT_RUNS="1").returncode == -signal.SIGKILL
    assert run(ANSWER, text).stdout == "deleted a\n"
    engine = Engine(tmp_path)
    registry = make_registry(engine, FileApprovals(tmp_path / "approvals.json"))
    assert answered(registry, PendingCalls.loads(text, KEY)).text == "deleted a"
    assert engine.runs == 0, "the one that was killed has run it"


@pytest.mark.parametrize("again", ["resume", "dispatch"])
def test_a_call_that_was_sent_is_neither_approved_nor_run_again(again, tmp_path):
    grants, engine, asked = MemoryGrants(), Engine(tmp_path), []
    first = make_registry(engine, grants)
    pending = suspended(first)
    assert answered(first, pending).text == "deleted a"
    registry = make_registry(engine, grants)
    again = dispatched(registry, approver=asking(asked)) if again == "dispatch" else answered(registry, pending)
    assert (again.text, engine.runs, asked) == ("deleted a", 1, [])


def test_a_call_that_is_denied_now_stays_denied(tmp_path):
    registry = make_registry(Engine(tmp_path))
    pending = suspended(registry)
    answered(registry, pending)
    registry.permissions = DENY
    assert answered(registry, pending).kind == "denied"
    assert dispatched(registry).kind == "denied"
    assert asyncio.run(registry.attach(CALL, ANN)).kind == "denied"


def test_a_call_that_was_never_sent_is_asked_about(tmp_path):
    asked = []
    assert dispatched(make_registry(Engine(tmp_path)), approver=asking(asked, Reject())).kind == "rejected"
    assert asked == ["delete"]


class Forgetful:
    """Executor that keeps nothing."""

    async def execute(self, request):
        return ExecutionResponse(output="deleted")


@pytest.mark.parametrize("attaches", [False, True])
def test_a_used_approval_without_a_run_has_an_unknown_outcome(attaches, tmp_path):
    grants = MemoryGrants()
    pending = suspended(make_registry(Forgetful(), grants))
    answered(make_registry(Forgetful(), grants), pending)
    executor = Engine(tmp_path) if attaches else Forgetful()
    assert answered(make_registry(executor, grants), pending).kind == "unknown_outcome"


def test_a_rejection_gets_no_result(tmp_path):
    registry = make_registry(Engine(tmp_path))
    pending = suspended(registry)
    answered(registry, pending)
    assert answered(registry, pending, Reject()).kind == "unknown_outcome"


async def test_a_host_that_restarts_attaches_to_a_call(tmp_path):
    engine, asked = Engine(tmp_path), []
    assert await make_registry(engine).attach(CALL, ANN) is None
    await make_registry(engine).dispatch([CALL], context=ANN, approver=asking(asked))
    registry = make_registry(engine)
    assert (await registry.attach(CALL, ANN)).text == "deleted a"
    assert await registry.attach(CALL, evolve(ANN, session="other")) is None
    assert await registry.attach(ToolCall("delete", {"path": "a"}, "call_0"), ANN) is None
    assert (engine.runs, asked) == (1, ["delete"])


async def test_a_tool_that_runs_here_has_no_run_to_attach_to():
    registry = ToolRegistry()
    registry.register(tool_of(delete))
    assert await registry.attach(CALL, ANN) is None


@pytest.mark.parametrize("stage", ["on_tool_error", "after_tool"])
async def test_a_callback_makes_no_result_of_a_run_that_is_not_there(stage):
    registry = ToolRegistry()
    registry.register(tool_of(delete))
    registry.add_callback(stage, lambda tool: ToolResult("nothing to do"))
    assert await registry.attach(CALL, ANN) is None


async def test_the_last_attempt_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("pegboard.dispatch.run.FIRST_PAUSE", 0.0)
    runs = []

    @tool(name="delete", destructive=True, idempotent=True)
    def flaky(path: str) -> str:
        """Deletes a file, at the second attempt."""
        runs.append(path)
        if len(runs) < 2:
            raise ToolError("busy", retryable=True)
        return f"deleted {path}"

    engine = Engine(tmp_path, flaky)
    await make_registry(engine, function=flaky, retries=2).dispatch([CALL], context=ANN, approver=asking([]))
    assert (await make_registry(engine, function=flaky, retries=2).attach(CALL, ANN)).text == "deleted a"
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (ExecutionResponse.failed("crashed", "it crashed"), "crashed"),
        ({"output": "a mapping"}, "crashed"),
        (RuntimeError("no connection"), "crashed"),
        (ExecutionResponse(permission_required=PermissionRequired("edit")), "rejected"),
    ],
    ids=["failed", "mapping", "raises", "permission"],
)
def test_what_attaching_returns_is_not_trusted(response, kind):
    """A required permission is no run, so that the call is asked about."""

    class Odd(Forgetful):
        async def attach(self, key):
            if isinstance(response, Exception):
                raise response
            return response

    assert dispatched(make_registry(Odd()), approver=asking([], Reject())).kind == kind
