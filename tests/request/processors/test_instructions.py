from __future__ import annotations

import asyncio
import threading

import pytest

from pegboard.callbacks import quick
from pegboard.request.model_request import ModelRequest
from pegboard.request.pipeline import Runner
from pegboard.request.processors import _MOST_CHARACTERS, _instructions
from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.tools.policy import Origin
from pegboard.toolsets.resolve import resolve_tools
from pegboard.toolsets.toolset import OwnedToolset
from pegboard.toolsets.toolsets import CombinedToolset, StaticToolset
from toolsets.samples import PlainToolset, make_tool

FILES = Origin("files")


def speaking(given, name="t", tools=None):
    """A toolset of a user's own that has instructions."""
    toolset = PlainToolset(name, [make_tool(f"{name}_tool")] if tools is None else tools)
    toolset.instructions = given
    return toolset


def asked(*toolsets, static=(), context=NOBODY, where=None, **facts):
    tools = asyncio.run(resolve_tools(static, toolsets, context, where=where))
    request = ModelRequest("a", tools=tools, **facts)
    return asyncio.run(_instructions(request, context, Runner(timeout=0.05)))


@quick
def on_the_loop(context):
    assert threading.current_thread() is threading.main_thread()
    return f"for {context.user}"


def off_the_loop(context):
    assert threading.current_thread() is not threading.main_thread()
    return [f"for {context.user}", "more"]


async def later():
    return "later"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        (("a",), ("a",)),
        ([], ()),
        (None, ()),
        (on_the_loop, ("for ann",)),
        (off_the_loop, ("for ann", "more")),
        (later, ("later",)),
        (lambda: None, ()),
        ("\ud800", ("\ufffd",)),
    ],
)
def test_toolsets_speak_by_texts_or_functions(given, said):
    made = asked(speaking(given), context=ReadonlyContext(user="ann"))
    assert (made.instructions, made.problems) == (said, ())


def test_toolsets_speak_first_then_tools_each_once_behind_what_is_said_already():
    static = [make_tool("a").evolve(instructions="tool"), make_tool("b").evolve(instructions="mine")]
    made = asked(speaking("set"), speaking("set", "u"), static=static, instructions="mine")
    assert made.instructions == ("mine", "set", "tool")


def test_a_toolset_that_has_no_tool_in_the_request_is_silent():
    from pegboard.toolsets.predicates import named

    assert asked(speaking("a"), where=named("nosuch")).instructions == ()
    assert asked(speaking("a", tools=[])).instructions == ()


def test_deferred_tools_are_silent_until_they_were_found():
    late = make_tool("late", deferred=True).evolve(instructions="late")
    toolset = speaking("set", tools=[make_tool("x", deferred=True)])
    assert asked(toolset, static=[late]).instructions == ()
    assert asked(toolset, static=[late], loads_deferred=True).instructions == ("set", "late")


def test_a_tool_that_no_model_is_offered_may_speak():
    assert asked(static=[make_tool("a").evolve(offered=False, instructions="a")]).instructions == ("a",)


def test_toolsets_inside_others_speak_for_themselves():
    inner = [StaticToolset(name, [make_tool(name)], instructions=name) for name in "ab"]
    both = CombinedToolset("both", [inner[0].prefixed("x_"), inner[1].filtered("not destructive")])
    assert asked(OwnedToolset(both, FILES)).instructions == ("a", "b")


def test_a_wrapper_that_speaks_speaks_instead():
    wrapper = speaking("outer")
    wrapper.inner_toolsets = [speaking("inner")]
    assert asked(wrapper).instructions == ("outer",)


def test_the_hosts_toolset_may_pass_on_tools_of_plugins():
    passed_on = speaking("a", tools=[make_tool("x", plugin="files")])
    assert asked(passed_on).instructions == ("a",)


def raises():
    raise ValueError("no luck")


class Unwilling(PlainToolset):
    @property
    def instructions(self):
        raise RuntimeError("not today")


@pytest.mark.parametrize("origin", [Origin(), FILES])
@pytest.mark.parametrize(
    ("toolset", "cause"),
    [
        (speaking(raises), "toolset 't': ValueError: no luck"),
        (speaking(lambda: asyncio.Event().wait()), "toolset 't': TimeoutError: gave no answer within 0.05 s"),
        (speaking(lambda nosuch: None), "asks for 'nosuch'; there are context"),
        (speaking(5), "toolset 't': TypeError: instructions have to be a text or a list of texts, not int"),
        (speaking(["a", 5]), "toolset 't': TypeError: instructions have to be a text or a list of texts, not list"),
        (speaking("x" * (_MOST_CHARACTERS + 1)), "instructions may have 100,000 characters, and have more"),
        (Unwilling("t", [make_tool("t_tool")]), "toolset 't': RuntimeError: not today"),
    ],
)
def test_what_a_toolset_does_wrong_costs_only_its_own_word(toolset, cause, origin):
    made = asked(OwnedToolset(toolset, origin), speaking("heard", "u"))
    assert made.instructions == ("heard",)
    (problem,) = made.problems
    assert cause in problem.cause
    assert (problem.processor, problem.origin) == ("instructions", origin)


def test_what_a_tool_says_wrong_costs_only_its_own_word():
    made = asked(static=[make_tool("a").evolve(instructions=5), make_tool("b").evolve(instructions="b")])
    assert made.instructions == ("b",)
    assert [(problem.tool, problem.error.__class__) for problem in made.problems] == [("a", TypeError)]


def test_a_request_without_tools_or_without_words_is_left():
    request = ModelRequest("a")
    assert asyncio.run(_instructions(request, NOBODY, Runner())) is request
    made = asked(static=[make_tool("a")])
    assert made.instructions == ()
