"""Workflow agents: sequences, loops and parallel agents; their state, failures, approvals and resumption."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio

import attrs
import pytest

from pegboard import (
    REMOVED,
    Actions,
    Once,
    PendingCalls,
    ReadonlyContext,
    Reject,
    ToolCall,
    ToolContext,
    ToolRegistry,
    tool,
)
from pegboard.approval import ask_later
from pegboard.errors import FatalToolError, InvalidNameError
from pegboard.testing import ScriptedModel
from pegboard_agents import Agent, AgentEvent, LoopAgent, ParallelAgent, SequentialAgent, agent_tool, exit_loop

CONTEXT = ReadonlyContext(user="u", session="s", state={"plan": {"owner": "ann"}, "old": 1})
EXIT = ToolCall("exit_loop", {})


@tool
def put(key: str, value: str, context: ToolContext) -> str:
    """Puts a value into the state."""
    plan = context.state["plan"]
    plan[key] = value
    if key == "x":
        context.state.pop("old", None)
    context.state["last"] = value
    return f"{sorted(context.state['plan'])}"


@tool
def look(context: ToolContext) -> str:
    """Shows the state."""
    return f"{dict(context.state)}"


@tool(destructive=True)
def wipe(place: str) -> str:
    """Wipes a place."""
    return f"wiped {place}"


def a(name, *script):
    return Agent(name=name, model=ScriptedModel(list(script)))


def registry_of(agent):
    registry = ToolRegistry()
    registry.register(put, look, wipe, exit_loop, agent_tool(agent))
    return registry


def call(agent, **options):
    made = [ToolCall(agent.name, {"request": "Write."}, "c1")]
    return asyncio.run(registry_of(agent).dispatch(made, None, CONTEXT, **options))


def answer(agent, **options):
    return call(agent, **options).results[0]


def texts(agent, number=0):
    """The messages of an agent's request."""
    return [message.text for message in agent.model.requests[number].messages]


def put_call(key, value):
    return ToolCall("put", {"key": key, "value": value})


# Sequences -----------------------------------------------------------------------------------------------------------


def test_each_agent_of_a_sequence_gets_the_request_and_the_answers_before():
    one, two = a("one", "A draft."), a("two", "A better draft.")
    assert answer(SequentialAgent(name="all", agents=[one, two])).text == "A better draft."
    assert texts(one) == ["Write."]
    assert texts(two) == ["Write.", "The agent one answered:\nA draft."]


def test_changes_of_the_state_reach_the_next_agents_and_not_the_caller():
    two = a("two", ToolCall("look", {}), "done")
    outcome = call(SequentialAgent(name="all", agents=[a("one", put_call("x", "1"), "put it"), two]))
    seen = two.model.requests[1].messages[-1].results[0].result.text
    assert seen == "{'plan': {'owner': 'ann', 'x': '1'}, 'last': '1'}"  # `old` is removed
    assert outcome.actions.state_delta == {}


def test_a_failing_agent_ends_a_sequence_and_the_answers_before_are_kept():
    three = a("three")
    agent = SequentialAgent(name="all", agents=[a("one", "A draft."), a("two", RuntimeError("secret")), three])
    result = answer(agent)
    assert (result.is_error, three.model.requests) == (True, [])
    assert result.text.startswith("all ended: two failed (ModelError).")
    assert result.text.endswith("The last answer before that:\nA draft.")


def test_outside_a_loop_exit_loop_ends_an_agents_turn_only():
    agent = SequentialAgent(name="all", agents=[a("one", EXIT), a("two", "Still here.")])
    assert answer(agent).text == "Still here."


class Echo:
    name = "echo"
    description = "Echoes."

    async def run(self, request):
        return {"said": request}


class NeedsCall:
    name = "needs"
    description = ""

    def run(self, call):
        return call.tool


def test_objects_with_run_and_workflows_are_agents_of_a_workflow():
    inner = SequentialAgent(name="inner", agents=[a("one", "A draft."), Echo()])
    last = a("last", "Fine.")
    assert answer(SequentialAgent(name="all", agents=[inner, last])).text == "Fine."
    said = "Write.\\n\\nThe agent one answered:\\nA draft."
    assert texts(last)[1] == f'The agent inner answered:\n{{"said":"{said}"}}'


def test_events_of_its_agents_name_the_way_to_them():
    events = []
    call(SequentialAgent(name="all", agents=[a("one", "A draft.")]), listener=events.append)
    mine = [event.content for event in events if isinstance(getattr(event, "content", None), AgentEvent)]
    assert {(event.agent, event.event.agent) for event in mine} == {("all", "one")}


@pytest.mark.parametrize(
    ("make", "error", "wrong"),
    [
        (lambda: SequentialAgent(name="all", agents=[]), ValueError, "at least one agent"),
        (lambda: ParallelAgent(name="all", agents=[Echo(), Echo()]), ValueError, "must have names that differ"),
        (lambda: SequentialAgent(name="all", agents=[NeedsCall()]), ValueError, "agent 'needs': in a workflow"),
        (lambda: SequentialAgent(name="all", agents=["one"]), TypeError, "isn't an agent"),
        (lambda: SequentialAgent(name="a b", agents=[Echo()]), InvalidNameError, "a b"),
        (lambda: LoopAgent(name="all", agents=[Echo()]), TypeError, "max_rounds"),
        (lambda: LoopAgent(name="all", agents=[Echo()], max_rounds=0), ValueError, "max_rounds must be"),
        (lambda: LoopAgent(name="all", agents=[Echo()], max_rounds=True), ValueError, "max_rounds must be"),
        (lambda: agent_tool(SequentialAgent(name="x", agents=[Echo()]), gives=int), ValueError, "gives a string"),
        (lambda: agent_tool(SequentialAgent(name="x", agents=[Echo()]), session="kept"), ValueError, "is fresh"),
    ],
)
def test_what_cant_be_a_workflow_is_refused(make, error, wrong):
    with pytest.raises(error, match=wrong):
        make()


# Loops ---------------------------------------------------------------------------------------------------------------


def test_exit_loop_ends_the_loop_whose_answer_is_the_last_one_with_a_text():
    writer, critic = a("writer", "Draft 1.", "Draft 2."), a("critic", "Poor.", EXIT)
    result = answer(LoopAgent(name="review", agents=[writer, critic], max_rounds=9))
    assert (result.text, len(writer.model.requests)) == ("Draft 2.", 2)
    assert texts(writer, 1)[1:] == ["The agent writer answered:\nDraft 1.", "The agent critic answered:\nPoor."]


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
def test_exit_loop_of_an_inner_workflow_ends_the_loop_too(kind):
    inner = kind(name="inner", agents=[a("one", ["I leave.", EXIT])])
    never = a("never")
    result = answer(LoopAgent(name="outer", agents=[inner, never], max_rounds=9))
    assert "I leave." in result.text
    assert never.model.requests == []


def test_exit_loop_ends_the_innermost_loop():
    inner = LoopAgent(name="inner", agents=[a("one", EXIT, EXIT)], max_rounds=9)
    outer = LoopAgent(name="outer", agents=[inner, a("two", "Once more.", ["Enough.", EXIT])], max_rounds=9)
    assert answer(outer).text == "Enough."


@pytest.mark.parametrize(("rounds", "words"), [(1, "1 round,"), (3, "3 rounds,")])
def test_a_loop_that_nobody_leaves_ends_after_its_rounds_and_says_so(rounds, words):
    result = answer(LoopAgent(name="review", agents=[a("one", *["More."] * rounds)], max_rounds=rounds))
    assert result.text == f"More.\n\n[review ended after {words} which is the maximum.]"


def test_a_loop_that_is_left_in_its_last_round_doesnt_say_that_it_wasnt():
    one, two = a("one", "Draft."), a("two", EXIT)
    assert answer(LoopAgent(name="review", agents=[one, two], max_rounds=1)).text == "Draft."


class Leaves:
    name, description = "leaves", ""

    def __init__(self, **facts):
        self.facts = facts

    async def run(self):
        return Actions(**self.facts)


@pytest.mark.parametrize("escalate", [False, True])
def test_an_object_changes_the_state_and_ends_a_loop_by_actions(escalate):
    one = a("one", "Draft.", ToolCall("look", {}), "Again.")
    leaves = Leaves(escalate=escalate, state_delta={"plan": REMOVED, "x": 1})
    result = answer(LoopAgent(name="review", agents=[one, leaves], max_rounds=2))
    assert result.text == "Draft." if escalate else result.text.startswith("Again.")
    if not escalate:
        assert one.model.requests[2].messages[-1].results[0].result.text == "{'old': 1, 'x': 1}"


def test_an_object_outside_of_a_loop_may_leave_too():
    assert answer(Leaves(escalate=True)).text == ""


# Parallel ------------------------------------------------------------------------------------------------------------


class Meets:
    """An agent that ends only if all of its kind run at the same time."""

    description = ""

    def __init__(self, name, barrier):
        self.name, self.barrier = name, barrier

    async def run(self, request):
        await self.barrier.wait()
        return f"{self.name} met"


def test_parallel_agents_run_at_the_same_time():
    barrier = asyncio.Barrier(3)
    agent = ParallelAgent(name="all", agents=[Meets(name, barrier) for name in ("a", "b", "c")])
    assert answer(agent).text == "[a]\na met\n\n[b]\nb met\n\n[c]\nc met"


def test_branches_have_states_of_their_own_which_are_merged_with_conflicts_named():
    one, two = a("one", put_call("x", "1"), "One."), a("two", put_call("y", "2"), "Two.")
    last = a("last", ToolCall("look", {}), "done")
    both = ParallelAgent(name="both", agents=[one, two])
    call(SequentialAgent(name="all", agents=[both, last]))
    assert one.model.requests[1].messages[-1].results[0].result.text == "['owner', 'x']"
    assert two.model.requests[1].messages[-1].results[0].result.text == "['owner', 'y']"
    seen = last.model.requests[1].messages[-1].results[0].result.text
    assert seen == "{'plan': {'owner': 'ann', 'x': '1', 'y': '2'}, 'last': '2'}"
    conflict = "[Conflict: one and two changed 'last' of the state; the value of two is used.]"
    assert texts(last)[1].endswith(f"[one]\nOne.\n\n[two]\nTwo.\n\n{conflict}")


def test_conflicts_are_metadata_of_the_call():
    agents = [a("one", put_call("x", "1"), "One."), a("two", put_call("x", "2"), "Two.")]
    assert answer(ParallelAgent(name="both", agents=agents)).metadata["conflicts"] == ["last", "old", "plan.x"]


def test_a_branch_that_fails_is_part_of_the_answer_and_if_all_fail_the_call_does():
    agent = ParallelAgent(name="both", agents=[a("one", RuntimeError("secret")), a("two", "Two.")])
    result = answer(agent)
    assert (result.is_error, "secret" in result.text) == (False, False)
    assert result.text.startswith("[one]\none failed (ModelError).")
    assert result.text.endswith("[two]\nTwo.")
    result = answer(ParallelAgent(name="both", agents=[a("one", RuntimeError("secret"))]))
    assert result.text.startswith("All agents of both failed.\n\n[one]\n")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("secret"), "broken failed (KeyError)."),
        (SystemExit(1), "broken failed (SystemExit)."),
        (asyncio.CancelledError(), "broken cancelled itself."),
    ],
)
def test_an_object_that_fails_in_whatever_way_is_one_that_fails(error, text):
    class Broken:
        name, description = "broken", ""

        async def run(self):
            raise error

    result = answer(ParallelAgent(name="both", agents=[a("one", "One."), Broken()]))
    assert result.text.startswith(f"[one]\nOne.\n\n[broken]\n{text}")
    result = answer(SequentialAgent(name="all", agents=[a("one", "One."), Broken()]))
    assert result.text.startswith(f"all ended: {text}")
    assert result.text.endswith("The last answer before that:\nOne.")


def test_a_conflict_names_only_the_agents_that_changed_this_key():
    agents = [a(name, put_call(key, name), "ok") for name, key in (("one", "y"), ("two", "y"), ("three", "z"))]
    text = answer(ParallelAgent(name="all", agents=agents)).text
    assert "[Conflict: one and two changed 'plan.y' of the state; the value of two is used.]" in text
    assert "[Conflict: one and two and three changed 'last' of the state; the value of three is used.]" in text


def test_a_tool_that_ends_the_turn_ends_it_once_all_branches_have_ended():
    ended = []

    @tool
    def stop() -> str:
        """Stops all."""
        raise FatalToolError("stop")

    class Slow:
        name, description = "slow", ""

        async def run(self):
            for _ in range(50):
                await asyncio.sleep(0)
            ended.append(True)

    agent = ParallelAgent(name="both", agents=[a("one", ToolCall("stop", {})), Slow()])
    registry = registry_of(agent)
    registry.register(stop)
    outcome = asyncio.run(registry.dispatch([ToolCall("both", {"request": "x"}, "1")], None, CONTEXT))
    assert isinstance(outcome.fatal, FatalToolError)
    assert ended == [True]


# Approvals -----------------------------------------------------------------------------------------------------------


def resumed(make, *answers):
    """The result of a call that is suspended and resumed once for each answer, each time in a new registry."""
    outcome = asyncio.run(registry_of(make()).dispatch(*made_call(make), approver=ask_later))
    hints = []
    for given in answers:
        pending = PendingCalls.loads(outcome.pending.dumps())
        (waiting,) = pending
        hints.append(waiting.hint)
        asking = registry_of(make()).resume(pending, {waiting.id: given}, context=CONTEXT, approver=ask_later)
        outcome = asyncio.run(asking)
    return outcome, hints


def made_call(make):
    return [ToolCall(make().name, {"request": "Write."}, "c1")], None, CONTEXT


def in_processes(build, **scripts):
    """Makes the workflow with agents whose scripts go on from one process to the next."""
    left = {name: list(script) for name, script in scripts.items()}

    def model_of(script):
        return ScriptedModel([lambda _: script.pop(0)] * len(script))

    return lambda: build(*(Agent(name=name, model=model_of(script)) for name, script in left.items()))


def wipe_call(place):
    return ToolCall("wipe", {"place": place})


def test_a_suspended_sequence_goes_on_in_another_process_where_it_was():
    make = in_processes(
        lambda *agents: SequentialAgent(name="all", agents=agents),
        one=[put_call("x", "1"), "A draft."],
        two=[wipe_call("attic"), "Wiped it."],
        three=[ToolCall("look", {}), "Done."],
    )
    outcome, hints = resumed(make, Once())
    assert hints == ["all asks: two asks for permission wipe, to call wipe"]
    assert outcome.results[0].text == "Done."


def test_a_suspended_loop_goes_on_and_counts_its_rounds():
    make = in_processes(
        lambda *agents: LoopAgent(name="all", agents=agents, max_rounds=2),
        one=[wipe_call("attic"), "One.", wipe_call("cellar"), "Two."],
    )
    outcome, hints = resumed(make, Once(), Once())
    assert len(hints) == 2
    assert outcome.results[0].text == "Two.\n\n[all ended after 2 rounds, which is the maximum.]"


def test_branches_that_wait_are_answered_one_after_the_other_and_the_others_are_kept():
    make = in_processes(
        lambda *agents: ParallelAgent(name="all", agents=agents),
        one=[wipe_call("attic"), "One."],
        two=["Two."],
        three=[wipe_call("cellar"), "Three."],
    )
    outcome, hints = resumed(make, Once(), Reject("not the cellar"))
    assert [hint.split()[2] for hint in hints] == ["one", "three"]
    assert outcome.results[0].text == "[one]\nOne.\n\n[two]\nTwo.\n\n[three]\nThree."


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
def test_a_workflow_that_was_changed_meanwhile_does_not_go_on(kind):
    names = iter(["one", "one", "other"])

    def make():
        name = next(names, "other")
        return kind(name="all", agents=[a(name, wipe_call("attic"))])

    outcome, _ = resumed(make, Once())
    assert "it was changed after its call was suspended" in outcome.results[0].text


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        (SequentialAgent, {"progress": {"place": "x"}}),
        (SequentialAgent, {"progress": 7}),
        (ParallelAgent, {"branches": []}),
        (ParallelAgent, {"branches": [7]}),
        (ParallelAgent, {"place": None}),
    ],
)
def test_damaged_data_of_a_suspended_workflow_is_an_error(kind, damage):
    def make():
        return kind(name="all", agents=[a("one", wipe_call("attic"))])

    outcome = asyncio.run(registry_of(make()).dispatch(*made_call(make), approver=ask_later))
    (pending,) = outcome.pending
    broken = PendingCalls([attrs.evolve(pending, stored={**pending.stored, **damage})])
    outcome = asyncio.run(registry_of(make()).resume(broken, {pending.id: Once()}, context=CONTEXT))
    assert "can't be read" in outcome.results[0].text


def test_a_rejection_without_a_word_ends_a_sequence():
    agent = SequentialAgent(name="all", agents=[a("one", wipe_call("attic")), a("two")])
    assert "rejected one of its calls" in answer(agent, approver=lambda *_: Reject()).text
