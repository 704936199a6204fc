from __future__ import annotations

import asyncio
import gc
import json
import threading
import weakref
from functools import partial

import pytest

from pegboard import Later, Once, Reject, Tool, ToolCall, ToolRegistry, ToolResult, tool
from pegboard.callbacks import Callback, by_name, quick
from pegboard.dispatch import events
from pegboard.dispatch.events import (
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
    Observers,
    ended,
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
        ("tool_failure", CallFailed),
        ("timeout", CallFailed),
        ("crashed", CallFailed),
        ("invalid_output", CallFailed),
        ("callback_failure", CallFailed),
        ("unknown_outcome", CallFailed),
        ("unknown_tool", CallRefused),
        ("not_offered", CallRefused),
        ("invalid_arguments", CallRefused),
        ("denied", CallRefused),
        ("rejected", CallRefused),
        ("not_executed", CallRefused),
        ("cut_off", CallRefused),
        ("limit", CallRefused),
        ("aborted", CallAborted),
        ("skipped", CallSkipped),
        ("confirmation_required", CallSuspended),
    ],
)
def test_each_kind_of_error_ends_a_call_in_its_own_way(kind, expected):
    assert ended(ToolResult.error(kind, "no") if kind else ToolResult("yes")) is expected


def test_what_isnt_json_is_written_as_text():
    written = CallUpdated("1", "add", 0.0, content=object()).to_json()
    assert written["content"].startswith("<object object")
    assert CallUpdated("1", "add", 0.0, content=ToolResult("part")).to_json()["content"]["content"]


@pytest.mark.parametrize("data", [{}, {"type": "odd"}, {"type": 1}, {"type": "call_pending"}, 5])
def test_what_is_no_event_is_refused(data):
    with pytest.raises(ValueError, match=r"type: |callId: missing|event: must be an object"):
        event_from_json(data)


def test_there_is_a_class_for_every_type():
    assert {event.type for event in EVENTS} == {each.type for each in AnyCallEvent.__args__}


# Observers ------------------------------------------------------------------------------------------------------------


def event(number=0):
    return CallPending(f"{number}", "add", 0.0)


def emitted(functions, count=1):
    """Tells some events to observers, and waits until they have heard them."""

    async def main():
        watching = Observers()
        tell = watching.emitter([Callback(function, "a plugin") for function in functions])
        for number in range(count):
            tell(event(number))
        drained = await watching.drain(60)
        await watching.aclose()
        return watching, drained

    return asyncio.run(main())


async def later(heard, event):
    await asyncio.sleep(0)
    heard(event)


async def cancelled(heard, event):
    heard(event)
    raise asyncio.CancelledError


async def at_once(heard, **facts):
    heard(facts["event"])


@pytest.mark.parametrize(
    ("observer", "in_the_loop"),
    [
        (lambda heard: heard, False),
        (quick, True),
        (lambda heard: partial(later, heard), True),
        (lambda heard: partial(cancelled, heard), True),
        (lambda heard: by_name(partial(at_once, heard), ["event"]), True),
    ],
    ids=["plain", "quick", "async", "cancels itself", "by name"],
)
def test_observers_hear_each_event_in_order_and_plain_ones_off_the_loop(observer, in_the_loop):
    heard = []

    def hears(event):
        heard.append((event.call_id, threading.current_thread() is threading.main_thread()))

    emitted([observer(hears)], 5)
    assert heard == [(f"{number}", in_the_loop) for number in range(5)]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
def test_an_observer_that_raises_disturbs_no_other_and_is_told_of_once(error, caplog):
    heard = []

    def raises(_event):
        raise error

    async def raises_too(_event):
        raise ValueError("no")

    def hears(event):
        heard.append(event.call_id)

    emitted([raises, hears], 3)
    emitted([raises_too], 3)
    assert heard == ["0", "1", "2"]
    assert caplog.text.count("logged once") == 2


def test_an_async_observer_that_hangs_is_cut_short(monkeypatch, caplog):
    heard = []

    async def hangs(event):
        heard.append(event.call_id)
        await asyncio.Event().wait()

    monkeypatch.setattr(events, "LIMIT_SECONDS", 0.01)
    emitted([hangs], 2)
    assert heard == ["0", "1"]
    assert "TimeoutError" in caplog.text


async def test_what_slow_observers_cant_take_is_dropped_and_counted(monkeypatch):
    async def forever(_event):
        await asyncio.Event().wait()

    go = threading.Event()
    monkeypatch.setattr(events, "MOST_WAITING", 2)
    watching = Observers()
    tell = watching.emitter([Callback(lambda _event: go.wait())])
    slow = watching.emitter([Callback(forever)])
    for number in range(10):
        tell(event(number))
        slow(event(number))
    drained = await watching.drain(0.01)
    go.set()
    await watching.aclose(0.01)
    assert watching.dropped >= 14
    assert drained is False


async def test_a_plain_observer_that_hangs_keeps_no_other_from_hearing():
    heard = threading.Event()
    go = threading.Event()
    watching = Observers()
    tell = watching.emitter([Callback(lambda _event: go.wait()), Callback(lambda _event: heard.set())])
    tell(event())
    assert heard.wait(60)
    go.set()
    await watching.aclose()


async def test_after_closing_it_begins_anew():
    heard = []
    watching = Observers()
    tell = watching.emitter([Callback(lambda event: heard.append(event.call_id))])
    tell(event(1))
    await watching.aclose()
    tell(event(2))
    await watching.aclose()
    assert heard == ["1", "2"]


async def test_the_thread_ends_when_nothing_comes(monkeypatch):
    monkeypatch.setattr(events, "LINGER_SECONDS", 0.001)
    heard = threading.Event()
    watching = Observers()
    link = Callback(lambda _event: heard.set())
    tell = watching.emitter([link])
    tell(event())
    thread = watching._threads[link].thread
    assert heard.wait(60)
    thread.join(60)
    assert not thread.is_alive()
    assert watching._threads[link].thread is None


async def test_without_a_thread_events_wait_for_the_next_try(monkeypatch):
    heard = []
    start = threading.Thread.start

    def none(_self):
        raise RuntimeError("can't start new thread")

    watching = Observers()
    tell = watching.emitter([Callback(lambda event: heard.append(event.call_id))])
    monkeypatch.setattr(threading.Thread, "start", none)
    tell(event(1))
    monkeypatch.setattr(threading.Thread, "start", start)
    tell(event(2))
    await watching.aclose()
    assert heard == ["1", "2"]


async def never(_event):
    await asyncio.Event().wait()


@tool
async def one() -> int:
    """Give a number."""
    return 1


def test_async_observers_hear_of_a_call_without_a_loop_and_keep_no_loop():
    loops, heard = [], []

    async def observe(event):
        await asyncio.sleep(0)
        loops.append(weakref.ref(asyncio.get_running_loop()))
        heard.append(event.type)

    registry = ToolRegistry()
    registry.register(one)
    registry.add_callback("observe", observe)
    for _ in range(3):
        registry.call_sync("one")
    gc.collect()
    assert len(heard) == 9
    assert registry.health.dropped_events == 0
    assert [loop() for loop in loops] == [None] * 9


def test_what_is_lost_with_its_loop_is_counted():
    watching = Observers()

    async def main():
        tell = watching.emitter([Callback(never)])
        tell(event(1))
        tell(event(2))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert watching.dropped == 2
    assert not watching._loops


def test_what_is_lost_with_a_loop_that_was_just_closed_is_counted_later():
    """No task of it has run again, so nobody could say so at once."""
    watching = Observers()
    heard = []

    @quick
    def observe(event):
        heard.append(event.call_id)

    tell = watching.emitter([Callback(observe)])
    loop = asyncio.new_event_loop()
    loop.call_soon(tell, event(1))
    loop.call_soon(loop.stop)
    loop.run_forever()
    (task,) = asyncio.all_tasks(loop)
    task._log_destroy_pending = False
    task.get_coro().close()
    loop.close()

    async def main():
        tell(event(2))
        await watching.aclose()

    asyncio.run(main())
    assert watching.dropped == 1
    assert heard == ["2"]


async def test_closing_gives_up_who_hangs_and_whoever_waits_for_it_too():
    watching = Observers()
    tell = watching.emitter([Callback(never)])
    tell(event(1))
    tell(event(2))
    waiting = asyncio.create_task(watching.drain(60, threads=False))
    await asyncio.sleep(0)
    await watching.aclose(0.01)
    assert watching.dropped == 2
    assert await waiting is True


async def test_an_observer_that_was_taken_off_is_forgotten_when_it_has_heard_all(monkeypatch):
    monkeypatch.setattr(events, "LINGER_SECONDS", 0.001)
    go, heard = threading.Event(), []

    def observe(event):
        go.wait()
        heard.append(event.call_id)

    watching = Observers()
    watching.emitter([Callback(observe)])(event(1))
    (listener,) = watching._threads.values()
    thread = listener.thread
    del listener
    watching.emitter([])
    assert len(watching._threads) == 1
    go.set()
    thread.join(60)
    del thread
    gc.collect()
    assert heard == ["1"]
    assert not watching._threads
