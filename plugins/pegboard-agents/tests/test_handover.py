"""Agents that hand over to each other: the tools, and `run_agents`."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json

import attrs
import pytest

from pegboard import Actions, Message, Once, ReadonlyContext, ToolCall, ToolContext, ToolRegistry, tool
from pegboard.approval import ask_later
from pegboard.testing import ScriptedModel
from pegboard_agents import Agent, AgentsOutcome, SequentialAgent, exit_loop, run_agents, transfer_tool

CONTEXT = ReadonlyContext(user="u", session="s")


@tool(destructive=True)
def wipe(context: ToolContext) -> str:
    """Wipes."""
    context.state["wiped"] = context.agent
    return "wiped"


def agents(**scripts):
    return [Agent(name=name, model=ScriptedModel(script)) for name, script in scripts.items()]


def registry():
    made = ToolRegistry()
    made.register(wipe, exit_loop, transfer_tool({"clerk": "Sells.", "boss": "Decides."}))
    return made


def to(name):
    return ToolCall("transfer_to_agent", {"agent_name": name})


def run(team, request="Hello", **options):
    return asyncio.run(run_agents(team, request, CONTEXT, registry=registry(), **options))


def test_the_agent_that_is_handed_over_to_has_the_whole_conversation():
    team = agents(clerk=[to("boss")], boss=["I decide."])
    outcome = run(team)
    assert (outcome.agent, outcome.turn.text, outcome.handovers) == ("boss", "I decide.", 1)
    seen = team[1].model.requests[0].messages
    assert [message.role for message in seen] == ["user", "assistant", "tool"]
    assert seen[-1].results[0].result.text == "Transferred to boss."


def test_exit_loop_returns_to_the_agent_that_handed_over():
    outcome = run(agents(clerk=[to("boss"), "Back again."], boss=[ToolCall("exit_loop", {})]))
    assert (outcome.agent, outcome.turn.text, outcome.callers) == ("clerk", "Back again.", ())


def test_exit_loop_of_the_first_agent_ends_the_run():
    outcome = run(agents(clerk=[ToolCall("exit_loop", {})]))
    assert (outcome.agent, outcome.turn.ended) == ("clerk", "escalated")


def test_agents_that_hand_over_without_an_end_end_at_the_limit():
    outcome = run(agents(clerk=[to("boss")] * 9, boss=[to("clerk")] * 9), handovers=4)
    assert (outcome.handovers, outcome.turn.ended) == (4, "transferred")
    assert "handed over 4 times, which is the maximum" in outcome.turn.detail
    outcome = run(agents(clerk=[to("boss")], boss=[ToolCall("exit_loop", {})]), handovers=1)
    assert (outcome.agent, "handed over 1 times" in outcome.turn.detail) == ("boss", True)


def test_handing_over_to_oneself_or_to_an_unknown_agent_is_refused():
    outcome = run(agents(clerk=[to("clerk"), "Myself, then."]))
    assert outcome.turn.text == "Myself, then."
    assert run(agents(clerk=[to("thief"), "Nobody."])).turn.messages[2].results[0].result.kind == "invalid_arguments"
    with pytest.raises(ValueError, match="there is no agent 'boss'; there are clerk"):
        run(agents(clerk=[to("boss")]))


def test_a_suspended_turn_goes_on_with_its_agent_after_a_restart():
    outcome = run(agents(clerk=[to("boss")], boss=[ToolCall("wipe", {})]), approver=ask_later)
    assert (outcome.agent, outcome.turn.ended) == ("boss", "suspended")
    read = AgentsOutcome.from_json(json.loads(json.dumps(outcome.to_json())))
    answers = {call.id: Once() for call in read.turn.pending}
    team = agents(clerk=["Thanks."], boss=[ToolCall("exit_loop", {})])
    outcome = run(team, resume=read, answers=answers)
    assert (outcome.agent, outcome.turn.text, outcome.turn.state) == ("clerk", "Thanks.", {"wiped": "boss"})


@pytest.mark.parametrize("data", [None, {}, {"version": 1, "agent": 1, "callers": [], "handovers": 0}, {"version": 2}])
def test_an_invalid_outcome_is_refused(data):
    with pytest.raises(ValueError, match=r"not the outcome of agents|agent: must be a string"):
        AgentsOutcome.from_json(data)


def test_an_outcome_without_a_turn_is_refused():
    with pytest.raises(ValueError, match=r"turn.*version None"):
        AgentsOutcome.from_json({"version": 1, "agent": "a", "callers": [], "handovers": 0, "turn": {}})


def test_invalid_agents_are_refused():
    with pytest.raises(ValueError, match="needs agents"):
        transfer_tool([])
    with pytest.raises(ValueError, match="names that differ"):
        run([])
    with pytest.raises(ValueError, match="has no model"):
        run([Agent(name="clerk")])


def test_the_tool_lists_the_agents_and_what_they_are_for():
    spec = transfer_tool([Agent(name="boss", description="Decides.\nAlways."), Agent(name="clerk")]).spec
    assert spec.description.endswith("- boss: Decides. Always.\n- clerk")
    assert spec.input_schema["properties"]["agent_name"]["enum"] == ["boss", "clerk"]


# Agents of other kinds -----------------------------------------------------------------------------------------------


def put(value):
    return ToolCall("put", {"value": value})


@tool(name="put")
def put_tool(value: str, context: ToolContext) -> str:
    """Puts a value into the state."""
    context.state["put"] = value
    return f"put {value} for {context.branch}"


def test_a_workflow_that_is_handed_over_to_joins_the_conversation_and_its_answer_ends_it():
    writer, critic = agents(writer=[put("x"), "A draft."], critic=["A better draft."])
    team = [*agents(clerk=[to("report")]), SequentialAgent(name="report", agents=[writer, critic])]
    made = ToolRegistry()
    made.register(put_tool, transfer_tool(team))
    context = attrs.evolve(CONTEXT, state={"agents:kept": 1, "other": 2})
    outcome = asyncio.run(run_agents(team, "Report, please", context, registry=made))
    assert (outcome.agent, outcome.turn.ended, outcome.turn.text) == ("report", "answered", "A better draft.")
    assert outcome.turn.state == {"agents:kept": 1, "other": 2, "put": "x"}
    first, second = (model.requests[0].messages for model in (writer.model, critic.model))
    assert [message.role for message in first] == ["user", "assistant", "tool"]
    assert first[-1].results[0].result.text == "Transferred to report."
    assert second[-1].text == "The agent writer answered:\nA draft."
    assert writer.model.requests[1].messages[-1].results[0].result.text == "put x for report.writer"


def test_an_object_with_run_gets_the_last_text_of_the_user():
    class Echo:
        name, description = "echo", "Echoes."

        def run(self, request, call):
            return {"said": request, "by": call.tool}

    conversation = [Message.user("Hello"), Message("assistant", "Yes?"), Message.user("Say it")]
    assert run([Echo()], conversation).turn.text == '{"by":"run_echo","said":"Say it"}'


def test_agents_of_a_workflow_without_a_model_have_that_of_the_run():
    model = ScriptedModel(["From the run."])
    assert run([SequentialAgent(name="all", agents=[Agent(name="one")])], model=model).turn.text == "From the run."


def test_a_workflow_that_fails_says_so_in_its_answer():
    outcome = run([SequentialAgent(name="all", agents=agents(one=[RuntimeError("secret")]))])
    assert outcome.turn.text.startswith("all ended: one failed (ModelError).")


def test_an_object_returns_the_conversation_by_actions():
    class Boss:
        name, description = "boss", ""

        def run(self):
            return Actions({"decided": True}, escalate=True)

    (clerk,) = agents(clerk=[to("boss"), "Back again."])
    outcome = run([clerk, Boss()])
    assert (outcome.agent, outcome.turn.text, outcome.callers) == ("clerk", "Back again.", ())
    assert outcome.turn.state == {"decided": True}


def test_a_suspended_workflow_goes_on_after_a_restart():
    def team(*script):
        return [SequentialAgent(name="all", agents=agents(one=script, two=["Done."]))]

    outcome = run(team(ToolCall("wipe", {})), approver=ask_later)
    read = AgentsOutcome.from_json(json.loads(json.dumps(outcome.to_json())))
    assert [call.hint for call in read.turn.pending] == ["all asks: one asks for permission wipe, to call wipe"]
    goes_on = team("Wiped.")
    outcome = run(goes_on, resume=read, answers={call.id: Once() for call in read.turn.pending})
    assert (outcome.turn.text, outcome.turn.state) == ("Done.", {"wiped": "one"})
    seen = goes_on[0].agents[1].model.requests[0].messages
    assert [message.text for message in seen] == ["Hello", "The agent one answered:\nWiped."]


def test_agents_of_one_run_share_the_turn_of_the_user():
    seen = []

    @tool
    def note(context: ToolContext) -> str:
        """Notes its turn."""
        seen.append((context.root or context).invocation)
        return "noted"

    look = ToolCall("note", {})
    team = [
        *agents(clerk=[look, to("boss")], boss=[look, to("all")]),
        SequentialAgent(name="all", agents=agents(a=[look, ""])),
    ]
    made = ToolRegistry()
    made.register(note, transfer_tool(team))
    asyncio.run(run_agents(team, "Hello", CONTEXT, registry=made))
    assert (len(seen), len(set(seen)), seen[0] is None) == (3, 1, False)


def test_a_workflow_gives_no_output_of_a_type():
    with pytest.raises(ValueError, match="'all' isn't an Agent: it answers with a text"):
        run([SequentialAgent(name="all", agents=agents(one=[]))], output_type=int)


def test_what_is_no_agent_is_refused():
    with pytest.raises(TypeError, match="isn't an agent"):
        run(["clerk"])
