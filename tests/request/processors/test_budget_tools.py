from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from pegboard.request.model_request import ModelRequest, NamedTool
from pegboard.request.processors import BudgetTools, _estimated_tokens
from pegboard.tools.spec import ToolSpec
from pegboard.toolsets.resolve import resolve_tools
from toolsets.samples import make_tool


def sized(name, tokens, **facts):
    """A tool that takes so many tokens."""
    empty = _estimated_tokens(ToolSpec(name))
    tool = make_tool(name, description="x" * 4 * (tokens - empty), **facts)
    assert _estimated_tokens(tool.spec) == tokens
    return tool


def asks(*tools, **facts):
    return ModelRequest("a", tools=asyncio.run(resolve_tools(tools)), **facts)


def kept(step, *tools, **facts):
    request = asks(*tools, **facts)
    return (step(request) or request).tools.names


A, B, C, D = (sized(name, tokens) for name, tokens in (("a", 100), ("b", 50), ("c", 200), ("d", 50)))


@pytest.mark.parametrize(
    ("tokens", "names"),
    [(None, "abcd"), (400, "abcd"), (399, "abc"), (210, "abd"), (200, "abd"), (100, "a"), (99, "b"), (10, ""), (0, "")],
)
def test_what_fits_is_kept_in_the_order_of_the_request(tokens, names):
    assert kept(BudgetTools(tokens), A, B, C, D) == tuple(names)


def test_it_is_off_by_default_and_costs_nothing():
    assert BudgetTools()(asks(A)) is None
    assert BudgetTools(1)(ModelRequest("a")) is None
    assert BudgetTools(100)(asks(A)) is None


def test_those_that_rank_highest_are_kept_and_stand_where_they_stood():
    by_size = BudgetTools(260, rank=lambda tool: _estimated_tokens(tool.spec))
    assert kept(by_size, A, B, C, D) == ("b", "c")
    same = BudgetTools(160, rank=lambda tool: 0)
    assert kept(same, A, B, C, D) == ("a", "b")


def test_pinned_ones_stay_whatever_they_take():
    assert kept(BudgetTools(10, pinned=["c"]), A, B, C) == ("c",)
    assert kept(BudgetTools(260, pinned=["c"]), A, B, C, D) == ("b", "c")
    assert kept(BudgetTools(10), A, B, tool_choice=NamedTool("b")) == ("b",)


def test_what_takes_nothing_isnt_counted():
    """Tools that aren't sent, and deferred ones, which their provider loads."""
    hidden = sized("h", 500).evolve(offered=False)
    deferred = sized("z", 500, deferred=True)
    assert BudgetTools(100)(asks(A, hidden, deferred)) is None
    assert BudgetTools(100)(asks(A, hidden, deferred, loads_deferred=True)) is None


def test_each_that_is_left_out_says_why():
    tools = BudgetTools(120)(asks(A, B)).tools
    assert str(tools.explain("b")) == (
        "b: not offered\n  + offered: by the host\n  - budget: it takes about 50 tokens, and 20 of 120 are left"
    )
    assert "+ budget: kept" in str(tools.explain("a"))


@given(
    st.lists(st.integers(32, 90), max_size=8),
    st.integers(0, 400),
    st.sets(st.integers(0, 7)),
    st.sampled_from([None, lambda tool: tool.name, lambda tool: -len(tool.spec.description)]),
)
def test_the_budget_is_kept_and_the_same_request_gives_the_same(sizes, tokens, pinned, rank):
    tools = [sized(f"t{number}", size) for number, size in enumerate(sizes)]
    step = BudgetTools(tokens, pinned=[f"t{number}" for number in pinned], rank=rank)
    request = asks(*tools)
    made = step(request) or request
    fixed = sum(size for number, size in enumerate(sizes) if number in pinned)
    assert sum(_estimated_tokens(tool.spec) for tool in made.offered) <= max(tokens, fixed)
    assert {f"t{number}" for number in pinned if number < len(sizes)} <= set(made.tools.names)
    assert (step(request) or request).tools.names == made.tools.names
    assert step(made) is None or fixed > tokens
    assert list(made.tools.names) == [tool.name for tool in tools if tool.name in made.tools]


def test_the_estimate_is_of_bytes_and_kept_with_the_spec():
    plain, wide = ToolSpec("a", "x" * 400), ToolSpec("a", "\N{CJK UNIFIED IDEOGRAPH-5B57}" * 400)
    assert _estimated_tokens(wide) - _estimated_tokens(plain) == 200
    assert _estimated_tokens(plain) == _estimated_tokens(ToolSpec("a", "x" * 400))
    with_examples = plain.evolve(examples=({"a": "x" * 40},))
    assert _estimated_tokens(with_examples) > _estimated_tokens(plain)
