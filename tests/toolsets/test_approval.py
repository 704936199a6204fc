from __future__ import annotations

from pegboard.tools.context import ReadonlyContext
from pegboard.toolsets.predicates import for_user, named
from pegboard.toolsets.wrappers import ApprovalToolset
from toolsets.samples import PlainToolset, late_tool, make_tool, offered


def needs(tool):
    return tool.spec.requires_confirmation


def test_every_call_is_confirmed_even_where_the_tool_picks_its_own():
    picky = make_tool("a").evolve(confirms=lambda arguments: False)
    (tool,) = offered(ApprovalToolset(PlainToolset(tools=[picky])))
    assert (needs(tool), tool.confirms) == (True, None)


def test_a_predicate_picks_the_tools_for_each_context():
    inner = PlainToolset(tools=[make_tool("a"), make_tool("b")])
    toolset = ApprovalToolset(inner, named("a") & for_user("guest"))
    assert [needs(tool) for tool in offered(toolset, ReadonlyContext(user="guest"))] == [True, False]
    assert [needs(tool) for tool in offered(toolset, ReadonlyContext(user="root"))] == [False, False]


def test_a_tool_found_late_still_asks_once_it_is_found():
    late, _ = late_tool(make_tool("a").evolve(confirms=lambda arguments: False))
    (tool,) = offered(ApprovalToolset(PlainToolset(tools=[late])))
    loaded = tool.handler.load()
    assert (needs(loaded), loaded.confirms) == (True, None)
