"""Events of a turn, and the queue to its reader."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import ToolRegistry, Turn, run_turn, stream_turn
from pegboard.errors import ModelError
from pegboard.events import AnswerDelta, Answered, CallCompleted, MessageAdded, RoundStarted, TurnEnded
from pegboard.messages import CallDelta, ModelResponse, ReasoningDelta, TextDelta
from pegboard.testing import ScriptedModel
from turn.samples import ADD, everything_is_answered, model_of, streamed


class TestStreaming:
    def test_events_in_their_order(self, registry):
        events = streamed(ScriptedModel([["Let me see.", ADD], "It is 3."]), registry)
        deltas = [event.delta for event in events if isinstance(event, AnswerDelta)]
        messages = [event.message.role for event in events if isinstance(event, MessageAdded)]
        assert [type(event) for event in (events[0], events[-1])] == [RoundStarted, TurnEnded]
        assert "".join(delta.text for delta in deltas if hasattr(delta, "text")) == "Let me see.It is 3."
        assert [event.response.text for event in events if isinstance(event, Answered)] == ["Let me see.", "It is 3."]
        assert sum(isinstance(event, CallCompleted) for event in events) == 1
        assert [event.number for event in events if isinstance(event, RoundStarted)] == [1, 2]
        assert messages == ["assistant", "tool", "assistant"]
        assert all(isinstance(event.to_json(), dict) for event in events)

    def test_the_last_event_comes_before_what_is_raised(self, registry):
        events = []

        async def main():
            async for event in stream_turn(ScriptedModel([ModelError("down")]), "Hi", registry):
                events.append(event)  # noqa: PERF401  it raises behind the last one

        with pytest.raises(ModelError, match="down"):
            asyncio.run(main())
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].to_json()["ended"] == "failed"

    async def test_leaving_early_cancels_the_turn(self, registry):
        turn = Turn(ScriptedModel([ADD, "ok"]), "Hi", registry)
        events = turn.events()
        async for event in events:
            if isinstance(event, Answered):
                break
        await events.aclose()
        outcome = turn.outcome
        assert outcome.ended == "cancelled"
        assert everything_is_answered(outcome)

    @pytest.mark.parametrize(
        ("first", "times"), [(TextDelta("It "), 1), (CallDelta(0, "{"), 1), (ReasoningDelta("Hm."), 3)]
    )
    def test_there_is_no_retry_once_text_or_calls_were_emitted(self, registry, first, times):
        asked, closed = [], []

        async def stream(request):
            asked.append(request)
            try:
                yield first
                raise ModelError("lost", retryable=True, retry_after=0.001)
            finally:
                closed.append(1)

        with pytest.raises(ModelError, match="lost"):
            streamed(model_of(stream=stream), registry)
        assert (len(asked), closed) == (times, [1] * times)

    def test_partial_responses_are_not_the_answer(self, registry):
        async def stream(request):
            yield ModelResponse("Hel", partial=True)
            yield ModelResponse("Hello.")
            yield ModelResponse("Hello. And", partial=True)

        assert streamed(model_of(stream=stream), registry)[-1].outcome.text == "Hello."

    async def test_a_wrapper_that_asks_again_discards_the_first_text(self, registry):
        async def stream(request):
            yield TextDelta(f"try {len(tries)} ")
            if len(tries) == 2:
                turn.interrupt()
                await asyncio.Event().wait()
            yield ModelResponse(())

        tries = []

        async def twice(call_next):
            for _ in range(2):
                tries.append(1)
                response = await call_next()
            return response

        registry.add_callback("wrap_model", twice)
        turn = Turn(model_of(stream=stream), "Hi", registry)
        async for _ in turn.events():
            pass
        assert turn.outcome.messages[-1].text == "try 2 "

    def test_results_of_skipped_calls_are_emitted(self, registry):
        class Unsent(ToolRegistry):
            async def batch(self, *_args, **_options):
                raise ValueError("no batch")

        unsent, events = Unsent(), []
        unsent.register(*registry.tools())
        with pytest.raises(ValueError, match="no batch"):
            asyncio.run(run_turn(ScriptedModel([ADD]), "Hi", unsent, listener=events.append))
        roles = [event.message.role for event in events if isinstance(event, MessageAdded)]
        assert roles == ["assistant", "tool"]

    def test_a_stream_without_a_response_is_an_error(self, registry):
        async def stream(request):
            return
            yield

        with pytest.raises(ModelError, match="without a response"):
            streamed(model_of(stream=stream), registry)

    async def test_a_slow_reader_holds_up_the_stream_and_loses_nothing(self, registry):
        words, emitted, texts, most = " ".join(str(number) for number in range(5_000)), [], [], 0
        async for event in stream_turn(ScriptedModel([words]), "Hi", registry, listener=emitted.append):
            await asyncio.sleep(0)
            texts.append(event)
            most = max(most, len(emitted) - len(texts))
        assert (texts, most <= 1_000) == (emitted, True)

    def test_a_listener_that_fails_costs_nothing(self, turn, caplog):
        def broken(event):
            raise ValueError("oops")

        assert turn(["ok"], listener=broken)[0].text == "ok"
        assert "the listener of a turn" in caplog.text
