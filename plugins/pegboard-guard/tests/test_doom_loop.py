"""The doom loop guard."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, strategies as st

from pegboard import (
    Always,
    CallError,
    Deny,
    Later,
    Once,
    ReadonlyContext,
    Reject,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolResult,
    register_plugin,
    tool,
    tool_of,
)
from pegboard_guard import DoomLoop
from pegboard_guard.rules import MOST

SESSION = ReadonlyContext(session="s1")


@tool
async def look(at: str = "") -> str:
    """Look at something."""
    return f"seen {at}"


@tool
async def other() -> str:
    """Do something else."""
    return "done"


LOOK = tool_of(look)


class Host:
    """Answers what a call asks for, and records it."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def ask(self, context, permission, patterns, always, metadata):
        self.asked.append((permission, patterns, always, metadata))
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


def run(guard, context, times=1, arguments=None):
    """The guard's results for some calls of `look` in a row."""

    async def main():
        return [await guard.pegboard_before_tool(context, LOOK, arguments or {}) for _ in range(times)]

    return asyncio.run(main())


TEXT = (
    "this is call 3 in a row of look with the same arguments. "
    "Change the arguments, use another tool, or tell the user what is missing."
)


def test_agents_that_run_at_the_same_time_have_rows_of_their_own():
    """Neither adds to the other's row, nor ends it."""
    guard, top = DoomLoop(action="deny"), ReadonlyContext(session="s1", invocation="i1")
    one, other = (
        ToolContext(ReadonlyContext(session=f"s1/{name}", invocation=name, branch=f"all.{name}", root=top))
        for name in ("one", "other")
    )
    denied = [run(guard, context, arguments={"at": at})[0] for context, at in [(one, "a"), (other, "b")] * 3]
    assert [each is not None for each in denied] == [False] * 4 + [True] * 2
    assert run(guard, ToolContext(top), arguments={"at": "a"}) == [None]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"))))
def test_repeated_calls_are_counted_by_session(made):
    guard = DoomLoop(2, "deny")
    before = {}
    for session, at in made:
        (denied,) = run(guard, ToolContext(ReadonlyContext(session=session)), arguments={"at": at})
        assert (denied is not None) is (before.get(session) == at)
        before[session] = at


@pytest.mark.slow
def test_the_least_recently_used_session_is_forgotten():
    guard = DoomLoop(2, "deny")
    sessions = [ToolContext(ReadonlyContext(session=str(number))) for number in range(MOST + 1)]
    for context in (*sessions[:MOST], sessions[0], sessions[MOST]):
        run(guard, context)
    assert run(guard, sessions[0]) != [None]
    assert run(guard, sessions[1]) == [None]


def test_threads_lose_no_call():
    guard = DoomLoop(801, "deny")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: run(guard, ToolContext(SESSION), 200), range(4)))
    assert run(guard, ToolContext(SESSION)) != [None]


def test_the_third_same_call_asks_for_the_permission_doom_loop():
    """And so does each further one."""
    host = Host(None, None)
    assert run(DoomLoop(), ToolContext(SESSION, host=host), 4) == [None] * 4
    assert host.asked == [("doom_loop", ["look"], (), {"times": times}) for times in (3, 4)]


def test_without_an_approver_a_repeated_call_is_denied_with_advice():
    for context in (ToolContext(SESSION), ToolContext(SESSION, host=Host(CallError("denied", "no approver")))):
        assert run(DoomLoop(), context, 3) == [None, None, Deny(TEXT)]


@pytest.mark.parametrize("kind", ["rejected", "confirmation_required"])
def test_a_persons_answer_or_suspension_is_the_result(kind):
    context = ToolContext(SESSION, host=Host(CallError(kind, "text")))
    assert run(DoomLoop(), context, 3)[-1] == ToolResult.error(kind, "text")


def test_an_error_of_the_host_is_raised():
    with pytest.raises(OSError, match="gone"):
        run(DoomLoop(), ToolContext(SESSION, host=Host(OSError("gone"))), 3)


def make_registry(approver):
    registry = ToolRegistry(approver=approver)
    registry.register(look, other)
    register_plugin(registry, DoomLoop(), "doom")
    return registry


def outcomes(registry, count):
    async def main():
        return [await registry.dispatch([ToolCall("look", {}, str(number))], None, SESSION) for number in range(count)]

    return asyncio.run(main())


@pytest.mark.parametrize(("answer", "times"), [(Once(), 2), (Always(), 1)])
def test_a_person_may_let_it_run(answer, times):
    """Each time, or from then on for the tool in the session."""
    asked = []

    async def approver(request, context):
        asked.append((request.permission, request.patterns, request.wider))
        return answer

    assert [outcome.results[0].kind for outcome in outcomes(make_registry(approver), 4)] == [None] * 4
    assert asked == [("doom_loop", ("look",), ())] * times


@pytest.mark.parametrize(("answer", "ended"), [(Reject("Stop it."), None), (Reject(), "rejected")])
def test_a_persons_rejection_is_the_result(answer, ended):
    *_, last = outcomes(make_registry(lambda request, context: answer), 3)
    assert (last.results[0].kind, last.ended) == ("rejected", ended)


def test_an_answer_may_come_later():
    registry = make_registry(lambda request, context: Later())
    *_, last = outcomes(registry, 3)
    assert last.results[0].kind == "confirmation_required"
    (pending,) = last.pending.calls
    resumed = asyncio.run(registry.resume(last.pending, {pending.id: Once()}, None, SESSION))
    assert [result.kind for result in resumed.results] == [None]


def test_with_the_action_deny_no_person_is_asked():
    host = Host()
    assert run(DoomLoop(action="deny"), ToolContext(SESSION, host=host), 3)[-1] == Deny(TEXT)
    assert host.asked == []


def test_without_a_session_calls_are_counted_by_turn():
    guard = DoomLoop()
    assert run(guard, ToolContext(ReadonlyContext(invocation="i1")), 3)[-1] is not None
    assert run(guard, ToolContext(ReadonlyContext(invocation="i2")), 2) == [None, None]


def test_calls_without_a_session_or_turn_and_arguments_that_arent_json_are_not_counted():
    assert run(DoomLoop(), ToolContext(), 5) == [None] * 5
    assert run(DoomLoop(), ToolContext(SESSION), 5, {"at": object()}) == [None] * 5


def test_a_suspended_call_is_counted_once_when_it_is_resumed():
    """Suspended and resumed it runs the hook twice, and is one call."""
    guard = DoomLoop()
    registry = ToolRegistry()
    registry.register(look)
    register_plugin(registry, guard, "doom")
    waits = ToolResult.error("confirmation_required", "Waits.")
    assert registry.call_sync("look", {}, SESSION).kind is None
    with registry.add_callback("before_tool", lambda: waits):
        assert registry.call_sync("look", {}, SESSION).kind == "confirmation_required"
    assert registry.call_sync("look", {}, SESSION).kind is None
    assert registry.call_sync("look", {}, SESSION).kind == "denied"


async def test_uncounting_after_another_call_changes_nothing():
    guard = DoomLoop()
    first, second = ToolContext(SESSION), ToolContext(SESSION)
    await guard.pegboard_before_tool(first, LOOK, {})
    await guard.pegboard_before_tool(second, LOOK, {"at": "b"})
    await guard.pegboard_after_tool(first, ToolResult.error("confirmation_required", ""))
    assert [await guard.pegboard_before_tool(second, LOOK, {"at": "b"}) for _ in range(2)][-1] is not None


@pytest.mark.parametrize("register", ["as a plugin", "as callbacks"])
def test_it_works_alone(register):
    registry = ToolRegistry()
    registry.register(look, other)
    guard = DoomLoop(action="deny")
    if register == "as a plugin":
        assert register_plugin(registry, guard, "doom").status == "loaded"
    else:
        registry.add_callback("before_tool", guard.pegboard_before_tool)
        registry.add_callback("after_tool", guard.pegboard_after_tool)
    kinds = [registry.call_sync(name, {}, SESSION).kind for name in ["look", "look", "other", "look", "look", "look"]]
    assert kinds == [None] * 5 + ["denied"]


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"times": 1}, ValueError), ({"times": True}, TypeError), ({"action": "stop"}, ValueError)],
)
def test_wrong_settings_are_refused(settings, error):
    with pytest.raises(error):
        DoomLoop(**settings)
