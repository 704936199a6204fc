"""Agents as tools: requests, context and answers; failures, approvals and resumption."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import attrs
import pytest
from attrs import frozen

from pegboard import (
    Abort,
    Always,
    Ask,
    ChangeArguments,
    Deny,
    Later,
    Model,
    ModelRequest,
    Once,
    PendingCalls,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolResult,
    TurnLimits,
    TurnOutcome,
    run_turn,
    tool,
    tool_of,
)
from pegboard.approval import ask_later
from pegboard.errors import DefinitionError, FatalToolError
from pegboard.testing import ScriptedModel
from pegboard_agents import Agent, AgentEvent, agent_tool

CONTEXT = ReadonlyContext(user="u", session="s", agent="main", state={"colour": "red", "_secret": 1, "temp:x": 2})


@tool(read_only=True)
def look(place: str) -> str:
    """Looks somewhere."""
    return f"{place} is empty"


@tool(destructive=True)
def wipe(place: str) -> str:
    """Wipes a place."""
    return f"wiped {place}"


def registry_of(*tools, **options):
    registry = ToolRegistry(**options)
    registry.register(*tools)
    return registry


def agent(*script, name="helper", **facts):
    return Agent(name=name, description="Helps.", model=ScriptedModel(list(script)), **facts)


def call(registry, arguments=None, context=CONTEXT, name="helper", **options):
    """The outcome of one call of the agent."""
    calls = [ToolCall(name, {"request": "Do it"} if arguments is None else arguments, "c1")]
    return asyncio.run(registry.dispatch(calls, None, context, **options))


# Requests and answers ------------------------------------------------------------------------------------------------


def test_an_agent_gets_the_request_uses_tools_and_answers():
    helper = agent(ToolCall("look", {"place": "attic"}), "Nothing there.", instructions="Be brief.")
    (result,) = call(registry_of(look, agent_tool(helper))).results
    assert (result.text, result.is_error) == ("Nothing there.", False)
    assert (result.metadata["rounds"], result.metadata["calls"]) == (2, 1)
    first, second = helper.model.requests
    assert (first.system, first.messages[0].text) == ("Be brief.", "Do it")
    assert second.messages[-1].results[0].result.text == "attic is empty"


def test_it_has_the_tools_that_its_caller_was_offered_and_no_others():
    helper = agent("done", where="not name:helper")
    registry = registry_of(look, wipe, agent_tool(helper))

    async def main():
        offered = await registry.resolve(CONTEXT, where="read_only or name:helper")
        return await registry.dispatch([ToolCall("helper", {"request": "x"}, "1")], offered, CONTEXT)

    asyncio.run(main())
    assert [each.name for each in helper.model.requests[0].offered] == ["look"]


def test_its_own_registry_has_its_tools():
    helper = agent("done", registry=registry_of(look))
    call(registry_of(wipe, agent_tool(helper)))
    assert [each.name for each in helper.model.requests[0].offered] == ["look"]


DENIES = Permissions([Rule("wipe", "*", "deny")])


@pytest.mark.parametrize(
    ("callers", "own", "batchs"),
    [
        (None, None, None),
        (DENIES, None, None),
        (Permissions(mode="plan"), None, None),
        (Permissions(mode="never_ask"), None, None),
        (None, DENIES, Permissions()),
        (None, Permissions(mode="never_ask"), Permissions([Rule("look", "*", "allow")])),
    ],
)
@pytest.mark.parametrize("levels", [1, 2])
def test_in_its_own_registry_what_the_rules_of_either_registry_deny_is_denied(callers, own, batchs, levels):
    ran = []

    @tool(name="wipe", destructive=True)
    def wipe_it(place: str) -> str:
        """Wipes a place."""
        ran.append(place)
        return "wiped"

    inner = agent(ToolCall("wipe", {"place": "x"}), "done", registry=registry_of(wipe_it, permissions=own))
    if levels == 2:
        between = registry_of(agent_tool(inner, read_only=True))
        inner = agent(ToolCall("helper", {"request": "x"}), "done", registry=between)
    options = {} if batchs is None else {"permissions": batchs}
    registry = registry_of(agent_tool(inner, read_only=True), permissions=callers)
    assert call(registry, approver=lambda *_: Once(), **options).results[0].text == "done"
    assert ran == (["x"] if callers is own is batchs is None else [])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Deny("not now"), "wipe was denied: not now"),
        (ToolResult("already wiped"), "already wiped"),
        (ChangeArguments({"place": "roof"}), "wiped roof"),
        (Ask("climb", "roof", arguments={"place": "roof"}), "wiped roof"),
        (None, "wiped attic"),
    ],
)
@pytest.mark.parametrize("levels", [1, 2])
def test_in_its_own_registry_the_callbacks_of_its_callers_are_called_before_and_after_its_calls(
    answer, expected, levels
):
    asked, ended = [], []

    def approver(request, _context):
        asked.append(request.permission)
        return Once()

    inner = agent(ToolCall("wipe", {"place": "attic"}), "done", registry=registry_of(wipe))
    outer = inner
    if levels == 2:
        outer = agent(ToolCall("helper", {"request": "x"}), "done", registry=registry_of(agent_tool(inner)))
    registry = registry_of(agent_tool(outer))
    registry.add_callback("before_tool", lambda tool: answer, where="name:wipe")
    registry.add_callback("after_tool", lambda result: ended.append(result.text), where="name:wipe")
    call(registry, approver=approver)
    (result,) = inner.model.requests[1].messages[-1].results
    assert (result.result.text, ended) == (expected, [expected])
    assert ("climb" in asked) is isinstance(answer, Ask)


def test_a_callback_of_its_caller_may_replace_a_result_or_end_its_turn():
    def after(result):
        return Abort("enough") if "roof" in result.text else ToolResult("changed")

    helper = agent(
        ToolCall("look", {"place": "attic"}), ToolCall("look", {"place": "roof"}), registry=registry_of(look)
    )
    registry = registry_of(agent_tool(helper))
    registry.add_callback("after_tool", after, where="name:look")
    assert "helper failed (TurnAbortedError)" in call(registry).results[0].text
    assert helper.model.requests[1].messages[-1].results[0].result.text == "changed"


ASKS = Permissions([Rule("look", "*", "ask")])


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize(("callers", "own", "batchs"), [(ASKS, None, None), (ASKS, ASKS, None), (None, ASKS, ASKS)])
def test_in_its_own_registry_what_a_rule_of_either_registry_asks_about_is_asked_once(callers, own, batchs, levels):
    asked = []

    def approver(request, _context):
        asked.append(request.call.name)
        return Once()

    helper = agent(ToolCall("look", {"place": "x"}), "done", registry=registry_of(look, permissions=own))
    if levels == 2:
        between = registry_of(agent_tool(helper))
        helper = agent(ToolCall("helper", {"request": "x"}), "done", registry=between)
    options = {} if batchs is None else {"permissions": batchs}
    assert call(registry_of(agent_tool(helper), permissions=callers), approver=approver, **options).results[0].text
    assert asked == ["look"]


@pytest.mark.parametrize("answer", [None, Ask("climb", "roof")])
def test_what_its_caller_asks_about_in_its_own_registry_may_be_answered_later(answer):
    helper = agent(ToolCall("look", {"place": "x"}), "done", registry=registry_of(look))

    def start():
        registry = registry_of(agent_tool(helper), permissions=ASKS if answer is None else None)
        registry.add_callback("before_tool", lambda: answer, where="name:look")
        return registry

    suspended = call(start(), approver=ask_later)
    (pending,) = suspended.pending
    answers = {pending.id: Once()}
    result = asyncio.run(start().resume(suspended.pending, answers, context=CONTEXT, approver=ask_later)).results[0]
    assert result.text == "done"
    assert helper.model.requests[-1].messages[-1].results[0].result.text == "x is empty"


def test_it_works_in_a_context_of_its_own_with_a_copy_of_the_state_without_private_keys():
    seen = []

    @tool(read_only=True)
    def note(context: ToolContext) -> str:
        """Notes its context."""
        seen.append(context.request)
        context.state["colour"] = "blue"
        return "noted"

    helper = agent(ToolCall("note", {}), "ok")
    outcome = call(registry_of(note, agent_tool(helper)))
    (inner,) = seen
    assert (inner.user, inner.agent, inner.branch) == ("u", "helper", "main.helper")
    assert inner.session.startswith("s/helper/")
    assert dict(inner.state) == {"colour": "red"}
    assert outcome.actions.state_delta == {}


@frozen
class Order:
    """An order."""

    item: str
    count: int = 1


@frozen
class Receipt:
    """What was ordered."""

    total: float


def test_its_input_and_its_answer_may_have_types_of_their_own():
    clerk = agent(ToolCall("final_result", {"result": {"total": 2.5}}))
    made = agent_tool(clerk, takes=Order, gives=Receipt)
    assert set(made.spec.input_schema["properties"]) == {"item", "count"}
    (result,) = call(registry_of(made), {"item": "nail", "count": 3}).results
    assert result.structured_content == {"total": 2.5}
    assert clerk.model.requests[0].messages[0].text == '{"count":3,"item":"nail"}'
    assert call(registry_of(made), {"thing": "nail"}).results[0].kind == "invalid_arguments"


def test_an_answer_of_another_type_is_an_error():
    (result,) = call(registry_of(agent_tool(agent("2.50", "2.50"), gives=Receipt))).results
    assert "failed (ModelError)" in result.text


def test_without_a_model_of_its_own_it_has_the_hosts():
    registry = registry_of(agent_tool(Agent(name="helper")))
    assert "has no model" in call(registry).results[0].text
    registry.provide(Model, ScriptedModel(["from the host"]))
    assert call(registry).results[0].text == "from the host"


class Echo:
    name = "helper"
    description = "Echoes."

    def run(self, request, context):
        return f"{context.branch}: {request}"


class Slow:
    name = "helper"
    description = "Waits."

    def __init__(self):
        self.ended = []

    async def run(self, request, call):
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(request)


def test_any_object_with_run_is_an_agent():
    assert call(registry_of(agent_tool(Echo()))).results[0].text == "main.helper: Do it"


@pytest.mark.parametrize("run", [None, "run", lambda task: task, lambda request, /: request])
def test_an_object_whose_run_cant_be_called_so_is_refused_at_once(run):
    with pytest.raises(TypeError, match=r"isn't an agent|has (a parameter )?'(task|request)'"):
        agent_tool(SimpleNamespace(name="helper", description="Helps.", run=run))


def test_an_object_that_answers_another_type_is_refused():
    (result,) = call(registry_of(agent_tool(Echo(), gives=Receipt))).results
    assert (result.kind, result.is_error) == ("invalid_output", True)


def test_its_events_are_partial_results_of_the_call():
    helper = agent(ToolCall("look", {"place": "attic"}), "ok")
    events = []
    call(registry_of(look, agent_tool(helper)), listener=events.append)
    mine = [event.content for event in events if isinstance(getattr(event, "content", None), AgentEvent)]
    assert {event.to_json()["agent"] for event in mine} == {"helper"}
    assert next(event.event.type for event in mine if hasattr(event.event, "type")) == "round"
    assert "look" in [getattr(event.event, "name", None) for event in mine]


# Failures ------------------------------------------------------------------------------------------------------------


def test_one_that_calls_itself_ends_at_the_depth():
    model = ScriptedModel([ToolCall("helper", {"request": "again"})] * 3 + ["three", "two", "one"])
    registry = registry_of(agent_tool(Agent(name="helper", model=model), depth=3))
    (result,) = call(registry).results
    assert result.text == "one"
    assert "nested only 3 deep" in model.requests[3].messages[-1].results[0].result.text


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"session": "new"}])
def test_a_depth_or_a_session_that_there_isnt_is_refused(wrong):
    with pytest.raises(ValueError, match="depth must be"):
        agent_tool(Echo(), **wrong)


@pytest.mark.parametrize("option", ["read_onyl", "flatten"])
def test_an_option_that_there_isnt_is_refused(option):
    with pytest.raises(DefinitionError, match=f"unknown option '{option}'"):
        agent_tool(Agent(name="helper"), **{option: True})
    made = agent_tool(
        Agent(name="helper"), name="other", read_only=True, check=lambda arguments: ["no"], description="D"
    )
    assert (made.name, made.spec.description, made.spec.annotations.read_only_hint) == ("other", "D", True)
    assert made.check({"request": "x"}) == ("no",)


def test_a_model_that_fails_is_an_error_without_its_words():
    (result,) = call(registry_of(agent_tool(agent(RuntimeError("secret"))))).results
    assert (result.kind, "secret" in result.text) == ("tool_failure", False)
    assert "secret" in result.detail


def test_at_a_limit_it_says_which_and_what_it_wrote():
    helper = agent(*[ToolCall("look", {"place": "x"})] * 3, limits=TurnLimits(rounds=2))
    (result,) = call(registry_of(look, agent_tool(helper))).results
    assert "limit (2 rounds)" in result.text
    assert result.is_error


def test_an_agent_that_hangs_is_cancelled_at_its_time_limit():
    slow = Slow()
    (result,) = call(registry_of(agent_tool(slow, timeout=0.05))).results
    assert (result.kind, slow.ended) == ("timeout", ["Do it"])


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose clock can be advanced."""

    ahead = 0.0

    def time(self):
        return super().time() + self.ahead


@pytest.mark.parametrize("own", [None, registry_of(wipe)])
def test_waiting_for_a_person_isnt_its_time(own):
    async def slow(_request, _context):
        asyncio.get_running_loop().ahead += 100
        for _ in range(3):  # timers that are now due run
            await asyncio.sleep(0)
        return Once()

    helper = agent(ToolCall("wipe", {"place": "attic"}), "Done.", registry=own)
    registry = registry_of(wipe, agent_tool(helper, timeout=50))
    with asyncio.Runner(loop_factory=Clock) as runner:
        calls = [ToolCall("helper", {"request": "Do it"}, "c1")]
        (result,) = runner.run(registry.dispatch(calls, None, CONTEXT, approver=slow)).results
    assert (result.text, result.kind) == ("Done.", None)


def test_a_model_that_never_answers_is_cancelled_with_the_batch():
    async def main():
        asked = asyncio.Event()

        class Silent:
            name, provider = "silent", "none"

            async def respond(self, request):
                asked.set()
                await asyncio.Event().wait()

        registry = registry_of(agent_tool(Agent(name="helper", model=Silent())))
        batch = await registry.batch([ToolCall("helper", {"request": "x"}, "1")], None, CONTEXT)
        running = asyncio.ensure_future(batch.run())
        await asked.wait()
        batch.interrupt()
        return await running

    assert asyncio.run(main()).results[0].kind == "aborted"


@pytest.mark.parametrize("steps", range(0, 40, 3))
def test_cancelled_at_any_moment_every_call_has_its_result(steps):
    async def main():
        registry = registry_of(look, agent_tool(agent(ToolCall("look", {"place": "x"}), "ok")))
        batch = await registry.batch([ToolCall("helper", {"request": "x"}, "1")], None, CONTEXT)
        running = asyncio.ensure_future(batch.run())
        for _ in range(steps):
            await asyncio.sleep(0)
        batch.interrupt()
        return await running

    (result,) = asyncio.run(main()).results
    assert result.kind in ("aborted", "skipped", None)


def test_a_tool_that_ends_the_turn_ends_the_callers_too():
    @tool
    def stop() -> str:
        """Stops all."""
        raise FatalToolError("stop")

    outcome = call(registry_of(stop, agent_tool(agent(ToolCall("stop", {})))))
    assert isinstance(outcome.fatal, FatalToolError)


def test_concurrent_agents_are_independent():
    async def main():
        registry = registry_of(look)
        for name in ("one", "two"):
            registry.register(agent_tool(agent(ToolCall("look", {"place": name}), f"I am {name}", name=name)))
        calls = [ToolCall("one", {"request": "x"}, "1"), ToolCall("two", {"request": "x"}, "2")]
        return await registry.dispatch(calls, None, CONTEXT)

    assert [result.text for result in asyncio.run(main()).results] == ["I am one", "I am two"]


# Stored conversations ------------------------------------------------------------------------------------------------


def test_a_kept_session_goes_on_and_a_fresh_one_begins():
    for session, seen in (("kept", ["Do it", "one", "Do it"]), ("fresh", ["Do it"])):
        helper = agent("one", "two")
        registry = registry_of(agent_tool(helper, session=session))
        first = call(registry)
        state = {}
        first.actions.apply_to(state)
        call(registry, context=ReadonlyContext(user="u", session="s", state=state))
        assert [message.text for message in helper.model.requests[1].messages] == seen


def test_a_kept_conversation_that_a_host_has_broken_begins_anew():
    helper = agent("one")
    context = ReadonlyContext(session="s", state={"agents:helper": {"session": "s/x", "messages": [{"role": "?"}]}})
    assert call(registry_of(agent_tool(helper, session="kept")), context=context).results[0].text == "one"


def test_a_kept_session_takes_one_call_at_a_time():
    async def main():
        begun = asyncio.Event()

        class Waits:
            name, description = "helper", ""

            async def run(self, request):
                begun.set()
                await asyncio.Event().wait()

        registry = registry_of(agent_tool(Waits(), session="kept"))
        first = asyncio.ensure_future(registry.call("helper", {"request": "1"}, CONTEXT))
        await begun.wait()
        second = await registry.call("helper", {"request": "2"}, CONTEXT)
        first.cancel()
        return second

    assert "working on an earlier call" in asyncio.run(main()).text


# Confirmations -------------------------------------------------------------------------------------------------------


def wiper(*more, **facts):
    return agent(ToolCall("wipe", {"place": "attic"}), *more, "wiped it", **facts)


def test_its_calls_are_asked_about_as_its_callers_are():
    asked = []

    def approver(request, _context):
        asked.append((request.call.name, request.agent, request.to_text().split("\n")[1]))
        return Once()

    (result,) = call(registry_of(wipe, agent_tool(wiper())), approver=approver).results
    assert result.text == "wiped it"
    assert asked == [("wipe", "main.helper", "asked by the agent main.helper")]


def test_what_its_callers_batch_forbids_it_may_not_either():
    helper = wiper()
    rules = Permissions([Rule("wipe", "*", "deny")])
    call(registry_of(wipe, agent_tool(helper)), permissions=rules, approver=lambda *_: Once())
    assert helper.model.requests[0].offered[0].name == "helper"
    assert helper.model.requests[1].messages[-1].results[0].result.kind == "not_offered"


WIPE, ASK_HELPER = ToolCall("wipe", {"place": "attic"}), ToolCall("helper", {"request": "Wipe."})


@pytest.mark.parametrize("calls", [[WIPE, ASK_HELPER, ASK_HELPER], [ASK_HELPER, WIPE]])
def test_always_counts_in_a_session_with_the_agents_that_are_called_in_it(calls):
    asked = []

    def approver(request, context):
        asked.append((context.user, context.session.split("/")[0]))
        return Always()

    async def main():
        registry = registry_of(wipe, agent_tool(agent(*[WIPE, "wiped it"] * 4)))
        others = attrs.evolve(CONTEXT, user="v"), attrs.evolve(CONTEXT, session="t")
        for context, script in ((CONTEXT, calls), *((each, [ASK_HELPER]) for each in others)):
            await run_turn(ScriptedModel([*script, "done"]), "go", registry, context, approver=approver)

    asyncio.run(main())
    assert asked == [("u", "s"), ("v", "s"), ("u", "t")]


def test_without_anybody_to_ask_its_call_is_denied_and_it_goes_on():
    helper = wiper()
    assert call(registry_of(wipe, agent_tool(helper))).results[0].text == "wiped it"
    assert helper.model.requests[1].messages[-1].results[0].result.kind == "denied"


def test_a_rejection_without_a_word_stops_it_and_its_caller_learns_so():
    (result,) = call(registry_of(wipe, agent_tool(wiper())), approver=lambda *_: Reject()).results
    assert (result.kind, "user rejected one of its calls" in result.text) == ("rejected", True)


class Session:
    """A turn of a main agent that calls `helper`; each step has a new registry, as after a restart."""

    def __init__(self, make):
        self.make = make
        self.main = ScriptedModel([ToolCall("helper", {"request": "Do it"}, "c1"), "main is done"])

    def start(self):
        return asyncio.run(run_turn(self.main, "go", self.make(), CONTEXT, approver=ask_later))

    def resume(self, outcome, answer):
        suspended = TurnOutcome.loads(outcome.dumps("k" * 16), "k" * 16)
        answers = {call.id: answer for call in suspended.pending}
        how = {"resume": suspended, "answers": answers, "approver": ask_later}
        return asyncio.run(run_turn(self.main, ModelRequest(), self.make(), CONTEXT, **how))


def restarted(*scripts, tools=(wipe,), change=None, **options):
    """A session whose helper has a script for each process; `change` changes it for the second one."""
    left = list(scripts)

    def make():
        facts = {} if change is None or len(left) == len(scripts) else change
        return registry_of(*tools, agent_tool(agent(*left.pop(0), **facts), **options))

    return Session(make)


def answer_of(outcome):
    """The helper's answer to the main agent."""
    return outcome.messages[2].results[0].result


def test_a_suspended_call_of_its_suspends_its_callers_and_goes_on_with_it_after_a_restart():
    session = restarted([ToolCall("wipe", {"place": "attic"})], ["wiped it"])
    outcome = session.start()
    (pending,) = outcome.pending
    assert (outcome.ended, pending.call.name, pending.subject) == ("suspended", "helper", "question")
    assert pending.payload["call"]["arguments"] == {"place": "attic"}
    assert "outcome" not in pending.to_text()
    outcome = session.resume(outcome, Once())
    assert (outcome.ended, outcome.text, answer_of(outcome).text) == ("answered", "main is done", "wiped it")


def test_the_pending_call_has_the_id_by_which_a_person_was_asked():
    asked = []

    def approver(request, _context):
        asked.append(request.id)
        return Later()

    outcome = call(registry_of(wipe, agent_tool(wiper())), approver=approver)
    assert [pending.id for pending in outcome.pending] == asked


def test_of_several_things_that_it_waits_for_one_is_answered_after_the_other():
    two = [ToolCall("wipe", {"place": "attic"}), ToolCall("wipe", {"place": "cellar"})]
    session = restarted([two], [], ["both are wiped"])
    outcome = session.resume(session.start(), Once())
    (pending,) = outcome.pending
    assert pending.payload["call"]["arguments"] == {"place": "cellar"}
    assert answer_of(session.resume(outcome, Once())).text == "both are wiped"


def test_a_later_no_with_words_goes_to_it_and_one_without_stops_it():
    session = restarted([ToolCall("wipe", {"place": "attic"})], ["I leave it"])
    outcome = session.resume(session.start(), Reject("not the attic"))
    assert answer_of(outcome).text == "I leave it"
    session = restarted([ToolCall("wipe", {"place": "attic"})], [])
    assert answer_of(session.resume(session.start(), Reject())).kind == "rejected"


def test_an_answer_counts_once():
    session = restarted([ToolCall("wipe", {"place": "attic"}), "wiped it"])
    registry = session.make()
    session.make = lambda: registry
    outcome = session.start()
    session.main = ScriptedModel(["done", "done again"])
    first = session.resume(outcome, Once())
    second = session.resume(outcome, Once())
    assert answer_of(second).kind == "unknown_outcome"
    assert first.ended == second.ended == "answered"


def test_an_agent_that_was_changed_meanwhile_does_not_go_on():
    session = restarted([ToolCall("wipe", {"place": "attic"})], [], change={"instructions": "Wipe all."})
    outcome = session.resume(session.start(), Once())
    assert "it was changed after its call was suspended" in answer_of(outcome).text


def test_a_tool_of_its_that_was_changed_meanwhile_is_not_run():
    session = restarted([ToolCall("wipe", {"place": "attic"})], ["not wiped"])
    outcome = session.start()
    helper = agent("not wiped")
    session.make = lambda: registry_of(tool_of(wipe).with_spec(title="Other"), agent_tool(helper))
    assert answer_of(session.resume(outcome, Once())).text == "not wiped"
    assert helper.model.requests[0].messages[-1].results[0].result.kind == "denied"


def test_a_result_that_its_host_has_to_bring_is_brought_by_the_answer():
    remote = Tool.from_schema("remote", {"type": "object"})
    session = restarted([ToolCall("remote", {"a": 1})], ["it says 7"], tools=(remote,))
    outcome = session.start()
    (pending,) = outcome.pending
    assert pending.payload["call"]["name"] == "remote"
    assert answer_of(session.resume(outcome, Once({"value": 7}))).text == "it says 7"
    session = restarted([ToolCall("remote", {"a": 1})], ["no result"], tools=(remote,))
    assert answer_of(session.resume(session.start(), Reject("offline"))).text == "no result"


def test_agents_below_agents_wait_and_go_on_too():
    inner = [[ToolCall("wipe", {"place": "attic"})], ["wiped"]]
    outer = [[ToolCall("inner", {"request": "wipe"})], ["inner has wiped"]]

    def make():
        below = agent_tool(agent(*inner.pop(0), name="inner"))
        return registry_of(wipe, below, agent_tool(agent(*outer.pop(0))))

    session = Session(make)
    outcome = session.start()
    (pending,) = outcome.pending
    assert pending.hint.startswith("helper asks: inner asks for ")
    assert answer_of(session.resume(outcome, Once())).text == "inner has wiped"


def test_a_damaged_suspended_turn_is_an_error():
    session = restarted([ToolCall("wipe", {"place": "attic"})], [])
    outcome = session.start()
    (pending,) = outcome.pending
    broken = attrs.evolve(pending, stored={**pending.stored, "outcome": {"version": 99}})
    outcome = outcome.evolve(pending=PendingCalls((broken,)))
    assert "can't be read" in answer_of(session.resume(outcome, Once())).text
