from __future__ import annotations

import asyncio

import pytest

from pegboard.toolsets.toolsets import CombinedToolset
from pegboard.toolsets.wrappers import FilteredToolset
from toolsets.samples import Closing, Hanging, PlainToolset, make_tool, names, offered


def test_the_tools_of_all_in_their_order():
    toolset = CombinedToolset("all", [PlainToolset("x", [make_tool("b")]), PlainToolset("y", [make_tool("a")])])
    assert (toolset.name, names(offered(toolset))) == ("all", ["b", "a"])
    assert names(offered(CombinedToolset("none", []))) == []


def test_of_two_tools_of_one_name_the_earlier_is_offered():
    first, second = make_tool("a"), make_tool("a")
    offer = offered(CombinedToolset("all", [PlainToolset("x", [first]), PlainToolset("y", [second])]))
    assert list(offer) == [first]
    assert str(offer.problems[0]) == "toolset 'y': tool 'a' is held back: toolset 'x' offers a tool of this name"
    assert [(each.name, each.step) for each in offer.dropped] == [("a", "combined")]


def test_one_that_fails_costs_only_its_own():
    toolsets = [PlainToolset("broken", error=OSError("down")), PlainToolset("whole", [make_tool("a")]), Hanging()]
    offer = offered(CombinedToolset("all", toolsets, timeout=0.01))
    assert names(offer) == ["a"]
    assert [problem.toolset for problem in offer.problems] == ["broken", "hanging"]


def test_what_members_dropped_is_still_told():
    inner = FilteredToolset(PlainToolset("x", [make_tool("a")]), "edit")
    assert [each.step for each in offered(CombinedToolset("all", [inner])).dropped] == ["filtered"]


def test_closing_closes_all_and_tells_what_failed():
    toolsets = [Closing(OSError("stuck")), PlainToolset()]
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(CombinedToolset("all", toolsets).close())
    assert [str(error) for error in caught.value.exceptions] == ["stuck"]
    assert [toolset.closed for toolset in toolsets] == [1, 1]
    asyncio.run(CombinedToolset("all", [PlainToolset()]).close())
