"""The history of a turn: answers, results in their place, ids of their own."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import Completion, Operation, ReadonlyContext, ToolCall, ToolContext, ToolResult, tool
from pegboard.messages import Message, ModelResponse
from pegboard.turn.history import TurnProgress


def calls(*ids):
    return [ToolCall("add", {}, id_) for id_ in ids]


def answered(*ids):
    return Message.tool((call, ToolResult(call.id)) for call in calls(*ids))


def progress(messages):
    return TurnProgress(messages, {})


def completion(call_id, text="late", *, replaces=True):
    return Completion(Operation("op_1", call_id, "order", None, 0.0, replaces), ToolResult(text))


@pytest.mark.parametrize(
    ("ids", "own"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["", ""], ["call_2", "call_3"]),
        (["a", "a_2", "a"], ["a", "a_2", "a_3"]),
        (["call_2", ""], ["call_2", "call_3"]),
    ],
)
def test_each_call_of_an_answer_gets_an_id_of_its_own(ids, own):
    message = progress([]).with_own_ids(Message.assistant("Look:", *calls(*ids)))
    assert [call.id for call in message.calls] == own
    assert message.text == "Look:"


def test_ids_of_earlier_answers_are_not_given_again():
    turn = progress([Message.assistant(*calls("call_0")), answered("call_0")])
    message = turn.take_answer(ModelResponse(calls("call_0", "call_1")))
    assert [call.id for call in message.calls] == ["call_0_2", "call_1"]


def test_an_answer_that_is_not_complete_is_marked():
    turn = progress([])
    assert turn.take_answer(ModelResponse("a")).metadata == {}
    assert turn.take_answer(ModelResponse("a", "length", complete=False)).metadata == {"complete": False}


def test_the_latest_result_of_an_id_is_replaced():
    turn = progress([answered("a"), Message.user("again"), answered("a", "b")])
    turn.replace_results({"a": ToolResult("new"), "unknown": ToolResult("x")})
    texts = [[part.result.text for part in message.results] for message in turn.messages]
    assert texts == [["a"], [], ["new", "b"]]


@pytest.mark.parametrize("late", [completion("gone"), completion("a", replaces=False)])
def test_a_later_result_without_a_place_is_a_message(late):
    turn = progress([answered("a")])
    message = turn.complete(late)
    assert message.role == "user"
    assert message.text == f"Operation op_1 of order (call {late.call_id}) has ended:late"
    assert turn.messages[0].results[0].result.text == "a"


@tool
async def put(context: ToolContext, value: int) -> str:
    """Notes a value for the turn, and tells the one before."""
    before = context.values.get("last"), context.state.get("temp:last")
    context.values["last"] = context.state["temp:last"] = value
    return str(before)


def test_values_and_temporary_state_last_for_the_turn(registry, turn):
    """Calls, nested ones too, callbacks and processors have them; the host gets neither."""
    seen = []

    def look(context, request):
        seen.append((dict(context.values), context.state.get("temp:last")))

    @registry.register
    @tool
    async def outer(context: ToolContext) -> str:
        """Calls another."""
        return (await context.call("put", {"value": 3})).text

    registry.register(put)
    registry.add_callback("before_model", look)
    registry.pipeline = registry.pipeline.append("look", look)
    steps = [ToolCall("put", {"value": 1}, "a"), ToolCall("put", {"value": 2}, "b"), ToolCall("outer", {}, "c"), "ok"]
    outcome, _ = turn(steps, context=ReadonlyContext(state={"a": 1}))
    results = [part.result.text for message in outcome.messages for part in message.results]
    assert results == ["(None, None)", "(1, 1)", "(2, 2)"]
    assert seen[::2] == seen[1::2] == [({}, None), *(({"last": value}, value) for value in (1, 2, 3))]
    assert (outcome.state, outcome.actions.state_delta, outcome.actions.to_json()) == ({"a": 1}, {}, {})
    outcome, _ = turn([ToolCall("put", {"value": 4}, "a"), "ok"])
    assert outcome.messages[-2].results[0].result.text == "(None, None)"


@tool
async def tick(context: ToolContext, step: str) -> str:
    """Ticks a step off."""
    steps = context.state["plan"]["steps"]
    steps.pop(step) if step == "c" else steps.update({step: "done"})
    return "ticked"


def test_calls_of_one_answer_change_one_dict_together_and_later_ones_what_became_of_it(registry, turn):
    registry.register(tick)
    plan = {"steps": {"a": "open", "b": "open", "c": "open"}}
    together = [ToolCall("tick", {"step": step}, step) for step in ("a", "b", "c")]
    steps = [together, ToolCall("tick", {"step": "d"}, "d"), "ok"]
    outcome, _ = turn(steps, context=ReadonlyContext(state={"plan": plan}))
    assert outcome.state == {"plan": {"steps": {"a": "done", "b": "done", "d": "done"}}}
    assert (outcome.actions.state_delta, outcome.actions.conflicts) == (outcome.state, ())


def test_calls_that_a_tool_makes_side_by_side_change_one_dict_together(registry, turn):
    @registry.register
    @tool
    async def all_at_once(context: ToolContext) -> str:
        """Ticks all steps off."""
        await asyncio.gather(*(context.call("tick", {"step": step}) for step in ("a", "b", "c")))
        return (await context.call("tick", {"step": "d"})).text

    registry.register(tick)
    plan = {"steps": {"a": "open", "b": "open", "c": "open"}}
    outcome, _ = turn([ToolCall("all_at_once", {}, "x"), "ok"], context=ReadonlyContext(state={"plan": plan}))
    assert outcome.state == {"plan": {"steps": {"a": "done", "b": "done", "d": "done"}}}
