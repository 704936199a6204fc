"""Stores of grants with async methods, as of a database that several processes share."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import Permissions, ReadonlyContext, ToolCall, ToolContext, ToolError, ToolRegistry, tool
from pegboard.approval import Always, MemoryGrants, Once, RefusedError, Reject, ask_later, tool_key
from pegboard.permissions import Rule

ANN = ReadonlyContext(user="ann", session="s1")
ASKS = Permissions([Rule("delete", "*", "ask"), Rule("look", "*", "allow"), Rule("edit", "*", "ask")])


class AsyncGrants:
    """Memory behind methods that wait; `read` counts how often rules were read."""

    def __init__(self):
        self.memory, self.read = MemoryGrants(), 0

    async def rules(self, session, tool):
        await asyncio.sleep(0)
        self.read += 1
        return self.memory.rules(session, tool)

    async def add(self, session, tool, rules, seconds=None):
        await asyncio.sleep(0)
        self.memory.add(session, tool, rules, seconds)

    async def consume(self, pending_id):
        await asyncio.sleep(0)
        return self.memory.consume(pending_id)

    async def forget(self, context):
        await asyncio.sleep(0)
        self.memory.forget(context)


@tool(permission="delete", permission_arguments={"path": "text"})
async def delete(path: str) -> str:
    return f"deleted {path}"


@tool
async def look(context: ToolContext) -> str:
    return f"{[path for path in ('a', 'b') if context.allows('edit', path)]}"


@pytest.fixture
def grants():
    return AsyncGrants()


@pytest.fixture
def registry(grants):
    """A registry for one process of a host; all have one store."""

    def registry(*answers):
        left = list(answers)
        made = ToolRegistry(grants=grants, permissions=ASKS, approver=lambda request, context: left.pop(0))
        made.register(delete, look)
        made.answers = left
        return made

    return registry


async def test_what_was_allowed_in_one_process_is_allowed_in_another(registry):
    one, other = registry(Always()), registry()
    assert (await one.call("delete", {"path": "a"}, ANN)).text == "deleted a"
    assert (await other.call("delete", {"path": "a"}, ANN)).text == "deleted a"
    assert (await other.decide("delete", {"path": "a"}, ANN)).action == "allow"
    assert (await other.decide("delete", {"path": "b"}, ANN)).action == "ask"


async def test_a_grant_that_another_process_revokes_no_longer_counts(registry):
    one, other = registry(Always()), registry(Reject())
    await one.call("delete", {"path": "a"}, ANN)
    await one.grants.forget(ANN)
    assert (await other.call("delete", {"path": "a"}, ANN)).kind == "rejected"
    assert other.answers == []


async def test_it_does_not_even_count_if_it_is_revoked_right_before_the_tool_runs(registry, grants):
    one, other = registry(Always()), registry()
    await one.call("delete", {"path": "a"}, ANN)

    async def wrap(call_next):
        await grants.forget(ANN)
        return await call_next()

    other.add_callback("wrap_tool", wrap)
    result = await other.call("delete", {"path": "a"}, ANN)
    assert result.kind == "denied"
    assert "it needs approval after a change of permissions" in result.text


async def test_a_grant_settles_what_waits_in_the_same_session(registry):
    asked = []

    async def approver(request, context):
        asked.append(request)
        if len(asked) < 3:
            await asyncio.Event().wait()
        return Always()

    one = registry()
    one.approver = approver
    results = await asyncio.gather(*(one.call("delete", {"path": "a"}, ANN) for _ in range(3)))
    assert {each.text for each in results} == {"deleted a"}


async def test_an_answer_counts_once_over_all_processes(registry):
    one, other = registry(), registry()
    one.approver = ask_later
    outcome = await one.dispatch([ToolCall("delete", {"path": "a"}, "toolu_1")], context=ANN)
    (pending,) = outcome.pending
    first, second = await asyncio.gather(
        *(each.resume(outcome.pending, {pending.id: Once()}, context=ANN) for each in (one, other))
    )
    kinds = {first.results[0].kind, second.results[0].kind}
    assert kinds == {None, "unknown_outcome"}


async def test_a_resumed_always_is_granted(registry):
    one, other = registry(), registry()
    one.approver = ask_later
    outcome = await one.dispatch([ToolCall("delete", {"path": "a"}, "toolu_1")], context=ANN)
    (pending,) = outcome.pending
    await one.resume(outcome.pending, {pending.id: Always()}, context=ANN)
    assert (await other.call("delete", {"path": "a"}, ANN)).text == "deleted a"


async def test_a_running_tool_sees_them_even_if_its_call_needed_none(registry, grants):
    one = registry()
    assert (await one.call("look", {}, ANN)).text == "[]"
    grants.memory.add('["ann", "s1"]', tool_key(one.get("look")), [Rule("edit", "a", "allow")])
    assert (await one.call("look", {}, ANN)).text == "['a']"


class PlainGrants(MemoryGrants):
    """Memory that can be replaced by what fails."""


class TestAStoreThatFails:
    @pytest.fixture(params=[AsyncGrants, PlainGrants])
    def store(self, request):
        return request.param()

    @pytest.fixture
    def registry(self, store):
        registry = ToolRegistry(grants=store, permissions=ASKS, approver=lambda request, context: Once())
        registry.register(delete)
        return registry

    @pytest.fixture
    def break_store(self, store, monkeypatch):
        """Lets it fail in words about changes, of which reading makes none."""

        def fail(*_):
            raise ToolError("The database was lost. It isn't known whether something was changed.", hint="Ask Bob.")

        async def fail_later(*_):
            fail()

        broken = fail if isinstance(store, PlainGrants) else fail_later
        return lambda: monkeypatch.setattr(store, "rules", broken)

    async def test_runs_no_call_and_says_that_nothing_was_changed(self, registry, break_store):
        break_store()
        result = await registry.call("delete", {"path": "a"}, ANN)
        assert result.kind == "not_executed"
        assert "delete was not run, so nothing was changed" in result.text
        assert "database" not in result.text
        assert result.text.endswith("Ask Bob.")
        assert "The database was lost" in result.detail

    async def test_denies_what_a_running_tool_asks_which_may_go_on_without(self, registry, break_store):
        @registry.register
        @tool
        async def clean(context: ToolContext) -> str:
            break_store()
            try:
                await context.ask("edit", ["a"])
            except RefusedError as error:
                return f"{error.kind}: {error.text}"

        text = (await registry.call("clean", {}, ANN)).text
        assert text.startswith("denied: clean isn't allowed to go on")


async def test_without_rules_or_questions_they_are_not_read(grants):
    registry = ToolRegistry(grants=grants)
    registry.register(look)
    assert (await registry.call("look", {}, ANN)).text == "['a', 'b']"
    assert grants.read == 0
