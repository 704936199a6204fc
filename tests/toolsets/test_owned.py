from __future__ import annotations

import asyncio

from pegboard.tools.policy import Origin
from pegboard.toolsets.toolset import Offer, OwnedToolset
from toolsets.samples import BOMB, PlainToolset, late_tool, make_tool, offered

OWNER = Origin(plugin="mcp", distribution="pegboard-mcp", version="1.0", trusted=False)


def test_a_plugins_tools_carry_its_name_whatever_they_say():
    inner = PlainToolset("server", [make_tool("a", plugin="files", distribution="pegboard-files")])
    (tool,) = offered(OwnedToolset(inner, OWNER))
    assert tool.origin == Origin("mcp", "pegboard-mcp", "1.0", "server", trusted=False)


def test_the_hosts_toolset_may_pass_on_a_plugins_tools():
    (tool,) = offered(OwnedToolset(PlainToolset("mine", [make_tool("a", plugin="files", trusted=False)])))
    assert tool.origin == Origin("files", toolset="mine", trusted=False)


def test_a_tool_that_says_it_already_stays_itself():
    tool = make_tool("a", toolset="mine")
    assert offered(OwnedToolset(PlainToolset("mine", [tool])))[0] is tool


def test_a_tool_found_late_is_owned_once_it_is_found():
    late, _ = late_tool(make_tool("a"))
    (tool,) = offered(OwnedToolset(PlainToolset("server", [late]), OWNER))
    assert tool.handler.load().origin.plugin == "mcp"


def test_problems_are_the_owners():
    (problem,) = offered(OwnedToolset(PlainToolset("server", [None]), OWNER)).problems
    assert (problem.toolset, problem.origin) == ("server", OWNER)


def test_closing_closes_the_inner_one():
    inner = PlainToolset()
    asyncio.run(OwnedToolset(inner, OWNER).close())
    assert inner.closed == 1


def test_an_unsound_tool_of_a_made_up_offer_costs_only_itself():
    inner = PlainToolset("t", Offer([make_tool("bad", input_schema=BOMB), make_tool("good")]))
    offer = offered(OwnedToolset(inner))
    assert ([tool.name for tool in offer], [each.tool for each in offer.problems]) == (["good"], ["bad"])
