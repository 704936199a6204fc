"""Calls and batches that a tool runs through its registry: they have the locks of its call."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import Limits, ToolCall, ToolContext, ToolRegistry, tool

PATIENCE = 60  # seconds; only a broken test waits so long


class Counted:
    """A registry with a tool that counts how many of its calls run at once."""

    def __init__(self, **limits):
        self.registry = ToolRegistry(limits=Limits(timeout=PATIENCE, **limits))
        self.now = self.most = 0

        @tool
        async def count() -> str:
            """Counts."""
            self.now += 1
            self.most = max(self.most, self.now)
            for _ in range(6):
                await asyncio.sleep(0)
            self.now -= 1
            return "counted"

        @tool(concurrency="exclusive")
        async def alone() -> str:
            """Runs alone."""
            return "alone"

        self.registry.register(count, alone)

    def run(self, inside, calls=1):
        """The outcome of calls of a tool that does this."""

        @tool(concurrency="shared")
        async def outer() -> str:
            """Calls others."""
            return await inside(self.registry)

        self.registry.register(outer)
        made = [ToolCall("outer", {}, f"{number}") for number in range(calls)]
        return asyncio.run(self.registry.dispatch(made))


async def by_batch(registry):
    outcome = await registry.dispatch([ToolCall("alone", {}, "1")])
    return outcome.results[0].text


async def by_call(registry):
    return (await registry.call("alone")).text


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("inside", [by_batch, by_call])
def test_an_exclusive_call_inside_a_shared_one_doesnt_wait_for_it(inside, calls):
    outcome = Counted().run(inside, calls)
    assert [result.text for result in outcome.results] == ["alone"] * calls


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
async def test_a_call_with_the_context_of_its_caller_has_its_locks(mode):
    registry = Counted().registry

    @registry.register
    @tool(concurrency=mode)
    async def outer(context: ToolContext) -> str:
        return (await registry.call("alone", {}, context)).text

    assert (await registry.call("outer")).text == "alone"


def test_a_call_inside_another_takes_no_slot_of_the_registry():
    assert Counted(max_concurrency=1).run(by_batch).results[0].text == "alone"


def test_a_batch_inside_a_call_has_its_own_slots():
    counted = Counted()

    async def inside(registry):
        made = [ToolCall("count", {}, f"{number}") for number in range(6)]
        outcome = await registry.dispatch(made, max_concurrency=2)
        return f"{len(outcome)}"

    assert counted.run(inside).results[0].text == "6"
    assert counted.most == 2


def test_a_call_of_another_registry_inside_a_call_has_no_locks_of_it():
    other = Counted()

    async def inside(_registry):
        return await by_batch(other.registry)

    assert Counted().run(inside).results[0].text == "alone"


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_a_call_that_waits_unlocked_lets_exclusive_ones_run(mode):
    seen, begun, done = [], asyncio.Event(), asyncio.Event()

    @tool(concurrency=mode)
    async def wait(context: ToolContext) -> str:
        """Waits for others."""
        with context.unlocked():
            begun.set()
            if mode == "shared":
                await done.wait()
        seen.append("wait")
        return "waited"

    @tool(concurrency="exclusive")
    async def alone() -> str:
        """Runs alone."""
        seen.append("alone")
        done.set()
        return "alone"

    async def main():
        registry = ToolRegistry(limits=Limits(timeout=PATIENCE))
        registry.register(wait, alone)
        waiting = asyncio.ensure_future(registry.dispatch([ToolCall("wait", {}, "1")]))
        await begun.wait()
        await registry.dispatch([ToolCall("alone", {}, "2")])
        return (await waiting).results[0].text

    assert asyncio.run(main()) == "waited"
    assert seen == (["alone", "wait"] if mode == "shared" else ["wait", "alone"])


def test_in_a_context_made_by_hand_there_are_no_locks():
    with ToolContext().unlocked():
        pass
