from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from functools import partial

import pytest
from hypothesis import given, strategies as st

from pegboard import (
    Always,
    Concurrency,
    Later,
    Limits,
    Once,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    tool,
)
from pegboard.approval import ask_later
from pegboard.errors import FatalToolError
from pegboard.events import CallEnded, CallRunning


def calls(*names, **arguments):
    return [ToolCall(name, arguments, f"call-{number}") for number, name in enumerate(names)]


def dispatched(registry, made, **options):
    return asyncio.run(registry.dispatch(made, **options))


def kinds(outcome):
    return [result.kind for result in outcome.results]


def test_the_only_call_of_a_batch_runs_in_a_task_of_its_own():
    """What its tool sets in context variables doesn't reach the code that awaits the batch."""
    registry, user, tasks = ToolRegistry(), ContextVar("user", default="nobody"), []

    @tool
    async def log_in(name: str) -> str:
        """Set the user."""
        user.set(name)
        tasks.append(asyncio.current_task())
        return user.get()

    async def use():
        outcome = await registry.dispatch([ToolCall("log_in", {"name": "ada"}, "1")])
        return outcome.results[0].text, user.get(), asyncio.current_task()

    registry.register(log_in)
    text, seen, task = asyncio.run(use())
    assert (text, seen) == ("ada", "nobody")
    assert tasks != [task]


class Stage:
    """Tools whose start and end the test controls."""

    def __init__(self):
        self.started = []
        self.ended = []
        self.go = asyncio.Event()

    def registry(self, **options):
        registry = ToolRegistry(**options)

        @tool
        async def held(context: ToolContext) -> str:
            """Wait for the test."""
            self.started.append(context.call_id)
            await self.go.wait()
            self.ended.append(context.call_id)
            return f"done {context.call_id}"

        @tool
        async def quick(context: ToolContext) -> str:
            """Return at once."""
            self.started.append(context.call_id)
            return f"quick {context.call_id}"

        registry.register(held, quick)
        return registry


async def until(condition):
    """Lets other tasks run until a condition holds, up to a limit."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never held")


@tool
async def echo(text: str = "") -> str:
    """Return the text."""
    return text


@tool
async def broken() -> str:
    """Fail."""
    raise RuntimeError("secret")


@tool
async def last() -> str:
    """End the turn."""
    raise FatalToolError("no more")


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(echo, broken, last)
    return made


def test_results_are_in_call_order(registry):
    made = [ToolCall("echo", {"text": f"{number}"}, f"{number}") for number in range(20)]
    outcome = dispatched(registry, made)
    assert [result.text for result in outcome.results] == [f"{number}" for number in range(20)]
    assert [call.id for call, _ in outcome] == [f"{number}" for number in range(20)]


def test_a_call_that_fails_disturbs_no_other(registry):
    outcome = dispatched(registry, calls("echo", "broken", "nothing", "echo"))
    assert kinds(outcome) == [None, "tool_failure", "unknown_tool", None]
    assert outcome.is_error
    assert outcome.fatal is None


def test_the_same_id_twice_has_two_results(registry):
    made = [ToolCall("echo", {"text": "a"}, "1"), ToolCall("echo", {"text": "b"}, "1")]
    assert [result.text for result in dispatched(registry, made).results] == ["a", "b"]


def at_once(number, *, batches=1, limits=None, **options):
    """How many calls run at once, and the kinds of all results."""

    async def main():
        stage = Stage()
        registry = stage.registry(limits=limits or Limits())
        made = calls(*["held"] * number)
        running = [asyncio.ensure_future(registry.dispatch(made, **options)) for _ in range(batches)]
        await until(lambda: stage.started)
        for _ in range(100):
            await asyncio.sleep(0)
        begun = len(stage.started)
        stage.go.set()
        return begun, [kind for outcome in await asyncio.gather(*running) for kind in kinds(outcome)]

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("number", "options", "begun"),
    [
        (3, {}, 3),
        (2, {"sequential": True}, 1),
        (5, {"max_concurrency": 2}, 2),
        (2, {"batches": 2, "limits": Limits(max_concurrency=1)}, 1),
    ],
)
def test_so_many_calls_run_together(number, options, begun):
    """All calls of a turn run concurrently, unless it is sequential, or it or the registry sets a limit."""
    assert at_once(number, **options) == (begun, [None] * number * options.get("batches", 1))


def test_a_fatal_error_is_in_the_outcome_with_all_results(registry):
    """Every call still has its result."""
    outcome = dispatched(registry, calls("echo", "last", "echo"))
    assert isinstance(outcome.fatal, FatalToolError)
    assert outcome.ended == "fatal"
    assert kinds(outcome)[1] == "tool_failure"
    assert len(outcome.results) == 3


def test_what_was_not_started_is_skipped_after_something_fatal(registry):
    outcome = dispatched(registry, calls("last", "echo", "echo"), sequential=True)
    assert kinds(outcome) == ["tool_failure", "skipped", "skipped"]


def test_calls_of_an_answer_that_was_cut_off_never_run(registry):
    outcome = dispatched(registry, calls("echo", "last"), cut_off=True)
    assert kinds(outcome) == ["cut_off", "cut_off"]
    assert "cut off" in outcome.results[0].text
    assert outcome.fatal is None


def ended_early(*names, started, cancels=False, twice=False, how="abort", **options):
    """The outcome of a batch that is interrupted, or cancelled, once `started` calls have started.

    Running calls may end after that. With `twice`, it is repeated while a slow callback handles the first end.
    """

    async def main():
        stage, handling = Stage(), asyncio.Event()
        registry = stage.registry()

        async def on_error(error):
            handling.set()
            await asyncio.sleep(3600)

        if twice:
            registry.add_callback("on_tool_error", on_error)
        batch = await registry.batch(calls(*names), **options)
        running = asyncio.ensure_future(batch.run())
        await until(lambda: len(stage.started) >= started)
        end = running.cancel if cancels else partial(batch.interrupt, "the user spoke", how)
        end()
        asyncio.get_running_loop().call_soon(stage.go.set)
        if twice:
            await handling.wait()
            end()
        await asyncio.wait([running])
        assert running.cancelled() if cancels else running.result() is batch.outcome
        return batch.outcome

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        ("quick held held", {"started": 2, "how": "finish", "max_concurrency": 2}, [None, None, None]),
        ("held held", {"started": 1, "how": "skip", "max_concurrency": 1}, [None, "skipped"]),
        ("held held", {"started": 1, "max_concurrency": 1}, ["aborted", "skipped"]),
        ("held", {"started": 1, "twice": True}, ["aborted"]),
        ("held", {"started": 1, "cancels": True}, ["aborted"]),
        ("held", {"started": 1, "cancels": True, "twice": True}, ["aborted"]),
        ("quick held", {"started": 2, "cancels": True}, [None, "aborted"]),
        ("held held quick", {"started": 1, "cancels": True, "sequential": True}, ["aborted", "skipped", "skipped"]),
        ("quick held held", {"started": 3, "cancels": True, "twice": True}, [None, "aborted", "aborted"]),
    ],
)
def test_however_a_batch_is_ended_each_call_has_its_result(names, options, expected):
    """A call that waits for a slot is skipped; a second interruption, or cancelling the wait, loses no result."""
    outcome = ended_early(*names.split(), **options)
    assert kinds(outcome) == expected
    assert all("aborted after" in result.text for result in outcome.results if result.kind == "aborted")
    assert outcome.ended == ("cancelled" if options.get("cancels") else "the user spoke")


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("interrupts", [False, True])
async def test_the_callers_own_time_limit_ends_a_batch(number, interrupts):
    stage = Stage()
    batch = await stage.registry().batch(calls(*["held"] * number))

    async def run():
        async with asyncio.timeout(None) as limit:
            batch.listener = lambda event: isinstance(event, CallRunning) and limit.reschedule(0)
            await (asyncio.gather(batch.run(), until_interrupted(stage, batch)) if interrupts else batch.run())

    with pytest.raises(TimeoutError):
        await run()
    assert kinds(batch.outcome) == ["aborted"] * number


async def until_interrupted(stage, batch):
    await until(lambda: stage.started)
    batch.interrupt("the user spoke")


@pytest.mark.parametrize("number", [1, 2])
async def test_interrupting_calls_that_never_wait_leaves_their_caller_alone(registry, number):
    batch = await registry.batch(calls(*["echo"] * number))
    batch.listener = lambda event: isinstance(event, CallRunning) and batch.interrupt("the user spoke")
    outcome = await batch.run()
    await asyncio.sleep(0)
    assert outcome.results[0].kind is None
    assert asyncio.current_task().cancelling() == 0


async def test_a_batch_runs_once(registry):
    batch = await registry.batch(calls("echo"))
    await batch.run()
    with pytest.raises(RuntimeError, match="runs once"):
        await batch.run()


@pytest.mark.parametrize(("how", "expected"), [("skip", [None, "skipped", "skipped"]), ("finish", [None, None, None])])
def test_steering_between_calls_interrupts_the_batch(registry, how, expected):
    outcome = dispatched(
        registry, calls("echo", "echo", "echo"), sequential=True, steering=lambda: True, on_steering=how
    )
    assert kinds(outcome) == expected
    assert outcome.ended == "interrupted"


def test_async_steering_that_returns_nothing_interrupts_nothing(registry):
    asked = []

    async def steering():
        asked.append(True)

    outcome = dispatched(registry, calls("echo", "echo", "echo"), sequential=True, steering=steering)
    assert kinds(outcome) == [None, None, None]
    assert len(asked) == 2
    assert outcome.ended is None


def test_steering_that_raises_costs_no_call(registry, caplog):
    def steering():
        raise LookupError("the host's own fault")

    outcome = dispatched(registry, calls("echo", "echo"), steering=steering, sequential=True)
    assert kinds(outcome) == [None, None]
    assert "steering failed" in caplog.text


def streamed(registry, made, **options):
    async def main():
        return [event async for event in registry.stream(made, **options)]

    return asyncio.run(main())


def test_a_stream_yields_the_events_of_each_call(registry):
    events = streamed(registry, calls("echo", "nothing"))
    states = {index: [event.type for event in events if event.index == index] for index in (0, 1)}
    assert states == {0: ["call_pending", "call_running", "call_completed"], 1: ["call_pending", "call_refused"]}


def test_progress_partial_results_and_metadata_are_updates():
    registry = ToolRegistry()

    @registry.register
    @tool
    async def busy(context: ToolContext) -> str:
        """Tell all."""
        context.report(1, 4, "reading")
        context.emit("part")
        context.metadata(title="Reading", size=4)
        return "whole"

    events = streamed(registry, calls("busy"))
    updates = [event for event in events if event.type == "call_updated"]
    assert next((each.progress, each.total, each.message) for each in updates) == (1, 4, "reading")
    assert updates[1].content == "part"
    assert (updates[2].title, updates[2].metadata) == ("Reading", {"size": 4})
    assert events[-1].result.title == "Reading"
    assert events[-1].result.metadata["size"] == 4


async def test_leaving_a_stream_aborts_what_runs():
    stage = Stage()
    registry = stage.registry()
    batch = await registry.batch(calls("held"))
    events = batch.events()
    async for event in events:
        if isinstance(event, CallRunning):
            break
    await events.aclose()
    assert kinds(batch.outcome) == ["aborted"]


def test_what_calls_ask_for_is_merged_in_call_order():
    """Whichever ended first."""
    registry = ToolRegistry()
    order = []

    @registry.register
    @tool
    async def change(context: ToolContext, value: int) -> str:
        """Change the state; the first call ends last."""
        context.state["value"] = value
        for _ in range(0 if value else 50):
            await asyncio.sleep(0)
        order.append(value)
        return "changed"

    made = [ToolCall("change", {"value": value}, f"{value}") for value in (0, 1)]
    outcome = dispatched(registry, made, context=ReadonlyContext(state={"value": -1}))
    assert order == [1, 0]
    assert outcome.actions.state_delta == {"value": 1}
    assert outcome.actions.conflicts == ("value",)
    assert dispatched(registry, []).actions.is_empty


def test_an_outcome_is_written_by_its_results(registry):
    outcome = dispatched(registry, calls("echo", "nothing"))
    assert list(outcome.to_json()) == ["results"]
    written = outcome.to_json()["results"]
    assert [sorted(each) for each in written] == [
        ["content", "id", "isError", "name"],
        ["content", "id", "isError", "kind", "name"],
    ]
    assert (written[1]["isError"], written[1]["kind"], written[1]["id"]) == (True, "unknown_tool", "call-1")


def outer(registry, name="outer", **options):
    @tool(name=name, **options)
    async def calling(context: ToolContext, inner: str, arguments: dict[str, object]) -> str:
        """Call another tool."""
        result = await context.call(inner, arguments)
        return f"{result.kind}: {result.text}"

    registry.register(calling)


@pytest.mark.parametrize("door", ["context", "wait", "call", "dispatch", "task", "call_sync"])
def test_tools_call_tools_only_so_deep(door):
    """By their context, or by any method of a registry."""
    registry, ran = ToolRegistry(), []

    async def deeper(context: ToolContext) -> str:
        """Call itself."""
        ran.append(door)
        if door == "context":
            return (await context.call("deeper")).text
        if door == "dispatch":
            return (await registry.dispatch(calls("deeper"))).results[0].text
        if door == "task":
            return (await asyncio.create_task(registry.call("deeper"))).text
        return (await registry.call("deeper")).text

    def deeper_in_a_thread(context: ToolContext) -> str:
        """Call itself."""
        ran.append(door)
        inner = registry.call_sync("deeper") if door == "call_sync" else context.wait(registry.call("deeper"))
        return inner.text

    registry.register(
        Tool.from_function(deeper_in_a_thread if door in ("wait", "call_sync") else deeper, name="deeper")
    )
    outcome = dispatched(registry, calls("deeper"))
    assert "more than 8 deep" in outcome.results[0].text
    assert len(ran) == 9


def test_callbacks_call_tools_only_so_deep(registry):
    results = []

    async def calls_again():
        results.append((await registry.call("echo", {"text": "hi"})).kind)

    registry.add_callback("after_tool", calls_again)
    dispatched(registry, calls("echo", text="hi"))
    assert results == ["limit", *[None] * 8]


async def test_calls_one_after_the_other_or_at_once_are_no_deeper(registry):
    """A call encloses others only while it runs."""
    for _ in range(10):
        assert not (await registry.call("echo", {"text": "hi"})).is_error
    assert not any(
        result.is_error
        for result in (await asyncio.gather(*(registry.call("echo", {"text": "hi"}) for _ in range(20))))
    )


@pytest.mark.parametrize("concurrency", ["shared", "exclusive"])
def test_a_tool_that_calls_an_exclusive_one_doesnt_wait_for_itself(concurrency):
    registry = ToolRegistry()

    @registry.register
    @tool(concurrency="exclusive")
    async def alone() -> str:
        """Run alone."""
        return "alone"

    outer(registry, concurrency=concurrency)
    made = [ToolCall("outer", {"inner": "alone", "arguments": {}}, f"{number}") for number in range(2)]
    assert [each.text for each in dispatched(registry, made).results] == ["None: alone"] * 2


def locked(registry, name, keys, timeout=None):
    """A tool that locks `key`, waits until `keys` such calls have started, and calls another one."""
    begun, all_begun = [], asyncio.Event()

    @registry.register
    @tool(name=name, concurrency=Concurrency("key", ("key",)), timeout=timeout)
    async def locked(context: ToolContext, key: str, inner: str) -> str:
        """Call a tool that needs another key."""
        begun.append(key)
        if len(begun) == keys:
            all_begun.set()
        await all_begun.wait()
        result = await context.call("write", {"key": inner})
        return f"{result.kind}: {result.text}"

    @registry.register
    @tool(concurrency=Concurrency("key", ("key",)), timeout=0.05)
    async def write(key: str) -> str:
        """Write."""
        return f"wrote {key}"


def test_calls_that_wait_for_each_other_end_with_their_time_limits():
    registry = ToolRegistry()
    locked(registry, "outer", 2)
    made = [ToolCall("outer", {"key": one, "inner": other}, one) for one, other in ("ab", "ba")]
    texts = [result.text for result in dispatched(registry, made).results]
    refused = "timeout: write was not run: it waited 0.05 s for conflicting calls to end. Try again later."
    assert refused in texts
    assert set(texts) <= {refused, "None: wrote a", "None: wrote b"}
    assert registry._get_dispatcher().runtime.locks.is_idle


def test_a_call_waits_for_others_no_longer_than_its_time_limit(registry):
    ended = asyncio.Event()

    @registry.register
    @tool(concurrency="exclusive")
    async def slow() -> str:
        """Take its time."""
        await ended.wait()
        return "done"

    @registry.register
    @tool(timeout=0.05)
    async def hasty() -> str:
        """Be quick."""
        return "done"

    listener = lambda event: ended.set() if isinstance(event, CallEnded) else None  # noqa: E731
    assert kinds(dispatched(registry, calls("slow", "hasty"), listener=listener)) == [None, "timeout"]


@pytest.mark.parametrize("asks", ["asked", "asking"])
@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("is_late", [True, False])
def test_no_call_overtakes_one_that_waits_for_a_person(sequential, is_late, asks):
    ran = []

    async def approver(request, context):
        await asyncio.sleep(0.05)
        return Later() if is_late else Once()

    registry = ToolRegistry(approver=approver)

    @registry.register
    @tool(concurrency=Concurrency("key", ("key",)), requires_confirmation=True)
    async def asked(key: str) -> None:
        """Ask first."""
        ran.append("asked")

    @registry.register
    @tool(concurrency=Concurrency("key", ("key",)))
    async def asking(key: str, context: ToolContext) -> None:
        """Ask while running."""
        await context.ask("writing")
        ran.append("asking")

    @registry.register
    @tool(concurrency=Concurrency("key", ("key",)))
    async def unasked(key: str) -> None:
        """Write at once."""
        ran.append("unasked")

    outcome = dispatched(registry, calls(asks, "unasked", key="a"), sequential=sequential)
    assert ran == ([] if is_late else [asks, "unasked"])
    assert kinds(outcome) == (["confirmation_required", "skipped"] if is_late else [None, None])


def test_something_fatal_in_an_inner_call_ends_the_turn(registry):
    outer(registry)
    outcome = dispatched(registry, [ToolCall("outer", {"inner": "last", "arguments": {}}, "1")])
    assert isinstance(outcome.fatal, FatalToolError)


def test_a_plain_tool_calls_others_by_waiting(registry):
    @registry.register
    @tool
    def plain(context: ToolContext) -> str:
        """Call another tool from a thread."""
        return context.wait(context.call("echo", {"text": "from a thread"})).text

    assert dispatched(registry, calls("plain")).results[0].text == "from a thread"


def test_what_an_inner_call_changes_is_its_callers_doing():
    registry = ToolRegistry()

    @registry.register
    @tool
    async def inner(context: ToolContext) -> str:
        """Change the state."""
        context.state["seen"] = True
        return "changed"

    @registry.register
    @tool
    async def caller(context: ToolContext) -> bool:
        """See what it changed."""
        await context.call("inner")
        return bool(context.state["seen"])

    outcome = dispatched(registry, calls("caller"))
    assert outcome.results[0].structured_content == {"result": True}
    assert outcome.actions.state_delta == {"seen": True}


def test_a_listener_cannot_change_approved_arguments():
    """It gets the arguments after the approval and before the tool."""
    ran = []

    @tool(destructive=True)
    async def remove(paths: list[str]) -> str:
        """Remove files."""
        ran.append(paths)
        return "removed"

    async def yes(request, context):
        return Once()

    def listener(event):
        if isinstance(event, CallRunning):
            event.arguments["paths"].append("/etc")

    registry = ToolRegistry(approver=yes)
    registry.register(remove)
    outcome = dispatched(registry, [ToolCall("remove", {"paths": ["a"]}, "1")], listener=listener)
    assert outcome.results[0].text == "removed"
    assert ran == [["a"]]


def test_a_listener_that_raises_costs_no_call(registry, caplog):
    def listener(event):
        raise BrokenPipeError

    outcome = dispatched(registry, calls("echo", "echo"), listener=listener)
    assert kinds(outcome) == [None, None]
    assert caplog.text.count("the listener of a batch") == 1


def test_no_attempt_sees_what_an_earlier_one_did_to_its_arguments():
    registry, seen = ToolRegistry(), []

    @registry.register
    @tool(idempotent=True, retries=2)
    async def spoils(paths: list[str]) -> str:
        """Spoil the arguments."""
        paths.append("evil")
        seen.append(list(paths))
        if len(seen) < 3:
            raise ToolError("again", retryable=True)
        return "done"

    events = streamed(registry, [ToolCall("spoils", {"paths": ["a"]}, "1")])
    assert events[-1].result.text == "done"
    assert any("retry 1" in (getattr(event, "note", None) or "") for event in events)
    assert seen == [["a", "evil"]] * 3


@pytest.mark.parametrize("sequential", [True, False])
async def test_steering_that_hangs_holds_up_no_batch_that_is_interrupted(registry, sequential):
    asked = asyncio.Event()

    async def steering():
        asked.set()
        await asyncio.Event().wait()

    stage = Stage()
    registry = stage.registry()
    names = ["quick", "quick"] if sequential else ["quick", "held"]
    batch = await registry.batch(calls(*names), steering=steering, sequential=sequential)
    running = asyncio.ensure_future(batch.run())
    await asked.wait()
    batch.interrupt()
    assert kinds(await running)[0] is None


async def test_a_cancelled_call_closes_its_services_and_runs_after_callbacks():
    closed, kinds = [], []

    class Database:
        pass

    async def database():
        try:
            yield Database()
        finally:
            closed.append(True)

    registry = ToolRegistry()
    registry.provide(Database, database)
    started = asyncio.Event()

    @registry.register
    @tool
    async def query(context: ToolContext) -> str:
        """Use the database forever."""
        await context.use(Database)
        started.set()
        await asyncio.Event().wait()
        return "never"

    registry.add_callback("after_tool", lambda result: kinds.append(result.kind))
    running = asyncio.ensure_future(registry.call("query"))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert closed == [True]
    assert kinds == ["aborted"]


async def test_permissions_that_change_while_calls_are_prepared_hold_from_then_on(registry, monkeypatch):
    """By another thread, in the middle of it."""
    await registry.call("echo")
    dispatcher = type(registry._dispatcher)
    prepare = dispatcher.prepare
    changing = threading.Thread(target=setattr, args=(registry, "permissions", Permissions([Rule("*", "*", "deny")])))

    def slow(self, *facts):
        made = prepare(self, *facts)
        monkeypatch.undo()
        changing.start()
        return made

    monkeypatch.setattr(dispatcher, "prepare", slow)
    registry.permissions = None
    await registry.call("echo")
    changing.join()
    assert (await registry.call("echo")).kind == "denied"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"time_out": 1}, TypeError),
        *((each, ValueError) for each in ({"timeout": float("nan")}, {"timeout": 0}, {"timeout": "1"})),
        ({"on_steering": "stop"}, ValueError),
    ],
)
def test_options_that_cant_be_meant_are_refused(registry, options, error):
    with pytest.raises(error):
        dispatched(registry, [], **options)


def test_an_object_that_is_not_a_call_is_refused_with_a_hint(registry):
    with pytest.raises(TypeError, match=r"registry\.parse"):
        dispatched(registry, [{"name": "echo"}])


def test_a_nested_call_is_denied_if_its_approval_comes_later():
    registry = ToolRegistry(approver=ask_later)

    @registry.register
    @tool(destructive=True)
    async def wipe() -> str:
        """Ask before."""
        return "wiped"

    outer(registry)
    outcome = dispatched(registry, [ToolCall("outer", {"inner": "wipe", "arguments": {}}, "1")])
    assert outcome.results[0].text.startswith("denied: wipe was not run: its approval comes later")
    assert len(outcome.pending) == 0


NAMES = ("share", "alone", "write", "read", "wipe", "fail", "end", "nest", "plain", "unknown", "share!")
CALLS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from("ab")), max_size=8)
ANSWERS = st.lists(st.sampled_from([Once(), Always(), Reject(), Reject("no"), Later(), None]), max_size=8)
INTERRUPTIONS = st.none() | st.tuples(st.integers(0, 12), st.sampled_from(["abort", "skip", "finish"]))


class Host:
    """A registry whose tools record how they run, and an approver that answers from a list."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.allowed = 0
        self.wiped = 0
        self.running = []
        self.registry = ToolRegistry(approver=self.approve)
        self.registry.register(*self.tools())

    async def approve(self, request, context):
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if self.answers else Once()
        if isinstance(answer, Once):
            self.allowed += 1
        return answer

    def tools(self):
        async def step(steps=2):
            for _ in range(steps):
                await asyncio.sleep(0)

        def holding(name, excludes, **options):
            """A tool that runs for a while, and must not overlap with those that it excludes."""

            async def hold(key: str) -> str:
                """Run for a while."""
                assert not any(excludes(other, key == its) for other, its in self.running)
                self.running.append((name, key))
                try:
                    await step()
                finally:
                    self.running.remove((name, key))
                return key

            return Tool.from_function(hold, name=name, **options)

        by_key = Concurrency("key", ("key",))
        share = holding("share", lambda other, _: other == "alone")
        alone = holding("alone", lambda *_: True, concurrency="exclusive")
        write = holding(
            "write", lambda other, same: other == "alone" or (same and other != "share"), concurrency=by_key
        )
        reads = Concurrency("key", ("key",), "read")
        read = holding("read", lambda other, same: other == "alone" or (same and other == "write"), concurrency=reads)

        @tool(destructive=True)
        async def wipe(key: str) -> str:
            """Ask before."""
            self.wiped += 1
            return key

        @tool
        async def fail(key: str) -> str:
            """Fail."""
            raise ToolError("no")

        @tool
        async def end(key: str) -> str:
            """End the turn."""
            raise FatalToolError("no more")

        @tool
        async def nest(context: ToolContext, key: str) -> str:
            """Call others."""
            await context.call("write", {"key": key})
            return (await context.call("alone", {"key": key})).text

        @tool(blocking=False)
        def plain(key: str) -> str:
            """Run at once."""
            return key

        return share, alone, write, read, wipe, fail, end, nest, plain


async def run(host, made, interruption, options):
    events = []
    batch = await host.registry.batch(made, listener=events.append, **options)
    running = asyncio.ensure_future(batch.run())
    if interruption is not None:
        turns, how = interruption
        for _ in range(turns):
            await asyncio.sleep(0)
        batch.interrupt("spoken", how)
    outcome = await running
    await host.registry.aclose()
    return outcome, events


@pytest.mark.slow
@given(CALLS, ANSWERS, INTERRUPTIONS, st.booleans(), st.none() | st.integers(1, 3))
def test_the_laws_of_a_batch(calls, answers, interruption, sequential, most):
    made = [ToolCall(name, {"key": key}, f"{number}") for number, (name, key) in enumerate(calls)]
    host = Host(answers)
    locks = host.registry._get_dispatcher().runtime.locks
    approvals = host.registry._get_dispatcher().runtime.approvals
    options = {"sequential": sequential, "max_concurrency": most}

    outcome, events = asyncio.run(run(host, made, interruption, options))

    assert [call.id for call in outcome.calls] == [call.id for call in made]
    assert len(outcome.results) == len(made)
    ends = [event.call_id for event in events if isinstance(event, CallEnded) and "/" not in event.call_id]
    assert sorted(ends) == sorted(call.id for call in made), "each call ends once"
    assert not any("AssertionError" in result.text for result in outcome.results), "the tools saw no breach"
    assert locks.is_idle
    assert approvals._entries == {}
    granted = any(isinstance(answer, Always) for answer in answers)
    assert host.wiped <= host.allowed or granted, "no run without a yes, and none of them used twice"
    assert len(outcome.pending) == sum(result.kind == "confirmation_required" for result in outcome.results)
    assert (outcome.fatal is not None) == any(
        name == "end" and result.kind == "tool_failure"
        for (name, _), result in zip(calls, outcome.results, strict=True)
    )


def interrupt():
    raise KeyboardInterrupt


async def interrupt_later():
    await asyncio.sleep(0)
    raise KeyboardInterrupt


def interrupt_after_an_item() -> list[int]:
    yield 1
    raise KeyboardInterrupt


async def interrupt_in_the_background(context: ToolContext) -> None:
    context.background(interrupt_later())


@pytest.mark.parametrize("function", [interrupt, interrupt_later, interrupt_after_an_item, interrupt_in_the_background])
@pytest.mark.parametrize("facts", [{}, {"blocking": False}, {"concurrency": "exclusive"}])
async def test_a_keyboard_interrupt_of_a_tool_doesnt_end_the_host(registry, function, facts):
    """Ctrl-C reaches the main thread as a signal, not a tool."""
    registry.register(Tool.from_function(function, name="odd", **facts))
    outcome = await registry.dispatch([*calls("odd"), ToolCall("echo", {"text": "hi"}, "other")])
    await registry.aclose()
    assert outcome.results[1].text == "hi"


@pytest.mark.parametrize("function", [interrupt, interrupt_later])
@pytest.mark.parametrize("stage", ["before_tool", "after_tool", "on_tool_error", "wrap_tool", "observe"])
async def test_a_keyboard_interrupt_of_a_callback_doesnt_end_the_host(registry, function, stage):
    registry.add_callback(stage, function)
    outcome = await registry.dispatch([*calls("echo"), *calls("nowhere")])
    await registry.aclose()
    assert len(outcome.results) == 2


def answered(pending, *call_ids, answer=None):
    return {each.id: answer or Once() for each in pending if each.call.id in call_ids}


@pytest.mark.parametrize(
    ("concurrency", "options", "waits"),
    [
        ("shared", {}, False),
        ("exclusive", {}, True),
        (Concurrency("key", key=("path",)), {}, True),
        (Concurrency("key", key=("number",)), {}, False),
        ("shared", {"sequential": True}, True),
    ],
)
async def test_a_call_overtakes_no_earlier_one_that_still_waits_for_its_answer(concurrency, options, waits):
    """Its answer is ignored, and has to be given again after the other."""
    registry, ran = ToolRegistry(approver=ask_later), []

    @registry.register
    @tool(requires_confirmation=True, concurrency=concurrency)
    async def write(path: str, number: int) -> None:
        """Write."""
        ran.append(number)

    made = [ToolCall("write", {"path": "a", "number": number}, f"{number}") for number in (1, 2)]
    pending = (await registry.dispatch(made)).pending
    first = await registry.resume(pending, answered(pending, "2"), **options)
    second = await registry.resume(first.pending, answered(first.pending, "1", "2"), **options)
    assert ([*first.ignored] == [*answered(pending, "2")], len(second.pending)) == (waits, 0)
    assert ran == ([1, 2] if waits else [2, 1])


async def test_a_call_that_is_rejected_waits_for_no_other():
    registry = ToolRegistry(approver=ask_later)

    @registry.register
    @tool(requires_confirmation=True, concurrency="exclusive")
    async def write() -> None:
        """Write."""

    pending = (await registry.dispatch(calls("write", "write"))).pending
    outcome = await registry.resume(pending, answered(pending, "call-1", answer=Reject("no")))
    assert (kinds(outcome), outcome.ignored, len(outcome.pending)) == (["rejected"], (), 1)
