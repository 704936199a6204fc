from __future__ import annotations

import asyncio
import threading

import pytest

from pegboard import (
    CombinedToolset,
    Problem,
    ReadonlyContext,
    Reshape,
    StaticToolset,
    ToolAnnotations,
    Toolset,
    ToolsetBase,
    ToolsetFunction,
    ToolSpec,
    wrap,
)
from pegboard.errors import DefinitionError, DuplicateToolError, RegistrationError
from pegboard.tools import EMPTY_CONTEXT
from pegboard.toolsets import ToolsetResult
from pegboard.toolsets.predicates import Matches, read_only
from toolsets.samples import Closing, Hanging, PlainToolset, called, make_tool, names, object_schema, offered

TOOLS = [make_tool("push", tags=["net"], input_schema=object_schema(branch={"type": "string"})), make_tool("log")]


class Git(ToolsetBase):
    """A toolset as a user writes it."""

    name = "git"

    async def tools(self, context):
        return TOOLS


def test_every_wrapper_is_a_method_and_they_chain():
    toolset = (
        Git()
        .cached(60)
        .reshaped({"push": Reshape(hide={"branch": "main"})})
        .with_annotations(ToolAnnotations(read_only_hint=True), Matches("name", "log"))
        .requiring_approval(Matches("tag", "net"))
        .renamed({"log": "history"})
        .prefixed("git")
        .prepared(lambda context, tools: sorted(tools, key=lambda tool: tool.name))
        .filtered("name:git_*")
    )
    history, push = offered(toolset)
    assert (toolset.name, history.name, push.name) == ("git", "git_history", "git_push")
    assert (history.spec.requires_confirmation, push.spec.requires_confirmation) == (False, True)
    assert (read_only(history, EMPTY_CONTEXT), read_only(push, EMPTY_CONTEXT)) == (True, False)
    assert called(push, {}) == {"branch": "main"}


def test_wrap_adds_the_methods_to_any_toolset():
    inner = PlainToolset("mine", TOOLS)
    toolset = wrap(inner).filtered(Matches("tag", "net"))
    assert isinstance(toolset, Toolset)
    assert (toolset.name, names(offered(toolset))) == ("mine", ["push"])
    asyncio.run(toolset.close())
    assert inner.closed == 1


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def test_a_static_toolset_keeps_the_order_of_its_tools():
    toolset = StaticToolset("s", (make_tool(name) for name in "ba"))
    assert (toolset.name, names(offered(toolset))) == ("s", ["b", "a"])
    assert offered(toolset)[0] is offered(toolset)[0]


def test_a_spec_and_a_function_become_tools_and_anything_else_is_refused():
    spec_only, added = offered(StaticToolset("s", [ToolSpec("web"), add]))
    assert (spec_only.handler, added.name, added.spec.description) == (None, "add", "Adds.")
    with pytest.raises(DefinitionError):
        StaticToolset("s", [3])


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(DuplicateToolError, match="toolset 's'"):
        StaticToolset("s", [make_tool("a"), make_tool("a")])


TOOL = make_tool("a")


def plain():
    return [TOOL]


def with_context(context):
    return [make_tool(context.user)]


async def asynchronous(context):
    return [make_tool(f"async_{context.user}")]


@pytest.mark.parametrize(
    ("function", "name"), [(plain, "a"), (with_context, "ann"), (asynchronous, "async_ann"), (lambda *_: [TOOL], "a")]
)
def test_the_function_may_be_plain_or_async_and_take_the_context(function, name):
    assert names(offered(ToolsetFunction("f", function), ReadonlyContext(user="ann"))) == [name]


def test_a_plain_function_runs_off_the_loop_where_it_may_block():
    threads = []

    def note_thread():
        threads.append(threading.current_thread())
        return []

    offered(ToolsetFunction("f", note_thread))
    offered(ToolsetFunction("f", note_thread, blocking=False))
    assert [thread is threading.current_thread() for thread in threads] == [False, True]
    assert threads[0].daemon


def test_a_function_becomes_the_same_tool_each_time():
    toolset = ToolsetFunction("f", lambda: [add, TOOL])
    first, second = offered(toolset), offered(toolset)
    assert names(first) == ["add", "a"]
    assert first[0] is second[0]


def test_an_item_that_cant_become_a_tool_costs_only_itself():
    offer = offered(ToolsetFunction("f", lambda: [3, TOOL, TOOL, make_tool("a")]))
    assert names(offer) == ["a"]
    assert [problem.tool for problem in offer.problems] == [None, "a"]
    assert "item 0 can't become a tool" in offer.problems[0].cause


class Interrupting:
    """Raises when it is examined."""

    def __init__(self, error):
        self.error = error

    @property
    def __class__(self):
        raise self.error


@pytest.mark.parametrize("error", [SystemExit("no"), GeneratorExit("no"), KeyboardInterrupt("no")])
def test_an_item_that_raises_anything_costs_only_itself(error):
    offer = offered(ToolsetFunction("f", lambda: [Interrupting(error), TOOL]))
    assert (names(offer), len(offer.problems)) == (["a"], 1)


async def test_cancelling_abandons_the_thread():
    """Its late answer does no harm, nor does the closed loop."""
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def blocks():
        begun.set()
        gate.wait(30)
        ended.set()
        return []

    task = asyncio.ensure_future(ToolsetFunction("f", blocks).tools(EMPTY_CONTEXT))
    assert await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    assert ended.wait(30)


def generates():
    yield TOOL


def needs_two(a, b):
    return []


@pytest.mark.parametrize(("function", "reason"), [(generates, "list of tools"), (needs_two, "the context or nothing")])
def test_a_function_with_another_signature_is_refused(function, reason):
    with pytest.raises(RegistrationError, match=reason):
        ToolsetFunction("f", function)


def test_a_builtin_without_a_signature_gets_the_context():
    assert ToolsetFunction("f", dict.fromkeys)._takes_context
    assert ToolsetFunction("f", iter)._takes_context


def test_the_tools_of_all_in_their_order():
    toolset = CombinedToolset("all", [PlainToolset("x", [make_tool("b")]), PlainToolset("y", [make_tool("a")])])
    assert (toolset.name, names(offered(toolset))) == ("all", ["b", "a"])
    assert names(offered(CombinedToolset("none", []))) == []


def test_of_two_tools_of_one_name_the_earlier_is_offered():
    first, second = make_tool("a"), make_tool("a")
    offer = offered(CombinedToolset("all", [PlainToolset("x", [first]), PlainToolset("y", [second])]))
    assert list(offer) == [first]
    assert str(offer.problems[0]) == "toolset 'y': tool 'a' is held back: toolset 'x' offers a tool of this name"
    assert [(each.tool, each.step) for each in offer.dropped] == [("a", "combined")]


def test_a_problem_is_one_of_the_toolset_that_reports_it():
    """Of the innermost one, however it is wrapped; it can't report in the name of another."""

    class Odd(ToolsetBase):
        name = "odd"

        async def tools(self, _context):
            return ToolsetResult(
                [make_tool("a")], [Problem("b.json is empty", "b"), Problem("late", subject="toolset 'x'")]
            )

    offer = offered(CombinedToolset("all", [Odd().prefixed("x")]))
    assert list(map(str, offer.problems)) == ["toolset 'odd': b.json is empty", "toolset 'odd': toolset 'x': late"]
    assert offer.problems[0].tool == "x_b"


def test_one_that_fails_costs_only_its_own():
    toolsets = [PlainToolset("broken", error=OSError("down")), PlainToolset("whole", [make_tool("a")]), Hanging()]
    offer = offered(CombinedToolset("all", toolsets, timeout=0.2))
    assert names(offer) == ["a"]
    assert [problem.subject for problem in offer.problems] == ["toolset 'broken'", "toolset 'hanging'"]


def test_closing_closes_all_and_raises_the_failures():
    toolsets = [Closing(OSError("stuck")), PlainToolset()]
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(CombinedToolset("all", toolsets).close())
    assert [str(error) for error in caught.value.exceptions] == ["stuck"]
    assert [toolset.closed for toolset in toolsets] == [1, 1]
    asyncio.run(CombinedToolset("all", [PlainToolset()]).close())
