"""Calls that wait for a person's answer, or for their host's result."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import (
    Later,
    ModelRequest,
    Once,
    ReadonlyContext,
    Reject,
    Tool,
    ToolCall,
    ToolRegistry,
    ToolSpec,
    register_plugin,
    run_turn,
    tool,
)
from pegboard.testing import ScriptedModel
from pegboard_guard import ComesAfter, Distinct, Guard, Limit, OrderRules
from pegboard_guard.limits import CallLimits

TURN = ReadonlyContext(session="s", invocation="i1")


@tool(requires_confirmation=True)
async def send() -> str:
    """Sends."""
    return "sent"


@tool
async def look() -> str:
    """Looks."""
    return "seen"


def make_registry(*guards, **settings):
    registry = ToolRegistry(approver=lambda _request, _context: Later())
    registry.register(send, look)
    for guard in guards or [Guard({"doom_loop": 0, **settings})]:
        assert register_plugin(registry, guard, type(guard).__name__).status == "loaded"
    return registry


YES = Once()
numbers = iter(range(1_000))


def suspend(registry):
    """The pending call of a call of `send`."""
    outcome = asyncio.run(registry.dispatch([ToolCall("send", {}, f"c{next(numbers)}")], context=TURN))
    assert outcome.results[0].kind == "confirmation_required"
    return outcome.pending


def resume(registry, pending, answer=YES):
    """The result of a pending call."""
    answers = {each.id: answer for each in pending}
    return asyncio.run(registry.resume(pending, answers, context=TURN)).results[0]


def see(registry):
    """The kind of the result of a call of `look`."""
    return asyncio.run(registry.dispatch([ToolCall("look", {}, f"c{next(numbers)}")], context=TURN)).results[0].kind


RULES = [
    {"limits": [{"calls": 1, "tools": "send"}]},
    {"limits": [{"calls": 1, "tools": "send", "seconds": 600}]},
    {"order": {"distinct": [{"tools": "send"}]}},
    {"order": {"cooldown": [{"tools": "send", "seconds": 600}]}},
    {"order": {"not_after": [{"tools": "send", "after": "send"}]}},
    {"doom_loop": 2, "doom_loop_action": "deny"},
    {"doom_loop": 2, "doom_loop_action": "deny", "limits": [{"calls": 5}]},
]


@pytest.mark.parametrize("settings", RULES)
def test_a_call_that_waits_for_an_answer_is_counted_once_when_it_runs(settings):
    """It is judged again then, not by its own first beginning."""
    registry = make_registry(**settings)
    assert resume(registry, suspend(registry)).text == "sent"
    outcome = asyncio.run(registry.dispatch([ToolCall("send", {}, "another")], context=TURN))
    assert outcome.results[0].kind == "denied"


@pytest.mark.parametrize("settings", RULES[:-2])
def test_a_call_that_is_rejected_later_was_never_counted(settings):
    """The next one runs."""
    registry = make_registry(**settings)
    assert resume(registry, suspend(registry), Reject("no")).kind == "rejected"
    assert resume(registry, suspend(registry)).text == "sent"


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"limits": [{"calls": 1}]}, "denied"),
        ({"order": {"exclusive": [{"tools": ["send", "look"]}]}}, "denied"),
        ({"order": {"not_after": [{"tools": "look", "after": "send"}]}}, None),
    ],
)
def test_while_a_call_waits_others_run(settings, kind):
    """And may leave nothing for it."""
    registry = make_registry(**settings)
    pending = suspend(registry)
    assert see(registry) is None
    assert resume(registry, pending).kind == kind


def test_a_guard_that_is_used_alone_counts_it_once_too():
    """Several guards know the same call."""
    registry = make_registry(CallLimits(Limit(1)), OrderRules(Distinct("send")))
    pending = [suspend(registry) for _ in range(2)]
    assert [resume(registry, each).kind for each in pending] == [None, "denied"]


def test_a_call_that_its_host_runs_counts_from_its_start_and_succeeds_with_the_hosts_result():
    """It has no result before."""
    registry = make_registry(OrderRules(ComesAfter("look", "build")), CallLimits(Limit(1, "build")))
    registry.register(Tool(ToolSpec("build", "Builds.", {"type": "object", "properties": {}})))

    async def run(request, *script, **options):
        with ScriptedModel(script) as model:
            return await run_turn(model, request, registry, TURN, **options)

    two = [ToolCall("build", {}, "1"), ToolCall("build", {}, "2")]
    began = asyncio.run(run("Build.", two))
    assert [call.id for call in began.for_host] == ["1"]
    assert see(registry) == "denied"
    asyncio.run(run(ModelRequest(), "Done.", resume=began, tool_results={"1": "built"}))
    assert see(registry) is None
