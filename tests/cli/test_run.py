"""An event loop for one command, which waits for nobody who won't end."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from pegboard.cli import run as cli_loop
from pegboard.cli.run import has_left_threads, run_to_end


def test_it_gives_what_the_coroutine_gives_and_closes_the_loop():
    async def work():
        return asyncio.get_running_loop()

    assert run_to_end(work()).is_closed()


def test_an_exception_passes_through_and_the_loop_is_closed():
    loops = []

    async def work():
        loops.append(asyncio.get_running_loop())
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run_to_end(work())
    assert loops[0].is_closed()


def test_a_task_that_is_left_is_cancelled_and_the_loop_closed():
    left = []

    async def work():
        left.append(asyncio.create_task(asyncio.Event().wait()))
        await asyncio.to_thread(int)
        return asyncio.get_running_loop()

    assert run_to_end(work()).is_closed()
    assert left[0].cancelled()


def test_a_task_that_ignores_that_it_is_cancelled_is_left_behind(monkeypatch):
    monkeypatch.setattr(cli_loop, "GRACE_SECONDS", 0.01)
    may_end = []

    async def stays():
        while not may_end:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def work():
        task = asyncio.create_task(stays())
        await asyncio.sleep(0)
        return asyncio.get_running_loop(), task

    loop, task = run_to_end(work())
    assert not loop.is_closed()
    assert not task.done()
    may_end.append(True)
    task.cancel()
    loop.run_until_complete(task)
    loop.close()


def test_a_thread_that_is_busy_is_left_behind(monkeypatch):
    monkeypatch.setattr(cli_loop, "GRACE_SECONDS", 0.01)
    go = threading.Event()

    async def work():
        task = asyncio.create_task(asyncio.to_thread(go.wait))
        await asyncio.sleep(0)
        return asyncio.get_running_loop(), task

    loop, task = run_to_end(work())
    try:
        assert not loop.is_closed()
        assert task.cancelled()
        assert has_left_threads()
    finally:
        go.set()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    assert not has_left_threads()
