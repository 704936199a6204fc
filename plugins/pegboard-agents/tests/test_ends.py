"""What ends an agent in the background: its caller, however deep that is nested, and never another's."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import re

import pytest

from pegboard import (
    ModelRequest,
    Once,
    ReadonlyContext,
    ToolCall,
    ToolContext,
    ToolRegistry,
    run_turn,
    tool,
)
from pegboard.approval import ask_later
from pegboard.testing import ScriptedModel
from pegboard_agents import Agent, ParallelAgent, SequentialAgent, agent_tool, background_tools

CONTEXT = ReadonlyContext(user="u", session="s")
PATIENCE = 60  # seconds; only a broken test waits so long


@tool(destructive=True)
def wipe(place: str) -> str:
    """Wipes a place."""
    return f"wiped {place}"


WIPE = ToolCall("wipe", {"place": "attic"})


class Steps(ScriptedModel):
    """A scripted model whose steps may be async functions of the request."""

    async def respond(self, request):
        if self._left and asyncio.iscoroutinefunction(self._left[0]):
            self._left[0] = await self._left[0](request)
        return await super().respond(request)


class Works:
    """An agent that works until it is ended."""

    description = ""

    def __init__(self, name="worker"):
        self.name = name
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def run(self, request):
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()

    def before(self, then):
        """A step that is taken once it works."""

        async def step(request):
            async with asyncio.timeout(PATIENCE):
                await self.begun.wait()
            return then(request) if callable(then) else then

        return step

    async def has_ended(self):
        """Whether it ends soon."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self.ended.wait()
        except TimeoutError:
            return False
        return True


def a(name, *script, **facts):
    return Agent(name=name, description="Helps.", model=Steps(script), **facts)


def registry_of(*agents, tools=(wipe,), **options):
    registry = ToolRegistry()
    registry.register(*tools, *background_tools(agents, **options))
    return registry


def spawn(agent="worker"):
    return ToolCall("spawn_agent", {"agent": agent, "request": "Do it"})


def call(agent):
    return ToolCall(agent, {"request": "Do it"})


def ids_in(request):
    """The ids of the agents that the conversation has started, in order."""
    texts = [part.result.text for message in request.messages for part in message.results]
    return [each for text in texts for each in re.findall(r"Its id is (\S+)\.", text)]


def wait(request):
    return ToolCall("wait_agents", {"ids": ids_in(request), "seconds": PATIENCE})


def look(request):
    return ToolCall("wait_agents", {"ids": ids_in(request), "seconds": 0})


def close(request):
    return ToolCall("close_agent", {"id": ids_in(request)[0]})


def interrupt(request):
    return ToolCall("send_agent_input", {"id": ids_in(request)[0], "message": "Stop.", "interrupt": True})


async def turn(registry, *script, context=CONTEXT, request="go", **options):
    return await run_turn(Steps(script), request, registry, context, **options)


def results(outcome):
    """The results of all calls, as texts without ids."""
    texts = [part.result.text for message in outcome.messages for part in message.results]
    return [re.sub(r"-[0-9a-f]{12}", "", text) for text in texts]


# Agents of an agent --------------------------------------------------------------------------------------------------


HOW = pytest.mark.parametrize("how", ["alone", "sequence", "parallel"])
OWN = pytest.mark.parametrize("own", [False, True])
"""Whether the agent has a registry, with tools for agents in the background, of its own."""


def registry_with_outer(worker, *script, how="alone", own=False, **options):
    """A registry in which an agent `outer`, or a workflow with it, starts the worker and goes on by the script."""
    outer = a("outer", spawn(), *script, registry=registry_of(worker) if own else None)
    team = {
        "alone": outer,
        "sequence": SequentialAgent(name="outer", agents=[outer]),
        "parallel": ParallelAgent(name="outer", agents=[outer, a("other", "Fine.", "Fine.")]),
    }
    return registry_of(team[how], *(() if own else [worker]), **options)


@HOW
@OWN
@pytest.mark.parametrize("way", ["turn", "close", "interrupt", "registry"])
def test_agents_of_one_that_waits_for_a_person_end_with_it(how, own, way):
    async def main():
        worker = Works()
        registry = registry_with_outer(worker, worker.before(WIPE), "Fine.", how=how, own=own)
        first = await turn(registry, spawn("outer"), wait, approver=ask_later)
        assert (first.ended, worker.ended.is_set()) == ("suspended", False)
        request = ModelRequest(first.messages)
        if way == "turn":
            await turn(registry, "Bye.")
        elif way == "close":
            await registry.call("close_agent", close(request).arguments, CONTEXT)
        elif way == "interrupt":
            await registry.call("send_agent_input", interrupt(request).arguments, CONTEXT)
        else:
            await registry.aclose()
        return await worker.has_ended()

    assert asyncio.run(main())


@OWN
def test_agents_of_one_that_ends_at_its_time_limit_end_with_it(own):
    async def main():
        worker = Works()
        registry = registry_with_outer(worker, worker.before(wait), own=own, timeout=0.5)
        outcome = await turn(registry, spawn("outer"), wait, "Fine.")
        return results(outcome)[-1], await worker.has_ended()

    assert asyncio.run(main()) == ("outer failed:\nIt was ended, as it took longer than 0.5 s.", True)


def test_agents_of_one_that_ignores_its_end_end_nevertheless(monkeypatch):
    monkeypatch.setattr("pegboard_agents.background.GRACE_SECONDS", 0.01)
    end = asyncio.Event()

    @tool
    async def ignore() -> str:
        """Ignores its cancellation."""
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    async def main():
        worker = Works()
        registry = registry_with_outer(worker, worker.before(ToolCall("ignore", {})), tools=(ignore,))
        outcome = await turn(registry, spawn("outer"), worker.before(close), "Fine.")
        has_ended = await worker.has_ended()
        end.set()
        return results(outcome)[-1], has_ended

    assert asyncio.run(main()) == ("outer failed:\nIt was ended, as close_agent was called.", True)


def test_agents_of_one_that_is_kept_end_with_its_turn_and_not_with_that_of_its_caller():
    async def main():
        worker, may_end = Works(), asyncio.Event()

        async def last(_request):
            await may_end.wait()
            return "Bye."

        registry = registry_with_outer(worker, worker.before(look), last, own=True, keep=True)
        await turn(registry, spawn("outer"), worker.before("Fine."))
        was_ended = worker.ended.is_set()
        may_end.set()
        return was_ended, await worker.has_ended()

    assert asyncio.run(main()) == (False, True)


@OWN
def test_closing_one_ends_those_below_it_also_if_they_are_kept(own):
    async def main():
        worker = Works()
        outer = a("outer", spawn(), worker.before("Fine."), registry=registry_of(worker, keep=True) if own else None)
        registry = registry_of(outer, *(() if own else [worker]), keep=True)
        await turn(registry, spawn("outer"), wait, close, "Fine.")
        return await worker.has_ended()

    assert asyncio.run(main())


def test_agents_in_registries_of_their_own_count_towards_the_limit():
    async def main():
        worker = Works()
        own = registry_of(worker, most=2)
        outer = a("outer", [spawn(), spawn()], worker.before("Fine."), registry=own)
        await turn(registry_of(outer), spawn("outer"), wait, "Fine.")
        return [part.result.text for part in outer.model.requests[1].messages[-1].results]

    texts = asyncio.run(main())
    refused = ["2 agents are working or waiting, which is the limit" in text for text in texts]
    assert sorted(refused) == [False, True]


# Turns in a turn -----------------------------------------------------------------------------------------------------


@OWN
@pytest.mark.parametrize("way", ["abandoned", "changed"])
def test_agents_of_a_suspended_agent_as_a_tool_end_with_the_turn_at_the_top(own, way):
    async def main():
        worker = Works()
        outer = a("outer", spawn(), worker.before(WIPE), registry=registry_of(worker) if own else None)
        registry = registry_of(worker)
        handle = registry.register(agent_tool(outer))
        first = await turn(registry, call("outer"), approver=ask_later)
        assert (first.ended, worker.ended.is_set()) == ("suspended", False)
        if way == "abandoned":
            await turn(registry, "Bye.")
        else:
            handle.dispose()
            registry.register(agent_tool(a("outer", instructions="Other.", registry=outer.registry)))
            second = await turn(registry, "Bye.", resume=first, answers={each.id: Once() for each in first.pending})
            assert "it was changed" in results(second)[-1]
        return await worker.has_ended()

    assert asyncio.run(main())


def test_the_turn_of_an_agent_as_a_tool_ends_its_agents_and_no_others():
    async def main():
        outer, inner = Works(), Works("inner")
        registry = registry_of(outer, inner)
        registry.register(agent_tool(a("helper", spawn("inner"), inner.before("Bye."))))
        ended = []

        def look_around(_request):
            ended.extend([inner.ended.is_set(), outer.ended.is_set()])
            return "Fine."

        await turn(registry, spawn(), outer.before(call("helper")), look_around)
        return [*ended, outer.ended.is_set()]

    assert asyncio.run(main()) == [True, False, True]


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_turn_in_a_call_with_the_context_of_that_ends_its_agents_and_no_others(order):
    """Both turns have one session and one id; the outer one starts an agent before, or after the other turn."""

    async def main():
        outer, inner = Works(), Works("inner")

        @tool
        async def nested(context: ToolContext) -> str:
            """Runs a turn in this turn."""
            registry, script = context.service(ToolRegistry), [spawn("inner"), inner.before("Bye.")]
            await run_turn(Steps(script), "go", registry, context.request, **context.inherited())
            return f"{inner.ended.is_set()} {outer.ended.is_set()}"

        registry, nest = registry_of(outer, inner, tools=(nested,)), ToolCall("nested", {})
        script = [spawn(), outer.before(nest)] if order == "before" else [nest, spawn(), outer.before(look)]
        outcome = await turn(registry, *script, "Fine.")
        return results(outcome)[script.index(nest) if order == "after" else 1], outer.ended.is_set()

    assert asyncio.run(main()) == ("True False", True)


# Limits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_one_ends_at_its_time_limit_also_while_the_user_is_asked_or_in_a_nested_call(keep, nested):
    async def main():
        asking, asked_no_more = asyncio.Event(), asyncio.Event()

        async def approver(_request, _context):
            asking.set()
            try:
                await asyncio.Event().wait()
            finally:
                asked_no_more.set()

        async def once_it_asks(request):
            await asking.wait()
            return wait(request)

        script = [call("inner")] if nested else [WIPE]
        registry = registry_of(a("worker", *script), keep=keep, timeout=1)
        registry.register(agent_tool(a("inner", WIPE)))
        outcome = await turn(registry, spawn(), once_it_asks, "Fine.", approver=approver)
        await asyncio.wait_for(asked_no_more.wait(), PATIENCE)
        return results(outcome)[-1]

    assert asyncio.run(main()).startswith("worker failed:\nIt was ended, as it took longer than 1 s.")


def test_one_ends_at_the_time_limit_of_all_background_work():
    async def main():
        registry = registry_of(Works(), timeout=PATIENCE)
        registry.operations.seconds = 0.2
        return results(await turn(registry, spawn(), wait, "Fine."))[-1]

    assert asyncio.run(main()) == (
        "worker failed:\nIt was ended, as its work in the background was cancelled or took too long."
    )


def test_waiting_ends_at_its_limit_though_agents_end_meanwhile():
    async def main():
        worker, quick = Works(), [a(f"quick{number}", "Done.") for number in range(5)]
        registry = registry_of(worker, *quick)
        limited = lambda request: ToolCall("wait_agents", {"ids": ids_in(request), "seconds": 0.3})  # noqa: E731
        start = asyncio.get_running_loop().time()
        outcome = await turn(registry, [spawn(), *(spawn(each.name) for each in quick)], limited, "Fine.")
        assert asyncio.get_running_loop().time() - start < PATIENCE
        return results(outcome)[-1].split("\n")[0]

    assert asyncio.run(main()) == "worker is working."


@pytest.mark.slow
def test_a_hundred_agents_work_at_once_and_end_with_their_callers_turn():
    async def main():
        workers = [Works(f"worker{number}") for number in range(100)]
        registry = registry_of(*workers, most=100)

        async def bye(_request):
            for each in workers:
                await each.begun.wait()
            return "Bye."

        outcome = await turn(registry, [spawn(each.name) for each in workers], bye)
        assert len([key for key in outcome.state if key.startswith("agents:id:")]) >= 20
        return [each.ended.is_set() for each in workers]

    assert asyncio.run(main()) == [True] * 100


# Cancellation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(0, 40, 2))
def test_one_ends_with_a_turn_that_is_cancelled_twice(steps):
    async def main():
        worker = Works()
        running = asyncio.ensure_future(turn(registry_of(worker), spawn(), wait))
        await worker.begun.wait()
        running.cancel()
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        return await worker.has_ended()

    assert asyncio.run(main())


@pytest.mark.parametrize("steps", range(0, 60, 2))
def test_no_agent_is_left_whenever_its_callers_turn_is_cancelled(steps):
    async def main():
        registry = registry_of(Works())
        running = asyncio.ensure_future(turn(registry, spawn(), wait))
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        async with asyncio.timeout(PATIENCE):
            while registry.operations.pending:  # noqa: ASYNC110  what ends it emits no event
                await asyncio.sleep(0)

    asyncio.run(main())
