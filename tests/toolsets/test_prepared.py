from __future__ import annotations

import pytest

from pegboard.tools.context import ReadonlyContext
from pegboard.toolsets.wrappers import PreparedToolset
from toolsets.samples import BOMB, PlainToolset, make_tool, names, offered

INNER = PlainToolset("inner", [make_tool("a"), make_tool("b")])


def for_users_only(context, tools):
    return [tool for tool in tools if context.user or tool.name == "a"]


async def with_one_more(context, tools):
    return (*tools, make_tool("c"))


def test_the_function_makes_the_tools_for_each_context():
    toolset = PreparedToolset(INNER, for_users_only)
    assert names(offered(toolset, ReadonlyContext(user="ann"))) == ["a", "b"]
    offer = offered(toolset)
    assert (names(offer), [(each.name, each.step) for each in offer.dropped]) == (["a"], [("b", "prepared")])


def test_it_may_be_async_and_add_tools():
    assert names(offered(PreparedToolset(INNER, with_one_more))) == ["a", "b", "c"]


def test_what_is_no_tool_costs_only_itself():
    offer = offered(PreparedToolset(INNER, lambda context, tools: [*tools, "x"]))
    assert (names(offer), len(offer.problems)) == (["a", "b"], 1)


def test_giving_nothing_is_an_error():
    with pytest.raises(TypeError, match="list of tools"):
        offered(PreparedToolset(INNER, lambda context, tools: None))


def test_an_unsound_tool_costs_only_itself():
    offer = offered(PreparedToolset(INNER, lambda context, tools: [*tools, make_tool("bad", input_schema=BOMB)]))
    assert (names(offer), [each.tool for each in offer.problems]) == (["a", "b"], ["bad"])
