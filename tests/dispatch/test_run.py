from __future__ import annotations

import asyncio
import threading
import time

import pytest

from pegboard import (
    CallError,
    Limits,
    Origin,
    Permissions,
    Policy,
    Progress,
    Rule,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    tool,
)
from pegboard.callbacks import CallableKind
from pegboard.dispatch.run import FIRST_PAUSE, LONGEST_PAUSE
from pegboard.dispatch.stages import run_call
from pegboard.errors import FatalToolError, ToolError
from pegboard.json import StructureError
from pegboard.tools import HOST, Handler

PATIENCE = 60  # seconds; only a broken test waits so long
TINY = Limits(timeout=0.001)


async def never():
    await asyncio.Event().wait()


def generating(*items, returns=None):
    def tool():
        yield from items
        return returns

    return tool


def async_generating(*items):
    async def tool():
        for item in items:
            await asyncio.sleep(0)
            yield item

    return tool


def with_context(context, arguments):
    return (context,), arguments


def once_begun(begun):
    """A binder that blocks the loop until the thread has started, so that no time limit ends before."""

    def binder(context, arguments):
        asyncio.get_running_loop().call_soon(begun.wait, PATIENCE)
        return with_context(context, arguments)

    return binder


@pytest.fixture
def call(send):
    """Runs a call and returns the value from `run`."""

    def call(tool, arguments=None, **options):
        state = send(tool, arguments, **options)
        assert not state.result.is_error, state.result
        return state.value

    return call


def test_a_tool_without_a_handler_is_not_executed(make, send):
    result = send(make(None)).result
    assert (result.kind, result.is_error) == ("not_executed", True)
    assert result.text == "probe has no handler in this registry; the host has to run it."


# Where it runs --------------------------------------------------------------------------------------------------------


def current_thread_is_main(**_):
    return threading.current_thread() is threading.main_thread()


async def current_thread_is_main_async(**_):
    return current_thread_is_main()


@pytest.mark.parametrize(
    ("function", "facts", "in_the_loop"),
    [
        (current_thread_is_main, {}, False),
        (current_thread_is_main, {"blocking": False}, True),
        (current_thread_is_main_async, {}, True),
        (lambda: current_thread_is_main_async(any=1), {}, True),
        (lambda: current_thread_is_main_async(any=1), {"blocking": False}, True),
    ],
)
def test_a_plain_function_runs_off_the_loop(make, call, function, facts, in_the_loop):
    """Unless it is non-blocking or async, or returns a coroutine."""
    assert call(make(function, **facts)) is in_the_loop


def test_a_generator_runs_off_the_loop_unless_it_is_non_blocking(make, call):
    def tool():
        yield current_thread_is_main()

    assert call(make(tool)) == [False]
    assert call(make(tool, blocking=False)) == [True]


def test_an_async_handler_may_give_any_awaitable(make, call):
    def tool():
        future = asyncio.get_running_loop().create_future()
        future.set_result("from a future")
        return future

    assert call(make(None).evolve(handler=Handler(tool, lambda: with_nothing, CallableKind.ASYNC))) == "from a future"


def with_nothing(context, arguments):
    return (), {}


# What comes out -------------------------------------------------------------------------------------------------------


def test_arguments_are_bound_by_the_tools_binder(make, call):
    tool = make(lambda a, b: (a, b), binder=lambda context, arguments: ([arguments["a"]], {"b": arguments["b"]}))
    assert call(tool, {"a": 1, "b": 2}) == (1, 2)


def test_what_the_type_refuses_is_an_invalid_argument_at_its_path(make, send):
    def binder(context, arguments):
        raise StructureError("no such day", ("when", 0, "day"))

    result = send(make(print, binder=binder)).result
    assert result.kind == "invalid_arguments"
    assert "- when[0].day: no such day" in result.text


@pytest.mark.parametrize("blocking", [True, False])
def test_a_generators_result_is_what_it_returns_or_the_list_of_its_items(make, call, blocking):
    assert call(make(generating(1, 2), blocking=blocking)) == [1, 2]
    assert call(make(generating(1, 2, returns="done"), blocking=blocking)) == "done"
    assert call(make(generating(returns=[]), blocking=blocking)) == []
    assert call(make(generating(), blocking=blocking)) == []


def test_an_async_generators_result_is_the_list_of_its_items(make, call):
    assert call(make(async_generating(1, 2))) == [1, 2]
    assert call(make(async_generating())) == []


def test_an_async_generator_may_be_any_async_iterable(make, call):
    class Source:
        def __init__(self):
            self.items = iter("ab")

        def __aiter__(self):
            return self

        async def __anext__(self):
            for item in self.items:
                return item
            raise StopAsyncIteration

    handler = Handler(Source, lambda: with_nothing, CallableKind.ASYNC_GENERATOR)
    assert call(make(None).evolve(handler=handler)) == ["a", "b"]


def test_a_generator_may_be_any_iterable(make, call):
    handler = Handler(lambda: [1, 2], lambda: with_nothing, CallableKind.GENERATOR)
    assert call(make(None).evolve(handler=handler)) == [1, 2]


@pytest.mark.parametrize(
    "function", [generating(1, 2, 3, returns="done"), async_generating(1, 2, 3)], ids=["generator", "async"]
)
@pytest.mark.parametrize("blocking", [True, False])
def test_partial_results_are_emitted_in_order_in_the_loop_before_the_call_ends(make, send, function, blocking):
    seen = []

    def listen(partial):
        seen.append((partial, threading.current_thread() is threading.main_thread()))

    send(
        make(function, blocking=blocking),
        context=ToolContext(listener=listen),
        after=[lambda *_: seen.append("after")],
    )
    assert seen == [(1, True), (2, True), (3, True), "after"]


def test_what_a_plain_tool_reports_reaches_the_listener_in_the_loop_in_order(make, send):
    seen, where = [], set()

    def listen(fact):
        seen.append(fact)
        where.add(threading.current_thread())

    def tool(context):
        context.report(1, 2)
        context.emit("half")
        context.values["note"] = "shared"
        context.report(2, 2)
        return "done"

    context = ToolContext(listener=listen)
    state = send(make(tool, binder=with_context), context=context)
    assert seen == [Progress(1, 2), "half", Progress(2, 2)]
    assert where == {threading.main_thread()}
    assert state.context is context
    assert context.values == {"note": "shared"}


def test_a_generator_that_fails_keeps_what_it_emitted(make, send):
    def tool():
        yield "first"
        raise ValueError

    seen = []
    state = send(make(tool), context=ToolContext(listener=seen.append))
    assert (seen, state.result.kind) == (["first"], "tool_failure")


# Limits ---------------------------------------------------------------------------------------------------------------


def test_a_coroutine_past_its_limit_is_cancelled(make, send):
    cancelled = []

    async def tool():
        try:
            await never()
        finally:
            cancelled.append(True)

    result = send(make(tool), limits=TINY).result
    assert (result.kind, result.is_error, cancelled) == ("timeout", True, [True])
    assert result.text == "probe gave no result within 0.001 s. It was cancelled."


def test_an_async_generator_past_its_limit_is_closed(make, send):
    closed = []

    async def tool():
        try:
            yield 1
            await never()
        finally:
            closed.append(True)

    assert send(make(tool), limits=TINY).result.kind == "timeout"
    assert closed == [True]


@pytest.mark.parametrize("generates", [False, True])
def test_a_thread_past_its_limit_runs_on_and_the_result_says_so(make, send, threads, generates):
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def plain(context):
        begun.set()
        gate.wait(PATIENCE)
        context.emit("too late")
        ended.set()

    def generator(context):
        yield plain(context)

    seen = []
    tool = make(generator if generates else plain, binder=once_begun(begun))
    result = send(tool, limits=TINY, context=ToolContext(listener=seen.append)).result
    assert result.kind == "timeout"
    assert result.text == "probe gave no result within 0.001 s. It may still be running."
    assert threads.abandoned == 1
    gate.set()
    assert ended.wait(PATIENCE)
    assert seen == []


def test_a_coroutine_that_waits_for_nothing_costs_no_timer(make, call, monkeypatch):
    """A timer costs as much as the rest of a call."""

    def no_timer(*_):
        raise AssertionError

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "call_later", no_timer)
    assert call(make(current_thread_is_main_async)) is True


def test_the_tools_own_limit_decides_before_the_registrys(make, send):
    tool = make(never, policy=Policy(timeout=0.002))
    assert "0.002 s" in send(tool, limits=Limits(timeout=PATIENCE)).result.text


def test_a_tools_own_timeout_is_a_failure_of_the_tool_not_its_limit(make, send):
    async def tool():
        async with asyncio.timeout(0.001):
            await never()

    result = send(make(tool)).result
    assert (result.kind, result.text) == ("tool_failure", "probe failed: TimeoutError.")


# Ending ---------------------------------------------------------------------------------------------------------------


def cancelled_while_running(state, begun):
    async def main():
        task = asyncio.ensure_future(run_call(state))
        await asyncio.to_thread(begun.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_cancelling_the_caller_cancels_the_coroutine(make, prepare):
    begun, cancelled = threading.Event(), []

    async def tool():
        begun.set()
        try:
            await never()
        finally:
            cancelled.append(True)

    cancelled_while_running(prepare(make(tool)), begun)
    assert cancelled == [True]


def test_cancelling_the_caller_abandons_the_thread(make, prepare, threads):
    begun, gate = threading.Event(), threading.Event()

    def tool():
        begun.set()
        gate.wait(PATIENCE)

    cancelled_while_running(prepare(make(tool)), begun)
    assert threads.abandoned == 1
    gate.set()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, RecursionError, asyncio.CancelledError, StopIteration])
@pytest.mark.parametrize("blocking", [True, False])
def test_what_a_plain_tool_raises_costs_its_own_call_only(make, send, kind, blocking):
    def tool():
        raise kind

    result = send(make(tool, blocking=blocking)).result
    assert result.is_error
    assert result.kind == ("aborted" if kind is asyncio.CancelledError else "tool_failure")
    assert result.kind == "aborted" or kind.__name__ in result.text


def test_a_tool_that_cancels_itself_through_another_task_is_aborted_not_cancelled(make, send):
    async def tool():
        other = asyncio.ensure_future(never())
        await asyncio.sleep(0)
        other.cancel()
        await other

    assert send(make(tool)).result.kind == "aborted"


def test_a_call_that_timed_out_before_its_thread_started_says_so(make, send, threads):
    threads.most = 0
    result = send(make(lambda: None), limits=TINY).result
    assert result.text == "probe gave no result within 0.001 s. It had not started."


def test_a_generator_past_its_limit_is_closed_at_its_next_item(make, send):
    begun, closed, context = threading.Event(), threading.Event(), ToolContext()

    def tool(context):
        try:
            while True:
                begun.set()
                yield 1
                closed.wait(0.05)  # so that the limit on items isn't reached first
        finally:
            closed.set()

    assert send(make(tool, binder=once_begun(begun)), limits=TINY, context=context).result.kind == "timeout"
    assert context.cancelled
    assert closed.wait(PATIENCE)


@pytest.mark.parametrize(
    "item_and_most",
    [(1, 101), ("x" * 1_000, 7), (b"x" * 1_000, 7), ([0] * 20, 5), ({"a": ["x" * 1_000]}, 6)],
    ids=["number", "text", "bytes", "list", "nested"],
)
@pytest.mark.parametrize("kind", ["generator", "async"])
def test_items_of_a_generator_are_counted_while_it_runs(make, send, monkeypatch, kind, item_and_most):
    """However large its items are, it is stopped before they fill the memory."""
    monkeypatch.setattr("pegboard.dispatch.results.MOST_VALUES", 100)
    (item, most), given = item_and_most, []

    def endless():
        while True:
            given.append(item)
            yield item

    async def endless_async():
        for each in endless():
            yield each

    result = send(make(endless if kind == "generator" else endless_async)).result
    assert result.kind == "limit"
    assert result.text == (
        "The tool was stopped: it returned more than 100 values (64 characters count as one). Request less."
    )
    assert len(given) == most


def test_an_async_generator_that_never_waits_lets_the_loop_go_on(make, send):
    async def tool():
        while True:
            yield 1

    assert send(make(tool), limits=TINY).result.kind == "timeout"


# Retry ----------------------------------------------------------------------------------------------------------------


AGAIN = ToolError("not now", retryable=True)


def asks_for(seconds):
    error = ToolError("not now", retryable=True)
    error.retry_after = seconds
    return error


@pytest.fixture
def attempts(monkeypatch):
    """Calls a tool with these outcomes; returns its result, the number of attempts, the pauses and the notes."""

    def attempts(*outcomes, times=2, idempotent=True, origin=HOST, **facts):
        left, pauses, notes = list(outcomes), [], []

        @tool(idempotent=idempotent, retries=times, **facts)
        async def flaky() -> str:
            outcome = left.pop(0)
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        async def sleep(seconds):
            pauses.append(seconds)

        async def main():
            registry = ToolRegistry(permissions=Permissions([Rule("flaky", "*", "allow")]))
            registry.register(flaky, origin=origin)
            listener = lambda event: notes.append(getattr(event, "note", None))  # noqa: E731
            monkeypatch.setattr(asyncio, "sleep", sleep)
            return await registry.dispatch([ToolCall("flaky")], listener=listener)

        (result,) = asyncio.run(main()).results
        return result, len(outcomes) - len(left), pauses, [note for note in notes if note]

    return attempts


def test_an_error_that_the_tool_calls_retryable_is_tried_again(attempts):
    result, made, pauses, notes = attempts(AGAIN, "at last")
    assert (result.text, made) == ("at last", 2)
    assert notes == [f"retry 1 in {pauses[0]:.1f} s: ToolError"]


def test_the_last_error_is_returned_after_all_attempts(attempts):
    result, made, _, notes = attempts(AGAIN, AGAIN, ToolError("still not", retryable=True))
    assert (result.kind, made, len(notes)) == ("tool_failure", 3, 2)
    assert result.text.startswith("still not")


def test_pauses_are_of_a_random_length_that_may_double_each_time(attempts):
    _, _, pauses, _ = attempts(*[AGAIN] * 10, times=9)
    assert len(set(pauses)) == len(pauses) == 9
    for number, pause in enumerate(pauses):
        assert 0 <= pause <= min(FIRST_PAUSE * 2**number, LONGEST_PAUSE)


@pytest.mark.parametrize(("asked", "least"), [(45, 45), (60.5, 60.5), (0, 0), (-1, 0), (float("inf"), 0), ("9", 0)])
def test_an_error_may_ask_for_a_longer_pause(attempts, asked, least):
    _, made, pauses, _ = attempts(asks_for(asked), "at last")
    assert made == 2
    assert least <= pauses[0] <= max(least, FIRST_PAUSE)


@pytest.mark.parametrize(("limit", "made"), [(99.0, 1), (1000.0, 2)])
def test_no_pause_is_begun_that_would_outlast_the_time_limit(attempts, limit, made):
    """The tool's own error is more useful than a timeout."""
    assert attempts(asks_for(100), "at last", timeout=limit)[1] == made


@pytest.mark.parametrize(
    "error",
    [
        ToolError("no"),
        ToolError("no", retryable="perhaps"),
        ValueError("no"),
        TimeoutError("no"),
        SystemExit(3),
        FatalToolError("no more"),
        CallError("timeout", "too long"),
        asyncio.CancelledError(),
    ],
)
def test_no_other_error_is_tried_again(attempts, error):
    result, made, pauses, _ = attempts(error, "at last")
    assert (result.is_error, made, pauses) == (True, 1, [])


@pytest.mark.parametrize(
    "facts", [{"idempotent": None}, {"idempotent": False}, {"origin": Origin("p", trusted=False)}, {"times": 0}]
)
def test_only_a_tool_that_is_known_to_be_idempotent_is_tried_again(attempts, facts):
    assert attempts(AGAIN, "at last", **facts)[1] == 1


async def test_cancellation_ends_a_pause(monkeypatch):
    begun = asyncio.Event()

    @tool(idempotent=True, retries=2)
    async def flaky() -> None:
        raise AGAIN

    async def sleep(_seconds):
        begun.set()
        await asyncio.Event().wait()

    registry = ToolRegistry()
    registry.register(flaky)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    running = asyncio.ensure_future(registry.call("flaky"))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


# Locks of a thread that was given up ----------------------------------------------------------------------------------


class Held:
    """A registry with an exclusive plain tool that runs until the test ends it."""

    def __init__(self, **limits):
        self.running, self.begun, self.gate = 0, threading.Event(), threading.Event()
        self.registry = ToolRegistry(limits=Limits(**limits))
        self.registry.register(*(Tool.from_function(each, concurrency="exclusive") for each in (self.held, self.quick)))

    def held(self) -> None:
        """Hold on."""
        self.running += 1
        self.begun.set()
        self.gate.wait(PATIENCE)
        self.running -= 1

    def quick(self) -> str:
        """Count running calls."""
        return f"{self.running} running"


async def test_an_exclusive_tool_past_its_limit_keeps_others_waiting_until_it_ends(monkeypatch):
    held, clock = Held(timeout=PATIENCE), time.monotonic
    running = asyncio.ensure_future(held.registry.call("held"))
    await asyncio.to_thread(held.begun.wait, PATIENCE)
    monkeypatch.setattr(time, "monotonic", lambda: clock() + PATIENCE)  # the time is up
    first = await running
    assert first.kind == "timeout"
    assert first.text.endswith("It may still be running; conflicting calls wait until it ends.")
    waiting = asyncio.ensure_future(held.registry.call("quick"))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    held.gate.set()
    assert (await waiting).text == "0 running"


async def test_an_exclusive_tool_that_is_interrupted_keeps_others_waiting_until_it_ends():
    held = Held()
    batch = await held.registry.batch([ToolCall("held"), ToolCall("quick")])
    running = asyncio.ensure_future(batch.run())
    while not held.running:
        await asyncio.to_thread(held.gate.wait, 0.001)
    batch.interrupt()
    outcome = await running
    assert [result.kind for result in outcome.results] == ["aborted", "skipped"]
    assert outcome.results[0].text.endswith("wait until it ends.")
    waiting = asyncio.ensure_future(held.registry.call("quick"))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    held.gate.set()
    assert (await waiting).text == "0 running"


async def test_an_exclusive_tool_that_never_ends_is_abandoned_after_its_limit_again(caplog):
    held = Held(timeout=0.02)

    async def once_it_runs(call_next):
        asyncio.get_running_loop().call_soon(held.begun.wait, PATIENCE)  # the time limit doesn't end before
        return await call_next()

    held.registry.add_callback("wrap_tool", once_it_runs, where="name:held")
    assert (await held.registry.call("held")).kind == "timeout"
    while (result := await held.registry.call("quick")).is_error:
        assert result.kind == "timeout"
    assert result.text == "1 running"
    assert "held failed\nTimeoutError: still running in its thread; its locks were released" in caplog.text
    held.gate.set()


@pytest.mark.parametrize("is_plain", [True, False])
async def test_only_code_on_the_event_loop_is_reported_to_block_it(monkeypatch, is_plain):
    """A thread that starts late, on a busy machine, is no work of the tool's."""
    real, registry = threading.Thread.start, ToolRegistry()
    monkeypatch.setattr(threading.Thread, "start", lambda self: (time.sleep(0.2), real(self)))

    async def on_the_loop() -> None:
        time.sleep(0.2)  # noqa: ASYNC251  this is what is tested

    def in_a_thread() -> None:
        pass

    registry.register(tool(in_a_thread if is_plain else on_the_loop, name="slow", description="Slow."))
    assert not (await registry.call("slow")).is_error
    assert registry.health.blocked == (0 if is_plain else 1)
