from __future__ import annotations

import asyncio
import gc

import pytest

from pegboard.tools.context import NOBODY
from pegboard.toolsets.gather import _abandoned, ask_all
from pegboard.toolsets.toolset import ToolsetAdapter
from toolsets.samples import Hanging, PlainToolset, make_tool


def asked(*toolsets, timeout=30):
    return asyncio.run(ask_all([ToolsetAdapter(toolset) for toolset in toolsets], NOBODY, timeout))


def causes(offer):
    return [problem.cause for problem in offer.problems]


class Meeting(PlainToolset):
    """Answers only when all of a party are being asked."""

    def __init__(self, name, party):
        super().__init__(name, [make_tool(name)])
        self.party = party

    async def tools(self, context):
        await self.party.wait()
        return self.answer


def test_all_are_asked_at_the_same_time():
    party = asyncio.Barrier(3)
    offers = asked(*(Meeting(name, party) for name in "abc"))
    assert [[tool.name for tool in offer] for offer in offers] == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    "error",
    [OSError("down"), SystemExit(3), asyncio.CancelledError("odd"), RecursionError("deep"), TimeoutError("slow")],
)
def test_one_that_raises_costs_only_its_own(error):
    broken, whole = asked(PlainToolset("broken", error=error), PlainToolset("whole", [make_tool("a")]))
    assert [problem.toolset for problem in broken.problems] == ["broken"]
    assert type(error).__name__ in causes(broken)[0]
    assert (len(broken), [tool.name for tool in whole], whole.problems) == (0, ["a"], ())


@pytest.mark.parametrize("answer", [None, "abc", {}, 3])
def test_one_that_lies_costs_only_its_own(answer):
    liar, whole = asked(PlainToolset("liar", answer), PlainToolset("whole", [make_tool("a")]))
    assert "list of tools" in causes(liar)[0]
    assert [tool.name for tool in whole] == ["a"]


def test_one_that_hangs_is_cancelled_and_costs_only_its_own():
    hanging = Hanging()
    offer, whole = asked(hanging, PlainToolset("whole", [make_tool("a")]), timeout=0.01)
    assert causes(offer) == ["TimeoutError: no answer within 0.01 s (toolset_timeout)"]
    assert hanging.cancelled == 1
    assert [tool.name for tool in whole] == ["a"]


def test_one_that_ignores_its_cancellation_is_left_behind():
    async def scenario():
        stubborn = Hanging(stubborn=True)
        (offer,) = await ask_all([ToolsetAdapter(stubborn)], NOBODY, 0.01)
        (left_behind,) = _abandoned
        stubborn.release.set()
        await left_behind
        await asyncio.sleep(0)
        return offer, stubborn.cancelled

    offer, cancelled = asyncio.run(scenario())
    assert (len(offer), len(offer.problems), cancelled) == (0, 1, 1)
    assert not _abandoned


class Suicidal(PlainToolset):
    async def tools(self, context):
        asyncio.current_task().cancel()
        await asyncio.sleep(0)


def test_one_that_cancels_its_own_task_costs_only_its_own():
    (offer,) = asked(Suicidal("odd"))
    assert "CancelledError" in causes(offer)[0]


def test_whoever_gives_up_waiting_takes_the_toolsets_with_it():
    async def scenario():
        hanging = Hanging()
        waiting = asyncio.ensure_future(ask_all([ToolsetAdapter(hanging)], NOBODY, 30))
        await hanging.asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)
        return hanging.cancelled

    assert asyncio.run(scenario()) == 1


class OddError(BaseException):
    """Neither an `Exception` nor an end of the program."""


@pytest.mark.parametrize(
    "error",
    [GeneratorExit(), OddError("odd"), BaseExceptionGroup("many", [OddError("odd")])],
    ids=lambda e: type(e).__name__,
)
def test_whatever_a_toolset_raises_costs_only_its_own(error):
    broken, whole = asked(PlainToolset("broken", error=error), PlainToolset("whole", [make_tool("a")]))
    assert type(error).__name__ in causes(broken)[0]
    assert [tool.name for tool in whole] == ["a"]


@pytest.mark.parametrize("slow", [False, True])
def test_an_interrupt_passes_on_and_asyncio_has_nothing_to_complain_of(caplog, slow):
    async def scenario():
        hanging = [Hanging()] if slow else []
        toolsets = [*hanging, PlainToolset("interrupted", error=KeyboardInterrupt())]
        await ask_all([ToolsetAdapter(toolset) for toolset in toolsets], NOBODY, 30)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(scenario())
    gc.collect()
    assert caplog.messages == []


class Dying(Hanging):
    """Raises when it is cancelled."""

    async def tools(self, context):
        try:
            await super().tools(context)
        finally:
            raise OddError


def test_what_one_raises_that_was_given_up_is_looked_at(caplog):
    async def scenario():
        offers = await ask_all([ToolsetAdapter(Dying())], NOBODY, 0.01)
        await asyncio.sleep(0)
        return offers

    (offer,) = asyncio.run(scenario())
    gc.collect()
    assert ("no answer within" in causes(offer)[0], caplog.messages) == (True, [])
