"""`ResolvedTools` with fewer tools and with more, and what it says of them afterwards."""

from __future__ import annotations

import asyncio

import attrs
from hypothesis import given, strategies as st

from pegboard.toolsets.predicates import tagged
from pegboard.toolsets.resolve import resolve_tools
from pegboard.toolsets.toolsets import StaticToolset
from toolsets.samples import BOMB, make_tool

STATIC = [make_tool("a", tags=["x"]), make_tool("b"), make_tool("c", tags=["x"])]
FILES = make_tool("files", plugin="files")


def resolved(static=STATIC, toolsets=(), **options):
    return asyncio.run(resolve_tools(static, toolsets, **options))


def test_what_is_left_out_says_by_which_step_and_why():
    tools = resolved().without("budget", {"b": "it is too long"})
    assert tools.names == ("a", "c")
    assert str(tools.explain("b")) == "b: not offered\n  + offered: by the host\n  - budget: it is too long"
    assert str(tools.explain("c")) == (
        "c: offered\n  + offered: by the host\n  + budget: kept\n  + order: place 2 of 2"
    )
    assert tools.was_held_back("b")


def test_leaving_out_what_isnt_there_changes_nothing():
    tools = resolved(where=tagged("x"))
    assert tools.without("budget", {"b": "", "nosuch": ""}) is tools


def test_what_came_before_stays_as_it_is():
    tools = resolved()
    tools.without("budget", {"b": "it is too long"})
    tools.with_tools(FILES)
    assert tools.names == ("a", "b", "c")
    assert "files" not in tools.considered


def test_more_tools_stand_behind_the_others_and_say_who_brought_them():
    tools = resolved(where=tagged("x")).with_tools(FILES).without("budget", {"a": "it is too long"})
    assert tools.names == ("c", "files")
    assert tools.get("files") is FILES
    assert str(tools.explain("files")) == (
        "files: offered\n  + offered: by plugin 'files'\n  + budget: kept\n  + order: place 2 of 2"
    )
    assert "- where: tag:x is not so" in str(tools.explain("b"))


def test_a_name_that_is_taken_stays_with_whoever_has_it_even_if_that_is_left_out():
    """A tool that is filtered out keeps its name, and no other tool slips under it."""
    tools = resolved(where=tagged("x")).with_tools(make_tool("a", plugin="p"), make_tool("b", plugin="p"))
    assert tools.names == ("a", "c")
    assert tools.get("a") is STATIC[0]
    assert [(problem.tool, problem.origin.plugin) for problem in tools.problems] == [("a", "p"), ("b", "p")]
    assert "- name: the tool of plugin 'p' is held back: the host has the name" in str(tools.explain("b"))


def test_of_two_new_tools_of_one_name_the_first_has_it():
    first, second = make_tool("n"), make_tool("n", plugin="p")
    tools = resolved().with_tools(first, second)
    assert tools.get("n") is first
    assert [problem.tool for problem in tools.problems] == ["n"]


def test_a_new_tool_whose_schema_cant_judge_is_refused():
    tools = resolved().with_tools(make_tool("bad", input_schema=BOMB))
    assert tools.names == ("a", "b", "c")
    assert [problem.tool for problem in tools.problems] == ["bad"]


def test_each_name_is_made_to_stand_there_once():
    tools = resolved()
    assert tools.distinct() is tools
    twice = attrs.evolve(tools, tools=(*tools.tools, make_tool("a", plugin="p"), make_tool("a", plugin="q")))
    made = twice.distinct()
    assert made.names == ("a", "b", "c")
    assert [problem.origin.plugin for problem in made.problems] == ["p", "q"]


def test_what_a_search_may_find_is_kept_beside():
    tools = resolved()
    assert tools.finding(()) is tools
    assert tools.finding([FILES]).finding([STATIC[0]]).findable == (FILES, STATIC[0])


def test_it_knows_the_toolsets_that_were_asked():
    toolset = StaticToolset("t", [make_tool("t")])
    assert resolved(toolsets=[toolset]).toolsets == (toolset,)
    assert resolved().without("budget", {"a": ""}).toolsets == ()


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcdefg"))))
def test_every_tool_has_its_explanation_whatever_is_done(changes):
    tools = resolved()
    for adds, name in changes:
        tools = tools.with_tools(make_tool(name)) if adds else tools.without("step", {name: "out"})
    for name in tools.considered:
        explanation = tools.explain(name)
        assert explanation.offered is (name in tools)
        assert explanation.reasons[-1].verdict == ("in" if name in tools else "out")
