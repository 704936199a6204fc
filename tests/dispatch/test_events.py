from __future__ import annotations

import asyncio
import gc
import json
import threading
import weakref
from functools import partial

import pytest

from pegboard import Later, Once, Reject, Tool, ToolCall, ToolRegistry, ToolResult, tool
from pegboard.callbacks import Callback, accept_keywords, nonblocking
from pegboard.dispatch import events
from pegboard.dispatch.events import Observers, class_of_end
from pegboard.events import (
    AnyCallEvent,
    ApprovalAnswered,
    ApprovalRequested,
    CallAborted,
    CallCompleted,
    CallFailed,
    CallPending,
    CallRefused,
    CallRunning,
    CallSkipped,
    CallSuspended,
    CallUpdated,
    event_from_json,
)

EVENTS = [
    CallPending("1", "add", 1.5, 0, '{"a": 1}'),
    CallRunning("1", "add", 1.5, 0, {"a": 1}),
    CallUpdated("1", "add", 1.5, 2, progress=1, total=2, message="half"),
    CallUpdated("1", "add", 1.5, title="Adding", metadata={"n": 1}, note="repaired: x"),
    CallCompleted("1", "add", 1.5, result=ToolResult("3", {"result": 3}, title="Sum"), seconds=0.25),
    CallFailed("1", "add", 1.5, result=ToolResult.error("tool_failure", "no")),
    CallRefused("1", "add", 1.5, result=ToolResult.error("denied", "no")),
    CallAborted("1", "add", 1.5, result=ToolResult.error("aborted", "no")),
    CallSkipped("1", "add", 1.5, result=ToolResult.error("skipped", "no")),
    ApprovalRequested("1", "add", 1.5, 2, "r", "edit", ["a"], "a rule", "sure?"),
    ApprovalAnswered("1", "add", 1.5, 2, "r", "always"),
    CallSuspended("1", "add", 1.5, result=ToolResult.error("confirmation_required", "later")),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_an_event_is_written_as_json_and_read_back(event):
    written = json.loads(json.dumps(event.to_json()))
    assert written["type"] == event.type
    assert event_from_json(written) == event


@pytest.mark.parametrize(
    ("answer", "states"),
    [
        (Once(), ["approval_requested", "approval_answered", "call_running", "call_completed"]),
        (Reject("no"), ["approval_requested", "approval_answered", "call_refused"]),
        (Later(), ["approval_requested", "approval_answered", "call_suspended"]),
    ],
)
async def test_that_a_person_is_asked_and_what_the_answer_is_are_events(answer, states):
    async def approver(request, context):
        return answer

    registry = ToolRegistry(approver=approver)
    registry.register(Tool.from_function(lambda: "done", name="write", requires_confirmation=True))
    _, *events = [event async for event in registry.stream([ToolCall("write", {}, "1")])]
    assert [event.type for event in events] == states
    assert (events[0].permission, events[0].request) == ("write", events[1].request)
    assert events[1].answer == answer.to_json()["answer"]


async def test_what_is_for_the_operator_goes_to_no_client():
    """Message and stack stay in the event; its JSON is what a host sends on."""
    registry, events = ToolRegistry(), []
    registry.add_callback("observe", events.append)

    @registry.register
    @tool
    async def fail() -> str:
        """Fails."""
        raise ValueError("password")

    async with registry:
        await registry.call("fail")
    assert "password" in events[-1].result.detail
    assert not any("password" in json.dumps(event.to_json()) for event in events)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (None, CallCompleted),
        *((each, CallFailed) for each in ("tool_failure", "timeout", "crashed", "invalid_output")),
        *((each, CallFailed) for each in ("callback_failure", "unknown_outcome")),
        *((each, CallRefused) for each in ("unknown_tool", "not_offered", "invalid_arguments", "denied", "rejected")),
        *((each, CallRefused) for each in ("not_executed", "cut_off", "limit")),
        ("aborted", CallAborted),
        ("skipped", CallSkipped),
        ("confirmation_required", CallSuspended),
    ],
)
def test_each_kind_of_error_ends_a_call_in_its_own_way(kind, expected):
    assert class_of_end(ToolResult.error(kind, "no") if kind else ToolResult("yes")) is expected


def test_what_isnt_json_is_written_as_text():
    written = CallUpdated("1", "add", 0.0, content=object()).to_json()
    assert written["content"].startswith("<object object")
    assert CallUpdated("1", "add", 0.0, content=ToolResult("part")).to_json()["content"]["content"]


@pytest.mark.parametrize("data", [{}, {"type": "odd"}, {"type": 1}, {"type": "call_pending"}, 5])
def test_invalid_event_data_is_refused(data):
    with pytest.raises(ValueError, match=r"type: |callId: missing|event: must be an object"):
        event_from_json(data)


def test_there_is_a_class_for_every_type():
    assert {event.type for event in EVENTS} == {each.type for each in AnyCallEvent.__args__}


def event(number=0):
    return CallPending(f"{number}", "add", 0.0)


def emitted(functions, count=1):
    """Emits events to observers, and waits for their delivery."""

    async def main():
        observers = Observers()
        emit = observers.sender([Callback(function, "a plugin") for function in functions])
        for number in range(count):
            emit(event(number))
        drained = await observers.drain(60)
        await observers.aclose()
        return observers, drained

    return asyncio.run(main())


async def later(received, event):
    await asyncio.sleep(0)
    received(event)


async def cancelled(received, event):
    received(event)
    raise asyncio.CancelledError


async def at_once(received, **facts):
    received(facts["event"])


@pytest.mark.parametrize(
    ("observer", "in_the_loop"),
    [
        (lambda received: received, False),
        (nonblocking, True),
        (lambda received: partial(later, received), True),
        (lambda received: partial(cancelled, received), True),
        (lambda received: accept_keywords(partial(at_once, received), ["event"]), True),
    ],
    ids=["plain", "quick", "async", "cancels itself", "by name"],
)
def test_observers_receive_each_event_in_order_and_plain_ones_off_the_loop(observer, in_the_loop):
    received = []

    def receives(event):
        received.append((event.call_id, threading.current_thread() is threading.main_thread()))

    emitted([observer(receives)], 5)
    assert received == [(f"{number}", in_the_loop) for number in range(5)]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
def test_a_failing_observer_is_logged_once_and_others_go_on(error, caplog):
    received = []

    def raises(_event):
        raise error

    async def raises_too(_event):
        raise ValueError("no")

    def receives(event):
        received.append(event.call_id)

    emitted([raises, receives], 3)
    emitted([raises_too], 3)
    assert received == ["0", "1", "2"]
    assert caplog.text.count("logged once") == 2


def test_an_async_observer_that_hangs_is_cut_short(monkeypatch, caplog):
    received = []

    async def hangs(event):
        received.append(event.call_id)
        await asyncio.Event().wait()

    monkeypatch.setattr(events, "LIMIT_SECONDS", 0.01)
    emitted([hangs], 2)
    assert received == ["0", "1"]
    assert "TimeoutError" in caplog.text


async def test_events_beyond_an_observers_queue_are_dropped_and_counted(monkeypatch):
    async def forever(_event):
        await asyncio.Event().wait()

    go = threading.Event()
    monkeypatch.setattr(events, "MOST_WAITING", 2)
    observers = Observers()
    emit = observers.sender([Callback(lambda _event: go.wait())])
    slow = observers.sender([Callback(forever)])
    for number in range(10):
        emit(event(number))
        slow(event(number))
    drained = await observers.drain(0.01)
    go.set()
    await observers.aclose(0.01)
    assert observers.dropped >= 14
    assert drained is False


async def test_a_hanging_plain_observer_does_not_block_others():
    received = threading.Event()
    go = threading.Event()
    observers = Observers()
    emit = observers.sender([Callback(lambda _event: go.wait()), Callback(lambda _event: received.set())])
    emit(event())
    assert received.wait(60)
    go.set()
    await observers.aclose()


async def test_after_closing_it_begins_anew():
    received = []
    observers = Observers()
    emit = observers.sender([Callback(lambda event: received.append(event.call_id))])
    emit(event(1))
    await observers.aclose(60)
    emit(event(2))
    await observers.aclose(60)
    assert received == ["1", "2"]


async def test_without_a_thread_an_event_is_dropped_and_the_next_tries_again(monkeypatch):
    received = []
    start = threading.Thread.start

    def none(_self):
        raise RuntimeError("can't start new thread")

    observers = Observers()
    emit = observers.sender([Callback(lambda event: received.append(event.call_id))])
    monkeypatch.setattr(threading.Thread, "start", none)
    emit(event(1))
    monkeypatch.setattr(threading.Thread, "start", start)
    emit(event(2))
    await observers.aclose(60)
    assert (received, observers.dropped) == (["2"], 1)


async def never(_event):
    await asyncio.Event().wait()


@tool
async def one() -> int:
    """Give a number."""
    return 1


def test_async_observers_receive_events_of_call_sync_and_hold_no_loop():
    loops, received = [], []

    async def observe(event):
        await asyncio.sleep(0)
        loops.append(weakref.ref(asyncio.get_running_loop()))
        received.append(event.type)

    registry = ToolRegistry()
    registry.register(one)
    registry.add_callback("observe", observe)
    for _ in range(3):
        registry.call_sync("one")
    gc.collect()
    assert len(received) == 9
    assert registry.health.dropped_events == 0
    assert [loop() for loop in loops] == [None] * 9


def test_events_lost_at_the_end_of_a_loop_are_counted():
    observers = Observers()

    async def main():
        emit = observers.sender([Callback(never)])
        emit(event(1))
        emit(event(2))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert observers.dropped == 2
    assert not observers._loops


def test_events_lost_in_a_closed_loop_are_counted_at_the_next_event():
    """Its task never ran again, so they couldn't be counted at once."""
    observers = Observers()
    received = []

    @nonblocking
    def observe(event):
        received.append(event.call_id)

    emit = observers.sender([Callback(observe)])
    loop = asyncio.new_event_loop()
    loop.call_soon(emit, event(1))
    loop.call_soon(loop.stop)
    loop.run_forever()
    (task,) = asyncio.all_tasks(loop)
    task._log_destroy_pending = False
    task.get_coro().close()
    loop.close()

    async def main():
        emit(event(2))
        await observers.aclose()

    asyncio.run(main())
    assert observers.dropped == 1
    assert received == ["2"]


async def test_a_loop_may_end_in_another_thread_while_an_event_is_emitted():
    observers, received = Observers(), []

    class Loop:
        def is_closed(self):
            observers._loops.clear()  # as a thread does at the end of its loop
            return False

    @nonblocking
    def observe(event):
        received.append(event.call_id)

    observers._loops |= {Loop(): None, Loop(): None}
    observers.sender([Callback(observe)])(event(1))
    await observers.aclose()
    assert received == ["1"]


async def test_closing_cancels_a_hanging_observer_and_releases_drain():
    observers = Observers()
    emit = observers.sender([Callback(never)])
    emit(event(1))
    emit(event(2))
    waiting = asyncio.create_task(observers.drain(60, threads=False))
    await asyncio.sleep(0)
    await observers.aclose(0.01)
    assert observers.dropped == 2
    assert await waiting is True


async def test_a_removed_observer_is_freed_with_its_thread_after_its_last_event():
    go, received, threads = threading.Event(), [], []

    def observe(event):
        threads.append(threading.current_thread())
        go.wait()
        received.append(event.call_id)

    observers = Observers()
    send = observers.sender([Callback(observe)])
    send(event(1))
    send(event(2))
    del send
    assert len(observers._threads) == 1
    go.set()
    assert await observers.drain(60)
    threads[0].join(60)
    assert received == ["1", "2"]
    assert not observers._threads
