from __future__ import annotations

import pytest

from pegboard.errors import DuplicateToolError
from pegboard.toolsets.resolve import settled_names
from pegboard.toolsets.toolset import Offer, ToolsetProblem
from toolsets.samples import late_tool, make_tool, names

STATIC = make_tool("a")
PLUGINS = make_tool("a", plugin="p")
FIRST = make_tool("a", plugin="p", toolset="first")
SECOND = make_tool("a", plugin="q", toolset="second")


def settled(static, *offers, policy="keep"):
    return settled_names(static, [Offer(offer) for offer in offers], policy)


def test_everything_is_one_list_sorted_by_name():
    candidates = settled([make_tool("b"), make_tool("d")], [make_tool("e"), make_tool("a")], [make_tool("c")])
    assert (names(candidates.tools), candidates.held, candidates.problems) == (list("abcde"), (), ())


def test_without_toolsets_the_static_tools_are_taken_as_they_are():
    static = (STATIC,)
    assert settled_names(static, []).tools is static


@pytest.mark.parametrize(
    ("policy", "static", "offers", "winner"),
    [
        ("keep", [STATIC], [[FIRST]], STATIC),
        ("keep", [PLUGINS], [[SECOND]], PLUGINS),
        ("keep", [], [[FIRST], [SECOND]], FIRST),
        ("keep", [PLUGINS], [[make_tool("a", toolset="mine")]], "mine"),
        ("keep", [], [[FIRST], [make_tool("a", toolset="mine")]], "mine"),
        ("keep", [STATIC], [[make_tool("a", toolset="mine")]], STATIC),
        ("replace", [], [[FIRST], [SECOND]], SECOND),
        ("shadow", [PLUGINS], [[SECOND]], SECOND),
        ("replace", [STATIC], [[FIRST]], STATIC),
        ("replace", [STATIC], [[make_tool("a", toolset="mine")]], "mine"),
    ],
)
def test_who_has_the_name(policy, static, offers, winner):
    """A host's tool before any plugin's; then the policy."""
    candidates = settled(static, *offers, policy=policy)
    (tool,) = candidates.tools
    assert tool.origin.toolset == winner if isinstance(winner, str) else tool is winner
    everyone = [*static, *(tool for offer in offers for tool in offer)]
    assert [held for held, _ in candidates.held] == [other for other in everyone if other is not tool]
    assert all(holder is tool for _, holder in candidates.held)


def test_what_is_held_back_is_a_problem_that_names_both():
    (problem,) = settled([], [FIRST], [SECOND]).problems
    assert (problem.toolset, problem.tool, problem.origin) == ("second", "a", SECOND.origin)
    assert "plugin 'p', toolset 'first' has the name" in problem.cause


def test_an_error_names_both():
    with pytest.raises(DuplicateToolError) as caught:
        settled([STATIC], [FIRST], policy="error")
    assert (caught.value.held_by, caught.value.wanted_by) == (str(STATIC.origin), str(FIRST.origin))


def test_a_prefix_tells_where_the_later_comes_from():
    candidates = settled([STATIC], [FIRST], [SECOND], policy="prefix")
    assert (names(candidates.tools), candidates.held) == (["a", "p_a", "q_a"], ())


def test_a_tool_found_late_is_found_under_its_prefix():
    late, _ = late_tool(FIRST)
    _, prefixed = settled([STATIC], [late], policy="prefix").tools
    assert prefixed.handler.load().name == "p_a"


@pytest.mark.parametrize("taken", [[make_tool("a"), make_tool("p_a")], [make_tool("a" * 63)]])
def test_a_prefix_that_makes_no_free_name_holds_back(taken):
    tool = make_tool(taken[0].name, plugin="p")
    candidates = settled(taken, [tool], policy="prefix")
    assert (names(candidates.tools), candidates.held) == (names(taken), ((tool, taken[0]),))


def test_a_hosts_toolset_is_prefixed_by_its_own_name():
    candidates = settled([STATIC], [make_tool("a", toolset="mine")], [make_tool("a")], policy="prefix")
    assert names(candidates.tools) == ["a", "host_a", "mine_a"]


def test_the_same_tool_twice_is_no_clash():
    assert settled([STATIC], [STATIC], policy="error").held == ()


def test_problems_and_what_was_dropped_are_kept():
    offer = Offer([], [ToolsetProblem("t", "x")])
    assert settled_names([], [offer]).problems == offer.problems
