from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from pegboard.errors import DuplicateToolError, ToolsetError
from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.tools.policy import Origin
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool
from pegboard.toolsets.predicates import custom, for_user, from_toolset, named, tagged
from pegboard.toolsets.resolve import _ordered, _picked, resolve_tools
from pegboard.toolsets.toolset import OwnedToolset
from pegboard.toolsets.wrappers import RenamedToolset
from toolsets.predicate_strategies import contexts, predicates
from toolsets.samples import CallingToolset, Hanging, PlainToolset, called, make_tool, names

STATIC = [make_tool("a", tags=["x"]), make_tool("b"), make_tool("c", tags=["x"]), make_tool("d")]


def resolved(static=STATIC, toolsets=(), context=NOBODY, **options):
    return asyncio.run(resolve_tools(static, toolsets, context, **options))


def test_everything_is_offered_by_name():
    tools = resolved(toolsets=[PlainToolset("t", [make_tool("bb")])])
    assert names(tools) == ["a", "b", "bb", "c", "d"]
    assert tools.names == ("a", "b", "bb", "c", "d")


def test_predicates_then_active_then_order():
    assert names(resolved(where=tagged("x"))) == ["a", "c"]
    assert names(resolved(default=~named("a"), where=tagged("x"))) == ["c"]
    assert names(resolved(where=~named("a"), active=["d", "a", "b"])) == ["d", "b"]
    assert names(resolved(order=["c", "absent", "c", "b"])) == ["c", "b", "a", "d"]
    assert names(resolved(active=["d", "b", "a"], order=["a"])) == ["a", "d", "b"]


def test_active_none_is_all_and_empty_is_none():
    assert names(resolved(active=None)) == ["a", "b", "c", "d"]
    assert names(resolved(active=[])) == []


def test_an_active_name_that_nobody_has_is_a_problem():
    tools = resolved(active=["bb", "a", "bb"], where=~named("a"))
    assert [str(problem) for problem in tools.problems] == ["active: no tool is called 'bb'. Did you mean 'b'?"]


def test_many_unknown_active_names_are_cut_short():
    problems = resolved(active=[f"x{index}" for index in range(30)]).problems
    assert len(problems) == 21
    assert "10 more" in problems[-1].cause


@pytest.mark.parametrize("wish", ["active", "order"])
def test_a_string_is_no_list_of_names(wish):
    with pytest.raises(TypeError, match=f"{wish} has to be a list"):
        resolved(**{wish: "abc"})


def test_names_are_settled_before_predicates_look():
    """A tool that is filtered out keeps its name: no other slips under it."""
    stranger = make_tool("a", tags=["y"])
    tools = resolved(toolsets=[PlainToolset("t", [stranger])], where=tagged("y"))
    assert names(tools) == []
    assert tools.was_held_back("a")


def test_tools_of_a_toolset_carry_its_name():
    tools = resolved([], [PlainToolset("one", [make_tool("a")]), PlainToolset("two", [make_tool("b")])])
    assert [tool.origin.toolset for tool in tools] == ["one", "two"]
    assert names(resolved([], [PlainToolset("one", [make_tool("a")])], where=from_toolset("two"))) == []


def test_an_owned_toolset_keeps_its_owner():
    owner = Origin(plugin="p")
    tools = resolved([], [OwnedToolset(PlainToolset("one", [make_tool("a"), 3]), owner)])
    assert tools.tools[0].origin == Origin("p", toolset="one")
    assert tools.problems[0].origin == owner


@pytest.mark.parametrize("answer", [None, [None], [make_tool("x"), make_tool("x")]])
@pytest.mark.parametrize("error", [None, OSError("down")])
def test_a_toolset_that_fails_or_lies_costs_only_its_own(answer, error):
    tools = resolved(toolsets=[PlainToolset("odd", answer, error), PlainToolset("whole", [make_tool("e")])])
    assert {"a", "b", "c", "d", "e"} <= set(tools.names)
    assert {problem.toolset for problem in tools.problems} == {"odd"}


def test_a_toolset_that_hangs_costs_only_its_own():
    tools = resolved(toolsets=[Hanging("slow")], toolset_timeout=0.01)
    assert names(tools) == ["a", "b", "c", "d"]
    assert "0.01 s (toolset_timeout)" in tools.problems[0].cause


def test_a_request_may_rather_fail():
    error = OSError("down")
    with pytest.raises(ToolsetError, match="'odd' failed: OSError: down") as caught:
        resolved(toolsets=[PlainToolset("whole"), PlainToolset("odd", error=error)], on_toolset_error="fail")
    assert (caught.value.toolset, caught.value.__cause__) == ("odd", error)


def test_a_request_that_may_fail_goes_on_where_nothing_does():
    assert len(resolved(toolsets=[PlainToolset("whole", [make_tool("e")])], on_toolset_error="fail")) == 5


def test_a_clash_may_rather_fail():
    with pytest.raises(DuplicateToolError):
        resolved(toolsets=[PlainToolset("t", [make_tool("a")])], conflicts="error")


def fails(tool, context):
    if tool.name in "ab":
        raise KeyError(tool.name)
    return True


def test_a_predicate_that_raises_costs_only_that_tool():
    tools = resolved(where=custom(fails))
    assert names(tools) == ["c", "d"]
    assert [str(problem) for problem in tools.problems] == [
        "where: <custom> failed for tool 'a' and 1 more, all out: KeyError: 'a'"
    ]
    assert "failed: KeyError: 'b'" in str(tools.explain("b"))
    assert "for tool 'c', all out" in resolved([STATIC[2]], where=custom(lambda *_: 1 / 0)).problems[0].cause


def test_the_context_reaches_toolsets_and_predicates():
    context = ReadonlyContext(user="ann")
    toolset = PlainToolset("t", [make_tool("e")])
    tools = resolved(toolsets=[toolset], context=context, where=for_user("ann"))
    assert (len(tools), tools.context, toolset.contexts) == (5, context, [context])


def test_a_toolset_runs_the_tools_that_it_lists():
    toolset = CallingToolset("t", [Tool(ToolSpec("e", "", {"type": "object"}))])
    assert called(resolved([], [toolset]).get("e"), {}) == {"ran": "e"}


tool_names = st.sampled_from("abcdef")


@given(st.lists(tool_names, unique=True), st.lists(tool_names))
def test_an_order_lists_its_names_first_and_loses_nothing(present, order):
    tools = [make_tool(name) for name in sorted(present)]
    wanted = [name for name in dict.fromkeys(order) if name in present]
    assert names(_ordered(tools, order)) == [*wanted, *(name for name in sorted(present) if name not in wanted)]
    assert names(_picked(tools, order)) == wanted


@given(predicates, contexts)
def test_resolving_asks_what_the_predicate_says(predicate, context):
    tools = resolved(context=context, where=predicate)
    assert list(tools) == [tool for tool in STATIC if predicate(tool, context)]


def test_the_same_wish_gives_the_same_snapshot():
    first, second = (resolved(where=tagged("x"), order=["c"]) for _ in range(2))
    assert (first.tools, first.digest) == (second.tools, second.digest)
    assert first.digest != resolved(where=tagged("x")).digest


def test_resolving_static_tools_loads_nothing_heavy():
    """Nor does it need an event loop."""
    code = """
import sys
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool
from pegboard.toolsets.expression import parse_predicate
from pegboard.toolsets.resolve import resolve_tools
resolving = resolve_tools([Tool(ToolSpec("a"))], where=parse_predicate("name:a"))
try:
    resolving.send(None)
except StopIteration as end:
    assert end.value.explain("a").offered
heavy = {"asyncio", "cattrs", "jsonschema", "jsonschema_rs", "pluggy", "click", "hashlib", "importlib_metadata"}
print(*sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_note_is_no_reason_to_fail():
    toolset = RenamedToolset(PlainToolset("t", [make_tool("e")]), {"absent": "x"})
    tools = resolved(toolsets=[toolset], on_toolset_error="fail")
    assert ("e" in tools.names, [each.note for each in tools.problems]) == (True, [True])
