"""The agent loop: request -> model -> calls -> results -> again; each call gets exactly one result."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from pegboard import (
    Abort,
    ChangeArguments,
    ExportedTools,
    Loss,
    ModelRequest,
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
    Turn,
    TurnLimits,
    TurnOutcome,
    hookimpl,
    nonblocking,
    register_plugin,
    run_turn,
    stream_turn,
    tool,
)
from pegboard.approval import ask_later
from pegboard.errors import CallbackError, FatalToolError, ModelError, PendingError, ToolsetError, TurnAbortedError
from pegboard.events import CallCompleted, RoundStarted
from pegboard.messages import Message, ModelResponse, Usage
from pegboard.testing import ScriptedModel
from turn.samples import ADD, DELETE, FAIL, HANG, MORE, everything_is_answered, results, roles

OTHER = ToolCall("delete", {"path": "b.txt"}, "c5")


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

    def test_provider_executed_calls_are_not_run(self, turn):
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
            """Registers another tool."""
            registry.register(late)
            return "done"

        registry.register(hang)
        outcome, model = turn([ToolCall("hang", {}, "h"), ToolCall("late", {}, "l"), "ok"])
        assert results(outcome) == [("h", "done"), ("l", "here")]
        assert "late" not in model.requests[0].tools.names
        assert "late" in model.requests[1].tools.names

    def test_tools_of_the_request_are_not_resolved_again(self, registry, turn):
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
        turn = Turn(ScriptedModel(["a", "b"]), "Hi", registry)
        await turn.run()
        with pytest.raises(RuntimeError, match="this turn has been run already"):
            await turn.run()

    def test_an_unknown_option_is_refused_with_a_near_miss(self, registry):
        with pytest.raises(TypeError, match=r"no option 'steerin'.* Did you mean 'steering'"):
            Turn(ScriptedModel([]), "Hi", registry, steerin=None)


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
        assert (outcome.ended, outcome.detail) == ("cut_off", "3 answers with calls were cut off, or broke off")
        assert everything_is_answered(outcome)

    def test_a_provider_that_answers_with_an_error_is_a_model_error(self, turn):
        failed = ModelResponse((), "error", error_code="overloaded", error_message="come back later")
        with pytest.raises(ModelError, match="scripted: come back later") as caught:
            turn([failed])
        assert caught.value.code == "overloaded"
        assert caught.value.outcome.ended == "failed"


class TestStopping:
    @pytest.mark.parametrize("condition", ["add", ["fail", "add"], [lambda so_far: None, "add"]])
    def test_a_tool_that_was_called_without_an_error_stops_the_turn(self, turn, condition):
        outcome, _ = turn([FAIL, ADD], stop_when=condition)
        assert (outcome.ended, outcome.detail) == ("stopped", "add was called")

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
    def test_the_summary_is_skipped_where_all_calls_of_an_answer_agree(self, registry, turn, resume, answer):
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
            ended = resume(
                outcome, [] if answer == Once() else ["Done."], answers={each.id: answer for each in outcome.pending}
            )
            assert ended.ended == ("results" if answer == Once() else "answered")

    @pytest.mark.parametrize("stage", ["before_tool", "after_tool"])
    def test_an_abort_is_raised_once_the_history_is_complete(self, registry, turn, stage):
        registry.add_callback(stage, nonblocking(lambda tool: Abort("enough") if tool.name == "fail" else None))
        with pytest.raises(TurnAbortedError, match="enough") as caught:
            turn([[FAIL, ADD]])
        assert caught.value.outcome.ended == "aborted"
        assert everything_is_answered(caught.value.outcome)

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
        turn = Turn(ScriptedModel([[HANG, ADD]]), "Hi", registry)
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


class TestApproval:
    @pytest.fixture
    def suspended(self, turn):
        """Runs a turn whose approvals come later."""
        return lambda step=(DELETE, ADD, OTHER): turn([step], approver=ask_later)[0]

    def test_a_call_that_waits_for_a_person_suspends_the_turn(self, suspended):
        outcome = suspended()
        assert (outcome.ended, len(outcome.pending)) == ("suspended", 2)
        assert results(outcome) == [("c4", "confirmation_required"), ("c1", "3"), ("c5", "confirmation_required")]

    def test_a_turn_resumes_from_json_in_another_process(self, suspended, resume):
        text = suspended().dumps("a secret of sixteen")
        before = TurnOutcome.loads(text, "a secret of sixteen")
        answers = {call.id: Once() for call in before.pending}
        outcome = resume(before.to_json(), ["Tidied up."], answers=answers)
        assert results(outcome) == [("c4", "deleted a.txt"), ("c1", "3"), ("c5", "deleted b.txt")]
        assert (outcome.ended, outcome.text) == ("answered", "Tidied up.")
        assert (outcome.rounds, outcome.calls, outcome.began) == (2, 3, 1)
        assert outcome.invocation == before.invocation

    def test_answers_may_come_in_parts(self, suspended, resume):
        before = suspended()
        first, second = (call.id for call in before.pending)
        between = resume(before, [], answers={first: Once()})
        assert (between.ended, [call.id for call in between.pending]) == ("suspended", [second])
        outcome = resume(between, ["Half tidied up."], answers={second: Reject("not that one")})
        assert results(outcome) == [("c4", "deleted a.txt"), ("c1", "3"), ("c5", "rejected")]

    @pytest.mark.parametrize(
        ("end", "ended"),
        [(None, ("cancelled", None)), ("enough", ("interrupted", "enough"))],
        ids=["cancelled", "interrupted"],
    )
    def test_what_ran_before_a_resumed_turn_was_ended_has_its_result(self, suspended, registry, end, ended):
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
        before = suspended(calls)

        async def main():
            answers = {call.id: Once() for call in before.pending}
            options = {"resume": before, "answers": answers}
            turn = Turn(ScriptedModel([]), ModelRequest(), registry, **options)
            running = asyncio.ensure_future(turn.run())
            await waits.wait()
            running.cancel() if end is None else turn.interrupt(end)
            await asyncio.wait([running])
            assert running.cancelled() is (end is None)
            return turn.outcome

        outcome = asyncio.run(main())
        assert results(outcome) == [("s1", "ran 1"), ("s2", "aborted")]
        assert (outcome.ended, outcome.detail, len(outcome.pending), ran) == (*ended, 0, [1, 2])

    def test_usage_and_state_continue_after_a_resume(self, suspended, resume):
        note = ToolCall("remember", {"key": "a", "value": "1"}, "r")
        before = suspended(ModelResponse([DELETE, note], usage=Usage(5, 5)))
        answers = {call.id: Once() for call in before.pending}
        outcome = resume(before, [ModelResponse("ok", usage=Usage(1, 1))], answers=answers)
        assert outcome.usage == Usage(6, 6)
        assert outcome.state == {"a": "1"}
        assert outcome.actions.state_delta == {"a": "1"}

    @pytest.mark.parametrize("name", ["rounds", "calls", "began"])
    def test_negative_counts_are_refused(self, turn, name):
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

    def test_a_rejection_without_feedback_ends_the_turn(self, suspended, resume):
        before = suspended(DELETE)
        outcome = resume(before, [], answers={before.pending.calls[0].id: Reject()})
        assert (outcome.ended, results(outcome)) == ("rejected", [("c4", "rejected")])

    def test_unmatched_answers_are_ignored_and_reported(self, suspended, resume):
        before = suspended(DELETE)
        (pending,) = before.pending
        answers = [
            ("forged", Once()),
            (pending.id, {"answer": "yes"}),
            (pending.id, {"answer": "always", "patterns": ["*"]}),
        ]
        outcome = resume(before, [], answers=answers)
        assert (outcome.ended, results(outcome)) == ("suspended", [("c4", "confirmation_required")])
        assert outcome.ignored == TurnOutcome.loads(outcome.dumps()).ignored == ("forged", pending.id, pending.id)

    def test_an_outcome_without_waiting_calls_is_refused(self, registry, turn):
        outcome, _ = turn(["Hello."])
        with pytest.raises(ValueError, match="no call waits in this outcome, which ended by 'answered'"):
            Turn(ScriptedModel([]), ModelRequest(), registry, resume=outcome, answers={})

    @pytest.mark.parametrize("given", [{"answers": {"c4": Once()}}, {"tool_results": {"c4": "done"}}])
    def test_answers_without_the_outcome_that_they_are_for_are_refused(self, registry, given):
        with pytest.raises(TypeError, match="pass its outcome as resume, too"):
            Turn(ScriptedModel([]), ModelRequest(), registry, resume=None, **given)

    async def test_a_resumed_turn_can_be_streamed(self, suspended, registry):
        before = await asyncio.to_thread(suspended)
        answers = {call.id: Once() for call in before.pending}
        model = ScriptedModel(["Tidied up."])
        events = [event async for event in stream_turn(model, ModelRequest(), registry, resume=before, answers=answers)]
        assert results(events[-1].outcome) == [("c4", "deleted a.txt"), ("c1", "3"), ("c5", "deleted b.txt")]

    @pytest.mark.parametrize("wrong", [{}, {"version": 3}, {"version": 2, "ended": "well"}, {"version": 1}, 5])
    def test_invalid_outcomes_are_refused(self, wrong):
        with pytest.raises(PendingError):
            TurnOutcome.from_json(wrong)

    def test_an_outcome_that_was_changed_is_refused(self, suspended):
        text = suspended().dumps("a secret of sixteen")
        with pytest.raises(PendingError, match="changed since"):
            TurnOutcome.loads(text.replace("a.txt", "z.txt"), "a secret of sixteen")


class TestHostsTools:
    """Tools without a handler: their calls end the turn, which resumes with the host's results."""

    CALLS = (ToolCall("pick", {"of": 2}, "p"), ADD)

    @pytest.fixture(autouse=True)
    def pick(self, registry):
        schema = {"type": "object", "properties": {"of": {"type": "integer"}}, "required": ["of"]}
        registry.register(
            Tool.from_schema("pick", schema), Tool.from_schema("paint", schema, requires_confirmation=True)
        )

    def test_a_call_of_one_ends_the_turn_and_its_result_goes_on_with_it_through_json(self, resume, turn):
        outcome, _ = turn([self.CALLS])
        assert (outcome.ended, outcome.for_host, outcome.calls) == ("pending", self.CALLS[:1], 2)
        there = TurnOutcome.from_json(json.loads(json.dumps(outcome.to_json())))
        assert there == outcome
        ended = resume(there.to_json(), tool_results={"p": "red", "x": "of no call"})
        assert (ended.ended, ended.for_host, ended.ignored, ended.text) == ("answered", (), ("x",), "Done.")
        assert results(ended) == [("p", "red"), ("c1", "3")]

    def test_its_result_passes_the_after_callbacks_once_with_the_calls_context(self, registry, resume, turn):
        seen = []

        def hide(context, tool, arguments, result):
            seen.append((context.call_id, context.user, tool.name, dict(arguments), result.text))
            context.state["seen"] = len(seen)
            return ToolResult("hidden")

        registry.add_callback("after_tool", hide, where="name:pick")
        registry.add_callback("on_tool_error", lambda *_: ToolResult("never mind"), where="name:pick")
        registry.add_callback("before_tool", lambda *_: ChangeArguments({"of": 3}), where="name:pick")
        context = ReadonlyContext(user="ann")
        outcome, _ = turn([self.CALLS], context=context)
        assert (outcome.ended, seen) == ("pending", [])
        ended = resume(outcome, context=context, tool_results={"p": "red", "x": "of no call"})
        assert seen == [("p", "ann", "pick", {"of": 3}, "red")]
        assert (results(ended), ended.state["seen"]) == ([("p", "hidden"), ("c1", "3")], 1)

    def test_an_abort_after_its_result_ends_the_turn(self, registry, resume, turn):
        registry.add_callback("after_tool", lambda *_: Abort("enough"), where="name:pick")
        outcome, _ = turn([self.CALLS])
        with pytest.raises(TurnAbortedError, match="enough") as caught:
            resume(outcome, tool_results={"p": "red"})
        assert (caught.value.outcome.ended, results(caught.value.outcome)) == ("aborted", [("p", "red"), ("c1", "3")])

    def test_results_may_come_in_parts(self, resume, turn):
        outcome, _ = turn([[ToolCall("pick", {"of": number}, f"p{number}") for number in (1, 2)]])
        half = resume(outcome, (), tool_results={"p2": "two"})
        assert (half.ended, [call.id for call in half.for_host]) == ("pending", ["p1"])
        whole = resume(half, tool_results={"p1": "one", "p2": "again"})
        assert (results(whole), whole.ignored) == ([("p1", "one"), ("p2", "two")], ("p2",))

    def test_the_result_of_a_server_tool_cant_be_replaced(self, resume, turn):
        ended = resume(turn([self.CALLS])[0], tool_results={"p": "red", "c1": "4"})
        assert (results(ended), ended.ignored) == ([("p", "red"), ("c1", "3")], ("c1",))

    @pytest.mark.parametrize(
        ("given", "text", "kind"),
        [
            ({"colour": "red"}, '{"colour": "red"}', None),
            (ToolResult("closed", is_error=True), "closed", "tool_failure"),
            (ToolError("closed"), "closed", "tool_failure"),
            ("x" * 60_000, None, None),
        ],
    )
    def test_a_result_is_made_and_bounded_as_any(self, resume, turn, given, text, kind):
        ended = resume(turn([self.CALLS])[0], tool_results={"p": given})
        result = ended.messages[-2].results[0].result
        assert (result.kind, len(result.text) < 52_000) == (kind, True)
        assert text in (None, result.text)

    @pytest.mark.parametrize("arguments", [{}, {"of": "2"}])
    def test_a_call_that_is_invalid_or_denied_is_not_the_hosts(self, turn, arguments):
        assert turn([[ToolCall("pick", arguments, "p")], "Sorry."])[0].ended == "answered"

    def test_a_person_is_asked_before_the_host(self, resume, turn):
        outcome, _ = turn([[ToolCall("paint", {"of": 1}, "t")]], approver=ask_later)
        assert (outcome.ended, outcome.for_host) == ("suspended", ())
        allowed = resume(outcome, (), answers={each.id: Once() for each in outcome.pending})
        assert (allowed.ended, [call.id for call in allowed.for_host]) == ("pending", ["t"])
        assert resume(allowed, tool_results={"t": "painted"}).ended == "answered"

    def test_a_long_running_call_may_have_several_results_and_survives_a_restart(self, registry, resume, turn):
        @tool(long_running=True)
        def build() -> str:
            """Builds."""
            return "begun"

        registry.register(build)
        outcome = turn([[ToolCall("build", {}, "b")], "Wait."])[0]
        for text in ("half", "whole"):
            there, elsewhere = TurnOutcome.loads(outcome.dumps()), ToolRegistry()
            outcome = resume(there, registry=elsewhere, tool_results={"b": text})
            assert results(outcome) == [("b", text)]


class TestTurnCallbacks:
    def test_before_turn_may_replace_the_request(self, registry, turn):
        registry.add_callback("before_turn", nonblocking(lambda request: request.with_instructions("Be brief.")))
        _, model = turn(["ok"])
        assert model.requests[0].instructions == ("Be brief.",)

    @pytest.mark.parametrize(
        ("stage", "wrong"),
        [
            ("before_turn", "of the host: TypeError.'answered int; it may answer ModelRequest or None"),
            ("on_stop", "of the host: TypeError.'answered int; it may answer str, Message, list, tuple or None"),
        ],
    )
    def test_a_turn_callback_that_returns_another_type_is_named(self, registry, turn, stage, wrong):
        registry.add_callback(stage, nonblocking(lambda: 5))
        with pytest.raises(CallbackError, match=wrong):
            turn(["ok"] if stage == "on_stop" else [])

    def test_resume_turn_is_called_instead_of_before_turn(self, registry, resume, turn, caplog):
        """And what it raises is logged."""
        called = []

        def resumed(outcome):
            called.append(f"resumed {outcome.ended}")
            raise ValueError("oops")

        registry.register(Tool.from_schema("by_host", {}))
        registry.add_callback("before_turn", lambda: called.append("began"))
        registry.add_callback("resume_turn", resumed)
        suspended, _ = turn([ToolCall("by_host", {}, "1")])
        outcome = resume(suspended, ["Done."], tool_results={"1": "42"})
        assert (outcome.text, called) == ("Done.", ["began", "resumed pending"])
        assert "oops" in caplog.text

    def test_reports_of_a_turn_are_in_its_outcome_and_events(self, registry, turn):
        """And `after_turn` and another process have them, too."""
        seen, events = [], []
        registry.add_callback("report_turn", lambda outcome: {"ended": outcome.ended})
        registry.add_callback("after_turn", lambda outcome: seen.append(outcome.reports))
        outcome, _ = turn(["ok"], listener=events.append)
        assert outcome.reports == seen[0] == {"host": {"ended": "answered"}}
        assert [event.to_json() for event in events if event.type == "report"] == [
            {"type": "report", "plugin": "host", "report": {"ended": "answered"}}
        ]
        assert TurnOutcome.loads(outcome.dumps()) == outcome

    def test_the_report_callbacks_of_the_host_come_before_those_of_plugins(self, registry, turn):
        ended = []
        plugin = SimpleNamespace(pegboard_report_turn=hookimpl(lambda context: {"ended": len(ended)}))
        register_plugin(registry, plugin, "reporter")
        registry.add_callback("report_turn", lambda: ended.append(1))
        assert turn(["ok"])[0].reports == {"reporter": {"ended": 1}}

    def test_a_resumed_turn_keeps_the_reports_that_are_not_made_anew(self, registry, resume, turn):
        registry.register(Tool.from_schema("by_host", {}))
        registry.add_callback("report_turn", lambda outcome: {"n": 1} if outcome.ended == "pending" else None)
        suspended, _ = turn([ToolCall("by_host", {}, "1")])
        assert resume(suspended, ["Done."], tool_results={"1": "42"}).reports == {"host": {"n": 1}}

    def test_an_empty_report_removes_that_of_the_turn_that_is_resumed(self, registry, resume, turn):
        """And is an event; without one to remove, it is none."""
        events = []
        registry.register(Tool.from_schema("by_host", {}))
        registry.add_callback("report_turn", lambda outcome: {"n": 1} if outcome.ended == "pending" else {})
        suspended, _ = turn([ToolCall("by_host", {}, "1")])
        assert resume(suspended, ["Done."], tool_results={"1": "42"}, listener=events.append).reports == {}
        assert turn(["Done."], listener=events.append)[0].reports == {}
        assert [event.report for event in events if event.type == "report"] == [{}]

    def test_characters_of_a_report_are_counted_as_they_are(self, registry, turn):
        registry.add_callback("report_turn", nonblocking(lambda: {"a": "\u6f22" * 900_000}))
        assert len(turn(["Done."])[0].reports["host"]["a"]) == 900_000

    @pytest.mark.parametrize("report", [5, {"a": {1, 2}}, {"a": float("nan")}, {"a": "x" * 1_000_001}, {1: 2}])
    def test_a_report_that_is_no_small_json_object_is_only_logged(self, registry, turn, report, caplog):
        registry.add_callback("report_turn", nonblocking(lambda: report))
        outcome, _ = turn(["ok"])
        assert (outcome.ended, outcome.reports) == ("answered", {})
        assert "the report of the host failed" in caplog.text

    def test_after_turn_is_called_at_every_end(self, registry, turn):
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

    def test_on_stop_may_continue_the_turn(self, registry, turn):
        messages = iter(["And the tests?", None])
        registry.add_callback("on_stop", nonblocking(lambda: next(messages)))
        outcome, _ = turn(["Done.", "They pass."])
        assert [message.text for message in outcome.messages] == ["Go on.", "Done.", "And the tests?", "They pass."]

    def test_continuations_are_limited(self, registry, turn):
        registry.add_callback("on_stop", nonblocking(lambda: [Message.user("Again.")]))
        outcome, _ = turn(["a", "b", "c"], limits=TurnLimits(continuations=2))
        assert (outcome.ended, outcome.rounds) == ("answered", 3)

    def test_on_stop_sees_how_the_turn_would_end(self, registry, turn):
        seen = []
        registry.add_callback("on_stop", lambda context, outcome: seen.append((context.user, outcome.text)))
        turn(["ok"], context=ReadonlyContext(user="ann"))
        assert seen == [("ann", "ok")]


class TestLongRunning:
    @pytest.fixture
    def deliver(self, registry):
        """A step of a model, at which the result of the call `o` of a long-running tool is there."""

        @tool(long_running=True)
        def order() -> str:
            """Orders something."""
            return "ordered"

        def deliver(request):
            registry.operations.complete("o", "delivered")
            return ADD

        registry.register(order)
        return deliver

    def test_a_later_result_takes_the_place_of_the_pending_one(self, turn, deliver):
        outcome, model = turn([ToolCall("order", {}, "o"), deliver, "ok"])
        (pending,) = model.requests[1].messages[-1].results
        assert pending.result.text.startswith("ordered")
        assert results(outcome)[0] == ("o", "delivered")

    def test_an_abort_after_a_later_result_ends_the_turn(self, registry, turn, deliver):
        registry.add_callback("after_tool", lambda result: Abort("enough") if result.text == "delivered" else None)
        with pytest.raises(TurnAbortedError, match="enough"):
            turn([ToolCall("order", {}, "o"), deliver, "ok"])

    def test_a_background_result_is_a_message(self, registry):
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
            registry.add_callback("observe", nonblocking(watch))
            with ScriptedModel([ToolCall("start", {}, "s"), ADD, "ok"]) as model:
                return await run_turn(model, "Hi", registry)

        outcome = asyncio.run(main())
        texts = [message.text for message in outcome.messages if message.role == "user"]
        assert "finished" in texts[1]
        assert "start" in texts[1]


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


def test_tools_that_cant_be_sent_are_reported(registry, caplog):
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
