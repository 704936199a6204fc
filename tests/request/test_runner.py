from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from pegboard.callbacks import Callback, ChainError, quick
from pegboard.request.pipeline import Runner

SHORT = Runner(timeout=0.05)


def ask(function, *arguments, runner=SHORT):
    return asyncio.run(runner.ask(Callback(function), *arguments))


@quick
def on_the_loop(value):
    assert threading.current_thread() is threading.main_thread()
    return value + 1


def off_the_loop(value):
    assert threading.current_thread() is not threading.main_thread()
    return value + 1


async def later(value):
    await asyncio.sleep(0)
    return value + 1


def gives_a_coroutine(value):
    return later(value)


FUNCTIONS = [on_the_loop, off_the_loop, later, gives_a_coroutine]


@pytest.mark.parametrize("runner", [SHORT, Runner(timeout=None)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_kind_of_function_answers(function, runner):
    assert ask(function, 1, runner=runner) == 2


@pytest.mark.parametrize("error", [ValueError, SystemExit, StopIteration, asyncio.CancelledError, GeneratorExit])
def test_whatever_a_function_raises_costs_only_its_answer(error):
    def plain():
        raise error

    async def waiting():
        await asyncio.sleep(0)
        raise error

    for function in (plain, quick(lambda: plain() or None), waiting):
        with pytest.raises(ChainError) as caught:
            ask(function)
        assert caught.value.__cause__ is not None


async def is_interrupted():
    raise KeyboardInterrupt


def test_ctrl_c_is_the_users():
    with pytest.raises(KeyboardInterrupt):
        ask(is_interrupted)
    with pytest.raises(KeyboardInterrupt):
        ask(quick(lambda: (_ for _ in ()).throw(KeyboardInterrupt)))


def test_one_that_never_answers_is_given_up():
    released = threading.Event()

    async def waits():
        await asyncio.Event().wait()

    for function in (waits, released.wait):
        with pytest.raises(ChainError, match=r"gave no answer within 0\.05 s") as caught:
            ask(function)
        assert isinstance(caught.value.__cause__, TimeoutError)
    released.set()


def test_one_that_ignores_its_cancellation_holds_nobody_up():
    async def both():
        ended = asyncio.Event()

        async def stubborn():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                ended.set()

        with pytest.raises(ChainError, match="gave no answer"):
            await SHORT.ask(Callback(stubborn))
        assert not ended.is_set()
        gc.collect()  # what is left behind isn't lost
        await ended.wait()

    asyncio.run(both())


@pytest.mark.parametrize("runner", [Runner(), Runner(timeout=None)])
def test_whoever_waits_can_be_cancelled(runner):
    cancelled = []

    async def waits():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def both():
        task = asyncio.ensure_future(runner.ask(Callback(waits)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(both())
    assert cancelled == [True]


def test_plain_functions_run_where_they_are_told():
    seen = []

    async def elsewhere(function, *arguments):
        seen.append(arguments)
        return function(*arguments)

    assert ask(lambda value: value, "a", runner=Runner(elsewhere)) == "a"
    assert seen == [("a",)]
