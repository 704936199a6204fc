from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pegboard.errors import InvalidNameError
from pegboard.tools.spec import ToolSpec, is_valid_name
from pegboard.tools.tool import Tool
from pegboard.toolsets.wrappers import FilteredToolset, PrefixedToolset, prefixed_name
from toolsets.samples import CallingToolset, PlainToolset, called, late_tool, make_tool, names, offered

tool_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", fullmatch=True)
prefixes = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,15}", fullmatch=True)


@given(prefixes, tool_names)
def test_prefixed_names_are_valid_and_hold_prefix_and_name(prefix, name):
    prefixed = prefixed_name(prefix, name)
    assert is_valid_name(prefixed)
    if len(prefix) + len(name) < 64:
        assert prefixed.startswith(prefix)
        assert prefixed.endswith(name)


@given(prefixes, tool_names, tool_names)
def test_two_names_never_become_one(prefix, first, second):
    assert (prefixed_name(prefix, first) == prefixed_name(prefix, second)) is (first == second)


@pytest.mark.parametrize(("prefix", "name"), [("git", "git_push"), ("git_", "git_push"), ("git-", "git-push")])
def test_a_separator_stands_between(prefix, name):
    assert prefixed_name(prefix, "push") == name


def test_a_call_reaches_the_toolset_under_its_own_name():
    toolset = CallingToolset(tools=[Tool(ToolSpec("push", "", {"type": "object"}))])
    (tool,) = offered(PrefixedToolset(PrefixedToolset(toolset, "git"), "my"))
    assert tool.name == "my_git_push"
    assert called(tool, {"x": 1}) == {"ran": "push"}


def test_a_tool_found_late_is_found_under_the_new_name():
    late, _ = late_tool(make_tool("push"))
    (tool,) = offered(PrefixedToolset(PlainToolset(tools=[late]), "git"))
    assert (tool.name, tool.handler.load().name) == ("git_push", "git_push")


def test_tools_that_are_not_there_get_the_prefix_too():
    inner = FilteredToolset(PlainToolset(tools=[make_tool("push")]), "edit")
    assert [each.name for each in offered(PrefixedToolset(inner, "git")).dropped] == ["git_push"]


@pytest.mark.parametrize("prefix", ["", "1", "a b", "é", "a."])
def test_a_prefix_with_which_no_name_can_start_is_refused(prefix):
    with pytest.raises(InvalidNameError):
        PrefixedToolset(PlainToolset(), prefix)


def test_the_name_of_the_toolset_stays_and_the_order_too():
    toolset = PrefixedToolset(PlainToolset("git", [make_tool("b"), make_tool("a")]), "git")
    assert (toolset.name, names(offered(toolset))) == ("git", ["git_b", "git_a"])
