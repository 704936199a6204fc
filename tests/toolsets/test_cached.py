from __future__ import annotations

import asyncio

import pytest

from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.toolsets import wrappers as module
from pegboard.toolsets.wrappers import CachedToolset, RenamedToolset
from toolsets.samples import PlainToolset, make_tool, names, offered


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def counting(*tools, **options):
    inner = PlainToolset("inner", list(tools) or [make_tool("a")])
    clock = Clock()
    return inner, clock, CachedToolset(inner, 60, clock, **options)


def test_the_toolset_is_asked_once_within_its_time():
    inner, clock, toolset = counting()
    first = offered(toolset)
    clock.now += 59.9
    assert offered(toolset) is first
    assert len(inner.contexts) == 1
    clock.now += 0.1
    assert names(offered(toolset)) == ["a"]
    assert len(inner.contexts) == 2


@pytest.mark.parametrize("part", ["user", "agent", "model", "provider", "session"])
def test_each_identity_has_its_own(part):
    inner, _, toolset = counting()
    for value in ("a", "b", "a"):
        offered(toolset, ReadonlyContext(**{part: value}))
    assert [getattr(context, part) for context in inner.contexts] == ["a", "b"]


def test_the_key_can_be_chosen():
    inner, _, toolset = counting(key=lambda context: context.state.get("plan"))
    for user, plan in (("ann", "pro"), ("bob", "pro"), ("ann", "free")):
        offered(toolset, ReadonlyContext(user=user, state={"plan": plan}))
    assert [context.state["plan"] for context in inner.contexts] == ["pro", "free"]


def test_a_failure_is_not_kept():
    inner, _, toolset = counting()
    inner.error = OSError("down")
    for _ in range(2):
        with pytest.raises(OSError, match="down"):
            offered(toolset)
    inner.error = None
    assert names(offered(toolset)) == ["a"]
    assert len(inner.contexts) == 3


def test_an_answer_with_problems_is_not_kept():
    inner, _, toolset = counting(make_tool("a"), None)
    assert [names(offered(toolset)) for _ in range(2)] == [["a"], ["a"]]
    assert len(inner.contexts) == 2


def test_clearing_forgets():
    inner, _, toolset = counting()
    offered(toolset)
    toolset.clear()
    offered(toolset)
    assert len(inner.contexts) == 2


def test_the_oldest_goes_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 2)
    inner, _, toolset = counting()
    for user in ("a", "b", "c", "b", "a"):
        offered(toolset, ReadonlyContext(user=user))
    assert [context.user for context in inner.contexts] == ["a", "b", "c", "a"]


@pytest.mark.parametrize("ttl", [0, -1, float("nan")])
def test_the_time_is_above_zero(ttl):
    with pytest.raises(ValueError, match="more than 0 seconds"):
        CachedToolset(PlainToolset(), ttl)


class Gated(PlainToolset):
    """Answers when the gate opens; tells what became of each asking."""

    def __init__(self, error=None):
        super().__init__("gated", [make_tool("a")], error)
        self.gate = asyncio.Event()
        self.begun = 0
        self.cancelled = 0

    async def tools(self, context):
        self.begun += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await super().tools(context)


def waiting(toolset, count):
    return [asyncio.ensure_future(toolset.tools(NOBODY)) for _ in range(count)]


async def until(condition):
    while not condition():  # noqa: ASYNC110  what is waited for has no event of its own
        await asyncio.sleep(0)


def test_resolutions_at_the_same_time_share_one_asking():
    async def scenario():
        inner = Gated()
        tasks = waiting(CachedToolset(inner, 60), 5)
        await until(lambda: inner.begun)
        inner.gate.set()
        answers = await asyncio.gather(*tasks)
        return inner.begun, {id(answer) for answer in answers}

    begun, answers = asyncio.run(scenario())
    assert (begun, len(answers)) == (1, 1)


def test_a_shared_failure_reaches_everybody_and_is_not_kept():
    async def scenario():
        inner = Gated(OSError("down"))
        toolset = CachedToolset(inner, 60)
        tasks = waiting(toolset, 3)
        await until(lambda: inner.begun)
        inner.gate.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        inner.error = None
        return answers, await toolset.tools(NOBODY), inner.begun

    failures, answer, begun = asyncio.run(scenario())
    assert {str(failure) for failure in failures} == {"down"}
    assert (names(answer), begun) == (["a"], 2)


def test_one_that_gives_up_does_not_stop_the_others():
    async def scenario():
        inner = Gated()
        first, second = waiting(CachedToolset(inner, 60), 2)
        await until(lambda: inner.begun)
        first.cancel()
        await until(first.done)
        inner.gate.set()
        return await second, inner.cancelled

    answer, cancelled = asyncio.run(scenario())
    assert (names(answer), cancelled) == (["a"], 0)


def test_when_everybody_gives_up_the_asking_ends_and_the_next_begins_anew():
    async def scenario():
        inner = Gated()
        toolset = CachedToolset(inner, 60)
        for task in (tasks := waiting(toolset, 2)):
            await until(lambda: inner.begun)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: inner.cancelled)
        inner.gate.set()
        return names(await toolset.tools(NOBODY)), inner.begun

    assert asyncio.run(scenario()) == (["a"], 2)


class Lingering(Gated):
    """Takes its time to end when it is cancelled."""

    async def tools(self, context):
        try:
            return await super().tools(context)
        except asyncio.CancelledError:
            await self.gate.wait()
            raise


def test_nobody_joins_an_asking_that_is_ending():
    async def scenario():
        inner = Lingering()
        toolset = CachedToolset(inner, 60)
        (given_up,) = waiting(toolset, 1)
        await until(lambda: inner.begun)
        given_up.cancel()
        await until(lambda: inner.cancelled)
        first, second = waiting(toolset, 2)
        await until(lambda: inner.begun == 2)
        inner.gate.set()
        return await first is await second, inner.begun, given_up.cancelled()

    assert asyncio.run(scenario()) == (True, 2, True)


def test_what_was_asked_before_clearing_is_not_kept():
    async def scenario():
        inner = Gated()
        toolset = CachedToolset(inner, 60)
        (before,) = waiting(toolset, 1)
        await until(lambda: inner.begun)
        toolset.clear()
        (after,) = waiting(toolset, 1)
        await until(lambda: inner.begun == 2)
        inner.gate.set()
        return await before is await after, await toolset.tools(NOBODY) is await after

    assert asyncio.run(scenario()) == (False, True)


def test_each_event_loop_asks_for_itself():
    """A future of one loop can't be awaited in another."""
    inner, _, toolset = counting()
    inner.error = OSError("down")
    for _ in range(2):
        with pytest.raises(OSError, match="down"):
            asyncio.run(toolset.tools(NOBODY))
    assert len(inner.contexts) == 2


def test_one_that_wants_to_end_the_program_does_not_end_the_event_loop():
    """A task that raises `SystemExit` would; and the time of one that fails isn't kept."""

    async def scenario():
        inner = PlainToolset("odd", error=SystemExit(3))
        toolset = CachedToolset(inner, 10)
        for _ in range(2):
            with pytest.raises(SystemExit):
                await toolset.tools(NOBODY)
        return len(inner.contexts)

    assert asyncio.run(scenario()) == 2


def test_an_answer_with_notes_is_kept():
    inner = PlainToolset("t", [make_tool("a")])
    toolset = CachedToolset(RenamedToolset(inner, {"absent": "x"}), 10)
    assert [len(offered(toolset).problems) for _ in range(2)] == [1, 1]
    assert len(inner.contexts) == 1
