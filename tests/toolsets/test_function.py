from __future__ import annotations

import asyncio
import threading

import pytest

from pegboard.errors import RegistrationError
from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.toolsets.toolsets import ToolsetFunction
from toolsets.samples import BOMB, make_tool, names, offered

TOOL = make_tool("a")


def plain():
    return [TOOL]


def with_context(context):
    return [make_tool(context.user)]


async def asynchronous(context):
    return [make_tool(f"async_{context.user}")]


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@pytest.mark.parametrize(
    ("function", "name"), [(plain, "a"), (with_context, "ann"), (asynchronous, "async_ann"), (lambda *_: [TOOL], "a")]
)
def test_the_function_may_be_plain_or_async_and_take_the_context(function, name):
    assert names(offered(ToolsetFunction("f", function), ReadonlyContext(user="ann"))) == [name]


def test_a_plain_function_runs_off_the_loop_where_it_may_block():
    threads = []

    def tell():
        threads.append(threading.current_thread())
        return []

    offered(ToolsetFunction("f", tell))
    offered(ToolsetFunction("f", tell, blocking=False))
    assert [thread is threading.current_thread() for thread in threads] == [False, True]
    assert threads[0].daemon


def awaitable(context):
    return asynchronous(context)


def test_a_plain_function_may_give_something_to_await():
    assert names(offered(ToolsetFunction("f", awaitable), ReadonlyContext(user="x"))) == ["async_x"]


def test_what_can_become_a_tool_becomes_one_once():
    toolset = ToolsetFunction("f", lambda: [add, TOOL])
    first, second = offered(toolset), offered(toolset)
    assert names(first) == ["add", "a"]
    assert first[0] is second[0]


def test_what_cannot_become_a_tool_costs_only_itself():
    offer = offered(ToolsetFunction("f", lambda: [3, TOOL, TOOL, make_tool("a")]))
    assert names(offer) == ["a"]
    assert [problem.tool for problem in offer.problems] == [None, "a"]
    assert "item 0 can't become a tool" in offer.problems[0].cause


def test_giving_nothing_is_an_error():
    with pytest.raises(TypeError, match="list of tools"):
        offered(ToolsetFunction("f", lambda: None))


def stops():
    raise StopIteration("odd")


def interrupted():
    """No real one: signals reach the main thread only."""
    raise KeyboardInterrupt("odd")


class Interrupting:
    """Becomes tools badly."""

    def __init__(self, error):
        self.error = error

    @property
    def __class__(self):
        raise self.error


@pytest.mark.parametrize("error", [SystemExit("no"), GeneratorExit("no")])
def test_an_item_that_raises_anything_costs_only_itself(error):
    offer = offered(ToolsetFunction("f", lambda: [Interrupting(error), TOOL]))
    assert (names(offer), len(offer.problems)) == (["a"], 1)


def test_an_interrupt_passes_on():
    with pytest.raises(KeyboardInterrupt):
        offered(ToolsetFunction("f", lambda: [Interrupting(KeyboardInterrupt())]))


def fails():
    raise OSError("down")


@pytest.mark.parametrize(("function", "error"), [(stops, RuntimeError), (interrupted, RuntimeError), (fails, OSError)])
def test_what_it_raises_in_its_thread_is_raised(function, error):
    with pytest.raises(error, match=r"odd|down"):
        offered(ToolsetFunction("f", function))


def test_giving_up_leaves_the_thread_behind():
    """Neither its answer nor the closed loop hurts anybody."""
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def blocks():
        begun.set()
        gate.wait(30)
        ended.set()
        return []

    async def scenario():
        task = asyncio.ensure_future(ToolsetFunction("f", blocks).tools(NOBODY))
        assert await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    gate.set()
    assert ended.wait(30)


def generates():
    yield TOOL


def needs_two(a, b):
    return []


@pytest.mark.parametrize(("function", "reason"), [(generates, "list of tools"), (needs_two, "the context or nothing")])
def test_a_function_that_cannot_be_asked_is_refused(function, reason):
    with pytest.raises(RegistrationError, match=reason):
        ToolsetFunction("f", function)


def test_a_builtin_that_tells_no_signature_gets_the_context():
    assert ToolsetFunction("f", dict.fromkeys)._takes_context
    assert ToolsetFunction("f", iter)._takes_context


def test_an_unsound_tool_costs_only_itself():
    offer = offered(ToolsetFunction("f", lambda: [make_tool("bad", input_schema=BOMB), TOOL]))
    assert (names(offer), [each.tool for each in offer.problems]) == (["a"], ["bad"])
