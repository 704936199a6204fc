"""A turn: request -> model -> calls -> results -> again; each call gets its one result, however it ends."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import attrs
import pytest

from pegboard import (
    Abort,
    CallCompleted,
    FatalToolError,
    Once,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    Toolset,
    ToolsetError,
    TurnAbortedError,
    ask_later,
    quick,
    tool,
)
from pegboard.errors import CallbackError, ModelError, PendingError
from pegboard.messages import CallDelta, Message, ModelResponse, ReasoningDelta, TextDelta, TextPart, Usage
from pegboard.request.exporter import ExportedTools, Loss
from pegboard.request.model_request import ModelRequest, NamedTool
from pegboard.testing import ScriptedModel
from pegboard.turn.events import AnswerDelta, Answered, MessageAdded, ModelRetried, RoundStarted, TurnEnded, TurnOutcome
from pegboard.turn.loop import resume_turn, resumed_turn_of, run_turn, stream_turn, turn_of
from pegboard.turn.options import TurnLimits, called

ADD = ToolCall("add", {"a": 1, "b": 2}, "c1")
MORE = ToolCall("add", {"a": 3, "b": 4}, "c2")
FAIL = ToolCall("fail", {}, "c3")
DELETE = ToolCall("delete", {"path": "a.txt"}, "c4")
OTHER = ToolCall("delete", {"path": "b.txt"}, "c5")


def roles(outcome):
    return [message.role for message in outcome.messages]


def results(outcome):
    """`(call id, kind or text)` of every result in the history."""
    return [
        (part.call_id, part.result.kind or part.result.text) for message in outcome.messages for part in message.results
    ]


def everything_is_answered(outcome):
    calls = [call.id for message in outcome.messages for call in message.calls]
    return calls == [id_ for id_, _ in results(outcome)]


async def never(request):
    raise AssertionError


def model_of(respond=never, stream=None):
    """A model of these functions."""
    return SimpleNamespace(name="odd", provider="odd", respond=respond, **({"stream": stream} if stream else {}))


def streamed(model, registry, **options):
    """All events of a turn."""

    async def main():
        return [event async for event in stream_turn(model, "Hi", registry, **options)]

    return asyncio.run(main())


@pytest.fixture
def hangs(registry):
    """An event that is set once the tool `hang`, which never ends, has begun."""
    begun = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hangs."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    registry.register(hang)
    return begun


HANG = ToolCall("hang", {}, "h")


class TestLoop:
    def test_an_answer_without_calls_ends_the_turn(self, turn):
        outcome, model = turn(["Hello."], "Hi!")
        assert (outcome.ended, outcome.text, roles(outcome)) == ("answered", "Hello.", ["user", "assistant"])
        assert [tool.name for tool in model.requests[0].offered] == ["add", "delete", "fail", "remember"]

    def test_calls_are_run_and_the_model_reads_their_results(self, turn):
        outcome, model = turn([["Let me see.", ADD, MORE], "3 and 7."])
        assert roles(outcome) == ["user", "assistant", "tool", "assistant"]
        assert results(outcome) == [("c1", "3"), ("c2", "7")]
        assert model.requests[1].messages == outcome.messages[:3]
        assert (outcome.rounds, outcome.calls) == (2, 2)

    def test_an_error_result_goes_to_the_model_and_the_turn_goes_on(self, turn):
        outcome, _ = turn([FAIL, ToolCall("nothing", {}, "x"), ToolCall("add", {"a": "1"}, "y"), "I give up."])
        assert [kind for _, kind in results(outcome)] == ["tool_failure", "unknown_tool", "invalid_arguments"]
        assert outcome.ended == "answered"

    def test_new_messages_are_those_of_this_turn(self, turn):
        before = [Message.user("Hi"), Message.assistant("Hello"), Message.user("Add.")]
        outcome, _ = turn([ADD, "3"], before)
        assert outcome.began == 3
        assert [message.role for message in outcome.new_messages] == ["assistant", "tool", "assistant"]

    def test_what_the_provider_has_run_is_not_run_here(self, turn):
        hosted = ToolCall("web_search", {"q": "x"}, "h1", provider_executed=True)
        outcome, _ = turn([ModelResponse(["Looking.", hosted, "Found."])])
        assert (outcome.ended, results(outcome)) == ("answered", [])

    def test_a_pause_of_the_provider_goes_on(self, turn):
        outcome, model = turn([ModelResponse("Half ", "pause", complete=True), "done."])
        assert [message.text for message in outcome.messages] == ["Go on.", "Half ", "done."]
        assert len(model.requests) == 2

    def test_tools_are_resolved_anew_in_every_round(self, registry, turn):
        @tool
        def late() -> str:
            """Comes late."""
            return "here"

        @tool
        def hang() -> str:
            """Hangs another tool on the board."""
            registry.register(late)
            return "done"

        registry.register(hang)
        outcome, model = turn([ToolCall("hang", {}, "h"), ToolCall("late", {}, "l"), "ok"])
        assert results(outcome) == [("h", "done"), ("l", "here")]
        assert "late" not in model.requests[0].tools.names
        assert "late" in model.requests[1].tools.names

    def test_tools_that_the_request_brings_stay_as_they_are(self, registry, turn):
        only = asyncio.run(registry.resolve(where="name:add"))
        outcome, model = turn([[ADD, FAIL], "ok"], ModelRequest("Go on.", tools=only))
        assert [request.tools.names for request in model.requests] == [("add",), ("add",)]
        assert results(outcome) == [("c1", "3"), ("c3", "not_offered")]

    def test_where_and_active_choose_the_tools(self, turn):
        _, model = turn(["ok"], where="not destructive", active=["fail", "add"])
        assert model.requests[0].tools.names == ("fail", "add")

    def test_the_context_of_tools_knows_the_turn(self, registry, turn):
        seen = []

        @tool
        def look(context: ToolContext) -> str:
            """Looks round."""
            seen.append(context)
            return "ok"

        registry.register(look)
        outcome, _ = turn([ToolCall("look", {}, "l"), "ok"], context=ReadonlyContext(user="ann"))
        (context,) = seen
        assert (context.user, context.model, context.provider) == ("ann", "scripted", "scripted")
        assert context.invocation == outcome.invocation
        assert [message.role for message in context.messages] == ["user", "assistant"]

    def test_the_state_that_calls_leave_is_there_in_the_next_round(self, registry, turn):
        seen = []

        @tool
        def look(context: ToolContext) -> str:
            """Looks."""
            seen.append(dict(context.state))
            return "ok"

        registry.register(look)
        note = ToolCall("remember", {"key": "city", "value": "Oslo"}, "r")
        outcome, _ = turn([note, ToolCall("look", {}, "l"), "ok"], context=ReadonlyContext(state={"a": 1}))
        assert seen == [{"a": 1, "city": "Oslo"}]
        assert outcome.state == {"a": 1, "city": "Oslo"}
        assert outcome.actions.state_delta == {"city": "Oslo"}

    async def test_a_turn_runs_once(self, registry):
        turn = turn_of(ScriptedModel(["a", "b"]), "Hi", registry)
        await turn.run()
        with pytest.raises(RuntimeError, match="a turn runs once"):
            await turn.run()

    def test_an_option_that_there_is_not_is_refused_with_a_near_miss(self, registry):
        with pytest.raises(TypeError, match=r"no option 'steerin'.* Did you mean 'steering'"):
            turn_of(ScriptedModel([]), "Hi", registry, steerin=None)


class TestCutOff:
    @pytest.mark.parametrize("facts", [{"complete": False}, {}])
    @pytest.mark.parametrize("reason", ["length", "content_filter"])
    def test_calls_of_an_answer_that_was_cut_off_never_run(self, turn, reason, facts):
        """Also where the model's client calls it complete."""
        outcome, _ = turn([ModelResponse([ADD], reason, **facts), ADD, "3"])
        assert results(outcome) == [("c1", "cut_off"), ("c1_2", "3")]
        assert outcome.messages[1].metadata["complete"] is False

    @pytest.mark.parametrize(
        ("answer", "detail"),
        [
            (ModelResponse("It is", "length", complete=False), "the answer ended by length"),
            (ModelResponse("It is", "other", complete=False, interrupted=True, error_message="reset"), "reset"),
        ],
    )
    def test_an_answer_that_was_cut_off_ends_the_turn_and_keeps_what_came(self, turn, answer, detail):
        outcome, _ = turn([answer])
        assert (outcome.ended, outcome.detail, outcome.text) == ("cut_off", detail, "It is")

    def test_a_model_whose_answers_break_off_again_and_again_ends_the_turn(self, turn):
        broken = ModelResponse([ADD], "other", complete=False, interrupted=True)
        outcome, _ = turn([broken] * 3, limits=TurnLimits(retries=2))
        assert (outcome.ended, outcome.detail) == ("cut_off", "the model's answers were broken off again and again")
        assert everything_is_answered(outcome)

    def test_a_provider_that_answers_with_an_error_is_a_model_error(self, turn):
        failed = ModelResponse((), "error", error_code="overloaded", error_message="come back later")
        with pytest.raises(ModelError, match="scripted: come back later") as caught:
            turn([failed])
        assert caught.value.code == "overloaded"
        assert caught.value.outcome.ended == "failed"


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

    @pytest.mark.usefixtures("hangs")
    def test_seconds_end_a_tool_that_never_answers(self, turn):
        outcome, _ = turn([HANG], limits=TurnLimits(seconds=0.2))
        assert (outcome.ended, results(outcome)) == ("limit", [("h", "timeout")])

    @pytest.mark.parametrize(
        "wrong", [{"rounds": 0}, {"calls": -1}, {"seconds": float("inf")}, {"retries": -1}, {"tokens": True}]
    )
    def test_limits_that_can_not_be_meant_are_refused(self, wrong):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            TurnLimits(**wrong)


class TestStopping:
    def test_a_tool_that_was_called_stops_the_turn(self, turn):
        outcome, _ = turn([ADD], stop_when=called("add"))
        assert (outcome.ended, outcome.detail) == ("stopped", "add was called")

    def test_a_tool_that_failed_does_not(self, turn):
        outcome, _ = turn([FAIL, "ok"], stop_when=called("fail"))
        assert outcome.ended == "answered"

    def test_several_conditions_plain_and_async(self, turn):
        seen = []

        async def never(so_far):
            seen.append(so_far.rounds)

        outcome, _ = turn([ADD, MORE], stop_when=[never, lambda so_far: "enough" if so_far.rounds == 2 else None])
        assert (outcome.ended, outcome.detail, seen) == ("stopped", "enough", [1, 2])

    @pytest.mark.parametrize(
        ("action", "value", "end"),
        [
            ("escalate", True, ("escalated", None)),
            ("transfer_to", "writer", ("transferred", "writer")),
            ("skip_summarization", True, ("results", None)),
        ],
    )
    def test_what_a_call_asks_for_ends_the_turn(self, registry, turn, action, value, end):
        @tool
        def leave(context: ToolContext) -> str:
            """Leaves the loop."""
            setattr(context.actions, action, value)
            return "bye"

        registry.register(leave)
        other = ToolCall("leave", {}, "c1") if action == "skip_summarization" else ADD
        outcome, _ = turn([[other, ToolCall("leave", {}, "l")]])
        assert ((outcome.ended, outcome.detail), getattr(outcome.actions, action)) == (end, value)
        assert results(outcome)[-1] == ("l", "bye")

    @pytest.mark.parametrize("answer", [Once(), Reject("no")])
    def test_the_summary_is_skipped_where_all_calls_of_an_answer_agree(self, registry, turn, answer):
        """Those that wait for a person, too; a call that failed agrees to nothing."""

        @tool(requires_confirmation=True)
        def ask(context: ToolContext) -> str:
            """Asks."""
            context.actions.skip_summarization = True
            return "asked"

        @tool
        def show(context: ToolContext) -> str:
            """Shows."""
            context.actions.skip_summarization = True
            return "shown"

        registry.register(ask, show)
        assert turn([[ADD, ToolCall("show", {}, "s")], "Done."])[0].ended == "answered"
        for others in ([ToolCall("show", {}, "s")], []):
            outcome, _ = turn([[*others, ToolCall("ask", {}, "a")]], approver=ask_later)
            model, answers = ScriptedModel(["Done."]), {each.id: answer for each in outcome.pending}
            ended = resume_turn(model, ModelRequest(), registry, suspended=outcome, answers=answers)
            assert asyncio.run(ended).ended == ("results" if answer == Once() else "answered")

    def test_an_abort_is_raised_once_the_history_is_complete(self, registry, turn):
        @quick
        def refuse(tool):
            return Abort("enough") if tool.name == "fail" else None

        registry.add_callback("before_tool", refuse)
        with pytest.raises(TurnAbortedError, match="enough") as caught:
            turn([[FAIL, ADD]])
        outcome = caught.value.outcome
        assert outcome.ended == "aborted"
        assert everything_is_answered(outcome)

    def test_an_after_callback_may_abort(self, registry, turn):
        registry.add_callback("after_tool", quick(lambda result: Abort("seen enough")))
        with pytest.raises(TurnAbortedError) as caught:
            turn([ADD])
        assert results(caught.value.outcome) == [("c1", "3")]

    def test_a_fatal_error_is_raised_once_the_history_is_complete(self, registry, turn):
        @tool
        def explode() -> str:
            """Explodes."""
            raise FatalToolError("the disk is gone")

        registry.register(explode)
        with pytest.raises(FatalToolError, match="the disk is gone") as caught:
            turn([[ToolCall("explode", {}, "e"), ADD]])
        assert caught.value.outcome.ended == "fatal"
        assert everything_is_answered(caught.value.outcome)

    async def test_cancelling_leaves_a_complete_history(self, registry, hangs):
        turn = turn_of(ScriptedModel([[HANG, ADD]]), "Hi", registry)
        running = asyncio.ensure_future(turn.run())
        await hangs.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        outcome = turn.outcome
        assert outcome.ended == "cancelled"
        assert everything_is_answered(outcome)

    def test_a_processor_that_fails_leaves_the_history(self, registry, turn):
        def broken(request):
            if len(request.messages) > 1:
                raise ValueError("no")

        registry.pipeline = registry.pipeline.insert_before("pack_tools", "broken", broken)
        with pytest.raises(Exception, match="broken") as caught:
            turn([ADD])
        assert everything_is_answered(caught.value.outcome)


class TestSteering:
    def test_what_the_user_says_meanwhile_is_read_with_the_next_request(self, turn):
        said = iter([None, "Wait, 2 + 2!"])
        outcome, model = turn([ADD, "4"], steering=lambda: next(said, None))
        assert [message.text for message in outcome.messages if message.role == "user"] == ["Go on.", "Wait, 2 + 2!"]
        assert model.requests[1].messages[-1].text == "Wait, 2 + 2!"

    def test_what_the_user_says_while_the_model_answers_keeps_the_turn_going(self, turn):
        said = iter([None, ["One more thing."]])
        outcome, _ = turn(["Done.", "That too."], steering=lambda: next(said, None))
        assert roles(outcome) == ["user", "assistant", "user", "assistant"]

    async def test_calls_that_have_not_begun_are_skipped_when_the_user_speaks(self, registry):
        async def first() -> str:
            """Runs while the user speaks."""
            turn.steer("Stop that.")
            return "ran"

        registry.register(first)
        calls = [ToolCall("first", {}, "f"), ADD]
        turn = turn_of(ScriptedModel([calls, "Stopped."]), "Hi", registry, sequential=True)
        outcome = await turn.run()
        assert results(outcome) == [("f", "ran"), ("c1", "skipped")]
        assert outcome.messages[3].text == "Stop that."
        assert outcome.ended == "answered"

    def test_what_is_no_message_is_refused(self, turn):
        with pytest.raises(CallbackError, match="steering: TypeError: steering gives messages or texts, not int"):
            turn([], steering=lambda: [1])

    async def test_interrupting_keeps_what_the_model_has_said(self, registry):
        async def stream(request):
            yield TextDelta("It ")
            yield TextDelta("is")
            await asyncio.Event().wait()

        turn = turn_of(model_of(stream=stream), "Hi", registry)
        async for event in turn.events():
            if isinstance(event, AnswerDelta) and event.delta.text == "is":
                turn.interrupt("the user pressed escape")
        outcome = turn.outcome
        assert (outcome.ended, outcome.detail) == ("interrupted", "the user pressed escape")
        assert outcome.messages[-1].text == "It is"
        assert outcome.messages[-1].metadata["complete"] is False

    async def test_interrupting_aborts_calls(self, registry, hangs):
        turn = turn_of(ScriptedModel([HANG]), "Hi", registry)
        running = asyncio.ensure_future(turn.run())
        await hangs.wait()
        turn.interrupt()
        outcome = await running
        assert (outcome.ended, results(outcome)) == ("interrupted", [("h", "aborted")])

    def test_interrupting_before_the_first_round_ends_the_turn_for_the_first_reason(self, registry):
        turn = turn_of(ScriptedModel([]), "Hi", registry)
        turn.interrupt("escape")
        turn.interrupt("and again")
        outcome = asyncio.run(turn.run())
        assert (outcome.ended, outcome.detail) == ("interrupted", "escape")

    async def test_what_the_user_says_before_the_calls_begin_skips_them(self, registry):
        def speak(event):
            if isinstance(event, Answered) and event.response.calls:
                turns[0].steer("Don't.")

        turns = []
        turn = turn_of(ScriptedModel([ADD, "Stopped."]), "Hi", registry, listener=speak)
        turns.append(turn)
        outcome = await turn.run()
        assert results(outcome) == [("c1", "skipped")]
        assert [message.text for message in outcome.messages if message.role == "user"] == ["Hi", "Don't."]

    @pytest.mark.parametrize("option", ["steering", "stop_when"])
    def test_a_question_of_the_hosts_that_hangs_or_fails_is_named(self, registry, option):
        short = ToolRegistry(limits=attrs.evolve(registry.limits, callback_timeout=0.05))
        short.register(*registry.tools())

        async def hangs(*_):
            await asyncio.Event().wait()

        def fails(*_):
            raise ValueError("oops")

        for question, asked, said in (
            (hangs, short, "gave no answer"),
            (fails, registry, "ValueError: oops"),
        ):
            with pytest.raises(CallbackError, match=f"{option}: {said}") as caught:
                asyncio.run(run_turn(ScriptedModel([ADD]), "Hi", asked, **{option: question}))
            assert everything_is_answered(caught.value.outcome)

    async def test_a_model_that_ignores_its_cancellation_holds_nobody_up(self, registry, caplog):
        short = ToolRegistry(limits=attrs.evolve(registry.limits, grace=0.05))
        let_go = asyncio.Event()

        async def respond(request):
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            return ModelResponse("late")

        outcome = await run_turn(model_of(respond), "Hi", short, limits=TurnLimits(seconds=0.05))
        let_go.set()
        await asyncio.sleep(0)
        assert outcome.ended == "limit"
        assert "ignores that it was cancelled" in caplog.text

    def test_a_model_that_cancels_itself_is_an_error(self, turn):
        def cancel(request):
            raise asyncio.CancelledError

        with pytest.raises(ModelError, match="model 'scripted' cancelled itself"):
            turn([cancel])


class TestApproval:
    def suspended(self, registry, steps=None, **options):
        registry.approver = ask_later
        model = ScriptedModel(steps or [[DELETE, ADD, OTHER]])
        return asyncio.run(run_turn(model, "Tidy up.", registry, ReadonlyContext(session="s"), **options))

    def resume(self, registry, outcome, answers, steps, **options):
        async def main():
            with ScriptedModel(steps) as model:
                return await resume_turn(
                    model,
                    ModelRequest(),
                    registry,
                    ReadonlyContext(session="s"),
                    suspended=outcome,
                    answers=answers,
                    **options,
                )

        return asyncio.run(main())

    def test_a_call_that_waits_for_a_person_suspends_the_turn(self, registry):
        outcome = self.suspended(registry)
        assert (outcome.ended, len(outcome.pending)) == ("suspended", 2)
        assert results(outcome) == [
            ("c4", "confirmation_required"),
            ("c1", "3"),
            ("c5", "confirmation_required"),
        ]

    def test_it_goes_on_from_json_in_another_process(self, registry):
        text = self.suspended(registry).dumps("a secret of sixteen")
        before = TurnOutcome.loads(text, "a secret of sixteen")
        answers = {call.id: Once() for call in before.pending}
        outcome = self.resume(registry, before.to_json(), answers, ["Tidied up."])
        assert results(outcome) == [("c4", "deleted a.txt"), ("c1", "3"), ("c5", "deleted b.txt")]
        assert (outcome.ended, outcome.text) == ("answered", "Tidied up.")
        assert (outcome.rounds, outcome.calls, outcome.began) == (2, 3, 1)
        assert outcome.invocation == before.invocation

    def test_answers_may_come_in_parts(self, registry):
        before = self.suspended(registry)
        first, second = (call.id for call in before.pending)
        between = self.resume(registry, before, {first: Once()}, [])
        assert (between.ended, [call.id for call in between.pending]) == ("suspended", [second])
        outcome = self.resume(registry, between, {second: Reject("not that one")}, ["Half tidied up."])
        assert results(outcome) == [("c4", "deleted a.txt"), ("c1", "3"), ("c5", "rejected")]

    @pytest.mark.parametrize(
        ("end", "ended"),
        [(None, ("cancelled", None)), ("enough", ("interrupted", "enough"))],
        ids=["cancelled", "interrupted"],
    )
    def test_what_ran_before_a_resumed_turn_was_ended_has_its_result(self, registry, end, ended):
        waits, ran = asyncio.Event(), []

        @tool(requires_confirmation=True)
        async def slow(number: int) -> str:
            """Runs, and perhaps waits."""
            ran.append(number)
            if number == 2:
                waits.set()
                await asyncio.Event().wait()
            return f"ran {number}"

        registry.register(slow)
        calls = [ToolCall("slow", {"number": number}, f"s{number}") for number in (1, 2)]
        before = self.suspended(registry, [calls])

        async def main():
            answers = {call.id: Once() for call in before.pending}
            options = {"suspended": before, "answers": answers}
            turn = resumed_turn_of(ScriptedModel([]), ModelRequest(), registry, ReadonlyContext(session="s"), **options)
            running = asyncio.ensure_future(turn.run())
            await waits.wait()
            running.cancel() if end is None else turn.interrupt(end)
            await asyncio.wait([running])
            assert running.cancelled() is (end is None)
            return turn.outcome

        outcome = asyncio.run(main())
        assert results(outcome) == [("s1", "ran 1"), ("s2", "aborted")]
        assert (outcome.ended, outcome.detail, len(outcome.pending), ran) == (*ended, 0, [1, 2])

    def test_what_was_used_before_is_counted_on(self, registry):
        note = ToolCall("remember", {"key": "a", "value": "1"}, "r")
        before = self.suspended(registry, [ModelResponse([DELETE, note], usage=Usage(5, 5))])
        answers = {call.id: Once() for call in before.pending}
        outcome = self.resume(registry, before, answers, [ModelResponse("ok", usage=Usage(1, 1))])
        assert outcome.usage == Usage(6, 6)
        assert outcome.state == {"a": "1"}
        assert outcome.actions.state_delta == {"a": "1"}

    @pytest.mark.parametrize("name", ["rounds", "calls", "began"])
    def test_counts_below_nothing_are_refused(self, turn, name):
        outcome, _ = turn(["ok"])
        with pytest.raises(PendingError, match=f"{name}: must be 0 or above"):
            TurnOutcome.from_json({**outcome.to_json(), name: -1})

    def test_what_is_nested_too_deep_is_not_written(self, turn):
        outcome, _ = turn(["ok"])
        deep = []
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(ValueError, match="nested too deep"):
            outcome.evolve(state={"deep": deep}).dumps()

    def test_more_than_is_read_back_is_not_written(self, turn, monkeypatch):
        outcome, _ = turn(["ok"])
        monkeypatch.setattr(TurnOutcome, "most_bytes", 10)
        with pytest.raises(ValueError, match="at most 10 are read back"):
            outcome.dumps()

    def test_a_rejection_without_feedback_ends_the_turn(self, registry):
        before = self.suspended(registry, [DELETE])
        outcome = self.resume(registry, before, {before.pending.calls[0].id: Reject()}, [])
        assert (outcome.ended, results(outcome)) == ("rejected", [("c4", "rejected")])

    def test_answers_that_fit_nothing_change_nothing_and_are_reported(self, registry):
        before = self.suspended(registry, [DELETE])
        (pending,) = before.pending
        answers = [
            ("forged", Once()),
            (pending.id, {"answer": "yes"}),
            (pending.id, {"answer": "always", "patterns": ["*"]}),
        ]
        outcome = self.resume(registry, before, answers, [])
        assert (outcome.ended, results(outcome)) == ("suspended", [("c4", "confirmation_required")])
        assert outcome.ignored == TurnOutcome.loads(outcome.dumps()).ignored == ("forged", pending.id, pending.id)

    def test_an_outcome_in_which_nothing_waits_is_refused(self, registry, turn):
        outcome, _ = turn(["Hello."])
        with pytest.raises(ValueError, match="nothing waits in this outcome, which ended by 'answered'"):
            resumed_turn_of(ScriptedModel([]), ModelRequest(), registry, suspended=outcome, answers={})

    @pytest.mark.parametrize("wrong", [{}, {"version": 3}, {"version": 2, "ended": "well"}, {"version": 1}, 5])
    def test_what_is_no_outcome_is_refused(self, wrong):
        with pytest.raises(PendingError):
            TurnOutcome.from_json(wrong)

    def test_an_outcome_that_was_changed_is_refused(self, registry):
        text = self.suspended(registry).dumps("a secret of sixteen")
        with pytest.raises(PendingError, match="changed since"):
            TurnOutcome.loads(text.replace("a.txt", "z.txt"), "a secret of sixteen")


class TestHostsTools:
    """Tools without a handler: their calls end the turn, and what the host makes of them goes on with it."""

    CALLS = (ToolCall("pick", {"of": 2}, "p"), ADD)

    @pytest.fixture(autouse=True)
    def pick(self, registry):
        schema = {"type": "object", "properties": {"of": {"type": "integer"}}, "required": ["of"]}
        registry.register(
            Tool.from_schema("pick", schema), Tool.from_schema("paint", schema, requires_confirmation=True)
        )

    def resume(self, registry, outcome, steps=("Done.",), **options):
        with ScriptedModel(steps) as model:
            return asyncio.run(resume_turn(model, ModelRequest(), registry, suspended=outcome, **options))

    def test_a_call_of_one_ends_the_turn_and_its_result_goes_on_with_it_through_json(self, registry, turn):
        outcome, _ = turn([self.CALLS])
        assert (outcome.ended, outcome.for_host, outcome.calls) == ("pending", self.CALLS[:1], 2)
        there = TurnOutcome.from_json(json.loads(json.dumps(outcome.to_json())))
        assert there == outcome
        ended = self.resume(registry, there.to_json(), tool_results={"p": "red", "x": "of no call"})
        assert (ended.ended, ended.for_host, ended.ignored, ended.text) == ("answered", (), ("x",), "Done.")
        assert results(ended) == [("p", "red"), ("c1", "3")]

    def test_results_may_come_in_parts(self, registry, turn):
        outcome, _ = turn([[ToolCall("pick", {"of": number}, f"p{number}") for number in (1, 2)]])
        half = self.resume(registry, outcome, (), tool_results={"p2": "two"})
        assert (half.ended, [call.id for call in half.for_host]) == ("pending", ["p1"])
        assert results(self.resume(registry, half, tool_results={"p1": "one"})) == [("p1", "one"), ("p2", "two")]

    @pytest.mark.parametrize(
        ("given", "text", "kind"),
        [
            ({"colour": "red"}, '{"colour": "red"}', None),
            (ToolResult("closed", is_error=True), "closed", "tool_failure"),
            (ToolError("closed"), "closed", "tool_failure"),
            ("x" * 60_000, None, None),
        ],
    )
    def test_a_result_is_made_and_bounded_as_any(self, registry, turn, given, text, kind):
        ended = self.resume(registry, turn([self.CALLS])[0], tool_results={"p": given})
        result = ended.messages[-2].results[0].result
        assert (result.kind, len(result.text) < 52_000) == (kind, True)
        assert text in (None, result.text)

    @pytest.mark.parametrize("arguments", [{}, {"of": "2"}])
    def test_a_call_that_is_invalid_or_denied_is_not_the_hosts(self, turn, arguments):
        assert turn([[ToolCall("pick", arguments, "p")], "Sorry."])[0].ended == "answered"

    def test_a_person_is_asked_before_the_host(self, registry, turn):
        outcome, _ = turn([[ToolCall("paint", {"of": 1}, "t")]], approver=ask_later)
        assert (outcome.ended, outcome.for_host) == ("suspended", ())
        allowed = self.resume(registry, outcome, (), answers={each.id: Once() for each in outcome.pending})
        assert (allowed.ended, [call.id for call in allowed.for_host]) == ("pending", ["t"])
        assert self.resume(registry, allowed, tool_results={"t": "painted"}).ended == "answered"

    def test_a_long_running_call_may_have_several_results_and_survives_a_restart(self, registry, turn):
        @tool(long_running=True)
        def build() -> str:
            """Builds."""
            return "begun"

        registry.register(build)
        outcome = turn([[ToolCall("build", {}, "b")], "Wait."])[0]
        for text in ("half", "whole"):
            there, elsewhere = TurnOutcome.loads(outcome.dumps()), ToolRegistry()
            outcome = self.resume(elsewhere, there, tool_results={"b": text})
            assert results(outcome) == [("b", text)]


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
        with pytest.raises(ModelError, match="no answer of the type that is wanted") as caught:
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

    def test_a_model_with_response_formats_answers_in_one_and_may_correct_it_once(self, registry):
        steps = [
            [ADD],
            '{"result": {"name": "Oslo", "people": "many"}}',
            '{"result": {"name": "Oslo", "people": null}}',
        ]
        with ScriptedModel(steps, formats=True) as model:
            outcome = asyncio.run(run_turn(model, "Hi", registry, output_type=City))
        assert (outcome.ended, outcome.output, outcome.rounds) == ("answered", City("Oslo"), 3)
        assert {request.output.name for request in model.requests} == {"final_result"}
        assert "final_result" not in [tool.name for request in model.requests for tool in request.offered]
        assert "- result.people: " in outcome.messages[-2].text

    @pytest.mark.parametrize("text", ["Oslo.", "[1]", '{"result": 7}', '{"result": 1, "result": 2}', ""])
    def test_in_a_response_format_too_a_second_miss_fails_the_turn(self, registry, text):
        with ScriptedModel([text, text], formats=True) as model, pytest.raises(ModelError, match="that is wanted"):
            asyncio.run(run_turn(model, "Hi", registry, output_type=City))

    def test_where_a_call_is_required_the_answer_comes_by_the_tool(self, registry):
        with ScriptedModel([self.OSLO], formats=True) as model:
            request = ModelRequest("Hi", tool_choice="required")
            assert asyncio.run(run_turn(model, request, registry, output_type=City)).output.name == "Oslo"

    @pytest.mark.parametrize(("formats", "last"), [(False, [OSLO]), (True, '{"result": {"name": "Oslo"}}')])
    def test_the_last_answer_at_the_limit_of_rounds_is_a_value_too(self, registry, formats, last):
        options = {"limits": TurnLimits(rounds=1, final_answer=True), "output_type": City}
        with ScriptedModel([[ADD], last], formats=formats) as model:
            outcome = asyncio.run(run_turn(model, "Hi", registry, **options))
        assert (outcome.ended, outcome.output.name) == ("limit", "Oslo")
        assert model.requests[1].tool_choice == ("none" if formats else NamedTool("final_result"))
        assert everything_is_answered(outcome)

    def test_it_is_wanted_of_a_turn_that_goes_on_too(self, registry, turn):
        outcome, _ = turn([DELETE], approver=ask_later, output_type=City)
        with ScriptedModel([self.OSLO]) as model:
            answers = {each.id: Once() for each in outcome.pending}
            options = {"suspended": outcome, "answers": answers, "output_type": City}
            assert asyncio.run(resume_turn(model, ModelRequest(), registry, **options)).output.name == "Oslo"


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


class TestModelCallbacks:
    def test_before_answers_instead_of_the_model(self, registry, turn):
        registry.add_callback("before_model", quick(lambda request: ModelResponse("from a cache")))
        outcome, model = turn([])
        assert (outcome.text, model.requests) == ("from a cache", [])

    def test_before_may_change_the_request_and_the_next_sees_that(self, registry, turn):
        registry.add_callback("before_model", quick(lambda request: request.with_instructions("Be kind.")))
        registry.add_callback("before_model", quick(lambda request: request.with_instructions("Be brief.")))
        assert turn(["ok"])[1].requests[0].instructions == ("Be kind.", "Be brief.")

    def test_each_after_sees_the_answer_as_the_one_before_has_left_it(self, registry, turn):
        def add(word, seen):
            def after(response, error):
                seen.append(error)
                return response.evolve(message=Message.assistant(response.text + word))

            return quick(after)

        seen, down = [], ModelError("down")
        registry.add_callback("on_model_error", quick(lambda: ModelResponse("sorry")))
        for word in (" one", " two"):
            registry.add_callback("after_model", add(word, seen))
        assert [turn([answer])[0].text for answer in ("ok", down)] == ["ok one two", "sorry one two"]
        assert seen == [None, None, down, down]

    def test_on_error_recovers(self, registry, turn):
        async def recover(context, error):
            return ModelResponse(f"Sorry: {error}, {context.provider}")

        registry.add_callback("on_model_error", recover)
        assert turn([ModelError("down")])[0].text == "Sorry: down, scripted"

    def test_a_wrapper_may_ask_again(self, registry, turn):
        async def twice(call_next):
            first = await call_next()
            return first if first.text else await call_next()

        registry.add_callback("wrap_model", twice)
        assert turn([ModelResponse(()), "second"])[0].text == "second"

    @pytest.mark.parametrize("stage", ["before_model", "after_model", "wrap_model"])
    def test_a_callback_that_fails_is_named(self, registry, turn, stage):
        def broken():
            raise ValueError("oops")

        registry.add_callback(stage, broken)
        with pytest.raises(CallbackError, match=f"{stage}: .*broken of the host: ValueError\\('oops'\\)") as caught:
            turn(["ok"] if stage == "after_model" else [])
        assert (caught.value.stage, caught.value.owner) == (stage, "the host")
        assert caught.value.outcome.ended == "failed"

    @pytest.mark.parametrize("stage", ["before_model", "after_model", "wrap_model"])
    def test_an_answer_that_is_no_response_is_named(self, registry, turn, stage):
        registry.add_callback(stage, quick(lambda: 5))
        with pytest.raises(CallbackError, match="int"):
            turn(["ok"] if stage == "after_model" else [])

    def test_an_error_of_a_before_callback_may_be_recovered(self, registry, turn):
        def broken():
            raise ValueError("oops")

        registry.add_callback("before_model", broken)
        registry.add_callback("on_model_error", quick(lambda error: ModelResponse(type(error).__name__)))
        assert turn([])[0].text == "CallbackError"

    @pytest.mark.parametrize("raised", [ValueError("odd"), SystemExit("odd")])
    def test_a_model_that_raises_anything_is_a_model_error(self, turn, raised):
        def respond(request):
            raise raised

        with pytest.raises(ModelError, match=f"scripted: {type(raised).__name__}: odd") as caught:
            turn([respond])
        assert caught.value.code == type(raised).__name__
        assert caught.value.outcome.messages == (Message.user("Go on."),)

    def test_a_model_may_answer_plainly_but_with_a_response(self, registry):
        assert asyncio.run(run_turn(model_of(lambda _: ModelResponse("Hello.")), "Hi", registry)).text == "Hello."
        with pytest.raises(ModelError, match="model 'odd' gave str, which is no ModelResponse"):
            asyncio.run(run_turn(model_of(lambda _: "text"), "Hi", registry))

    def test_what_is_no_model_is_refused_at_once(self, registry):
        with pytest.raises(TypeError, match="is no model: it has no provider, respond"):
            turn_of(SimpleNamespace(name="x"), "Hi", registry)
        with pytest.raises(TypeError, match=r"registry\.model\('openai/gpt-5'\) makes one$"):
            turn_of("openai/gpt-5", "Hi", registry)
        with pytest.raises(TypeError, match=r"^registry must be ToolRegistry, got \[\]$"):
            turn_of(model_of(), "Hi", [])
        with pytest.raises(TypeError, match=r"^context must be ReadonlyContext, got 'ann'$"):
            turn_of(model_of(), "Hi", registry, "ann")

    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            (ModelResponse(Message.user("hi")), "gave a message of role 'user'"),
            (ModelResponse("hi", partial=True), "gave a partial response"),
        ],
    )
    def test_what_is_no_answer_is_named(self, turn, answer, text):
        with pytest.raises(ModelError, match=text):
            turn([answer])

    def test_an_error_with_calls_is_an_error_and_none_of_them_runs(self, turn):
        failed = ModelResponse([ADD], "error", error_message="the server broke")
        with pytest.raises(ModelError, match="the server broke") as caught:
            turn([failed])
        assert results(caught.value.outcome) == [("c1", "cut_off")]


class TestRetries:
    def test_a_request_that_failed_for_a_while_is_sent_again(self, registry):
        heard = []
        steps = [ModelError("slow down", status=429, retryable=True, retry_after=0.01), "ok"]

        async def main():
            with ScriptedModel(steps) as model:
                return await run_turn(model, "Hi", registry, listener=heard.append)

        assert asyncio.run(main()).text == "ok"
        (retry,) = (event for event in heard if isinstance(event, ModelRetried))
        assert (retry.attempt, retry.cause) == (1, "slow down")

    @pytest.mark.parametrize(
        "errors",
        [
            [ModelError("busy", retryable=True, retry_after=0.001)] * 2,
            [ModelError("busy", retryable=True, retry_after=3600)],
            [ModelError("busy", status=401)],
        ],
        ids=["twice", "for too long", "for good"],
    )
    def test_what_fails_again_or_too_long_or_for_good_is_not_sent_again(self, turn, errors):
        with pytest.raises(ModelError, match="busy"):
            turn(errors, limits=TurnLimits(retries=1))


class TestTurnCallbacks:
    def test_before_turn_may_replace_the_request(self, registry, turn):
        registry.add_callback("before_turn", quick(lambda request: request.with_instructions("Be brief.")))
        _, model = turn(["ok"])
        assert model.requests[0].instructions == ("Be brief.",)

    @pytest.mark.parametrize(
        ("stage", "wrong"),
        [
            ("before_turn", "the host answered int; it may answer ModelRequest or None"),
            ("on_stop", "the host answered int; it may answer messages, a text or None"),
        ],
    )
    def test_a_callback_that_answers_nonsense_is_named(self, registry, turn, stage, wrong):
        registry.add_callback(stage, quick(lambda: 5))
        with pytest.raises(CallbackError, match=wrong):
            turn(["ok"] if stage == "on_stop" else [])

    def test_after_turn_is_told_of_every_end(self, registry, turn):
        ends = []
        registry.add_callback("after_turn", lambda outcome: ends.append(outcome.ended))
        turn(["ok"])
        with pytest.raises(ModelError):
            turn([ModelError("down")])
        assert ends == ["answered", "failed"]

    def test_an_after_turn_callback_that_fails_costs_nothing(self, registry, turn, caplog):
        def broken():
            raise ValueError("oops")

        registry.add_callback("after_turn", broken)
        assert turn(["ok"])[0].text == "ok"
        assert "callback of the host" in caplog.text

    def test_on_stop_may_have_the_turn_go_on(self, registry, turn):
        said = iter(["And the tests?", None])
        registry.add_callback("on_stop", quick(lambda: next(said)))
        outcome, _ = turn(["Done.", "They pass."])
        assert [message.text for message in outcome.messages] == ["Go on.", "Done.", "And the tests?", "They pass."]

    def test_on_stop_goes_on_a_bounded_number_of_times(self, registry, turn):
        registry.add_callback("on_stop", quick(lambda: [Message.user("Again.")]))
        outcome, _ = turn(["a", "b", "c"], limits=TurnLimits(continuations=2))
        assert (outcome.ended, outcome.rounds) == ("answered", 3)

    def test_on_stop_sees_how_the_turn_would_end(self, registry, turn):
        seen = []
        registry.add_callback("on_stop", lambda context, outcome: seen.append((context.user, outcome.text)))
        turn(["ok"], context=ReadonlyContext(user="ann"))
        assert seen == [("ann", "ok")]


class TestLongRunning:
    def test_a_later_result_takes_the_place_of_the_pending_one(self, registry, turn):
        @tool(long_running=True)
        def order() -> str:
            """Orders something."""
            return "ordered"

        def deliver(request):
            registry.complete("o", "delivered")
            return ADD

        registry.register(order)
        outcome, model = turn([ToolCall("order", {}, "o"), deliver, "ok"])
        (pending,) = model.requests[1].messages[-1].results
        assert pending.result.text.startswith("ordered")
        assert results(outcome)[0] == ("o", "delivered")

    def test_what_went_on_in_the_background_comes_as_a_message(self, registry):
        async def main():
            done = asyncio.Event()

            @tool
            async def start(context: ToolContext) -> str:
                """Starts something."""

                async def work():
                    await done.wait()
                    return "finished"

                context.background(work())
                return "started"

            async def wait_for_it(call_next):
                if model.requests:
                    done.set()
                    await ended.wait()
                return await call_next()

            def watch(event):
                if isinstance(event, CallCompleted) and "finished" in event.result.text:
                    ended.set()

            ended = asyncio.Event()
            registry.register(start)
            registry.add_callback("wrap_model", wait_for_it)
            registry.add_callback("observe", quick(watch))
            with ScriptedModel([ToolCall("start", {}, "s"), ADD, "ok"]) as model:
                return await run_turn(model, "Hi", registry)

        outcome = asyncio.run(main())
        texts = [message.text for message in outcome.messages if message.role == "user"]
        assert "finished" in texts[1]
        assert "start" in texts[1]


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
        turn = turn_of(ScriptedModel([ADD, "ok"]), "Hi", registry)
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
    def test_what_was_shown_is_not_asked_for_again_but_for_thoughts(self, registry, first, times):
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

    def test_states_on_the_way_are_no_answer(self, registry):
        async def stream(request):
            yield ModelResponse("Hel", partial=True)
            yield ModelResponse("Hello.")
            yield ModelResponse("Hello. And", partial=True)

        assert streamed(model_of(stream=stream), registry)[-1].outcome.text == "Hello."

    async def test_a_wrapper_that_asks_again_leaves_no_words_of_the_first(self, registry):
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
        turn = turn_of(model_of(stream=stream), "Hi", registry)
        async for _ in turn.events():
            pass
        assert turn.outcome.messages[-1].text == "try 2 "

    def test_results_of_calls_that_were_skipped_are_told(self, registry):
        class Unsent(ToolRegistry):
            async def batch(self, *_args, **_options):
                raise ValueError("no batch")

        board, heard = Unsent(), []
        board.register(*registry.tools())
        with pytest.raises(ValueError, match="no batch"):
            asyncio.run(run_turn(ScriptedModel([ADD]), "Hi", board, listener=heard.append))
        roles = [event.message.role for event in heard if isinstance(event, MessageAdded)]
        assert roles == ["assistant", "tool"]

    def test_a_stream_without_a_response_is_an_error(self, registry):
        async def stream(request):
            return
            yield

        with pytest.raises(ModelError, match="without a response"):
            streamed(model_of(stream=stream), registry)

    async def test_a_slow_reader_holds_up_the_stream_and_loses_nothing(self, registry):
        words = " ".join(str(number) for number in range(5_000))
        said = []
        async for event in stream_turn(ScriptedModel([words]), "Hi", registry):
            await asyncio.sleep(0)
            if isinstance(event, AnswerDelta):
                said.append(event.delta.text)
        assert "".join(said) == words

    def test_a_listener_that_fails_costs_nothing(self, turn, caplog):
        def broken(event):
            raise ValueError("oops")

        assert turn(["ok"], listener=broken)[0].text == "ok"
        assert "the listener of a turn" in caplog.text


def test_a_registry_without_tools_has_turns_too():
    outcome = asyncio.run(run_turn(ScriptedModel([[TextPart("Hi")]]), "Hello", ToolRegistry()))
    assert outcome.text == "Hi"


# What a turn offers and sends -----------------------------------------------------------------------------------------


def test_a_toolset_that_fails_costs_its_tools_or_the_turn(registry):
    class Down(Toolset):
        name = "down"

        async def tools(self, context):
            raise RuntimeError("no connection")

    registry.register(Down())
    with ScriptedModel(["Done."]) as model:
        assert asyncio.run(run_turn(model, "Hi", registry)).text == "Done."
        with pytest.raises(ToolsetError, match="no connection") as caught:
            asyncio.run(run_turn(model, "Hi", registry, on_toolset_error="fail"))
    assert (caught.value.outcome.ended, roles(caught.value.outcome)) == ("failed", ["user"])


def test_permissions_of_a_turn_narrow_what_it_offers(turn):
    outcome, model = turn(["Hello."], permissions=Permissions([Rule("add", "*", "deny")]))
    assert [tool.name for tool in model.requests[0].offered] == ["delete", "fail", "remember"]
    assert outcome.text == "Hello."


class Narrow(SimpleNamespace):
    """An exporter whose provider takes two tools."""

    def tools(self, specs, *, strict=None):
        losses = [Loss(spec.name, "", "tools", "it takes two tools", refused=True) for spec in specs[2:]]
        return ExportedTools(losses=tuple(losses))


def test_tools_that_the_provider_cant_be_given_are_reported(registry, caplog):
    """In the request's problems, in the event of each round, and in the log, once."""
    model = ScriptedModel([ADD, "It is 3."])
    model.exporter = Narrow(**dict.fromkeys(("name", "check", "request", "response", "reader"), print))
    events = []
    asyncio.run(run_turn(model, "Add.", registry, listener=events.append))
    rounds = [event for event in events if isinstance(event, RoundStarted)]
    for round_ in rounds:
        assert [problem.tool for problem in round_.request.problems] == ["fail", "remember"]
        assert "it takes two tools" in round_.to_json()["problems"][0]
    assert len(rounds) == 2
    assert [line for line in caplog.messages if "isn't sent" in line] == [
        "tool fail isn't sent to scripted: it takes two tools",
        "tool remember isn't sent to scripted: it takes two tools",
    ]
