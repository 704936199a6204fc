from __future__ import annotations

import asyncio

import attrs
import pytest

from pegboard.request.model_request import ModelRequest, NamedTool
from pegboard.request.processors import _pack_tools
from pegboard.toolsets.resolve import resolve_tools
from pegboard.toolsets.search import search_tool
from toolsets.samples import make_tool

A, LATE = make_tool("a"), make_tool("late", deferred=True)
HIDDEN = make_tool("hidden").evolve(offered=False)


def asks(*tools, **facts):
    return ModelRequest("x", tools=asyncio.run(resolve_tools(tools)), **facts)


def test_what_a_model_is_sent_is_what_is_left():
    made = _pack_tools(asks(A, LATE, HIDDEN))
    assert made.tools.names == ("a",)
    assert made.tools.findable == (LATE,)
    assert [tool.name for tool in made.offered] == ["a"]


def test_deferred_tools_are_sent_where_the_provider_loads_them():
    made = _pack_tools(asks(A, LATE, HIDDEN, loads_deferred=True))
    assert (made.tools.names, made.tools.findable) == (("a", "late"), ())


def test_where_the_provider_searches_by_itself_our_search_tool_is_left_out():
    search = search_tool()
    made = _pack_tools(asks(A, LATE, search, loads_deferred=True))
    assert made.tools.names == ("a", "late")
    assert "the provider searches the deferred tools itself" in str(made.tools.explain("search_tools"))
    assert _pack_tools(asks(A, search, loads_deferred=True)).tools.names == ("a", "search_tools")


def test_each_that_is_left_out_says_why():
    tools = _pack_tools(asks(A, HIDDEN, LATE)).tools
    assert "- pack: it only processes requests; no model is offered it" in str(tools.explain("hidden"))
    assert str(tools.explain("late")).endswith("- pack: it is deferred: offered once a search has found it")
    assert str(tools.explain("a")) == (
        "a: offered\n  + offered: by the host\n  + pack: kept\n  + pack: kept\n  + order: place 1 of 1"
    )


def test_a_call_of_what_was_left_out_is_of_a_tool_that_was_held_back():
    tools = _pack_tools(asks(A, HIDDEN, LATE)).tools
    assert [tools.was_held_back(name) for name in ("a", "hidden", "late", "nosuch")] == [False, True, True, False]


def test_of_two_tools_of_one_name_the_first_is_sent_and_the_other_is_told_of():
    other = make_tool("a", plugin="files", description="another")
    request = asks(A)
    request = request.evolve(tools=attrs.evolve(request.tools, tools=(A, other)))
    made = _pack_tools(request)
    assert made.tools.tools == (A,)
    assert [(problem.tool, problem.origin.plugin) for problem in made.tools.problems] == [("a", "files")]
    assert "tool 'a' is held back: the host has the name" in str(made.tools.problems[0])


def test_what_is_packed_stays_as_it_is():
    request = asks(A)
    assert _pack_tools(request) is request
    made = _pack_tools(asks(A, LATE, HIDDEN))
    assert _pack_tools(made) is made
    without = ModelRequest("x")
    assert _pack_tools(without) is without


@pytest.mark.parametrize(
    ("choice", "tools", "cause"),
    [
        (NamedTool("late"), (A, LATE), "tool 'late' had to be called and isn't offered; the model is left to decide"),
        (NamedTool("nosuch"), (A,), "tool 'nosuch' had to be called and isn't offered; the model is left to decide"),
        ("required", (HIDDEN,), "a tool had to be called and none is offered; the model is left to decide"),
    ],
)
def test_a_choice_that_no_provider_would_take_is_loosened_and_told(choice, tools, cause):
    made = _pack_tools(asks(*tools, tool_choice=choice))
    assert (made.tool_choice, [problem.cause for problem in made.problems]) == ("auto", [cause])


@pytest.mark.parametrize("choice", ["auto", "none", "required", NamedTool("a")])
def test_a_choice_that_can_be_met_stands(choice):
    made = _pack_tools(asks(A, tool_choice=choice))
    assert (made.tool_choice, made.problems) == (choice, ())
