"""Laws of batches, whatever is in them: one result a call, in order, nothing held after, and no run without a yes."""

from __future__ import annotations

import asyncio

from hypothesis import given, strategies as st

from pegboard import Concurrency, FatalToolError, ToolCall, ToolContext, ToolError, ToolRegistry, tool
from pegboard.dispatch.approval.request import Always, Later, Once, Reject
from pegboard.dispatch.events import CallEnded

NAMES = ("share", "alone", "write", "read", "wipe", "fail", "end", "nest", "plain", "unknown", "share!")
CALLS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from("ab")), max_size=8)
ANSWERS = st.lists(st.sampled_from([Once(), Always(), Reject(), Reject("no"), Later(), None]), max_size=8)
INTERRUPTIONS = st.none() | st.tuples(st.integers(0, 12), st.sampled_from(["abort", "skip", "finish"]))


class Board:
    """Tools that note how they run, and a person who answers from a list."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.allowed = 0
        self.wiped = 0
        self.writing = dict.fromkeys("ab", 0)
        self.reading = dict.fromkeys("ab", 0)
        self.running = 0
        self.alone = False
        self.registry = ToolRegistry(approver=self.approve)
        self.registry.register(*self.tools())

    async def approve(self, request, context):
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if self.answers else Once()
        if isinstance(answer, Once):
            self.allowed += 1
        return answer

    def tools(self):  # noqa: C901, PLR0915  one tool after the other
        async def step(steps=2):
            for _ in range(steps):
                await asyncio.sleep(0)

        @tool
        async def share(key: str) -> str:
            """Run beside others."""
            assert not self.alone
            self.running += 1
            try:
                await step()
            finally:
                self.running -= 1
            return key

        @tool(concurrency="exclusive")
        async def alone(key: str) -> str:
            """Run alone."""
            assert not self.running
            assert not any((*self.writing.values(), *self.reading.values()))
            self.alone = True
            try:
                await step()
            finally:
                self.alone = False
            return key

        @tool(concurrency=Concurrency("key", ("key",)))
        async def write(key: str) -> str:
            """Have the key alone."""
            assert not self.writing[key]
            assert not self.reading[key]
            self.writing[key] += 1
            try:
                await step()
            finally:
                self.writing[key] -= 1
            return key

        @tool(concurrency=Concurrency("key", ("key",), "read"))
        async def read(key: str) -> str:
            """Share the key with readers."""
            assert not self.writing[key]
            self.reading[key] += 1
            try:
                await step()
            finally:
                self.reading[key] -= 1
            return key

        @tool(destructive=True)
        async def wipe(key: str) -> str:
            """Ask before."""
            self.wiped += 1
            return key

        @tool
        async def fail(key: str) -> str:
            """Fail."""
            raise ToolError("no")

        @tool
        async def end(key: str) -> str:
            """End the turn."""
            raise FatalToolError("no more")

        @tool
        async def nest(context: ToolContext, key: str) -> str:
            """Call others."""
            await context.call("write", {"key": key})
            return (await context.call("alone", {"key": key})).text

        @tool(blocking=False)
        def plain(key: str) -> str:
            """Run at once."""
            return key

        return share, alone, write, read, wipe, fail, end, nest, plain


async def run(board, made, interruption, options):
    events = []
    batch = await board.registry.batch(made, listener=events.append, **options)
    running = asyncio.ensure_future(batch.run())
    if interruption is not None:
        turns, how = interruption
        for _ in range(turns):
            await asyncio.sleep(0)
        batch.interrupt("spoken", how)
    outcome = await running
    await board.registry.aclose()
    return outcome, events


@given(CALLS, ANSWERS, INTERRUPTIONS, st.booleans(), st.none() | st.integers(1, 3))
def test_the_laws_of_a_batch(calls, answers, interruption, sequential, most):
    made = [ToolCall(name, {"key": key}, f"{number}") for number, (name, key) in enumerate(calls)]
    board = Board(answers)
    locks = board.registry._at_work().locks
    asking = board.registry._at_work().asking
    options = {"sequential": sequential, "max_concurrency": most}

    outcome, events = asyncio.run(run(board, made, interruption, options))

    assert [call.id for call in outcome.calls] == [call.id for call in made]
    assert len(outcome.results) == len(made)
    ends = [event.call_id for event in events if isinstance(event, CallEnded) and "/" not in event.call_id]
    assert sorted(ends) == sorted(call.id for call in made), "each call ends once"
    assert not any("AssertionError" in result.text for result in outcome.results), "the tools saw no breach"
    assert locks.is_idle
    assert asking.waiting() == ()
    granted = any(isinstance(answer, Always) for answer in answers)
    assert board.wiped <= board.allowed or granted, "no run without a yes, and none of them used twice"
    assert len(outcome.pending) == sum(result.kind == "confirmation_required" for result in outcome.results)
    assert (outcome.fatal is not None) == any(
        name == "end" and result.kind == "tool_failure"
        for (name, _), result in zip(calls, outcome.results, strict=True)
    )
