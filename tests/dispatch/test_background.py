from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import attrs
import pytest

from pegboard import (
    CallError,
    Completion,
    Limits,
    ReadonlyContext,
    ResultLimits,
    TextContent,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    tool,
)
from pegboard.callbacks import nonblocking
from pegboard.dispatch.background import Operations
from pegboard.dispatch.state import CallSnapshot, CallState, Runtime, Settings
from pegboard.errors import OperationError
from pegboard.events import CallAborted, CallCompleted, CallFailed
from pegboard.threads import WorkerPool
from pegboard.tools import tools_from

PATIENCE = 60  # seconds; only a broken test waits so long


@attrs.frozen
class Report:
    pages: int


def build() -> Report:
    """Builds a report."""


LONG = Tool.from_function(build, long_running=True)
SHORT = Tool.from_function(build)


@pytest.fixture
def state():
    """The state of a call that has its first result."""

    def state(tool=LONG, call_id="c1", *, session="s1", limits=None):
        snapshot = CallSnapshot(Runtime(), lambda _: tool)
        context = ToolContext(ReadonlyContext(session=session), call_id, tool.name)
        made = CallState(tool.name, {}, call_id, context, snapshot, Settings(limits or Limits()))
        made.tool, made.result = tool, ToolResult("job 7")
        return made

    return state


# A result that is pending ---------------------------------------------------------------------------------------------


def test_a_pending_result_has_a_note_with_its_operation_id(state):
    operations, call = Operations(), state()
    operation = operations.mark_pending(call)
    assert call.result.content[0] == TextContent("job 7")
    assert call.result.content[1].text == (
        f"This is pending as operation {operation.id}. The result will follow automatically. "
        "Don't call build again for it."
    )
    assert call.result.metadata == {"pending": True, "operation": operation.id}
    assert (operation.call_id, operation.tool, operation.session) == ("c1", "build", "s1")
    assert operations.pending == (operation,)


def test_a_tool_that_gave_nothing_yet_is_pending_all_the_same(state):
    call = state()
    call.result = None
    operation = Operations().mark_pending(call)
    assert call.result.text.startswith(f"This is pending as operation {operation.id}.")


def test_ids_cant_be_guessed(state):
    operations = Operations()
    ids = {operations.mark_pending(state(call_id=f"{number}")).id for number in range(20)}
    assert len(ids) == 20
    assert all(len(id_) == len("op_") + 16 for id_ in ids)


# Its later result -----------------------------------------------------------------------------------------------------


def test_many_threads_complete_it_once(state):
    operations = Operations()
    operations.mark_pending(state())

    def complete(number):
        try:
            return operations.complete("c1", Report(number))
        except OperationError:
            return None

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(complete, range(8)))
    assert sum(isinstance(outcome, Completion) for outcome in outcomes) == 1


def later_result(call, value):
    operations = Operations()
    return operations.complete(operations.mark_pending(call).id, value).result


def test_a_later_result_is_held_to_limits(state):
    limits = Limits(results=ResultLimits(lines=3))
    plain = Tool.from_schema("log", {"type": "object"}, lambda arguments: None, long_running=True)
    result = later_result(state(plain, limits=limits), "line\n" * 100)
    assert result.text.count("line\n") == 3
    assert "truncated" in result.metadata


def test_a_value_that_cant_even_be_looked_at_costs_its_own_result(state, monkeypatch):
    monkeypatch.setattr("pegboard.dispatch.background.truncate_result", lambda *_: 1 / 0)
    assert later_result(state(), Report(1)).text == "build failed: ZeroDivisionError."


# Taking what was completed --------------------------------------------------------------------------------------------


def test_results_that_are_never_taken_are_bounded(state):
    operations = Operations(most=2)
    for number in range(4):
        operations.mark_pending(state(call_id=f"{number}"))
        operations.complete(f"{number}", Report(number))
    assert [each.call_id for each in operations.take("s1")] == ["2", "3"]


def test_both_are_json_data(state):
    operations = Operations()
    operations.mark_pending(state())
    data = operations.complete("c1", Report(1)).to_json()
    assert data["operation"]["callId"] == "c1"
    assert data["result"]["structuredContent"] == {"pages": 1}


# Observers ------------------------------------------------------------------------------------------------------------


def test_a_completion_is_an_event(state):
    events = []
    operations = Operations(emit=events.append)
    operations.mark_pending(state())
    operations.complete("c1", Report(1))
    operations.mark_pending(state(call_id="c2"))
    operations.complete("c2", ToolError("no paper"))
    done, failed = events
    assert isinstance(done, CallCompleted)
    assert isinstance(failed, CallFailed)
    assert (done.call_id, done.name, done.result.structured_content) == ("c1", "build", {"pages": 1})


def test_an_observer_that_raises_disturbs_no_call(state, caplog):
    operations = Operations(emit=lambda _: 1 / 0)
    operations.mark_pending(state())
    assert operations.complete("c1", Report(1)).result.structured_content == {"pages": 1}
    assert "emitting a completion failed" in caplog.text


# In the background ----------------------------------------------------------------------------------------------------


async def over(operations):
    """Waits until all background work has ended."""
    if operations._tasks:
        await asyncio.wait(operations._tasks, timeout=PATIENCE)


def going_on(operations, call, doing):
    """Runs background work and returns its completion."""

    async def go():
        id_ = operations.start_background(call, doing)
        await over(operations)
        (completion,) = operations.take("s1")
        assert completion.operation.id == id_
        return completion

    return asyncio.run(go())


async def report():
    await asyncio.sleep(0)
    return Report(4)


def test_background_work_gives_an_additional_result(state):
    events = []
    completion = going_on(Operations(emit=events.append), state(SHORT), report())
    assert (completion.replaces, completion.operation.is_background) == (False, True)
    assert completion.result.structured_content == {"pages": 4}
    assert events[0].result is completion.result


@pytest.mark.parametrize(("doing", "pages"), [(lambda: Report(5), 5), (report, 4)], ids=["plain", "gives a coroutine"])
def test_a_plain_function_goes_on_in_a_thread(state, doing, pages):
    assert going_on(Operations(), state(SHORT), doing).result.structured_content == {"pages": pages}


def test_what_it_raises_is_its_result(state):
    async def fail():
        raise ToolError("no paper")

    async def leave():
        raise SystemExit(1)

    async def cancel_itself():
        raise asyncio.CancelledError

    async def time_out():
        raise TimeoutError

    assert going_on(Operations(), state(SHORT), fail()).result.text == "no paper"
    assert going_on(Operations(), state(SHORT), leave()).result.text == "build failed: SystemExit."
    assert going_on(Operations(), state(SHORT), cancel_itself()).result.kind == "aborted"
    assert going_on(Operations(), state(SHORT), time_out()).result.kind == "tool_failure"


def test_it_has_a_limit(state):
    completion = going_on(Operations(seconds=0.01), state(SHORT), asyncio.Event().wait())
    assert (completion.result.kind, completion.result.text) == (
        "timeout",
        "build gave no result within 0.01 s in the background.",
    )


async def test_the_limit_holds_for_one_that_waits_for_a_thread(state):
    """It is cancelled in the queue of the pool."""
    call, operations = state(SHORT), Operations(seconds=0.01)
    vars(call.runtime)["tool_threads"] = WorkerPool(most=0)
    operations.start_background(call, print)
    while operations.pending:  # noqa: ASYNC110  what ends it emits no event
        await asyncio.sleep(0.001)
    assert operations.take("s1")[0].result.kind == "timeout"


async def test_closing_ends_it_and_it_has_its_result(state):
    events = []
    operations = Operations(emit=events.append)
    operations.start_background(state(SHORT), asyncio.Event().wait())
    await asyncio.sleep(0)
    await operations.aclose()
    (completion,) = operations.take("s1")
    assert completion.result.kind == "aborted"
    assert re.match(r"build was aborted after \d+\.\d s in the background\.", completion.result.text)
    assert isinstance(events[0], CallAborted)


async def test_one_that_had_not_begun_has_its_result_too(state):
    """A task that is cancelled before its first step never runs a line of its own."""
    operations = Operations()
    operations.start_background(state(SHORT), report())
    await operations.aclose()
    assert operations.take("s1")[0].result.kind == "aborted"


def test_the_end_of_the_event_loop_ends_it_too(state):
    operations = Operations()

    async def leave():
        operations.start_background(state(SHORT), asyncio.Event().wait())

    asyncio.run(leave())
    assert operations.take("s1")[0].result.kind == "aborted"


def test_closing_in_another_loop_ends_it_there(state):
    operations, begun, taken = Operations(), threading.Event(), []

    def other():
        async def go():
            operations.start_background(state(SHORT), asyncio.Event().wait())
            begun.set()
            await over(operations)
            taken.append(operations.take("s1"))

        asyncio.run(go())

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait(PATIENCE)
    asyncio.run(operations.aclose())
    thread.join(PATIENCE)
    assert taken[0][0].result.kind == "aborted"


def test_without_an_event_loop_nothing_goes_on_and_the_coroutine_is_closed(state):
    operations = Operations()
    with pytest.raises(RuntimeError, match="event loop"):
        operations.start_background(state(SHORT), report())
    with pytest.raises(RuntimeError, match="event loop"):
        operations.start_background(state(SHORT), print)
    assert operations.pending == ()


async def test_background_work_cannot_be_completed_by_the_host(state):
    operations = Operations()
    id_ = operations.start_background(state(SHORT), report())
    with pytest.raises(OperationError, match="completes itself"):
        operations.complete(id_, 1)
    with pytest.raises(OperationError, match="no call or operation"):
        operations.complete("c1", 1)
    await operations.aclose()


# A long-running tool that goes on by itself ---------------------------------------------------------------------------


async def test_background_work_of_a_long_running_tool_is_its_operation(state):
    operations, call = Operations(), state()
    id_ = operations.start_background(call, report())
    assert operations.mark_pending(call).id == id_
    assert f"pending as operation {id_}" in call.result.text
    with pytest.raises(OperationError, match="completes itself"):
        operations.complete("c1", 1)
    await over(operations)
    (completion,) = operations.take("s1")
    assert completion.replaces
    assert completion.result.structured_content == {"pages": 4}


async def test_one_that_ended_before_the_first_result_was_there_is_the_result(state):
    operations, call = Operations(), state()
    operations.start_background(call, report())
    await over(operations)
    assert operations.mark_pending(call) is None
    assert call.result.structured_content == {"pages": 4}
    assert operations.take("s1") == ()


async def test_further_background_work_gives_additional_results(state):
    operations, call = Operations(), state()
    first, second = operations.start_background(call, report()), operations.start_background(call, report())
    by_id = {each.id: each for each in operations.pending}
    assert (by_id[first].replaces, by_id[second].replaces) == (True, False)
    await operations.aclose()


# What the model reads of such a tool ----------------------------------------------------------------------------------


def test_the_description_of_a_long_running_tool_forbids_repeated_calls():
    @tool(long_running=True)
    def bake() -> str:
        """Bakes a cake."""
        return "oven"

    (made,) = tools_from(bake)
    assert made.spec.description == (
        "Bakes a cake.\n\nThis tool takes a long time. Its first result only says that it is pending; the final result "
        "comes later, automatically. Do not call it again for the same task in the meantime."
    )
    assert "pending" not in SHORT.spec.description


# Operations -----------------------------------------------------------------------------------------------------------


@tool(long_running=True)
async def order(item: str) -> str:
    """Order something."""
    return f"order of {item}"


@tool(long_running=True)
async def refuses() -> str:
    """Fail at once."""
    raise ToolError("sold out")


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(order, refuses)
    return made


def ordered(registry, call_id="1", session=None):
    call = ToolCall("order", {"item": "tea"}, call_id)
    return asyncio.run(registry.dispatch([call], context=ReadonlyContext(session=session))).results[0]


def test_one_that_fails_at_once_isnt_pending(registry):
    result = asyncio.run(registry.call("refuses"))
    assert "pending" not in result.metadata
    with pytest.raises(OperationError):
        registry.operations.complete("", "late")


def test_the_later_result_replaces_the_pending_one_once(registry):
    ordered(registry)
    completion = registry.operations.complete("1", "it has arrived")
    assert (completion.call_id, completion.tool, completion.result.text) == ("1", "order", "it has arrived")
    with pytest.raises(OperationError, match="may have its result already"):
        registry.operations.complete("1", "again")
    assert [each.result.text for each in registry.operations.take()] == ["it has arrived"]


def test_two_pending_calls_of_one_id_have_to_be_distinguished(registry):
    first, second = ordered(registry).metadata["operation"], ordered(registry).metadata["operation"]
    with pytest.raises(OperationError, match="name the operation"):
        registry.operations.complete("1", "done")
    registry.operations.complete(second, "second")
    assert registry.operations.complete("1", "first").operation.id == first


def test_what_has_come_is_taken_by_session_once(registry):
    ordered(registry, "1", "a")
    ordered(registry, "2", "b")
    ordered(registry, "3", "a")
    for call_id in ("3", "2", "1"):
        registry.operations.complete(call_id, "done")
    assert [each.call_id for each in registry.operations.take("a")] == ["3", "1"]
    assert registry.operations.take("a") == ()
    assert registry.operations.take(None) == ()
    assert [each.call_id for each in registry.operations.take("b")] == ["2"]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (ToolResult("done"), None, "done"),
        ({"state": "done"}, "invalid_output", "refused"),
        (float("nan"), "invalid_output", "refused"),
        (CallError("denied", "no"), "denied", "no"),
        (ToolError("lost"), "tool_failure", "lost"),
        (ValueError("secret"), "tool_failure", "order failed: ValueError."),
    ],
)
def test_a_later_result_is_shaped_as_any(registry, value, kind, text):
    @registry.register
    @tool(long_running=True, name="typed")
    async def typed() -> int:
        """Give a number later."""
        return 0

    ordered(registry)
    asyncio.run(registry.call("typed", call_id="2"))
    result = registry.operations.complete("2" if kind == "invalid_output" else "1", value).result
    assert result.kind == kind
    assert text in result.text


@pytest.fixture
def seen(registry):
    """What the after callbacks see; the last hides the results."""
    seen = []

    async def look(context, tool, arguments, result):
        seen.append((context.call_id, context.session, tool.name, dict(arguments), result.text.partition("\n")[0]))

    registry.add_callback("after_tool", look)
    registry.add_callback("after_tool", lambda result: ToolResult("hidden", is_error=result.is_error))
    return seen


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("value", ["it has arrived", ToolError("lost")])
def test_a_later_result_passes_the_after_callbacks_once(registry, seen, value, in_loop):
    async def complete():
        return registry.operations.complete("1", value)

    ordered(registry, session="s")
    completion = asyncio.run(complete()) if in_loop else registry.operations.complete("1", value)
    facts = ("1", "s", "order", {"item": "tea"})
    assert [each[:-1] for each in seen] == [facts] * 2
    assert seen[1][-1] == str(value)
    assert (completion.result.text, completion.result.is_error) == ("hidden", isinstance(value, Exception))
    assert [each.result.text for each in registry.operations.take("s")] == ["hidden"]


@pytest.mark.parametrize("long_running", [False, True])
@pytest.mark.parametrize("early", [False, True], ids=["after its call", "before the end of its call"])
async def test_a_result_of_background_work_passes_the_after_callbacks_once(registry, seen, early, long_running):
    async def ended():
        while registry.operations.pending:  # noqa: ASYNC110  what ends it emits no event
            await asyncio.sleep(0)

    @registry.register
    @tool(long_running=long_running)
    async def start(context: ToolContext) -> str:
        """Start something."""

        async def work():
            return "the later result"

        context.background(work())
        if early:
            await ended()
        return "begun"

    first = await registry.call("start", call_id="1")
    await ended()
    assert first.text == "hidden"
    assert [each[-1] for each in seen].count("the later result") == 1
    assert [each.result.text for each in registry.operations.take()] == ([] if early and long_running else ["hidden"])


def test_an_operation_that_is_given_up_passes_the_after_callbacks(registry, seen):
    ordered(registry, "0")
    registry._dispatcher.operations.most = 1
    ordered(registry, "1")
    assert [each[0] for each in seen if "never completed" in each[-1]] == ["0"]


@pytest.mark.parametrize("early", [False, True])
async def test_a_result_that_is_forgotten_is_an_event_and_no_result(early):
    registry, events, end = ToolRegistry(), [], asyncio.Event()
    registry.add_callback("observe", nonblocking(partial(list.append, events)))

    @registry.register
    @tool
    async def start(context: ToolContext) -> str:
        """Start something."""
        return context.background(end.wait())

    operation = (await registry.call("start")).text
    if early:
        registry.operations.forget(operation)
    end.set()
    while registry.operations.pending:  # noqa: ASYNC110  what ends it emits no event
        await asyncio.sleep(0)
    registry.operations.forget(operation)
    assert registry.operations.take() == ()
    await registry.aclose()  # which delivers the events
    assert [type(event) for event in events].count(CallCompleted) == 2


async def later_step():
    await asyncio.sleep(0)
    return "later"


@pytest.mark.parametrize("doing", [later_step, lambda: "later"], ids=["async", "plain"])
@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_tool_may_go_on_after_its_first_result(doing, in_thread):
    registry, events = ToolRegistry(), []
    registry.add_callback("observe", events.append)

    async def start(context: ToolContext) -> str:
        """Start something."""
        return context.background(doing() if doing is later_step else doing)

    def start_plainly(context: ToolContext) -> str:
        """Start something from a thread."""
        return context.background(doing() if doing is later_step else doing)

    registry.register(Tool.from_function(start_plainly if in_thread else start, name="start"))
    first = await registry.call("start", call_id="1")
    while not (later := registry.operations.take()):  # noqa: ASYNC110  what ends it emits no event
        await asyncio.sleep(0)
    await registry.aclose()
    (completion,) = later
    assert first.text == completion.operation.id
    assert (completion.call_id, completion.result.text) == ("1", "later")
    ended = [(event.type, event.result.text) for event in events if event.type == "call_completed"]
    assert sorted(ended) == sorted(
        [("call_completed", "later"), ("call_completed", first.text)]
    )  # in either order, of a thread


def test_beyond_the_most_the_oldest_that_is_never_completed_is_given_up(registry):
    """A host that never completes operations doesn't block later ones."""
    ordered(registry, "0")
    registry._dispatcher.operations.most = 1
    assert ordered(registry, "1").metadata["pending"] is True
    (given_up,) = registry.operations.take()
    assert (given_up.call_id, given_up.result.kind) == ("0", "unknown_outcome")
    assert given_up.result.text.startswith("order ran, but operation op_")
    assert [each.call_id for each in registry.operations.pending] == ["1"]
    with pytest.raises(OperationError, match="may have its result already"):
        registry.operations.complete("0", "too late")


async def test_where_all_go_on_in_this_process_no_more_can_be_awaited(registry):
    """The text says whether the tool ran."""
    never = asyncio.Event()

    @registry.register
    @tool
    async def start(context: ToolContext) -> str:
        """Start something."""
        return context.background(never.wait())

    await registry.call("start")
    registry._dispatcher.operations.most = 1
    refused = await registry.call("start"), await registry.call("order", {"item": "tea"})
    await registry.aclose()
    started, bought = refused
    assert (started.kind, bought.kind) == ("limit", "limit")
    assert started.text.startswith("start can't run in the background: 1 operations are already running")
    assert bought.text.startswith("order ran, but 1 operations are already running")
