"""Options of a turn: limits, a value as its answer, the choice of tools."""

from __future__ import annotations

import asyncio
import time

import attrs
import pytest

from pegboard import ModelRequest, NamedTool, Once, ToolCall, ToolRegistry, Turn, TurnLimits, nonblocking, run_turn
from pegboard.approval import ask_later
from pegboard.errors import CallbackError, ModelError
from pegboard.events import AnswerDelta, Answered
from pegboard.messages import ModelResponse, TextDelta, Usage
from pegboard.testing import ScriptedModel
from turn.samples import ADD, DELETE, FAIL, HANG, MORE, everything_is_answered, model_of, results, roles


class TestLimits:
    @pytest.mark.parametrize(("limit", "detail"), [({"rounds": 1}, "1 rounds"), ({"tokens": 100}, "100 tokens")])
    def test_a_limit_ends_the_turn_once_every_call_has_its_result(self, turn, limit, detail):
        outcome, _ = turn([ModelResponse([ADD], "tool_calls", Usage(90, 10))], limits=TurnLimits(**limit))
        assert (outcome.ended, outcome.detail, results(outcome)) == ("limit", detail, [("c1", "3")])

    def test_calls_beyond_the_limit_are_answered_and_not_run(self, turn):
        outcome, _ = turn([[ADD, MORE, FAIL]], limits=TurnLimits(calls=2))
        assert results(outcome) == [("c1", "3"), ("c2", "7"), ("c3", "limit")]
        assert (outcome.ended, outcome.detail) == ("limit", "2 calls")

    def test_calls_up_to_the_limit_are_no_reason_to_end(self, turn):
        outcome, _ = turn([[ADD, MORE], "ok"], limits=TurnLimits(calls=2))
        assert outcome.ended == "answered"

    def test_seconds_end_a_model_that_never_answers(self, registry):
        async def respond(request):
            await asyncio.Event().wait()

        outcome = asyncio.run(run_turn(model_of(respond), "Hi", registry, limits=TurnLimits(seconds=0.05)))
        assert (outcome.ended, outcome.detail) == ("limit", "0.05 seconds")

    async def test_seconds_end_a_tool_that_never_answers(self, registry, hangs, monkeypatch):
        clock, limits = time.monotonic, TurnLimits(seconds=60)
        running = asyncio.ensure_future(run_turn(ScriptedModel([HANG]), "Hi", registry, limits=limits))
        await hangs.wait()
        monkeypatch.setattr(time, "monotonic", lambda: clock() + 60)  # the time is up
        outcome = await running
        assert (outcome.ended, results(outcome)) == ("limit", [("h", "timeout")])

    @pytest.mark.parametrize(
        "wrong", [{"rounds": 0}, {"calls": -1}, {"seconds": float("inf")}, {"retries": -1}, {"tokens": True}]
    )
    def test_invalid_limits_are_refused(self, wrong):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            TurnLimits(**wrong)


@attrs.frozen
class City:
    name: str
    people: int = 0


class TestOutput:
    OSLO = ToolCall("final_result", {"result": {"name": "Oslo", "people": 700_000}}, "f")
    WRONG = ToolCall("final_result", {"result": {"name": "Oslo", "people": "many"}}, "w")

    @pytest.mark.parametrize("steps", [[[ADD], OSLO], ["Oslo.", OSLO], [WRONG, OSLO]], ids=["", "words", "invalid"])
    def test_the_answer_is_a_value_of_the_type_and_the_model_may_correct_it_once(self, turn, steps):
        outcome, model = turn(steps, output_type=City)
        assert (outcome.ended, outcome.output) == ("answered", City("Oslo", 700_000))
        assert [tool.name for tool in model.requests[0].offered][-1] == "final_result"
        assert everything_is_answered(outcome)

    @pytest.mark.parametrize("steps", [["Oslo.", "Oslo!"], [WRONG, WRONG], ["Oslo.", WRONG]])
    def test_a_second_answer_of_another_type_fails_the_turn(self, turn, steps):
        with pytest.raises(ModelError, match="no valid output in two answers") as caught:
            turn(steps, output_type=City)
        assert (caught.value.outcome.ended, caught.value.outcome.output) == ("failed", None)
        assert everything_is_answered(caught.value.outcome)

    @pytest.mark.parametrize(("kind", "value"), [(int, 3), (list[str], ["a"]), (City | None, None)])
    def test_any_type_of_a_parameter_will_do(self, turn, kind, value):
        assert turn([ToolCall("final_result", {"result": value}, "f")], output_type=kind)[0].output == value

    def test_the_json_schema_of_an_object_will_do(self, turn):
        schema = {"type": "object", "properties": {"people": {"type": "integer"}}, "required": ["people"]}
        wrong, right = (ToolCall("final_result", {"people": value}, f"f{value}") for value in ("many", 7))
        outcome, model = turn([wrong, right], output_type=schema)
        assert outcome.output == {"people": 7}
        assert [tool.spec.input_schema for tool in model.requests[0].offered][-1] == schema

    def test_a_model_with_response_formats_answers_in_one_and_may_correct_it_once(self, turn):
        steps = [
            [ADD],
            '{"result": {"name": "Oslo", "people": "many"}}',
            '{"result": {"name": "Oslo", "people": null}}',
        ]
        outcome, model = turn(steps, formats=True, output_type=City)
        assert (outcome.ended, outcome.output, outcome.rounds) == ("answered", City("Oslo"), 3)
        assert {request.output.name for request in model.requests} == {"final_result"}
        assert "final_result" not in [tool.name for request in model.requests for tool in request.offered]
        assert "- result.people: " in outcome.messages[-2].text

    @pytest.mark.parametrize("text", ["Oslo.", "[1]", '{"result": 7}', '{"result": 1, "result": 2}', ""])
    def test_in_a_response_format_too_a_second_miss_fails_the_turn(self, turn, text):
        with pytest.raises(ModelError, match="no valid output"):
            turn([text, text], formats=True, output_type=City)

    def test_where_a_call_is_required_the_answer_comes_by_the_tool(self, turn):
        outcome, _ = turn([self.OSLO], ModelRequest("Hi", tool_choice="required"), formats=True, output_type=City)
        assert outcome.output.name == "Oslo"

    @pytest.mark.parametrize(("formats", "last"), [(False, [OSLO]), (True, '{"result": {"name": "Oslo"}}')])
    def test_the_last_answer_at_the_limit_of_rounds_is_a_value_too(self, turn, formats, last):
        limits = TurnLimits(rounds=1, final_answer=True)
        outcome, model = turn([[ADD], last], formats=formats, limits=limits, output_type=City)
        assert (outcome.ended, outcome.output.name) == ("limit", "Oslo")
        assert model.requests[1].tool_choice == ("none" if formats else NamedTool("final_result"))
        assert everything_is_answered(outcome)

    @pytest.mark.parametrize("formats", [False, True])
    def test_on_stop_sees_the_output_and_may_ask_for_another(self, registry, turn, formats):
        seen, more = [], iter(["Add first.", None])
        registry.add_callback("on_stop", nonblocking(lambda outcome: seen.append(outcome.output) or next(more)))
        first, last = (
            ['{"result": {"name": "Oslo"}}', '{"result": {"name": "Rome"}}']
            if formats
            else [ToolCall("final_result", {"result": {"name": name}}) for name in ("Oslo", "Rome")]
        )
        outcome, _ = turn([first, [ADD], last], formats=formats, output_type=City)
        assert (outcome.ended, outcome.output, outcome.rounds) == ("answered", City("Rome"), 3)
        assert seen == [City("Oslo"), City("Rome")]

    def test_the_output_of_the_last_round_is_not_continued(self, registry, turn):
        registry.add_callback("on_stop", nonblocking(lambda: "Again."))
        limits = TurnLimits(rounds=1, final_answer=True)
        outcome, _ = turn([[ADD], self.OSLO], limits=limits, output_type=City)
        assert (outcome.ended, outcome.output.name) == ("limit", "Oslo")

    def test_a_resumed_turn_has_an_output_too(self, resume, turn):
        outcome, _ = turn([DELETE], approver=ask_later, output_type=City)
        answers = {each.id: Once() for each in outcome.pending}
        assert resume(outcome, [self.OSLO], answers=answers, output_type=City).output.name == "Oslo"


class TestToolChoice:
    def test_a_choice_may_be_for_the_first_round_only(self, turn):
        _, model = turn([[ADD], "Done."], first_choice="required")
        assert [request.tool_choice for request in model.requests] == ["required", "auto"]

    @pytest.mark.parametrize("last", ["In short: 3.", [MORE]])
    def test_at_the_limit_of_rounds_there_may_be_a_last_answer_without_tools(self, turn, last):
        outcome, model = turn([[ADD], last], limits=TurnLimits(rounds=1, final_answer=True))
        assert [request.tool_choice for request in model.requests] == ["auto", "none"]
        assert (outcome.ended, outcome.detail) == ("limit", "1 rounds")
        assert everything_is_answered(outcome)


class TestSteering:
    def test_messages_during_a_turn_go_into_the_next_request(self, turn):
        messages = iter([None, "Wait, 2 + 2!"])
        outcome, model = turn([ADD, "4"], steering=lambda: next(messages, None))
        assert [message.text for message in outcome.messages if message.role == "user"] == ["Go on.", "Wait, 2 + 2!"]
        assert model.requests[1].messages[-1].text == "Wait, 2 + 2!"

    def test_messages_during_the_last_answer_continue_the_turn(self, turn):
        messages = iter([None, ["One more thing."]])
        outcome, _ = turn(["Done.", "That too."], steering=lambda: next(messages, None))
        assert roles(outcome) == ["user", "assistant", "user", "assistant"]

    async def test_steering_skips_calls_that_have_not_begun(self, registry):
        async def first() -> str:
            """Runs while the user speaks."""
            turn.steer("Stop that.")
            return "ran"

        registry.register(first)
        calls = [ToolCall("first", {}, "f"), ADD]
        turn = Turn(ScriptedModel([calls, "Stopped."]), "Hi", registry, sequential=True)
        outcome = await turn.run()
        assert results(outcome) == [("f", "ran"), ("c1", "skipped")]
        assert outcome.messages[3].text == "Stop that."
        assert outcome.ended == "answered"

    def test_steering_with_other_types_is_refused(self, turn):
        with pytest.raises(CallbackError, match="steering: TypeError: steering must give messages or texts, got int"):
            turn([], steering=lambda: [1])

    async def test_interrupting_keeps_the_text_so_far(self, registry):
        async def stream(request):
            yield TextDelta("It ")
            yield TextDelta("is")
            await asyncio.Event().wait()

        turn = Turn(model_of(stream=stream), "Hi", registry)
        async for event in turn.events():
            if isinstance(event, AnswerDelta) and event.delta.text == "is":
                turn.interrupt("the user pressed escape")
        outcome = turn.outcome
        assert (outcome.ended, outcome.detail) == ("interrupted", "the user pressed escape")
        assert outcome.messages[-1].text == "It is"
        assert outcome.messages[-1].metadata["complete"] is False

    async def test_interrupting_aborts_calls(self, registry, hangs):
        turn = Turn(ScriptedModel([HANG]), "Hi", registry)
        running = asyncio.ensure_future(turn.run())
        await hangs.wait()
        turn.interrupt()
        outcome = await running
        assert (outcome.ended, results(outcome)) == ("interrupted", [("h", "aborted")])

    def test_interrupting_before_the_first_round_keeps_the_first_reason(self, registry):
        turn = Turn(ScriptedModel([]), "Hi", registry)
        turn.interrupt("escape")
        turn.interrupt("and again")
        outcome = asyncio.run(turn.run())
        assert (outcome.ended, outcome.detail) == ("interrupted", "escape")

    async def test_steering_before_the_calls_begin_skips_them(self, registry):
        def speak(event):
            if isinstance(event, Answered) and event.response.calls:
                turns[0].steer("Don't.")

        turns = []
        turn = Turn(ScriptedModel([ADD, "Stopped."]), "Hi", registry, listener=speak)
        turns.append(turn)
        outcome = await turn.run()
        assert results(outcome) == [("c1", "skipped")]
        assert [message.text for message in outcome.messages if message.role == "user"] == ["Hi", "Don't."]

    @pytest.mark.parametrize("option", ["steering", "stop_when"])
    def test_a_host_function_that_hangs_or_fails_is_named(self, registry, option):
        short = ToolRegistry(limits=attrs.evolve(registry.limits, callback_timeout=0.05))
        short.register(*registry.tools())

        async def hangs(*_):
            await asyncio.Event().wait()

        def fails(*_):
            raise ValueError("oops")

        for function, used, message in ((hangs, short, "gave no answer"), (fails, registry, "ValueError: oops")):
            with pytest.raises(CallbackError, match=f"{option}: {message}") as caught:
                asyncio.run(run_turn(ScriptedModel([ADD]), "Hi", used, **{option: function}))
            assert everything_is_answered(caught.value.outcome)

    async def test_a_model_that_ignores_its_cancellation_is_abandoned(self, registry, caplog, monkeypatch):
        short = ToolRegistry(limits=attrs.evolve(registry.limits, grace=0.05))
        let_go, clock = asyncio.Event(), time.monotonic

        async def respond(request):
            monkeypatch.setattr(time, "monotonic", lambda: clock() + 60)  # the time is up
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            return ModelResponse("late")

        outcome = await run_turn(model_of(respond), "Hi", short, limits=TurnLimits(seconds=60))
        let_go.set()
        await asyncio.sleep(0)
        assert outcome.ended == "limit"
        assert "ignores its cancellation" in caplog.text

    def test_a_model_that_cancels_itself_is_an_error(self, turn):
        def cancel(request):
            raise asyncio.CancelledError

        with pytest.raises(ModelError, match="model 'scripted' cancelled itself"):
            turn([cancel])
