from __future__ import annotations

import asyncio

import pytest

from pegboard.callbacks import Flavour
from pegboard.tools.context import NOBODY, ReadonlyContext, ToolContext
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool
from pegboard.toolsets.toolset import Source
from toolsets.samples import CallingToolset, PlainToolset, called, late_tool, make_tool


def bare(name="bare", **facts):
    return Tool(ToolSpec(name, "", {"type": "object"}, **facts))


def test_a_tool_without_a_handler_is_run_by_its_toolset():
    toolset = CallingToolset(tools=[bare("a")])
    (tool,) = asyncio.run(Source(toolset).offer(NOBODY))
    assert called(tool, {"x": 1}, ToolContext(ReadonlyContext(user="ann"))) == {"ran": "a"}
    assert toolset.calls == [("a", {"x": 1}, "ann")]


def test_what_has_a_handler_keeps_it():
    late, _ = late_tool(make_tool("late"))
    tools = [make_tool("a"), late, bare("web", kind="provider", provider_id="openai.web_search")]
    assert list(asyncio.run(Source(CallingToolset(tools=tools)).offer(NOBODY))) == tools


def test_a_toolset_without_call_leaves_its_tools_as_they_are():
    tool = bare()
    (offered,) = asyncio.run(Source(PlainToolset(tools=[tool])).offer(NOBODY))
    assert offered is tool


class Plain(PlainToolset):
    def call(self, name, arguments, context):
        return name


def test_a_plain_call_runs_where_plain_functions_run():
    (tool,) = asyncio.run(Source(Plain(tools=[bare("a")])).offer(NOBODY))
    assert (tool.handler.flavour, tool.handler.blocking) == (Flavour.PLAIN, True)
    assert called(tool, {}) == "a"


def test_the_same_tool_is_served_by_the_same_tool():
    """What is compiled for it is compiled once."""
    source = Source(CallingToolset(tools=[bare("a")]))
    first, second = (asyncio.run(source.offer(NOBODY)) for _ in range(2))
    assert first[0] is second[0]


class Unasked(PlainToolset):
    def tools(self, context):
        return [make_tool("plain")]


def test_a_plain_tools_method_will_do():
    assert [tool.name for tool in asyncio.run(Source(Unasked()).offer(NOBODY))] == ["plain"]


def test_what_a_toolset_raises_is_raised():
    with pytest.raises(OSError, match="down"):
        asyncio.run(Source(PlainToolset(error=OSError("down"))).offer(NOBODY))
