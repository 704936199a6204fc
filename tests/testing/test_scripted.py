"""`ScriptedModel` and `ScriptedApprover`."""

from __future__ import annotations

import asyncio

import pytest

from dispatch.approval.samples import a_request
from pegboard import Always, Approver, Later, ModelRequest, Once, Reject, ToolCall, ToolContext
from pegboard.messages import (
    CallDelta,
    CallPart,
    Message,
    ModelResponse,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
)
from pegboard.testing import ScriptedApprover, ScriptedModel

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
        *((each, "Hello") for each in ("Hello", ModelResponse("Hello"), Message.assistant("Hello"), TextPart("Hello"))),
        (lambda request: request.messages[0].text + "!", "Hi!"),
    ],
)
def test_kinds_of_steps(step, text):
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


def test_a_request_beyond_the_script_fails_at_once_and_on_close():
    model = ScriptedModel([])
    with pytest.raises(AssertionError, match="request 1 wasn't expected"):
        answers(model)
    with pytest.raises(AssertionError, match="requests beyond the script: 1"):
        model.close()


def test_an_unused_step_fails():
    with pytest.raises(AssertionError, match=r"unused steps: .*never"), ScriptedModel(["never"]):
        pass


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


# ScriptedApprover ----------------------------------------------------------------------------------------------------


def answers_of(approver, *names):
    return [asyncio.run(approver.approve(a_request(name), ToolContext())) for name in names]


def test_it_is_an_approver_that_answers_one_request_at_a_time():
    assert isinstance(ScriptedApprover([]), Approver)
    assert ScriptedApprover([]).one_at_a_time


def test_answers_in_order():
    with ScriptedApprover([Once(), None, Reject("no")]) as approver:
        assert answers_of(approver, "a", "b", "a") == [Once(), None, Reject("no")]
    assert approver.names == ["a", "b", "a"]
    assert [request.arguments for request in approver.requests] == [{"path": "a.txt"}] * 3


def test_answers_by_the_tools_name():
    """A single answer is used each time, those of a sequence once each."""
    with ScriptedApprover({"a": Once(), "b": [Later(), Reject()]}) as approver:
        assert answers_of(approver, "b", "a", "a", "b") == [Later(), Once(), Once(), Reject()]


def test_answers_by_a_function():
    with ScriptedApprover(lambda request: Always() if request.call.name == "a" else None) as approver:
        assert answers_of(approver, "a", "b") == [Always(), None]
    with ScriptedApprover(lambda request: Once()):
        pass


@pytest.mark.parametrize("script", [[], {}, {"b": Once()}, {"a": []}])
def test_an_unexpected_request_fails_the_test(script):
    """At once, which denies the call, and again when the approver is closed."""
    approver = ScriptedApprover(script)
    with pytest.raises(AssertionError, match="the request about a wasn't expected"):
        answers_of(approver, "a")
    with pytest.raises(AssertionError, match="an unexpected request: a\npermission: delete"):
        approver.close()


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ([Once(), Reject("no")], r"unused answers: \[Once"),
        ({"a": [Once()]}, r"unused answers about a: \[Once"),
        ({"a": Once()}, "there was no request about a"),
    ],
)
def test_an_unused_answer_fails_the_test(script, fault):
    with pytest.raises(AssertionError, match=fault), ScriptedApprover(script):
        pass


def test_a_failing_test_fails_with_its_own_error():
    with pytest.raises(ZeroDivisionError), ScriptedApprover([Once()]):
        raise ZeroDivisionError
