from __future__ import annotations

import pytest

from pegboard.errors import InvalidNameError, RegistrationError
from pegboard.toolsets.toolsets import CombinedToolset
from pegboard.toolsets.wrappers import FilteredToolset, RenamedToolset
from toolsets.samples import PlainToolset, called, make_tool, names, offered

INNER = PlainToolset("inner", [make_tool("a"), make_tool("b")])


def test_only_what_is_named_is_renamed():
    tools = offered(RenamedToolset(INNER, {"a": "alpha", "absent": "x"}))
    assert (names(tools), tools.has_failed) == (["alpha", "b"], False)
    assert tools[1] is INNER.answer[1]
    assert called(tools[0], {}) == {}


def test_two_tools_can_swap_their_names():
    assert names(offered(RenamedToolset(INNER, {"a": "b", "b": "a"}))) == ["b", "a"]


def test_a_name_that_is_taken_stays_with_the_first():
    offer = offered(RenamedToolset(INNER, {"b": "a"}))
    assert (names(offer), [problem.tool for problem in offer.problems]) == (["a"], ["a"])


def test_tools_that_are_not_there_are_known_by_the_new_name():
    offer = offered(RenamedToolset(FilteredToolset(INNER, "edit"), {"a": "alpha"}))
    assert [each.name for each in offer.dropped] == ["alpha", "b"]


def test_a_name_that_isnt_one_is_refused():
    with pytest.raises(InvalidNameError):
        RenamedToolset(INNER, {"a": "al pha"})


def test_two_tools_cannot_get_one_name():
    with pytest.raises(RegistrationError, match="'a' and 'b' can't both be renamed to 'c'"):
        RenamedToolset(INNER, {"a": "c", "b": "c"})


def test_a_name_that_nobody_has_is_noted():
    offer = offered(RenamedToolset(INNER, {"bb": "x"}))
    assert [(each.cause, each.note) for each in offer.problems] == [
        ("no tool is called 'bb', which was to be renamed. Did you mean 'b'?", True)
    ]
    assert (names(offer), offer.has_failed) == (["a", "b"], False)


def test_a_tool_that_was_there_before_or_is_filtered_out_is_not_noted():
    inner = PlainToolset("inner", [make_tool("a")])
    toolset = RenamedToolset(inner, {"a": "alpha"})
    offered(toolset)
    inner.answer = []
    assert offered(toolset).problems == ()
    assert offered(RenamedToolset(FilteredToolset(INNER, "edit"), {"a": "alpha"})).problems == ()


def test_where_something_failed_nobody_knows_which_names_there_are():
    broken = CombinedToolset("both", [PlainToolset("down", error=OSError("down"))])
    (problem,) = offered(RenamedToolset(broken, {"a": "alpha"})).problems
    assert problem.toolset == "down"


def test_many_names_that_nobody_has_are_noted_without_near_misses():
    offer = offered(RenamedToolset(INNER, {f"a{n}": f"x{n}" for n in range(30)}))
    assert len(offer.problems) == 20
    assert "Did you mean" not in str(offer.problems[0])
