"""Agents in the background: their tools, limits, messages, questions, ends, and how they are resumed."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace

import pytest

from pegboard import (
    Deny,
    Limits,
    Message,
    Model,
    ModelRequest,
    Once,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
    ToolCall,
    ToolContext,
    ToolRegistry,
    Turn,
    TurnOutcome,
    hookimpl,
    register_plugin,
    run_turn,
    tool,
)
from pegboard.approval import ask_later
from pegboard.errors import FatalToolError
from pegboard.messages import TextPart
from pegboard.testing import ScriptedModel
from pegboard_agents import (
    Agent,
    AgentEvent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    agent_tool,
    background_tools,
    exit_loop,
    run_agents,
    transfer_tool,
)

CONTEXT = ReadonlyContext(user="u", session="s", state={"colour": "red", "_secret": 1})
PATIENCE = 60  # seconds; only a broken test waits so long


@tool(destructive=True, concurrency="exclusive")
def wipe(place: str) -> str:
    """Wipes a place."""
    return f"wiped {place}"


class Steps(ScriptedModel):
    """A scripted model whose steps may be async functions of the request."""

    async def respond(self, request):
        if self._left and asyncio.iscoroutinefunction(self._left[0]):
            step = self._left.pop(0)
            self._left.insert(0, await step(request))
        return await super().respond(request)


def a(name, *script, **facts):
    return Agent(name=name, description="Helps.", model=Steps(script), **facts)


def registry_of(*agents, tools=(wipe,), limits=Limits(timeout=PATIENCE), **options):  # noqa: B008  a constant
    registry = ToolRegistry(limits=limits)
    registry.register(*tools, *background_tools(agents, **options))
    return registry


def spawn(agent="helper", request="Do it"):
    return ToolCall("spawn_agent", {"agent": agent, "request": request})


def ids_in(request):
    """The ids of the agents that the conversation has started, in order."""
    texts = [part.result.text for message in request.messages for part in message.results]
    return [each for text in texts for each in re.findall(r"Its id is (\S+)\.", text)]


def to(name, number=0, **arguments):
    """A step that calls a tool with the id of an agent."""

    def step(request):
        id_ = ids_in(request)[number]
        own = {"ids": [id_], "seconds": PATIENCE} if name == "wait_agents" else {"id": id_}
        return ToolCall(name, own | arguments)

    return step


def wait_all(**arguments):
    return lambda request: ToolCall("wait_agents", {"ids": ids_in(request), "seconds": PATIENCE, **arguments})


WAIT, CLOSE = to("wait_agents"), to("close_agent")


async def finished(registry):
    """Waits until no work in the background is left."""
    while registry.operations.pending:  # noqa: ASYNC110  what ends it emits no event
        await asyncio.sleep(0)


async def turn(registry, *script, context=CONTEXT, request="go", **options):
    return await run_turn(Steps(script), request, registry, context, **options)


def run(registry, *script, **options):
    return asyncio.run(turn(registry, *script, **options))


def results(outcome):
    """The results of all calls, as texts without ids."""
    texts = [part.result.text for message in outcome.messages for part in message.results]
    return [re.sub(r"-[0-9a-f]{12}", "", text) for text in texts]


def operations(outcome):
    """The messages about work in the background, without ids."""
    texts = [message.text for message in outcome.messages if message.text.startswith("Operation")]
    return [re.sub(r"-[0-9a-f]{12}", "", text.partition("has ended:")[2]) for text in texts]


# Start and wait ------------------------------------------------------------------------------------------------------


def test_an_agent_works_beside_its_caller_and_its_answer_comes_by_waiting():
    begun, end = asyncio.Event(), asyncio.Event()

    async def slow(_request):
        begun.set()
        await end.wait()
        return "It is done."

    async def meanwhile(request):
        await begun.wait()
        end.set()
        return WAIT(request)

    helper = a("helper", slow, instructions="Be brief.")
    outcome = run(registry_of(helper), spawn(), meanwhile, "Fine.")
    assert results(outcome)[0].startswith("helper is working.")
    assert (results(outcome)[1], outcome.text) == ("helper has ended:\nIt is done.", "Fine.")
    assert operations(outcome) == []
    (request,) = helper.model.requests
    assert (request.system, request.messages[0].text) == ("Be brief.", "Do it")


def test_an_answer_that_nobody_waits_for_comes_as_a_message():
    async def main():
        registry = registry_of(a("helper", "It is done."))

        async def look(_request):
            await finished(registry)
            return ToolCall("wipe", {"place": "attic"})

        return await turn(registry, spawn(), look, "Fine.", approver=lambda *_: Once())

    assert operations(asyncio.run(main())) == ["helper has ended:\nIt is done."]


@pytest.mark.parametrize("wait_for", ["any", "all"])
def test_waiting_for_any_ends_with_the_first_and_waiting_for_all_with_the_last(wait_for):
    end = asyncio.Event()

    async def slow(_request):
        await end.wait()
        return "Slow."

    async def go_on(_request):
        end.set()
        return "Fast."

    fast = a("fast", "Fast." if wait_for == "any" else go_on)
    registry = registry_of(fast, a("slow", slow))
    outcome = run(registry, [spawn("slow"), spawn("fast")], wait_all(wait_for=wait_for), "Fine.")
    slow_one = "slow is working." if wait_for == "any" else "slow has ended:\nSlow."
    assert results(outcome)[-1] == f"{slow_one}\n\nfast has ended:\nFast."


def test_at_its_limit_waiting_reports_who_works():
    async def never(_request):
        await asyncio.Event().wait()

    outcome = run(registry_of(a("helper", never)), spawn(), to("wait_agents", seconds=0), "Fine.")
    assert results(outcome)[-1] == "helper is working."


def test_waiting_ends_before_the_turns_time_limit():
    async def never(_request):
        await asyncio.Event().wait()

    outcome = run(registry_of(a("helper", never)), spawn(), WAIT, "Fine.", timeout=1)
    assert results(outcome)[-1] == "helper is working."


def test_a_call_that_waits_lets_exclusive_calls_of_the_agent_run():
    helper = a("helper", ToolCall("wipe", {"place": "attic"}), "Wiped.")
    outcome = run(registry_of(helper), spawn(), WAIT, "Fine.", approver=lambda *_: Once())
    assert results(outcome)[-1] == "helper has ended:\nWiped."


def test_its_events_are_partial_results_of_the_call_that_started_it():
    events = []
    run(registry_of(a("helper", "Done.")), spawn(), WAIT, "Fine.", listener=events.append)
    mine = [(event.name, event.content) for event in events if isinstance(getattr(event, "content", None), AgentEvent)]
    assert {(name, event.agent, event.id[:7]) for name, event in mine} == {("spawn_agent", "helper", "helper-")}
    assert next(event.event.type for _, event in mine if hasattr(event.event, "type")) == "round"


def test_it_has_the_rules_the_tools_the_folder_and_a_copy_of_the_state_of_its_caller():
    seen = []

    @tool(read_only=True)
    def note(context: ToolContext) -> str:
        """Notes its context."""
        seen.append(context.request)
        return "noted"

    helper = a("helper", [ToolCall("note", {}), ToolCall("wipe", {"place": "x"})], "Done.")
    registry = registry_of(helper, tools=(wipe, note))
    context = ReadonlyContext(user="u", session="s", agent="main", work_dir="/w", state=CONTEXT.state)
    rules = Permissions([Rule("wipe", "*", "deny")])
    run(registry, spawn(), WAIT, "Fine.", context=context, permissions=rules, approver=lambda *_: Once())
    (inner,) = seen
    assert (inner.user, inner.branch, inner.work_dir, dict(inner.state)) == (
        "u",
        "main.helper",
        "/w",
        {"colour": "red"},
    )
    assert inner.session.startswith("s/helper/")
    assert helper.model.requests[1].messages[-1].results[1].result.kind == "not_offered"


@pytest.mark.parametrize("keep", [False, True])
def test_the_callbacks_of_its_caller_are_called_in_its_own_registry_too(keep):
    async def main():
        may_go_on = asyncio.Event()

        async def later(_request):
            await may_go_on.wait()
            return ToolCall("wipe", {"place": "attic"})

        own = ToolRegistry()
        own.register(wipe)
        helper = a("helper", later, "Done.", registry=own)
        registry = registry_of(helper, keep=keep)
        registry.add_callback("before_tool", lambda: Deny("not now"), where="name:wipe")

        def then_wait(request):
            may_go_on.set()
            return WAIT(request)

        await turn(registry, spawn(), *(["Bye."] if keep else [then_wait, "Fine."]))
        may_go_on.set()
        await finished(registry)
        return helper.model.requests[1].messages[-1].results[0].result.text

    assert asyncio.run(main()) == "wipe was denied: not now"


def test_without_a_model_of_its_own_it_has_the_hosts():
    registry = registry_of(Agent(name="helper"))
    assert "has no model" in results(run(registry, spawn(), WAIT, "Fine."))[-1]
    registry.provide(Model, ScriptedModel(["From the host."]))
    assert results(run(registry, spawn(), WAIT, "Fine."))[-1] == "helper has ended:\nFrom the host."


class Echo:
    name = "echo"
    description = "Echoes."

    def run(self, request):
        return {"said": request}


def test_objects_with_run_and_workflows_work_in_the_background_too():
    review = LoopAgent(name="review", agents=[a("one", "Draft.", ToolCall("exit_loop", {}))], max_rounds=3)
    registry = registry_of(Echo(), review, tools=(exit_loop,))
    outcome = run(registry, [spawn("echo"), spawn("review")], wait_all(), "Fine.")
    assert results(outcome)[-1] == 'echo has ended:\n{"said":"Do it"}\n\nreview has ended:\nDraft.'


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("secret"), "helper failed:\nhelper failed (ModelError)."),
        (None, "helper failed:\nhelper failed (ZeroD"),
    ],
)
def test_one_that_fails_fails_alone(error, text):
    class Helper:
        name, description = "helper", ""

        def run(self):
            return 1 / 0

    helper = Helper() if error is None else a("helper", error)
    result = results(run(registry_of(helper), spawn(), WAIT, "Fine."))[-1]
    assert (result.startswith(text), "secret" in result) == (True, False)


def test_a_tool_of_it_that_ends_the_turn_ends_its_callers_when_that_waits():
    @tool
    def stop() -> str:
        """Stops all."""
        raise FatalToolError("stop")

    registry = registry_of(a("helper", ToolCall("stop", {})), tools=(stop,))
    with pytest.raises(FatalToolError):
        run(registry, spawn(), WAIT)


# Limits --------------------------------------------------------------------------------------------------------------


def test_one_that_starts_itself_ends_at_the_depth():
    model = Steps([spawn(), WAIT, spawn(), WAIT, spawn(), "three", "two", "one"])
    outcome = run(registry_of(Agent(name="helper", model=model)), spawn(), WAIT, "Fine.")
    texts = [part.result.text for request in model.requests for m in request.messages for part in m.results]
    assert any("nested only 3 deep" in text for text in texts)
    assert results(outcome)[-1] == "helper has ended:\none"


def test_their_number_is_limited_with_those_that_they_start():
    async def never(_request):
        await asyncio.Event().wait()

    chain = a("chain", spawn("helper"), spawn("helper"), "Two more.")
    registry = registry_of(chain, a("helper", never, never), most=2)
    outcome = run(registry, spawn("chain"), WAIT, [spawn("helper")] * 2, CLOSE, "Fine.")
    assert results(outcome)[1] == "chain has ended:\nTwo more."
    texts = [m.results[0].result.text for m in chain.model.requests[-1].messages if m.results]
    assert "2 agents are working or waiting, which is the limit" in texts[1]


def test_their_number_is_limited_with_those_that_agents_as_tools_start():
    async def never(_request):
        await asyncio.Event().wait()

    outer = a("outer", [spawn("helper")] * 2, "Started.")
    registry = registry_of(a("helper", never, never), most=2)
    registry.register(agent_tool(outer))
    outcome = run(registry, spawn("helper"), ToolCall("outer", {"request": "x"}), "Fine.")
    texts = [part.result.text for part in outer.model.requests[-1].messages[-1].results]
    assert ["which is the limit" in text for text in texts] == [False, True]
    assert results(outcome)[-1] == "Started."


def test_agents_that_wait_for_people_who_never_come_are_forgotten(monkeypatch):
    monkeypatch.setattr("pegboard_agents.spawn.MOST_WAITING", 1)

    async def main():
        registry = registry_of(a("helper", *[WIPE] * 3), keep=True)
        found = []
        for session in ("s1", "s2", "s3"):
            context = ReadonlyContext(user="u", session=session)
            first = await turn(registry, spawn(), "Bye.", context=context, approver=ask_later)
            await finished(registry)
            found.append((context, ids_in(ModelRequest(first.messages))))
        return [await registry.call("close_agent", {"id": ids[0]}, context) for context, ids in found]

    texts = [result.text for result in asyncio.run(main())]
    assert ["There is no agent" in text for text in texts] == [True, False, False]


def test_one_that_never_ends_is_ended_at_its_time_limit():
    async def never(_request):
        await asyncio.Event().wait()

    outcome = run(registry_of(a("helper", never), timeout=0.05), spawn(), WAIT, "Fine.")
    assert results(outcome)[-1] == "helper failed:\nIt was ended, as it took longer than 0.05 s."


def test_one_that_ignores_its_cancellation_is_given_up(monkeypatch):
    monkeypatch.setattr("pegboard_agents.background.GRACE_SECONDS", 0.01)
    end = asyncio.Event()

    class Stubborn:
        name, description = "helper", ""

        async def run(self):
            while not end.is_set():
                try:
                    await end.wait()
                except asyncio.CancelledError:
                    continue

    async def main():
        outcome = await turn(registry_of(Stubborn(), timeout=0.05), spawn(), WAIT, "Fine.")
        end.set()
        return outcome

    assert "it took longer than" in results(asyncio.run(main()))[-1]


def test_if_there_is_too_much_work_in_the_background_nothing_is_started():
    registry = registry_of(Echo())
    registry.operations.most = 0
    outcome = run(registry, spawn("echo"), ToolCall("wait_agents", {"ids": ["echo-1"]}), "Fine.")
    first, second = results(outcome)
    assert first.startswith("spawn_agent can't run in the background: 0 operations are already running")
    assert second == "There is no agent 'echo-1' here. Start one with spawn_agent."


def test_a_message_or_an_answer_that_cant_be_used_for_that_reason_changes_nothing():
    helper = a("helper", "One.", WIPE, "Wiped.")

    async def main():
        registry = registry_of(helper)
        first = await turn(registry, spawn(), WAIT, "Fine.")
        id_ = ids_in(ModelRequest(first.messages))[0]
        registry.operations.most = 0
        refused = await registry.call("send_agent_input", {"id": id_, "message": "Lost."}, CONTEXT)
        registry.operations.most = 10
        await registry.call("send_agent_input", {"id": id_, "message": "Wipe."}, CONTEXT, approver=ask_later)
        waits = await registry.dispatch([ToolCall("wait_agents", {"ids": [id_]}, "1")], None, CONTEXT)
        registry.operations.most = 0
        answers = {call.id: Once() for call in waits.pending}
        answer = (await registry.resume(waits.pending, answers, context=CONTEXT)).results[0]
        registry.operations.most = 10
        again = await registry.dispatch([ToolCall("wait_agents", {"ids": [id_]}, "2")], None, CONTEXT)
        return refused, answer, again

    refused, answer, again = asyncio.run(main())
    assert (refused.kind, answer.kind, len(again.pending)) == ("limit", "limit", 1)
    assert [message.text for message in helper.model.requests[1].messages] == ["Do it", "One.", "Wipe."]


def test_one_whose_event_loop_was_closed_is_reported_as_lost():
    helper = Waits()
    registry = registry_of(helper, Echo(), keep=True, most=1)
    loop = asyncio.new_event_loop()
    first = loop.run_until_complete(turn(registry, spawn(), helper.step))
    pending = asyncio.all_tasks(loop)
    loop.close()
    request = ModelRequest(first.messages).with_messages("next")
    wait_for_both = [to("wait_agents", 1), WAIT]
    outcome = run(registry, spawn("echo"), *wait_for_both, "Fine.", request=request)
    assert results(outcome)[-2].startswith("echo has ended:")
    assert results(outcome)[-1].startswith("helper failed:\nIts event loop was closed")
    for task in pending:
        task._log_destroy_pending = False  # of the closed loop


def test_a_conversation_that_cant_be_stored_is_lost_alone():
    answer = Message("assistant", TextPart("Done.", provider_metadata={"scripted": object()}))
    outcome = run(registry_of(a("helper", answer)), spawn(), WAIT, "Fine.")
    assert results(outcome)[-1] == "helper has ended:\nDone."
    (versions,) = [value for key, value in outcome.state.items() if key.startswith("agents:id:")]
    (stored,) = versions.values()
    assert (stored["answer"], "messages" in stored) == ("Done.", False)


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"most": 0}, {"timeout": 0}, {"timeout": float("inf")}])
def test_limits_that_arent_above_zero_are_refused(wrong):
    with pytest.raises(ValueError, match="must be above 0"):
        background_tools([Echo()], **wrong)


def test_an_object_that_takes_its_call_is_refused():
    class NeedsCall:
        name, description = "needs", ""

        def run(self, call):
            return call.tool

    with pytest.raises(ValueError, match="in the background there is no call"):
        background_tools([NeedsCall()])


# Messages ------------------------------------------------------------------------------------------------------------


def test_a_message_is_read_at_the_next_request_and_calls_run_on():
    sent, looked = asyncio.Event(), []

    @tool
    async def look() -> str:
        """Looks until a message was sent."""
        await sent.wait()
        looked.append(True)
        return "seen"

    async def then_wait(request):
        sent.set()
        return WAIT(request)

    helper = a("helper", ToolCall("look", {}), "Read it.")
    registry = registry_of(helper, tools=(look,))
    outcome = run(registry, spawn(), to("send_agent_input", message="One more thing."), then_wait, "Fine.")
    assert results(outcome)[1:] == ["helper got your message.", "helper has ended:\nRead it."]
    assert [message.text for message in helper.model.requests[1].messages][-1] == "One more thing."
    assert looked == [True]


def test_a_message_that_interrupts_ends_what_it_does_and_it_goes_on():
    begun = asyncio.Event()

    async def never(_request):
        begun.set()
        await asyncio.Event().wait()

    async def interrupt(request):
        await begun.wait()
        return to("send_agent_input", message="Stop that.", interrupt=True)(request)

    helper = a("helper", never, "Stopped.")
    outcome = run(registry_of(helper), spawn(), interrupt, WAIT, "Fine.")
    assert results(outcome)[-1] == "helper has ended:\nStopped."
    assert [message.text for message in helper.model.requests[-1].messages] == ["Do it", "Stop that."]


def test_an_object_with_run_begins_anew_with_the_message():
    begun, requests = asyncio.Event(), []

    class Helper:
        name, description = "helper", ""

        async def run(self, request):
            requests.append(request)
            if len(requests) == 1:
                begun.set()
                await asyncio.Event().wait()
            return "Done."

    async def interrupt(request):
        await begun.wait()
        return to("send_agent_input", message="Other.", interrupt=True)(request)

    outcome = run(registry_of(Helper()), spawn(), interrupt, WAIT, "Fine.")
    assert (results(outcome)[-1], requests) == ("helper has ended:\nDone.", ["Do it", "Other."])


def test_a_workflow_begins_anew_with_the_message_also_if_it_is_interrupted():
    begun = asyncio.Event()

    async def never(_request):
        begun.set()
        await asyncio.Event().wait()

    async def interrupt(request):
        await begun.wait()
        return to("send_agent_input", message="Stop.", interrupt=True)(request)

    one, two = a("one", "A.", "B.", "C."), a("two", never, "BB.", "CC.")
    team = ParallelAgent(name="team", agents=[one, two])
    send = to("send_agent_input", message="Again.")
    outcome = run(registry_of(team), spawn("team"), interrupt, WAIT, send, WAIT, "Fine.")
    ends = [text for text in results(outcome) if "has ended" in text]
    assert ends == [f"team has ended:\n[one]\n{each}.\n\n[two]\n{each * 2}." for each in "BC"]
    assert [[m.text for m in request.messages] for request in two.model.requests] == [["Stop."], ["Again."]]


@pytest.mark.parametrize("interrupt", [False, True])
@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_no_message_is_lost_whenever_it_is_sent(steps, interrupt):
    async def after(request):
        for _ in range(steps):
            await asyncio.sleep(0)
        return to("send_agent_input", message="Hear me.", interrupt=interrupt)(request)

    helper = a("helper", ToolCall("wipe", {"place": "attic"}), "One.", "Two.", "Three.")
    run(registry_of(helper), spawn(), after, WAIT, "Fine.", approver=lambda *_: Once())
    last = helper.model.requests[-1].messages
    assert [message.text for message in last].count("Hear me.") == 1


@pytest.mark.parametrize("steps", range(24))
def test_no_message_that_interrupts_is_lost_while_the_agent_ends(steps):
    begun, end, requests = asyncio.Event(), asyncio.Event(), []

    class Helper:
        name, description = "helper", ""

        async def run(self, request):
            requests.append(request)
            begun.set()
            await end.wait()
            for _ in range(12):
                await asyncio.sleep(0)
            return f"Answer to: {request}"

    async def interrupt(request):
        await begun.wait()
        end.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        return to("send_agent_input", message="Hear me.", interrupt=True)(request)

    outcome = run(registry_of(Helper()), spawn(), interrupt, WAIT, "Fine.")
    assert requests == ["Do it", "Hear me."]
    assert results(outcome)[-1].endswith("Answer to: Hear me.")


def test_an_answer_that_a_message_comes_after_is_kept():
    answering, sent = asyncio.Event(), asyncio.Event()

    class Helper:
        name, description = "helper", ""

        async def run(self, request):
            answering.set()
            await sent.wait()
            return f"Answer to: {request}"

    async def send(request):
        await answering.wait()
        return to("send_agent_input", message="More.")(request)

    async def then_wait(request):
        sent.set()
        return WAIT(request)

    again = to("send_agent_input", message="Again.")
    outcome = run(registry_of(Helper()), spawn(), send, then_wait, again, WAIT, "Fine.")
    assert results(outcome)[2] == "helper has ended:\nAnswer to: Do it\n\nAnswer to: More."
    assert results(outcome)[4] == "helper has ended:\nAnswer to: Again."


# The end of the caller's turn ----------------------------------------------------------------------------------------


class Waits:
    """An agent that works until it is let go."""

    name, description = "helper", ""

    def __init__(self):
        self.begun, self.end, self.ended = asyncio.Event(), asyncio.Event(), []

    async def run(self, request):
        try:
            self.begun.set()
            await self.end.wait()
            return f"Done: {request}"
        finally:
            self.ended.append(request)

    async def step(self, _request):
        """The last step of its caller, once it works."""
        await self.begun.wait()
        return "Bye."

    def step_with(self, then):
        """A step of its caller, once it works."""

        async def step(request):
            await self.begun.wait()
            return then(request)

        return step


def test_it_ends_with_its_callers_turn_and_the_next_one_learns_so():
    async def main():
        helper = Waits()
        registry = registry_of(helper)
        first = await turn(registry, spawn(), helper.step)
        assert helper.ended == ["Do it"]
        await finished(registry)
        state = dict(first.state)
        request = ModelRequest(first.messages).with_messages("next")
        return await turn(
            registry, "Fine.", context=ReadonlyContext(user="u", session="s", state=state), request=request
        )

    assert operations(asyncio.run(main())) == ["helper failed:\nIt was ended, as its caller's turn ended."]


def test_it_doesnt_end_with_a_turn_of_the_same_id_in_another_session():
    async def main():
        helper = Waits()
        registry = registry_of(helper)

        async def meanwhile(request):
            await helper.begun.wait()
            other = ReadonlyContext(user="v", session="s", invocation="turn-1")
            await turn(registry, "Bye.", context=other)
            return to("wait_agents", seconds=0)(request)

        context = ReadonlyContext(user="u", session="s", invocation="turn-1")
        return await turn(registry, spawn(), meanwhile, "Fine.", context=context)

    assert results(asyncio.run(main()))[-1] == "helper is working."


def test_it_ends_with_a_turn_that_is_cancelled():
    async def main():
        helper = Waits()
        running = asyncio.ensure_future(turn(registry_of(helper), spawn(), helper.step, WAIT))
        await helper.begun.wait()
        running.cancel()
        await asyncio.wait([running])
        return list(helper.ended)

    assert asyncio.run(main()) == ["Do it"]


def test_it_has_ended_before_plugins_report_what_the_turn_did():
    async def main():
        helper = Waits()
        registry = registry_of(helper)
        reporter = SimpleNamespace(pegboard_report_turn=hookimpl(lambda context: {"ended": len(helper.ended)}))
        register_plugin(registry, reporter, "reporter")
        return await turn(registry, spawn(), helper.step)

    assert asyncio.run(main()).reports == {"reporter": {"ended": 1}}


@pytest.mark.parametrize("session", ["s", None])
@pytest.mark.parametrize("keep", [False, True])
def test_one_of_a_suspended_turn_works_on_until_the_session_begins_another(session, keep):
    async def main():
        helper, context = Waits(), ReadonlyContext(user="u", session=session)
        registry = registry_of(helper, a("asks", WIPE), keep=keep)
        both = [spawn(), spawn("asks")]
        script = [both, helper.step_with(to("wait_agents", 1))]
        first = await turn(registry, *script, context=context, approver=ask_later)
        assert (first.ended, helper.ended) == ("suspended", [])
        await turn(registry, "Another user.", context=ReadonlyContext(user="v", session=session))
        assert helper.ended == []
        stored = {key: value for key, value in first.state.items() if key.startswith("agents:id:")}
        await turn(registry, "Hello.", context=ReadonlyContext(user="u", session=session, state=stored))
        ended = list(helper.ended)
        await registry.aclose()
        return ended

    assert asyncio.run(main()) == ([] if keep else ["Do it"])


def test_one_that_is_kept_outlives_its_callers_turn_and_a_later_turn_waits_for_it():
    async def main():
        helper, events = Waits(), []
        registry = registry_of(helper, keep=True)
        first = await turn(registry, spawn(), helper.step, listener=events.append)
        assert (helper.ended, events[-1].type) == ([], "end")
        helper.end.set()
        request = ModelRequest(first.messages).with_messages("next")
        return await turn(registry, WAIT, "Fine.", request=request)

    assert results(asyncio.run(main()))[-1] == "helper has ended:\nDone: Do it"


def test_one_that_is_kept_ends_with_the_registry():
    async def main():
        helper = Waits()
        async with registry_of(helper, keep=True) as registry:
            await turn(registry, spawn(), helper.step)
        return list(helper.ended)

    assert asyncio.run(main()) == ["Do it"]


def test_agents_of_an_agent_end_with_its_turn():
    async def main():
        inner = Waits()
        inner.name = "inner"
        outer = a("outer", spawn("inner"), inner.step)
        outcome = await turn(registry_of(outer, inner, keep=False), spawn("outer"), WAIT, "Fine.")
        return list(inner.ended), outcome

    ended, outcome = asyncio.run(main())
    assert (ended, results(outcome)[-1]) == (["Do it"], "outer has ended:\nBye.")


def test_one_works_on_when_the_conversation_is_handed_over():
    async def main():
        helper = Waits()

        async def hand_over(_request):
            await helper.begun.wait()
            return ToolCall("transfer_to_agent", {"agent_name": "boss"})

        def let_go(request):
            helper.end.set()
            return WAIT(request)

        team = [a("clerk", spawn(), hand_over), a("boss", let_go, "Fine.")]
        registry = registry_of(helper, tools=(transfer_tool(team),))
        return await run_agents(team, "go", CONTEXT, registry=registry)

    assert results(asyncio.run(main()).turn)[-1] == "helper has ended:\nDone: Do it"


@pytest.mark.parametrize("keep", [False, True])
def test_one_works_on_when_exit_loop_returns_the_conversation_and_ends_with_the_last_turn(keep):
    async def main():
        helper = Waits()

        async def leave(_request):
            await helper.begun.wait()
            return ToolCall("exit_loop", {})

        to_boss = ToolCall("transfer_to_agent", {"agent_name": "boss"})
        team = [a("clerk", to_boss, to("wait_agents", seconds=0), leave), a("boss", spawn(), leave)]
        registry = registry_of(helper, tools=(exit_loop, transfer_tool(team)), keep=keep)
        outcome = await run_agents(team, "go", CONTEXT, registry=registry)
        ended = list(helper.ended)
        await registry.aclose()
        return outcome, ended

    outcome, ended = asyncio.run(main())
    assert (outcome.agent, outcome.turn.ended, outcome.handovers) == ("clerk", "escalated", 2)
    assert "helper is working." in results(outcome.turn)
    assert ended == ([] if keep else ["Do it"])


def test_after_a_handover_the_user_is_still_asked_and_events_still_come():
    async def main():
        handed_over, events, asked = asyncio.Event(), [], []

        async def later(_request):
            await handed_over.wait()
            return WIPE

        def then_wait(request):
            handed_over.set()
            return WAIT(request)

        def approver(request, context):
            asked.append((request.call.name, context.agent))
            return Once()

        team = [
            a("clerk", spawn(), ToolCall("transfer_to_agent", {"agent_name": "boss"})),
            a("boss", then_wait, "Fine."),
        ]
        registry = registry_of(a("helper", later, "Wiped."), tools=(wipe, transfer_tool(team)))
        how = {"registry": registry, "approver": approver, "listener": events.append}
        outcome = await run_agents(team, "go", CONTEXT, **how)
        mine = [event.content.event for event in events if isinstance(getattr(event, "content", None), AgentEvent)]
        return results(outcome.turn)[-1], asked, [event.type for event in mine]

    text, asked, types = asyncio.run(main())
    assert (text, asked) == ("helper has ended:\nWiped.", [("wipe", "helper")])
    assert types[-1] == "end"


def test_agents_that_end_with_the_turn_of_an_agent_leave_no_results_behind():
    async def main():
        sessions, begun = [], asyncio.Event()

        class Inner:
            name, description = "inner", ""

            async def run(self, context):
                sessions.append(context.session.rpartition("/inner/")[0])
                begun.set()
                await asyncio.Event().wait()

        async def bye(_request):
            await begun.wait()
            return "Bye."

        registry = registry_of(Inner(), a("outer", spawn("inner"), bye))
        await turn(registry, spawn("outer"), WAIT, "Fine.")
        await finished(registry)
        return [registry.operations.take(each) for each in sessions]

    assert asyncio.run(main()) == [()]


# Questions to the user -----------------------------------------------------------------------------------------------


WIPE = ToolCall("wipe", {"place": "attic"})


def test_while_its_callers_turn_lasts_the_user_is_asked_directly():
    asked = []

    def approver(request, context):
        asked.append((request.call.name, context.agent))
        return Once()

    run(registry_of(a("helper", WIPE, "Wiped.")), spawn(), WAIT, "Fine.", approver=approver)
    assert asked == [("wipe", "helper")]


class Processes:
    """A conversation in which each turn has a new registry, as after a restart; scripts go on."""

    def __init__(self, *helper, main, **options):
        self.helper, self.main = Steps(helper), Steps(main)
        self.options = options

    def registry(self, **facts):
        agent = Agent(name="helper", description="Helps.", model=self.helper, **facts)
        return registry_of(agent, **self.options)

    def start(self, registry=None):
        registry = registry or self.registry()
        return asyncio.run(run_turn(self.main, "go", registry, CONTEXT, approver=ask_later))

    def resume(self, outcome, answer, registry=None, **facts):
        suspended = TurnOutcome.loads(outcome.dumps("k" * 16), "k" * 16)
        how = {"resume": suspended, "answers": {call.id: answer for call in suspended.pending}}
        registry = registry or self.registry(**facts)
        return asyncio.run(run_turn(self.main, ModelRequest(), registry, CONTEXT, approver=ask_later, **how))

    def next_turn(self, outcome, registry=None):
        context = ReadonlyContext(user="u", session="s", state=dict(outcome.state))
        request = ModelRequest(outcome.messages).with_messages("next")
        registry = registry or self.registry()
        return asyncio.run(run_turn(self.main, request, registry, context, approver=ask_later))


def test_an_agent_that_waits_for_the_user_suspends_the_call_that_waits_for_it_in_any_process():
    made = Processes(WIPE, "Wiped it.", main=[spawn(), WAIT, "Fine."])
    outcome = made.start()
    (pending,) = outcome.pending
    assert (outcome.ended, pending.call.name, pending.subject) == ("suspended", "wait_agents", "question")
    assert pending.hint.endswith(": helper asks for permission wipe, to call wipe")
    assert pending.payload["call"]["arguments"] == {"place": "attic"}
    outcome = made.resume(outcome, Once())
    assert (outcome.text, results(outcome)[-1]) == ("Fine.", "helper has ended:\nWiped it.")
    assert operations(outcome) == []


def test_a_later_no_goes_to_the_agent():
    made = Processes(WIPE, "I leave it.", main=[spawn(), WAIT, "Fine."])
    outcome = made.resume(made.start(), Reject("not the attic"))
    assert results(outcome)[-1] == "helper has ended:\nI leave it."
    assert "not the attic" in made.helper.requests[-1].messages[-1].results[0].result.text


def test_of_several_questions_one_comes_after_the_other_and_answers_are_kept():
    made = Processes(
        [WIPE, ToolCall("wipe", {"place": "cellar"})],
        "Both wiped.",
        main=[spawn(), WAIT, "Fine."],
    )
    outcome = made.resume(made.start(), Once())
    assert outcome.ended == "suspended"
    assert results(made.resume(outcome, Once()))[-1] == "helper has ended:\nBoth wiped."


def test_two_calls_that_wait_for_an_agent_ask_its_question_once():
    made = Processes(
        [WIPE, ToolCall("wipe", {"place": "cellar"})], "Wiped.", main=[spawn(), lambda r: [WAIT(r)] * 2, "Fine."]
    )
    outcome = made.start()
    assert len(outcome.pending) == 1
    outcome = made.resume(outcome, Once())
    assert len(outcome.pending) == 1
    outcome = made.resume(outcome, Once())
    assert results(outcome)[1:] == [
        "helper has ended:\nWiped.",
        "helper waits for the user: helper asks for permission wipe, to call wipe",
    ]


def test_waiting_for_any_reports_a_question_and_asks_it_only_if_none_has_ended():
    registry = registry_of(a("asks", WIPE, "Wiped."), a("fast", "Fast."))
    both = [spawn("asks"), spawn("fast")]
    outcome = run(registry, both, wait_all(wait_for="any"), "Fine.", approver=ask_later)
    assert outcome.ended == "answered"
    assert results(outcome)[-1].endswith("fast has ended:\nFast.")
    registry = registry_of(a("asks", WIPE, "Wiped."), a("fast", "Fast."))
    assert run(registry, both, wait_all(), approver=ask_later).ended == "suspended"


def test_waiting_for_any_asks_a_question_while_others_work():
    async def never(_request):
        await asyncio.Event().wait()

    async def main():
        registry = registry_of(a("asks", WIPE, "Wiped."), a("slow", never))
        script = [[spawn("asks"), spawn("slow")], wait_all(wait_for="any", seconds=3_600)]
        async with asyncio.timeout(PATIENCE):
            return await turn(registry, *script, approver=ask_later)

    outcome = asyncio.run(main())
    assert (outcome.ended, len(outcome.pending)) == ("suspended", 1)


def test_an_agent_that_was_changed_meanwhile_does_not_go_on():
    made = Processes(WIPE, "Wiped it.", main=[spawn(), WAIT, "Fine."])
    outcome = made.resume(made.start(), Once(), instructions="Wipe all.")
    assert "it was changed after its call was suspended" in results(outcome)[-1]


def test_an_answer_to_a_question_that_was_withdrawn_is_not_used():
    made = Processes(WIPE, "Stopped.", main=[spawn(), WAIT, "Fine."])
    registry = made.registry()

    async def main():
        first = await run_turn(made.main, "go", registry, CONTEXT, approver=ask_later)
        id_ = ids_in(ModelRequest(first.messages))[0]
        await registry.call("close_agent", {"id": id_}, CONTEXT)
        return first

    outcome = made.resume(asyncio.run(main()), Once(), registry)
    assert "The answer of the user wasn't used" in results(outcome)[-1]
    assert len(made.helper.requests) == 1


def test_a_message_for_an_agent_that_waits_is_read_after_the_answer():
    made = Processes(WIPE, "Wiped.", main=[spawn(), WAIT, "Fine."])
    registry = made.registry()

    async def main():
        first = await run_turn(made.main, "go", registry, CONTEXT, approver=ask_later)
        id_ = ids_in(ModelRequest(first.messages))[0]
        result = await registry.call("send_agent_input", {"id": id_, "message": "Also this."}, CONTEXT)
        assert result.text.endswith("It reads your message after the answer.")
        return first

    made.resume(asyncio.run(main()), Once(), registry)
    assert [message.text for message in made.helper.requests[-1].messages][-1] == "Also this."


@pytest.mark.parametrize("together", [False, True])
def test_a_message_for_an_agent_that_waits_isnt_lost_with_its_process(together):
    made, send = Processes(WIPE, "Wiped.", main=[]), to("send_agent_input", message="Also this.")
    registry = made.registry()

    async def once_it_waits(request):
        await finished(registry)
        return [WAIT(request), send(request)] if together else send(request)

    made.main = Steps([spawn(), once_it_waits, *([] if together else [WAIT]), "Fine."])
    suspended = asyncio.run(run_turn(made.main, "go", registry, CONTEXT, approver=ask_later))
    made.resume(suspended, Once())
    assert [message.text for message in made.helper.requests[-1].messages][-1] == "Also this."


def test_a_message_that_interrupts_an_agent_that_waits_withdraws_its_question():
    helper = a("helper", WIPE, "Stopped.")

    async def main():
        registry = registry_of(helper)
        first = await turn(registry, spawn(), WAIT, approver=ask_later)
        id_ = ids_in(ModelRequest(first.messages))[0]
        await registry.call("send_agent_input", {"id": id_, "message": "Don't.", "interrupt": True}, CONTEXT)
        return await registry.call("wait_agents", {"ids": [id_]}, CONTEXT)

    assert asyncio.run(main()).text.endswith("has ended:\nStopped.")
    assert helper.model.requests[-1].messages[-1].text == "Don't."


@pytest.mark.parametrize("steps", range(0, 60, 5))
def test_after_its_callers_turn_nobody_is_asked_until_a_later_turn_waits_for_it(steps):
    """Whenever the turn ends: before the agent asks, while it asks, or after that."""
    asked, answered = [], asyncio.Event()

    async def approver(request, _context):
        asked.append(request.call.name)
        await answered.wait()
        return Once()

    async def bye(_request):
        for _ in range(steps):
            await asyncio.sleep(0)
        return "Bye."

    async def main():
        helper = a("helper", WIPE, "Wiped.")
        registry = registry_of(helper, keep=True)
        first = await turn(registry, spawn(), bye, approver=approver)
        await finished(registry)
        assert len(asked) <= 1
        before = len(asked)
        request = ModelRequest(first.messages).with_messages("next")
        second = await turn(registry, WAIT, "Fine.", request=request, approver=approver)
        assert (second.ended, len(asked)) == ("suspended", before)
        answers = {call.id: Once() for call in second.pending}
        return await turn(registry, "Fine.", resume=second, answers=answers, approver=approver)

    assert results(asyncio.run(main()))[-1] == "helper has ended:\nWiped."


def test_one_that_waits_ends_with_its_callers_turn():
    registry = registry_of(a("helper", WIPE), a("fast", "Fast."))
    both = [spawn("helper"), spawn("fast")]
    outcome = run(registry, both, wait_all(wait_for="any"), CLOSE, CLOSE, "Fine.", approver=ask_later)
    assert results(outcome)[-1] == "helper failed:\nIt was ended, as close_agent was called."


# Close ---------------------------------------------------------------------------------------------------------------


def test_closing_ends_an_agent_that_works_and_closing_again_changes_nothing():
    async def main():
        helper = Waits()

        async def close(request):
            await helper.begun.wait()
            return CLOSE(request)

        outcome = await turn(registry_of(helper), spawn(), close, CLOSE, "Fine.")
        return list(helper.ended), results(outcome)

    ended, texts = asyncio.run(main())
    assert (ended, texts[1]) == (["Do it"], "helper failed:\nIt was ended, as close_agent was called.")
    assert texts[1] == texts[2]


def test_closing_one_ends_those_that_it_has_started_also_if_they_are_kept():
    async def main():
        inner = Waits()
        outer = a("outer", spawn("helper"), inner.step)
        registry = registry_of(outer, inner, keep=True, most=2)
        closing = to("close_agent")
        outcome = await turn(registry, spawn("outer"), WAIT, [spawn("helper")] * 2, closing, "Fine.")
        return list(inner.ended), results(outcome)

    ended, texts = asyncio.run(main())
    assert ended == ["Do it"]
    assert texts[1] == "outer has ended:\nBye."
    assert "which is the limit (helper)" in texts[3]


def test_closing_a_workflow_ends_those_that_its_members_have_started():
    async def main():
        inner = Waits()
        inner.name = "inner"
        team = SequentialAgent(name="team", agents=[a("outer", spawn("inner"), inner.step)])
        registry = registry_of(team, inner, keep=True)
        outcome = await turn(registry, spawn("team"), WAIT, CLOSE, "Fine.")
        return list(inner.ended), outcome.ended

    assert asyncio.run(main()) == (["Do it"], "answered")


@pytest.mark.parametrize("steps", range(0, 60, 5))
def test_one_that_is_closed_while_it_asks_ends_and_runs_nothing(steps):
    asked, wiped = [], []

    @tool(name="wipe", destructive=True)
    def wipe_it(place: str) -> str:
        """Wipes a place."""
        wiped.append(place)
        return "wiped"

    async def approver(request, _context):
        asked.append(request.call.name)
        await asyncio.Event().wait()

    async def close(request):
        for _ in range(steps):
            await asyncio.sleep(0)
        return CLOSE(request)

    helper = a("helper", WIPE)
    outcome = run(registry_of(helper, tools=(wipe_it,)), spawn(), close, "Fine.", approver=approver)
    assert (outcome.text, wiped) == ("Fine.", [])
    assert results(outcome)[-1].startswith("helper failed:\nIt was ended, as close_agent was called.")


# Resume by id --------------------------------------------------------------------------------------------------------


def test_an_agent_is_resumed_by_its_id_in_a_later_turn_of_another_process():
    send = to("send_agent_input", message="And now?")
    made = Processes("One.", "Two.", main=[spawn(), WAIT, "Fine.", send, WAIT, "Fine."])
    outcome = made.next_turn(made.start())
    assert results(outcome)[-2:] == ["helper continues.", "helper has ended:\nTwo."]
    assert [message.text for message in made.helper.requests[1].messages] == ["Do it", "One.", "And now?"]


def test_a_question_that_was_left_open_is_asked_in_a_later_turn_of_another_process():
    fast = a("fast", "Fast.")
    main = [spawn(), wait_all(seconds=PATIENCE), WAIT, "Fine."]
    made = Processes(WIPE, "Wiped.", main=main, keep=True)
    first = made.start()
    assert first.ended == "suspended"
    later = made.next_turn(first.evolve(state={**first.state, **stored_of(first)}))
    assert later.ended == "suspended"
    assert results(made.resume(later, Once()))[-1] == "helper has ended:\nWiped."
    assert fast.model.requests == []


def stored_of(outcome):
    """The state as a host stores it that abandons a suspended turn."""
    (pending,) = outcome.pending
    return {f"agents:id:{id_}": {"1": each} for id_, each in pending.stored["agents"].items()}


def test_one_that_worked_when_its_process_ended_is_reported_as_lost():
    async def never(_request):
        await asyncio.Event().wait()

    made = Processes(never, main=[spawn(), "Bye.", WAIT, "Fine."])
    assert "It was working when its process ended" in results(made.next_turn(made.start()))[-1]


def test_of_an_agent_that_another_process_has_resumed_the_latest_state_counts():
    send = to("send_agent_input", message="And now?")
    made = Processes("One.", "Two.", "Three.", main=[spawn(), WAIT, "Fine.", *[send, WAIT, "Fine."] * 2])
    here, there = made.registry(), made.registry()
    outcome = made.start(here)
    for registry in (there, here):
        outcome = made.next_turn(outcome, registry)
    assert results(outcome)[-1] == "helper has ended:\nThree."
    texts = [message.text for message in made.helper.requests[-1].messages]
    assert texts == ["Do it", "One.", "And now?", "Two.", "And now?"]


def test_a_question_that_another_process_has_answered_is_not_asked_again():
    made = Processes(WIPE, "Wiped.", main=[spawn(), WAIT, "Fine.", WAIT, "Fine."])
    here = made.registry()
    outcome = made.resume(made.start(here), Once())
    outcome = made.next_turn(outcome, here)
    assert (outcome.ended, results(outcome)[-1]) == ("answered", "helper has ended:\nWiped.")


@pytest.mark.parametrize("anew", [False, True])
def test_of_two_calls_about_an_agent_in_one_answer_the_latest_state_counts(anew):
    async def both(request):
        return [to("send_agent_input", message="And now?")(request), WAIT(request)]

    made = Processes("One.", "Two.", "Three.", main=[spawn(), WAIT, both, "Fine.", WAIT, "Fine."])
    registry = made.registry()
    first = made.start(registry)
    outcome = made.next_turn(first, None if anew else registry)
    assert (results(outcome)[-1], first.actions.conflicts) == ("helper has ended:\nTwo.", ())


def test_one_that_worked_when_its_process_ended_still_knows_its_task():
    async def never(_request):
        await asyncio.Event().wait()

    send = to("send_agent_input", message="Go on.")
    made = Processes(never, "Done.", main=[spawn(), to("wait_agents", seconds=0), "Bye.", send, WAIT, "Fine."])
    assert results(made.next_turn(made.start()))[-1] == "helper has ended:\nDone."
    assert [message.text for message in made.helper.requests[-1].messages] == ["Do it", "Go on."]


@pytest.mark.parametrize("context", [ReadonlyContext(user="u", session="t"), ReadonlyContext(user="v", session="s")])
def test_an_agent_of_another_session_or_user_is_unknown(context):
    async def main():
        registry = registry_of(a("helper", "One."), keep=True)
        first = await turn(registry, spawn(), WAIT, "Fine.")
        id_ = ids_in(ModelRequest(first.messages))[0]
        mine = await registry.call("wait_agents", {"ids": ["helper-x"]}, CONTEXT)
        return id_, mine, await registry.call("wait_agents", {"ids": [id_]}, context)

    id_, mine, other = asyncio.run(main())
    assert other.text == f"There is no agent '{id_}' here. Start one with spawn_agent."
    assert mine.text == f"There is no agent 'helper-x' here. There are {id_}."


def test_without_a_session_an_agent_is_known_where_the_state_has_it():
    async def main():
        registry = registry_of(a("helper", "One.", "Two."), keep=True)
        first = await turn(registry, spawn(), WAIT, "Fine.", context=ReadonlyContext())
        request = ModelRequest(first.messages).with_messages("next")
        other = await turn(registry, WAIT, "Fine.", context=ReadonlyContext(), request=request)
        mine = await turn(registry, WAIT, "Fine.", context=ReadonlyContext(state=dict(first.state)), request=request)
        return results(other)[-1], results(mine)[-1]

    other, mine = asyncio.run(main())
    assert re.fullmatch("There is no agent 'helper' here. Start one with spawn_agent.", other)
    assert mine == "helper has ended:\nOne."


@pytest.mark.parametrize("stored", [7, {"1": 7}, {"1": {"agent": "helper"}}, {"1": {"agent": "x", "session": "s/x"}}])
def test_what_cant_be_read_from_the_state_is_unknown(stored, caplog):
    context = ReadonlyContext(user="u", session="s", state={"agents:id:helper-1": stored})
    outcome = run(registry_of(a("helper")), ToolCall("close_agent", {"id": "helper-1"}), "Fine.", context=context)
    assert "There is no agent 'helper'" in results(outcome)[-1].replace("helper-1", "helper")


def test_a_session_stores_the_last_agents(monkeypatch):
    monkeypatch.setattr("pegboard_agents.stored.MOST_STORED", 2)
    monkeypatch.setattr("pegboard_agents.spawn.MOST_REMEMBERED", 1)
    registry = registry_of(a("helper", "One.", "Two.", "Three.", "Four."))
    script = [step for number in range(4) for step in (spawn(), to("wait_agents", number))]
    outcome = run(registry, *script, to("wait_agents", 0), "Fine.")
    assert len([key for key in outcome.state if key.startswith("agents:id:")]) == 2
    assert results(outcome)[-1].startswith("There is no agent")


@pytest.mark.parametrize("anew", [False, True])
def test_agents_are_forgotten_by_their_last_use(monkeypatch, anew):
    monkeypatch.setattr("pegboard_agents.stored.MOST_STORED", 2)
    monkeypatch.setattr("pegboard_agents.spawn.MOST_REMEMBERED", 1)
    helper = a("helper", *["Fine."] * 4)
    spawn_and_wait = [step for number in range(2) for step in (spawn(), to("wait_agents", number))]
    first = run(registry := registry_of(helper), *spawn_and_wait, "Fine.")
    state = dict(sorted(first.state.items()))  # a host may store it in any order
    context = ReadonlyContext(user="u", session="s", state=state)
    request = ModelRequest(first.messages).with_messages("next")
    use_first = [to("wait_agents", 0), spawn(), to("wait_agents", 2)]
    registry = registry_of(helper) if anew else registry
    outcome = run(
        registry, *use_first, to("wait_agents", 0), to("wait_agents", 1), "Fine.", context=context, request=request
    )
    assert ["There is no agent" in text for text in results(outcome)[-2:]] == [False, True]


# Hosts ---------------------------------------------------------------------------------------------------------------


def test_agents_as_tools_may_start_agents_which_end_with_them():
    async def main():
        inner = Waits()
        registry = registry_of(inner)
        registry.register(agent_tool(a("outer", spawn(), inner.step)))
        outcome = await turn(registry, ToolCall("outer", {"request": "x"}), "Fine.")
        return list(inner.ended), results(outcome)

    assert asyncio.run(main()) == (["Do it"], ["Bye."])


def test_a_turn_of_a_host_that_interrupts_it_ends_its_agents():
    async def main():
        helper = Waits()
        made = Turn(Steps([spawn(), WAIT]), "go", registry_of(helper), CONTEXT)
        running = asyncio.ensure_future(made.run())
        await helper.begun.wait()
        made.interrupt()
        outcome = await running
        return outcome.ended, list(helper.ended)

    assert asyncio.run(main()) == ("interrupted", ["Do it"])


def test_where_there_is_no_background_the_model_is_told():
    from pegboard.execution import ExecutionRequest, LocalExecutor

    async def main():
        executor = LocalExecutor(background_tools([Echo()]))
        arguments = {"agent": "echo", "request": "x"}
        return await executor.execute(ExecutionRequest(tool="spawn_agent", arguments=arguments, call_id="1"))

    assert "can't run in the background here" in str(asyncio.run(main()).to_json())
