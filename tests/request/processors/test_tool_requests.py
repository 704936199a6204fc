from __future__ import annotations

import asyncio

import pytest

from pegboard.callbacks import quick
from pegboard.messages.message import Message
from pegboard.request.model_request import ModelRequest
from pegboard.request.pipeline import Runner
from pegboard.request.processors import _tool_requests
from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.tools.tool import Tool
from pegboard.toolsets.resolve import resolve_tools
from toolsets.samples import make_tool

ANN = ReadonlyContext(user="ann")


def says(text):
    return quick(lambda request: request.with_instructions(text))


def processed(*tools, context=NOBODY, **facts):
    request = ModelRequest("a", tools=asyncio.run(resolve_tools(tools)), **facts)
    return asyncio.run(_tool_requests(request, context, Runner(timeout=0.05)))


def test_tools_process_the_request_in_their_order():
    made = processed(make_tool("b").evolve(process_request=says("b")), make_tool("c"), Tool.processor("a", says("a")))
    assert made.instructions == ("b", "a")
    assert made.tools.names == ("b", "c", "a")


def test_a_tool_may_be_plain_or_async_and_gets_what_it_asks_for():
    async def later(request, context):
        return request.with_instructions(f"for {context.user}")

    def plain(context, request):
        return request.with_messages(f"{context.user} speaks")

    made = processed(Tool.processor("a", later), Tool.processor("b", plain), context=ANN)
    assert made.instructions == ("for ann",)
    assert made.messages[1] == Message.user("ann speaks")


def test_nothing_given_leaves_it():
    request = processed(Tool.processor("a", lambda: None))
    assert (request.instructions, request.problems) == ((), ())


def test_a_request_without_tools_is_left():
    request = ModelRequest("a")
    assert asyncio.run(_tool_requests(request, NOBODY, Runner())) is request


@pytest.mark.parametrize(("loads_deferred", "said"), [(False, ()), (True, ("late",))])
def test_a_deferred_tool_does_so_once_it_was_found(loads_deferred, said):
    late = make_tool("late", deferred=True).evolve(process_request=says("late"))
    assert processed(late, loads_deferred=loads_deferred).instructions == said


def test_one_that_an_earlier_one_has_taken_out_does_so_no_more():
    without = quick(lambda request: request.evolve(tools=request.tools.without("mine", {"b": "not today"})))
    made = processed(Tool.processor("a", without), Tool.processor("b", says("b")))
    assert (made.instructions, made.tools.names) == ((), ("a",))


def test_a_tool_may_bring_others():
    brings = quick(lambda request: request.evolve(tools=request.tools.with_tools(make_tool("x"))))
    assert processed(Tool.processor("a", brings)).tools.names == ("a", "x")


def raises():
    raise ValueError("no luck")


async def ends():
    raise SystemExit(3)


@pytest.mark.parametrize("plugin", [None, "files"])
@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (raises, "ValueError: no luck"),
        (ends, "SystemExit: 3"),
        (lambda: asyncio.Event().wait(), "TimeoutError: gave no answer within 0.05 s"),
        (lambda: "text", "TypeError: process_request gave str; it may give a ModelRequest or None"),
        (lambda nosuch: None, "asks for 'nosuch'; there are request, context"),
    ],
)
def test_what_one_does_wrong_costs_only_its_own_part(function, cause, plugin):
    bad = make_tool("bad", plugin=plugin).evolve(process_request=function)
    made = processed(Tool.processor("a", says("a")), bad, Tool.processor("c", says("c")))
    assert made.instructions == ("a", "c")
    (problem,) = made.problems
    assert (problem.processor, problem.tool, problem.origin.plugin) == ("tool_requests", "bad", plugin)
    assert cause in problem.cause


def test_problems_outlive_a_request_that_a_tool_makes_anew():
    anew = quick(lambda request: ModelRequest("new", tools=request.tools))
    made = processed(Tool.processor("a", raises), Tool.processor("b", anew))
    assert (made.messages, [problem.tool for problem in made.problems]) == ((Message.user("new"),), ["a"])
