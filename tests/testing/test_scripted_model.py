"""`ScriptedModel`: a model whose answers are known beforehand."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import ToolCall
from pegboard.messages.message import CallPart, Message, ReasoningPart, TextPart
from pegboard.messages.response import CallDelta, ModelResponse, ReasoningDelta, TextDelta
from pegboard.request.model_request import ModelRequest
from pegboard.testing import ScriptedModel

REQUEST = ModelRequest("Hi")


def answers(model, times=1):
    async def main():
        return [await model.respond(REQUEST) for _ in range(times)]

    return asyncio.run(main())


def pieces(model):
    async def main():
        return [piece async for piece in model.stream(REQUEST)]

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ("Hello", "Hello"),
        (ModelResponse("Hello"), "Hello"),
        (Message.assistant("Hello"), "Hello"),
        (TextPart("Hello"), "Hello"),
        (lambda request: request.messages[0].text + "!", "Hi!"),
    ],
)
def test_steps_are_written_in_many_ways(step, text):
    with ScriptedModel([step]) as model:
        (response,) = answers(model)
    assert (response.text, response.finish_reason) == (text, "stop")
    assert model.requests == [REQUEST]


def test_calls_without_an_id_are_numbered_through_the_script():
    with ScriptedModel([[ToolCall("a"), ToolCall("b", id="mine")], ToolCall("c")]) as model:
        first, second = answers(model, 2)
    assert [call.id for call in first.calls + second.calls] == ["call_1", "mine", "call_2"]
    assert first.finish_reason == "tool_calls"


def test_an_error_of_the_script_is_raised():
    with pytest.raises(ValueError, match="down"):
        answers(ScriptedModel([ValueError("down")]))


def test_a_request_beyond_the_script_fails_twice():
    model = ScriptedModel([])
    with pytest.raises(AssertionError, match="nobody expected request 1"):
        answers(model)
    with pytest.raises(AssertionError, match="requests beyond the script: 1"):
        model.close()


def test_a_step_that_nobody_asked_for_fails():
    with pytest.raises(AssertionError, match=r"steps that nobody asked for: .*never"), ScriptedModel(["never"]):
        pass


def test_what_went_wrong_inside_is_not_hidden():
    with pytest.raises(KeyError), ScriptedModel(["never"]):
        raise KeyError("the test's own")


def test_a_stream_gives_the_same_piece_by_piece():
    call = ToolCall("add", '{"a": 1}', "c")
    step = [ReasoningPart("Hm."), ReasoningPart(""), "Let me see. ", call, ToolCall("b", b"{}", "d")]
    *deltas, response = pieces(ScriptedModel([step]))
    assert deltas == [
        ReasoningDelta("Hm."),
        TextDelta("Let "),
        TextDelta("me "),
        TextDelta("see. "),
        CallDelta(0, '{"a"', "c", "add"),
        CallDelta(0, ": 1}", "c", "add"),
        CallDelta(1, "{", "d", "b"),
        CallDelta(1, "}", "d", "b"),
    ]
    assert response.parts[3:] == (CallPart(call), CallPart(ToolCall("b", b"{}", "d")))


def test_arguments_as_a_mapping_are_streamed_as_json():
    *deltas, _ = pieces(ScriptedModel([ToolCall("add", {"a": 1}, "c")]))
    assert "".join(delta.arguments for delta in deltas) == '{"a":1}'
