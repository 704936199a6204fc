"""Calls that start while their answer is still streaming: each once, with its result, however the answer ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import attrs
import pytest

from pegboard import Once, ToolCall, ToolRegistry, Turn, TurnLimits, nonblocking, run_turn, stream_turn, tool
from pegboard.errors import ModelError
from pegboard.messages import CallPart, Message, ModelResponse, TextDelta, TextPart
from pegboard.testing import ScriptedApprover, ScriptedModel

ONE, TWO, HANG = ToolCall("look", {"at": "1"}, "c1"), ToolCall("look", {"at": "2"}, "c2"), ToolCall("hang", {}, "h")
WRITE, ASK = ToolCall("write", {"to": "1"}, "w"), ToolCall("ask", {}, "a")


@pytest.fixture
def log():
    """What happened, in order; `went(what)` waits for it."""
    return Log()


class Log(list):
    def __init__(self):
        self._news = asyncio.Event()

    def add(self, what):
        self.append(what)
        self._news.set()

    async def went(self, what):
        async with asyncio.timeout(30):
            while what not in self:
                self._news.clear()
                await self._news.wait()


@pytest.fixture
def registry(log):
    @tool(read_only=True)
    async def look(at: str) -> str:
        """Looks at something."""
        log.add(f"look {at}")
        return f"seen {at}"

    @tool(read_only=True)
    async def hang() -> str:
        """Never ends."""
        log.add("hang")
        await asyncio.Event().wait()
        return ""

    @tool(idempotent=True)
    async def write(to: str) -> str:
        """Writes something."""
        log.add(f"write {to}")
        return "written"

    @tool(read_only=True, requires_confirmation=True)
    async def ask() -> str:
        """Is asked about."""
        log.add("ask")
        return "done"

    made = ToolRegistry()
    made.register(look, hang, write, ask)
    return made


def streams(*answers):
    """A model of functions, each the stream of one answer; then it says that it is done."""
    left = list(answers)

    async def respond(request):
        raise AssertionError("it is to stream")

    async def stream(request):
        asked.append(request)
        if left:
            async for piece in left.pop(0)():
                yield piece
        else:
            yield ModelResponse("Done.")

    asked = []
    return SimpleNamespace(name="odd", provider="odd", respond=respond, stream=stream, asked=asked)


def so_far(*calls):
    return ModelResponse(list(map(CallPart, calls)), "tool_calls", partial=True, complete=False)


def answer(*calls, **facts):
    return ModelResponse(list(map(CallPart, calls)), "tool_calls", **facts)


def results(outcome):
    """`(call id, kind or text)` of every result; every call has one, right behind its answer."""
    calls = [call.id for message in outcome.messages for call in message.calls]
    found = [(each.call_id, each.result.kind or each.result.text) for m in outcome.messages for each in m.results]
    assert calls == [id_ for id_, _ in found]
    return found


async def test_a_call_starts_before_the_answer_has_ended_and_runs_once(registry, log):
    async def stream():
        yield so_far(ONE)
        await log.went("look 1")
        log.add("streamed")
        yield answer(ONE, TWO)

    outcome = await run_turn(streams(stream), "Go on.", registry, start_early=True)
    assert (outcome.ended, log) == ("answered", ["look 1", "streamed", "look 2"])
    assert results(outcome) == [("c1", "seen 1"), ("c2", "seen 2")]
    assert [message.role for message in outcome.messages] == ["user", "assistant", "tool", "assistant"]


async def test_it_is_off_by_default_in_turns(registry, log):
    async def stream():
        yield so_far(ONE)
        await asyncio.sleep(0)
        log.add("streamed")
        yield answer(ONE)

    events = [each async for each in stream_turn(streams(stream), "Go on.", registry)]
    assert (log, events[-1].outcome.ended) == (["streamed", "look 1"], "answered")


@pytest.mark.parametrize(
    ("calls", "options", "early"),
    [
        ((ONE, WRITE, TWO), {}, ["look 1"]),  # a call that may change something, and all behind it, wait for the end
        (
            (ONE, WRITE, TWO),
            {"start_early": lambda call, tool: tool.name != "look" or call.id == "c1"},
            ["look 1", "write 1"],
        ),
        ((ONE, TWO), {"start_early": lambda call, tool: 1 / 0}, []),
        ((ONE, TWO), {"limits": TurnLimits(calls=1)}, ["look 1"]),
        ((ONE, TWO), {"sequential": True}, []),
        ((ToolCall("nothing", {}, "n"), ONE), {}, []),
        ((ASK, ONE), {"approver": ScriptedApprover({"ask": Once()})}, ["look 1"]),
    ],
)
async def test_which_calls_start_early(registry, log, calls, options, early):
    async def stream():
        yield so_far(*calls)
        for each in early:
            await log.went(each)
        for _ in range(20):  # whatever else would start has the time to
            await asyncio.sleep(0)
        log.add("streamed")
        yield answer(*calls)

    outcome = await run_turn(streams(stream), "Go on.", registry, **{"start_early": True, **options})
    assert log[: log.index("streamed")] == early
    assert len(set(log)) == len(log)
    assert [id_ for id_, _ in results(outcome)] == [call.id for call in calls]


@pytest.mark.parametrize(
    "facts", [{"complete": False}, {"finish_reason": "content_filter"}, {"finish_reason": "length"}]
)
async def test_early_calls_of_a_broken_answer_have_results_and_the_rest_never_runs(registry, log, facts):
    async def stream():
        yield so_far(ONE)
        await log.went("look 1")
        yield attrs.evolve(answer(ONE, TWO), **facts)

    outcome = await run_turn(streams(stream), "Go on.", registry, start_early=True)
    assert results(outcome) == [("c1", "seen 1"), ("c2", "cut_off")]
    assert log == ["look 1"]


async def test_early_calls_are_ended_and_reported_if_the_model_fails(registry, log):
    async def stream():
        yield TextDelta("Let me see.")
        yield attrs.evolve(
            so_far(ONE, HANG, WRITE), message=Message.assistant("Let me see.", *map(CallPart, (ONE, HANG, WRITE)))
        )
        await log.went("hang")
        yield TextDelta(" And")
        raise ModelError("lost", retryable=True)

    model = streams(stream)
    with pytest.raises(ModelError, match="lost") as failure:
        await run_turn(model, "Go on.", registry, start_early=True)
    outcome = failure.value.outcome
    assert len(model.asked) == 1  # what began isn't asked for again
    assert results(outcome) == [("c1", "seen 1"), ("h", "aborted")]
    assert [part.text for part in outcome.messages[1].parts if isinstance(part, TextPart)] == ["Let me see.", " And"]


@pytest.mark.parametrize("how", ["interrupt", "cancel"])
async def test_early_calls_are_ended_with_the_turn(registry, log, how):
    async def stream():
        yield so_far(ONE, HANG)
        await log.went("hang")
        if how == "interrupt":
            turn.interrupt("enough")
        elif how == "cancel":
            running.cancel()
        await asyncio.Event().wait()

    turn = Turn(streams(stream), "Go on.", registry, start_early=True)
    running = asyncio.ensure_future(turn.run())
    await asyncio.wait([running], timeout=30)
    assert turn.outcome.ended == {"interrupt": "interrupted", "cancel": "cancelled"}[how]
    assert results(turn.outcome) == [("c1", "seen 1"), ("h", "aborted")]


async def test_text_is_kept_if_no_call_has_begun(registry):
    async def stream():
        yield TextDelta("Hm.")
        yield so_far(WRITE)
        turn.interrupt("enough")
        await asyncio.Event().wait()

    turn = Turn(streams(stream), "Go on.", registry, start_early=True)
    outcome = await turn.run()
    assert (outcome.ended, outcome.text, results(outcome)) == ("interrupted", "Hm.", [])


async def test_early_calls_that_the_answer_lacks_go_before_it(registry, log):
    async def stream():
        yield so_far(HANG, ONE)
        await log.went("look 1")
        yield answer(HANG, ONE)

    def swap(response):
        return answer(attrs.evolve(ONE, id="new"), TWO) if response.calls == (HANG, ONE) else None

    registry.add_callback("after_model", nonblocking(swap))
    outcome = await run_turn(streams(stream), "Go on.", registry, start_early=True)
    assert log == ["hang", "look 1", "look 2"]  # what the answer still calls for isn't run again
    assert results(outcome) == [("h", "aborted"), ("new", "seen 1"), ("c2", "seen 2")]
    assert [message.role for message in outcome.messages][1:5] == ["assistant", "tool", "assistant", "tool"]


async def test_early_calls_are_ended_if_the_turn_is_cancelled_while_others_are_ended(registry, log):
    @tool(read_only=True)
    async def stubborn() -> str:
        """Takes its time to end."""
        log.add("stubborn")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.sleep(0)
            raise
        return ""

    async def stream():
        yield so_far(STUBBORN, HANG)
        await log.went("hang")
        yield answer(HANG)

    registry.register(stubborn)
    STUBBORN = ToolCall("stubborn", {}, "s")  # noqa: N806  as the others
    turn = Turn(streams(stream), "Go on.", registry, start_early=True)
    running = asyncio.ensure_future(turn.run())
    await asyncio.wait([running], timeout=30)
    assert turn.outcome.ended == "cancelled"
    assert results(turn.outcome) == [("s", "aborted"), ("h", "aborted")]


async def test_the_scripted_model_shows_calls_as_they_come(registry, log):
    def listener(event):
        seen.append(event)

    seen = []
    with ScriptedModel([[ONE, TWO], "Done."]) as model:
        outcome = await run_turn(model, "Go on.", registry, start_early=True, listener=listener)
    assert results(outcome) == [("c1", "seen 1"), ("c2", "seen 2")]
    assert model.requests[0].start_early
