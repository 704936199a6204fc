from __future__ import annotations

import pytest

from pegboard.errors import ExpressionError
from pegboard.tools.context import ReadonlyContext
from pegboard.toolsets.predicates import for_user, named, tagged
from pegboard.toolsets.wrappers import FilteredToolset
from toolsets.samples import PlainToolset, make_tool, names, offered

INNER = PlainToolset("inner", [make_tool("a", tags=["net"]), make_tool("b"), make_tool("c", tags=["net"])])


@pytest.mark.parametrize("predicate", [tagged("net"), "tag:net", lambda tool, context: "net" in tool.spec.tags])
def test_only_those_for_which_it_is_so_stay(predicate):
    assert names(offered(FilteredToolset(INNER, predicate))) == ["a", "c"]


def test_the_context_is_asked_each_time():
    toolset = FilteredToolset(INNER, named("a") | for_user("ann"))
    assert names(offered(toolset, ReadonlyContext(user="ann"))) == ["a", "b", "c"]
    assert names(offered(toolset, ReadonlyContext(user="bob"))) == ["a"]


def test_what_is_dropped_is_told_with_its_reason():
    offer = offered(FilteredToolset(INNER, "tag:net and not name:a"))
    assert [(each.name, each.step, each.text) for each in offer.dropped] == [
        ("a", "filtered", "name:a is so (name: a)"),
        ("b", "filtered", "tag:net is not so (tag: none)"),
    ]


def fails(tool, context):
    raise KeyError(tool.name)


def test_where_it_raises_the_tool_is_out_and_the_problem_is_told():
    offer = offered(FilteredToolset(INNER, fails))
    assert (len(offer), len(offer.dropped)) == (0, 3)
    assert str(offer.problems[0]) == "toolset 'inner': tool 'a' can't be filtered: KeyError: 'a'"


def test_a_text_that_does_not_parse_is_refused_at_once():
    with pytest.raises(ExpressionError):
        FilteredToolset(INNER, "tag:")
