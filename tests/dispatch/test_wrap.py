from __future__ import annotations

import asyncio
import threading

import attrs
import pytest

from pegboard.chains import Link, quick
from pegboard.dispatch.callbacks import wrapped
from pegboard.dispatch.limits import DEFAULT_LIMITS, CallError
from pegboard.dispatch.work import Callbacks
from pegboard.errors import ToolError


@pytest.fixture
def wrap(prepare, make):
    """What comes of a tool (an async function without arguments) with these wrappers, the outermost first."""

    def wrap(inner, *functions, limits=DEFAULT_LIMITS, observe=None, arguments=None):
        links = tuple(Link(function, f"plugin {place}") for place, function in enumerate(functions))
        work, _ = prepare(make(), limits=limits, observe=observe)
        work.tool = make()
        work.arguments = {} if arguments is None else arguments
        work.around = work.around.evolve(callbacks=Callbacks(wrap=links))
        return asyncio.run(wrapped(work, inner))

    return wrap


class Diary(list):
    def wrapper(self, word):
        async def noted(context, tool, arguments, call_next):
            self.append(f"{word} in")
            try:
                return await call_next()
            finally:
                self.append(f"{word} out")

        return noted

    async def tool(self):
        self.append("tool")
        return "value"


@pytest.fixture
def diary():
    return Diary()


async def forever():
    await asyncio.Event().wait()


def test_the_outermost_is_the_first_in_order(wrap, diary):
    assert wrap(diary.tool, diary.wrapper("one"), diary.wrapper("two")) == "value"
    assert diary == ["one in", "two in", "tool", "two out", "one out"]


def test_without_wrappers_the_tool_runs(wrap, diary):
    assert wrap(diary.tool) == "value"


def test_it_gets_context_tool_and_the_arguments_read_only(wrap, diary):
    seen = []

    async def look(context, tool, arguments, call_next):
        seen.append((context.values, tool.name, arguments))
        with pytest.raises(TypeError, match="read-only"):
            arguments["rows"].append(2)
        return await call_next()

    wrap(diary.tool, look, arguments={"rows": [1]})
    assert seen == [({}, "probe", {"rows": [1]})]


def test_call_next_takes_no_arguments(wrap, diary):
    """What was approved is what runs."""

    async def edits(context, tool, arguments, call_next):
        return await call_next({"rows": []})

    with pytest.raises(CallError) as caught:
        wrap(diary.tool, edits)
    assert (caught.value.kind, diary) == ("callback_failure", [])


def test_what_the_wrapper_gives_is_what_the_call_gives(wrap, diary):
    async def instead(context, tool, arguments, call_next):
        return [await call_next(), "more"]

    assert wrap(diary.tool, instead) == ["value", "more"]


def test_a_wrapper_may_run_nothing_at_all(wrap, diary):
    async def from_a_cache(context, tool, arguments, call_next):
        return "kept"

    assert wrap(diary.tool, from_a_cache) == "kept"
    assert diary == []


def test_a_wrapper_may_run_it_again(wrap):
    runs = []

    async def flaky():
        runs.append(1)
        if len(runs) < 3:
            raise ToolError("busy", retryable=True)
        return "value"

    async def again(context, tool, arguments, call_next):
        while True:
            try:
                return await call_next()
            except ToolError:
                continue

    assert wrap(flaky, again) == "value"
    assert len(runs) == 3


def test_it_may_not_run_it_without_end(wrap):
    runs = []

    async def busy():
        runs.append(1)
        raise ToolError("busy")

    async def again(context, tool, arguments, call_next):
        while True:
            try:
                return await call_next()
            except ToolError:
                continue

    with pytest.raises(CallError) as caught:
        wrap(busy, again)
    assert len(runs) == 100
    assert "call_next() was called more than 100 times" in caught.value.detail


@pytest.mark.parametrize("error", [ValueError("broken"), ToolError("for the model"), SystemExit(1)])
def test_what_the_tool_raises_stays_the_tools(wrap, diary, error):
    async def failing():
        raise error

    with pytest.raises(type(error)) as caught:
        wrap(failing, diary.wrapper("one"), diary.wrapper("two"))
    assert caught.value is error


@pytest.mark.parametrize("error", [ValueError("secret"), ToolError("secret"), SystemExit("secret"), StopIteration()])
def test_what_a_wrapper_raises_is_its_failure_and_named_for_the_operator_only(wrap, diary, error):
    told = []

    async def broken(context, tool, arguments, call_next):
        await call_next()
        raise error

    with pytest.raises(CallError) as caught:
        wrap(diary.tool, diary.wrapper("one"), broken, observe=lambda who, _: told.append(who))
    assert caught.value.kind == "callback_failure"
    assert caught.value.text == "probe was not completed: a check round it failed."
    assert "broken of plugin 1" in caught.value.detail
    assert told == ["callback of plugin 1"]


def test_an_error_that_is_made_of_the_tools_is_the_wrappers(wrap):
    async def failing():
        raise ValueError("broken")

    async def other(context, tool, arguments, call_next):
        try:
            await call_next()
        except ValueError as error:
            raise ToolError("better") from error

    with pytest.raises(CallError, match="a check round it failed"):
        wrap(failing, other)


# Plain ones -----------------------------------------------------------------------------------------------------------


def test_a_plain_one_runs_off_the_loop_and_may_pass_on_what_call_next_gives(wrap, diary):
    threads = []

    def passes_on(context, tool, arguments, call_next):
        threads.append(threading.current_thread() is threading.main_thread())
        return call_next()

    @quick
    def passes_on_too(context, tool, arguments, call_next):
        return passes_on(context, tool, arguments, call_next)

    assert wrap(diary.tool, passes_on, passes_on_too) == "value"
    assert threads == [False, True]


def test_a_plain_one_may_answer_by_itself(wrap, diary):
    assert wrap(diary.tool, lambda *_: "kept") == "kept"


# Time -----------------------------------------------------------------------------------------------------------------

SHORT = attrs.evolve(DEFAULT_LIMITS, callback_timeout=0.05, grace=0.02)


def test_the_time_of_what_stands_inside_isnt_the_wrappers(wrap, diary):
    async def slow():
        await asyncio.sleep(0.15)
        return "value"

    async def later(context, tool, arguments, call_next):
        await asyncio.sleep(0)
        return await call_next()

    assert wrap(slow, diary.wrapper("one"), later, limits=SHORT) == "value"


@pytest.mark.parametrize("runs_it_first", [True, False])
def test_a_wrapper_that_hangs_by_itself_is_cut_short(wrap, diary, runs_it_first):
    async def hangs(context, tool, arguments, call_next):
        if runs_it_first:
            await call_next()
        await forever()

    with pytest.raises(CallError) as caught:
        wrap(diary.tool, hangs, limits=SHORT)
    assert caught.value.kind == "callback_failure"
    assert "took more than 0.05 s beside what it stands round" in caught.value.detail


def test_a_plain_wrapper_that_hangs_is_left_behind(wrap, diary):
    let_go = threading.Event()
    with pytest.raises(CallError, match="a check round it failed"):
        wrap(diary.tool, lambda *_: let_go.wait(60), limits=SHORT)
    let_go.set()


def test_a_wrapper_may_have_a_limit_of_its_own(wrap):
    """`asyncio.timeout` round `call_next`; the board's own count goes on as if nothing had been."""

    async def limits(context, tool, arguments, call_next):
        try:
            async with asyncio.timeout(0.01):
                return await call_next()
        except TimeoutError:
            await asyncio.sleep(0.04)
            return "too slow"

    assert wrap(forever, limits, limits=attrs.evolve(SHORT, callback_timeout=60)) == "too slow"


# Order in time --------------------------------------------------------------------------------------------------------


def test_it_doesnt_run_twice_at_once(wrap):
    async def both(context, tool, arguments, call_next):
        return await asyncio.gather(call_next(), call_next())

    async def slow():
        await asyncio.sleep(0.01)
        return "value"

    with pytest.raises(CallError) as caught:
        wrap(slow, both)
    assert "call_next() is running already" in caught.value.detail


def test_it_runs_nothing_when_its_wrapper_is_done(wrap, diary):
    kept = []

    async def keeps(context, tool, arguments, call_next):
        kept.append(call_next)
        return "value"

    async def runs_it_later(context, tool, arguments, call_next):
        await call_next()
        return await kept[0]()

    with pytest.raises(CallError) as caught:
        wrap(diary.tool, runs_it_later, keeps)
    assert "call_next() runs nothing any more" in caught.value.detail
    assert diary == []


def test_what_a_wrapper_leaves_running_is_cancelled(wrap):
    ended = []

    async def slow():
        try:
            await forever()
        finally:
            ended.append("tool")

    tasks = []

    async def leaves(context, tool, arguments, call_next):
        tasks.append(asyncio.ensure_future(call_next()))
        await asyncio.sleep(0)
        return "value"

    assert wrap(slow, leaves) == "value"
    assert ended == ["tool"]
    assert tasks[0].cancelled()


def test_cancellation_goes_through_every_wrapper(prepare, make, diary):
    async def main():
        waits = asyncio.Event()

        async def stuck():
            waits.set()
            await forever()

        work, _ = prepare(make())
        work.tool = make()
        links = (Link(diary.wrapper("one")), Link(diary.wrapper("two")))
        work.around = work.around.evolve(callbacks=Callbacks(wrap=links))
        task = asyncio.ensure_future(wrapped(work, stuck))
        await waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert diary == ["one in", "two in", "two out", "one out"]
