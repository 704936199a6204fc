"""A worker that runs tools for a caller elsewhere: events, questions and answers go over a wire as JSON."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest
from attrs import frozen

from pegboard import (
    Artifacts,
    CallError,
    Injected,
    Limits,
    Memory,
    Once,
    Permissions,
    Policy,
    Progress,
    ReadonlyContext,
    Reject,
    Rule,
    TextContent,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    tool,
    tool_of,
)
from pegboard.approval import RefusedError, ask_later
from pegboard.errors import FatalToolError, RunningLoopError
from pegboard.execution import (
    CallerHost,
    ExecutionRequest,
    LocalExecutor,
    error_from_json,
    error_to_json,
)
from pegboard.tools.handler import LazyHandler
from pegboard.worker import RemoteCaller, SentCall, Worker

ANN = ReadonlyContext(user="ann", session="s")


@frozen
class Key:
    """A service of the worker's."""

    text: str


class Adapter:
    """Executor that sends calls to a worker, which is in this process."""

    def __init__(self, worker):
        self.worker, self.sent = Worker(worker), 0

    async def execute_tool(self, call):
        self.sent += 1
        sent = SentCall(call)

        async def tell(events):
            for event in events:
                await sent.handle(event)

        answer = await self.worker.run(sent.request, RemoteCaller(tell=tell, ask=sent.handle))
        return sent.response(answer)


@pytest.fixture
def connect():
    """Makes a registry whose tools run in a worker."""
    workers = []

    def connect(*functions, approver=None, rules=(), limits=None, **options):
        tools = [tool_of(function) for function in functions]
        workers.append(LocalExecutor(tools, **options))
        registry = ToolRegistry(approver=approver, permissions=Permissions(rules), limits=limits or Limits())
        registry.register(*(made.evolve(policy=Policy(executor="far", timeout=made.policy.timeout)) for made in tools))
        registry.add("executors", "far", Adapter(workers[-1]))
        return registry

    yield connect
    for worker in workers:
        asyncio.run(worker.aclose())


def saying(*answers):
    """An approver with these answers; the last repeats."""
    left, asked = list(answers), []

    async def approver(request, context):
        asked.append(request.permission)
        return left.pop(0) if len(left) > 1 else left[0]

    approver.asked = asked
    return approver


STARTED = []


@pytest.fixture(autouse=True)
def started():
    STARTED.clear()


@tool
async def fetch(context: ToolContext, url: str) -> str:
    """Fetches a page, after an effect."""
    STARTED.append(url)
    await context.ask("net", [url])
    answer = await context.request_confirmation("Really?")
    return f"fetched {url}: {answer.confirmed} {answer.feedback or ''}".strip()


@tool
def fetch_plainly(context: ToolContext, url: str) -> str:
    """Fetches a page, in a thread."""
    STARTED.append(url)
    context.wait(context.ask("net", [url]))
    return f"fetched {url}: {context.wait(context.request_confirmation('Really?')).confirmed}"


@pytest.mark.parametrize("function", [fetch, fetch_plainly])
async def test_a_tool_that_asks_is_started_once(connect, function):
    approver = saying(Once(), Once())
    registry = connect(function, approver=approver)
    result = await registry.call(function.__name__, {"url": "a"}, ANN)
    assert result.text == "fetched a: True"
    assert (STARTED, approver.asked) == (["a"], ["net", "confirmation"])


async def test_a_rejection_reaches_the_tool_with_its_words(connect):
    registry = connect(fetch, approver=saying(Once(), Reject("not now")))
    assert (await registry.call("fetch", {"url": "a"}, ANN)).text == "fetched a: False not now"
    registry = connect(fetch, approver=saying(Reject("never")))
    result = await registry.call("fetch", {"url": "a"}, ANN)
    assert (result.kind, "never" in result.text) == ("rejected", True)


async def test_a_tool_may_go_on_without_a_permission(connect):
    @tool
    async def careful(context: ToolContext) -> str:
        """Asks, and goes on without."""
        try:
            await context.ask("net")
        except ToolError as error:
            return f"offline: {type(error).__name__} {error.kind}"
        return "online"

    registry = connect(careful, rules=[Rule("net", "*", "deny")])
    assert (await registry.call("careful", {}, ANN)).text == "offline: RefusedError denied"


async def test_an_answer_that_comes_later_starts_the_tool_again_with_it(connect):
    registry, calls = connect(fetch), [ToolCall("fetch", {"url": "a"}, "toolu_1")]
    outcome = await registry.dispatch(calls, context=ANN, approver=ask_later)
    for _ in range(2):
        assert outcome.results[0].kind == "confirmation_required"
        answers = {each.id: Once() for each in outcome.pending}
        outcome = await registry.resume(outcome.pending, answers, context=ANN, approver=ask_later)
    assert outcome.results[0].text == "fetched a: True"


async def test_the_callers_rules_and_those_of_the_worker_both_decide(connect):
    def allowed(mine, far):
        registry = connect(look, rules=mine, permissions=Permissions(far))
        return registry.call("look", {"paths": ["a", "b.env", "c.key"]}, ANN)

    @tool
    def look(context: ToolContext, paths: list[str]) -> list[str]:
        """The paths that the rules allow."""
        names = context.allowed_names("read", ".", paths)
        return [path for path in paths if context.allows("read", path) and path in names]

    denies = [Rule("read", "*.env", "deny")], [Rule("read", "*.key", "deny")]
    assert (await allowed(*denies)).structured_content == {"result": ["a"]}
    assert (await allowed((), ())).structured_content == {"result": ["a", "b.env", "c.key"]}
    registry = connect(fetch, approver=saying(Once()), permissions=Permissions([Rule("net", "*", "deny")]))
    assert (await registry.call("fetch", {"url": "a"}, ANN)).kind == "denied"


@tool(destructive=True)
def wipe() -> str:
    """Wipes everything."""
    STARTED.append("wipe")
    return "wiped"


@pytest.mark.parametrize(
    ("answers", "text", "asked"),
    [
        ([Once()], "wiped", 2),
        ([Reject("no")], "The user rejected this call of wipe: no", 1),
        ([Once(), Reject("no")], "The user rejected this call of wipe: no", 2),
    ],
)
async def test_what_the_workers_rules_ask_about_a_call_is_asked_of_the_callers_user(connect, answers, text, asked):
    registry = connect(wipe, approver=(approver := saying(*answers)))
    assert (await registry.call("wipe", {}, ANN)).text == text
    assert (len(approver.asked), STARTED) == (asked, ["wipe"] * (text == "wiped"))


async def test_a_worker_that_trusts_its_callers_approvals_asks_nothing(connect):
    registry = connect(wipe, approver=(approver := saying(Once())), permissions=Permissions(mode="bypass"))
    assert (await registry.call("wipe", {}, ANN)).text == "wiped"
    assert len(approver.asked) == 1


async def test_progress_arrives_in_order_while_the_tool_runs(connect):
    seen, arrived = [], threading.Event()

    @tool
    def count(context: ToolContext) -> str:
        """Counts."""
        for number in range(1, 9):
            context.report(number)
        context.metadata("Counted", last=8)
        return "in time" if arrived.wait(60) else "late"

    def listener(emitted):
        seen.append(emitted)
        if len(seen) == 9:
            arrived.set()

    registry = connect(count)
    result = await registry.call("count", {}, ToolContext(ANN, listener=listener))
    assert (result.text, result.title) == ("in time", "Counted")
    assert seen[:8] == [Progress(number) for number in range(1, 9)]


async def test_nested_calls_memory_and_artifacts_are_the_callers_and_a_service_the_workers(connect):
    @tool
    async def work(context: ToolContext, key: Injected[Key]) -> str:
        """Uses everything."""
        versions = [await context.artifacts.save("a.txt", text) for text in ("one", "two")]
        loaded = await context.artifacts.load("a.txt")
        await context.artifacts.delete("b.txt")
        await context.memory.add("likes tea", metadata={"n": 1})
        (entry,) = await context.memory.search("tea", session_only=True)
        where, names = await context.call("where"), await context.artifacts.list()
        return f"{versions} {loaded.text} {names} {entry.text} {entry.user} {where.text} {key.text}"

    registry = connect(work, services={Key: Key("secret")})
    registry.register(Tool.from_function(lambda: "here", name="where"))
    await registry.call("work", {}, ANN)
    result = await registry.call("work", {}, ReadonlyContext(user="bob", session="t"))
    assert result.text == "[1, 2] two ('a.txt',) likes tea bob here secret"
    context = ToolContext(ANN, services=registry.services)
    assert await context.artifacts.load("a.txt") == TextContent("two"), "the caller has it"


async def test_importing_a_tool_is_outside_of_its_time_limit():
    def load():
        time.sleep(0.2)
        return made

    made = Tool.from_function(lambda: "here", name="where", timeout=0.05)
    worker = LocalExecutor([made.evolve(handler=LazyHandler(load))])
    assert (await worker.execute(ExecutionRequest(tool="where", timeout=0.05))).output == "here"
    await worker.aclose()


async def test_a_persons_time_does_not_count(connect):
    @tool(timeout=0.2)
    async def patient(context: ToolContext) -> str:
        """Asks."""
        await context.request_confirmation("Really?")
        return f"{0 < context.remaining <= 0.2}"

    async def slow(request, context):
        await asyncio.sleep(0.5)
        return Once()

    assert (await connect(patient, approver=slow).call("patient", {}, ANN)).text == "True"


@pytest.mark.parametrize("ending", ["timeout", "cancelled"])
async def test_a_tool_is_told_that_its_call_has_ended(connect, ending):
    begun, told = asyncio.Event(), asyncio.Event()

    @tool(timeout=0.05 if ending == "timeout" else 60)
    async def endless() -> None:
        """Never ends."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    task = asyncio.ensure_future(connect(endless).call("endless", {}, ANN))
    await begun.wait()
    if ending == "timeout":
        assert (await task).kind == "timeout"
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await told.wait()


async def test_what_only_a_registry_can_do_is_refused(connect):
    @tool
    async def demand(context: ToolContext) -> list[str]:
        """Demands it."""

        async def work():
            raise AssertionError("never")

        texts = []
        for method in (lambda: context.background(work()), context.inherited, lambda: context.suspend("Really?")):
            with pytest.raises(LookupError, match="executor='thread'") as caught:
                method()
            texts.append(str(caught.value).partition(";")[0])
        with pytest.raises(RunningLoopError):
            context.allows("read", "a")
        return texts

    result = await connect(demand).call("demand", {}, ANN)
    assert result.structured_content["result"] == [
        "a tool that runs elsewhere can't run background work",
        "a tool that runs elsewhere can't run turns of its caller",
        "a tool that runs elsewhere can't wait for an answer (Really?)",
    ]


async def test_a_caller_that_fails_ends_the_call(connect):
    class Gone:
        def emit(self, event):
            raise AssertionError("never")

        async def answer(self, question, given):
            raise ConnectionError("gone")

    worker = LocalExecutor([wipe, fetch], permissions=Permissions([Rule("wipe", "*", "ask")]))
    with pytest.raises(ConnectionError):
        await worker.execute(ExecutionRequest(tool="wipe"), Gone())
    response = await worker.execute(ExecutionRequest(tool="fetch", arguments={"url": "a"}), Gone())
    assert (response.kind, response.error) == ("tool_failure", "fetch failed: ConnectionError.")
    await worker.aclose()


async def test_the_time_of_a_question_is_added_to_the_deadline_of_a_context_without_a_registry():
    class Slow:
        async def answer(self, question, given):
            await asyncio.sleep(0.05)

    host = CallerHost(Slow())
    context = ExecutionRequest(tool="fetch").context(host=host, services=host.services, deadline=100.0)
    await context.ask("net")
    assert context.deadline >= 100.05
    assert (context.provides(Memory), context.provides(Artifacts)) == (True, True)


@pytest.mark.parametrize(
    "error",
    [
        RefusedError("denied", "no"),
        CallError("limit", "too much"),
        ToolError("busy", retryable=True, hint="wait"),
        FatalToolError("over"),
        LookupError("nothing"),
        RuntimeError("the host failed: KeyboardInterrupt"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_keeps_its_type_and_text_over_the_wire(error):
    again = error_from_json(json.loads(json.dumps(error_to_json(error))))
    assert type(again) is type(error)
    names = ("kind", "text", "retryable", "hint")
    assert [getattr(again, name, None) for name in names] == [getattr(error, name, None) for name in names]


def test_the_text_of_another_error_is_not_sent():
    assert "secret" not in str(error_to_json(ValueError("secret")))


@pytest.mark.parametrize("data", [{}, {"type": "call"}, {"type": []}, "text"])
def test_an_error_that_cant_be_read_is_still_an_error(data):
    assert isinstance(error_from_json(data), RuntimeError)
