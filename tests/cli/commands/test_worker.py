"""`registry worker`: runs calls that an executor brings until it is stopped, and lists workers."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

from pegboard import Injected, Permissions, Rule, ToolContext, tool
from pegboard.errors import DefinitionError
from pegboard.execution import ExecutionRequest
from pegboard.worker import ExecutorStatus, RemoteCaller, WorkerInfo, read_response


class Key:
    """A service."""

    text = "of the worker"


@tool(destructive=True, executor="far", queue="gpu")
async def train(key: Injected[Key], context: ToolContext) -> str:
    """Trains a model."""
    return key.text


@tool(executor="other")
def count(text: str) -> int:
    """Counts letters."""
    return len(text)


class Far:
    """Executor whose worker gets these calls, and SIGTERM with the first."""

    def __init__(self, *calls):
        self.calls, self.worker, self.responses = calls, None, []

    async def execute_tool(self, call):
        raise NotImplementedError

    async def serve(self, worker):
        self.worker = worker
        running = [asyncio.ensure_future(self.run(*call)) for call in self.calls]
        worker.started.set()
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await worker.stopping.wait()
        self.responses = [(each.kind, each.output) for each in await asyncio.gather(*running)]

    async def run(self, name, arguments):
        request = json.dumps(ExecutionRequest(tool=name, arguments=arguments).to_json()).encode()
        return read_response(await self.worker.run(request, RemoteCaller()))

    async def status(self):
        running = {"toolu_1": "train"}
        worker = WorkerInfo(name="host-1", queue="gpu", max_concurrency=4, running=running)
        return ExecutorStatus(workers=(worker, WorkerInfo(name="host-2")), queues={"gpu": 3, "default": None})


@pytest.fixture
def far(registry):
    """Registers the tools and an executor."""

    def far(*calls):
        executor = Far(*calls)
        registry.provide(Key, Key())
        registry.register(train, count)
        registry.add("executors", "far", executor)
        return executor

    return far


def test_calls_run_with_the_registrys_services_until_sigterm_and_then_it_ends(run, far):
    executor = far(("train", {}))
    code, out, err = run("worker", "--executor", "far", "--queue", "gpu", "--max-concurrency", "3")
    assert (code, out, executor.responses) == (0, "", [(None, "of the worker")])
    assert "runs calls of 2 tools, queue gpu, at most 3 at once" in err
    assert (executor.worker.queue, executor.worker.max_concurrency) == ("gpu", 3)


def test_a_tool_of_another_executor_runs_there(run, far, registry):
    class Other:
        async def execute(self, request):
            raise DefinitionError("reached")

    registry.add("executors", "other", Other())
    executor = far(("count", {"text": "abc"}))
    run("worker", "--executor", "far")
    assert [kind for kind, _ in executor.responses] == ["crashed"]


def test_an_executor_of_a_tool_that_is_missing_is_named(run, far):
    executor = far(("count", {"text": "abc"}))
    code, _, _ = run("worker", "--executor", "far")
    assert code == 0
    assert executor.responses[0][0] == "not_executed"


def test_only_the_tools_asked_for_can_be_called(run, far):
    executor = far(("train", {}), ("count", {"text": "abc"}))
    _, _, err = run("worker", "--executor", "far", "-T", "train")
    assert "calls of 1 tool," in err
    assert [kind for kind, _ in executor.responses] == [None, "not_executed"]
    executor.calls = executor.calls[:1]
    _, _, err = run("worker", "--executor", "far", "--where", "not destructive")
    assert "calls of 1 tool," in err
    assert executor.responses == [("not_executed", executor.responses[0][1])]


def test_rules_deny_what_its_callers_have_approved(run, far, registry, home):
    executor = far(("train", {}), ("upper", {"text": "secret"}), ("upper", {"text": "open"}))
    registry.register(tool(name="upper")(str_upper))
    rules = (("train", "*"), ("upper", "*secret*"))
    text = "".join(f'[[rules]]\npermission = "{name}"\npattern = "{of}"\naction = "deny"\n' for name, of in rules)
    (home / "here" / "rules.toml").write_text(text.replace('"upper"', '"upper"\nfield = "text"'))
    run("worker", "--executor", "far", "--rules", "rules.toml")
    assert [kind for kind, _ in executor.responses] == ["not_executed", "denied", None]


def str_upper(text: str) -> str:
    """Makes capitals."""
    return text.upper()


def test_with_rules_about_others_a_tool_runs(run, far, registry):
    executor = far(("train", {}))
    registry.permissions = Permissions([Rule("count", "*", "deny")])
    run("worker", "--executor", "far")
    assert [kind for kind, _ in executor.responses] == [None]


def test_the_status_lists_workers_queues_and_running_calls(run, far):
    far()
    code, out, _ = run("worker", "--executor", "far", "--status")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    for row in (["host-1", "gpu", "1", "of", "4"], ["host-2", "default", "0", "of", "?"]):
        assert row in lines
    for row in (["gpu", "3"], ["default", "?"], ["toolu_1", "train", "host-1"]):
        assert row in lines
    _, out, _ = run("worker", "--executor", "far", "--status", "--json")
    found = json.loads(out)
    assert found["queues"] == {"gpu": 3, "default": None}
    assert found["workers"][0]["running"] == {"toolu_1": "train"}


def test_the_status_of_nothing_says_so(run, far):
    executor = far()

    async def nothing():
        return ExecutorStatus()

    executor.status = nothing
    assert run("worker", "--executor", "far", "--status")[1] == "no worker\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--executor", "fra"], "fra"),
        (["--executor", "far", "--queue", "a b"], "queue must be 1 to 64 of"),
        (["--executor", "far", "--queue", ".."], "queue must be 1 to 64 of"),
        (["--executor", "far", "--queue", ""], "queue must be 1 to 64 of"),
        (["--executor", "far", "--max-concurrency", "0"], "--max-concurrency"),
        (["--executor", "far", "--json"], "--json is for --status"),
        (["--executor", "loop"], "it runs tools in the program that calls them"),
        (["--executor", "bare"], "has no workers: it runs tools itself"),
        (["--executor", "bare", "--status"], "doesn't tell what its workers do"),
        ([], "--executor"),
    ],
)
def test_a_misuse_is_named(run, far, registry, words, message):
    class Bare:
        async def execute(self, request):
            raise NotImplementedError

    far()
    registry.add("executors", "bare", Bare())
    code, out, err = run("worker", *words)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("option", [(), ("--status",)])
def test_an_executor_that_fails_is_named_with_the_cause(run, far, option):
    executor = far()

    async def fail(*_):
        raise ConnectionError("the server is gone")

    executor.serve = executor.status = fail
    code, _, err = run("worker", "--executor", "far", *option)
    assert code == 1
    assert "the executor 'far' failed" in err
    assert "the server is gone" in err


def test_a_status_that_never_comes_ends_the_command(run, far, monkeypatch):
    executor = far()

    async def never():
        await asyncio.Event().wait()

    executor.status = never
    monkeypatch.setattr("pegboard.cli.commands.worker._STATUS_SECONDS", 0.01)
    code, _, err = run("worker", "--executor", "far", "--status")
    assert (code, "gave no status within" in err) == (1, True)


def test_what_still_runs_is_waited_for(run, far):
    executor, went = far(), []

    async def serve(worker):
        worker.running[1] = ExecutionRequest(tool="train")
        os.kill(os.getpid(), signal.SIGTERM)
        await worker.stopping.wait()
        went.append(worker.name)

    executor.serve = serve
    _, _, err = run("worker", "--executor", "far")
    assert "Waiting for 1 call." in err
    assert len(went) == 1
