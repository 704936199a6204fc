from __future__ import annotations

import asyncio
import contextvars
import threading
import time

import pytest

from pegboard import ToolContext
from pegboard.errors import CallStoppedError, RunningLoopError
from pegboard.tools.portal import LoopPortal


def in_a_thread(function, *, deadline=None):
    """What `function(context)` gives in a thread whose call runs in this event loop."""

    async def run():
        context = ToolContext(deadline=deadline)
        context.internals.portal = LoopPortal(asyncio.get_running_loop())
        return await asyncio.to_thread(function, context)

    return asyncio.run(run())


async def value():
    await asyncio.sleep(0)
    return asyncio.get_running_loop()


async def never():
    await asyncio.Event().wait()


async def test_a_thread_waits_for_what_runs_in_the_calls_loop():
    context = ToolContext()
    context.internals.portal = LoopPortal(asyncio.get_running_loop())
    assert await asyncio.to_thread(context.wait, value()) is asyncio.get_running_loop()
    future = asyncio.get_running_loop().create_future()
    future.set_result(5)
    assert await asyncio.to_thread(context.wait, future) == 5


async def test_waiting_ends_with_the_calls_limit_and_cancels_what_it_waited_for():
    context = ToolContext(deadline=time.monotonic() + 0.05)
    context.internals.portal = LoopPortal(asyncio.get_running_loop())
    with pytest.raises(CallStoppedError, match="the call's time limit has passed") as caught:
        await asyncio.to_thread(context.wait, never())
    assert caught.value.kind == "timeout"
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, left = await asyncio.wait(others, timeout=60)
        assert not left


async def test_waiting_ends_when_the_call_is_stopped():
    begun = asyncio.Event()

    async def slow():
        begun.set()
        await never()

    context = ToolContext()
    context.internals.portal = LoopPortal(asyncio.get_running_loop())
    waiting = asyncio.create_task(asyncio.to_thread(context.wait, slow()))
    await begun.wait()
    context.cancelled = True
    context.internals.portal.close()
    with pytest.raises(CallStoppedError) as caught:
        await waiting
    assert caught.value.kind == "aborted"
    with pytest.raises(CallStoppedError):
        await asyncio.to_thread(context.internals.portal.wait, value(), context)


def test_a_cancellation_of_the_awaitable_is_passed_on():
    async def cancelled():
        raise asyncio.CancelledError

    def wait(context):
        try:
            context.wait(cancelled())
        except BaseException as error:  # noqa: BLE001  (which one is the question)
            return type(error).__name__, isinstance(error, CallStoppedError)

    assert in_a_thread(wait) == ("CancelledError", False)


def test_a_closed_loop_stops_the_call():
    async def portal():
        return LoopPortal(asyncio.get_running_loop())

    closed = asyncio.run(portal())
    with pytest.raises(CallStoppedError):
        closed.wait(value(), ToolContext())
    closed.emit(print, "ignored")


def test_context_variables_of_the_thread_are_passed_on():
    name = contextvars.ContextVar("name", default="outside")

    async def read():
        return name.get()

    def work(context):
        name.set("inside")
        return context.wait(read())

    assert in_a_thread(work) == "inside"


def test_waiting_in_the_event_loop_is_refused():
    async def run(context):
        with pytest.raises(RunningLoopError, match="write 'await"):
            context.wait(value())
        with pytest.raises(RunningLoopError):
            context.wait(asyncio.get_running_loop().create_future())

    asyncio.run(run(ToolContext()))


def test_without_a_call_waiting_uses_a_new_loop():
    assert ToolContext().wait(value()).is_closed()


async def test_updates_of_a_thread_arrive_in_the_loop_in_order():
    received, loop_thread = [], threading.get_ident()

    context = ToolContext(listener=lambda update: received.append((update, threading.get_ident() == loop_thread)))
    context.internals.portal = LoopPortal(asyncio.get_running_loop())

    def work():
        for number in range(3):
            context.emit(number)

    await asyncio.to_thread(work)
    await asyncio.sleep(0)
    context.emit("from the loop")
    assert received == [(0, True), (1, True), (2, True), ("from the loop", True)]


async def test_only_updates_of_an_abandoned_thread_are_dropped():
    received = []

    context = ToolContext(listener=received.append)
    context.internals.portal = LoopPortal(asyncio.get_running_loop())
    context.cancelled = True
    context.internals.portal.close()
    await asyncio.to_thread(context.emit, "too late")
    await asyncio.sleep(0)
    context.emit("after")
    assert received == ["after"]


def test_waiting_continues_if_the_calls_clock_was_paused():
    """What is left is asked for again when it has passed."""
    asked = iter([0.001, 0.001, None])

    async def run():
        portal, gate = LoopPortal(asyncio.get_running_loop()), asyncio.Event()

        class Paused(ToolContext):
            @property
            def remaining(self):
                left = next(asked)
                if left is None:
                    portal.loop.call_soon_threadsafe(gate.set)
                return left

        return await asyncio.to_thread(portal.wait, gate.wait(), Paused())

    assert asyncio.run(run()) is True


def test_a_timeout_error_of_the_awaitable_is_passed_on():
    async def late():
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        in_a_thread(lambda context: context.wait(late()))
