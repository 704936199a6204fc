"""Attempts of one user on what counts for another."""

from __future__ import annotations

import pytest

from pegboard import ReadonlyContext, ToolRegistry, register_plugin, tool
from pegboard_guard import CallLimits, ComesAfter, Limit, OrderRules


@tool(read_only=True)
def act() -> str:
    """Acts."""
    return "acted"


def registry_of(*tools) -> ToolRegistry:
    registry = ToolRegistry()
    registry.register(*tools)
    return registry


NAMELESS = [ReadonlyContext, lambda user: ReadonlyContext(user=user, session="s", invocation="t", message="m")]


@pytest.mark.parametrize("context", NAMELESS)
@pytest.mark.parametrize("within", ["session", "turn"])
def test_what_one_user_has_done_is_no_step_of_another_users_order(context, within):
    registry = registry_of(act, look)
    register_plugin(registry, OrderRules(ComesAfter("look", "act", within)), "order")
    registry.call_sync("act", {}, context(user="ann"))
    assert registry.call_sync("look", {}, context(user="bob")).kind == "denied"


@pytest.mark.parametrize("context", NAMELESS)
def test_one_users_calls_use_up_no_limit_of_another(context):
    registry = registry_of(act)
    register_plugin(registry, CallLimits(Limit(1, per="session")), "limits")
    registry.call_sync("act", {}, context(user="ann"))
    assert registry.call_sync("act", {}, context(user="bob")).kind is None
    assert registry.call_sync("act", {}, context(user="ann")).kind == "denied"


@tool(read_only=True)
def look() -> str:
    """Looks."""
    return "looked"
