from __future__ import annotations

import json

import pytest
from hypothesis import given

from message_strategies import RESPONSES, USAGES
from pegboard.messages.message import Citation, Message, TextPart
from pegboard.messages.response import NO_USAGE, CallDelta, ModelResponse, ReasoningDelta, TextDelta, Usage
from pegboard.tools.call import ToolCall
from strategies import json_values, mutated

MESSAGE = {"role": "assistant", "parts": []}


@given(RESPONSES)
def test_it_comes_back_from_json(response):
    assert ModelResponse.from_json(json.loads(json.dumps(response.to_json()))) == response


@given(RESPONSES.flatmap(lambda response: mutated(response.to_json())) | json_values())
def test_json_from_outside_is_read_or_refused(data):
    try:
        response = ModelResponse.from_json(data)
    except ValueError as error:
        assert str(error)  # noqa: PT017  either may come of it
    else:
        assert isinstance(response, ModelResponse)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (1, "response: must be an object, got int"),
        ({}, "message: missing"),
        ({"message": MESSAGE, "finish_reason": "bored"}, "finish_reason: must be one of stop, tool_calls, "),
        ({"message": MESSAGE, "complete": "no"}, "complete: must be a boolean, got str"),
        ({"message": MESSAGE, "usage": []}, "usage: must be an object, got list"),
        ({"message": MESSAGE, "grounding": 1}, "grounding: must be an object, got int"),
    ],
)
def test_what_is_wrong_is_named(data, wrong):
    with pytest.raises(ValueError, match=":") as caught:
        ModelResponse.from_json(data)
    assert str(caught.value).startswith(wrong)


def test_clients_write_answers_for_short():
    assert ModelResponse("hello").message == Message.assistant("hello")
    assert ModelResponse(["a", TextPart("b")]).text == "ab"
    assert ModelResponse(Message.assistant("a")).parts == (TextPart("a"),)
    assert ModelResponse().message == Message("assistant")


def test_a_reason_that_there_isnt_is_refused():
    with pytest.raises(ValueError, match="finish_reason"):
        ModelResponse("a", "bored")


def test_the_calls_are_those_that_are_for_us_to_answer():
    ours, theirs = ToolCall("add", id="c1"), ToolCall("search", id="c2", provider_executed=True)
    response = ModelResponse([theirs, "a", ours])
    assert response.calls == (ours,)
    assert response.message.calls == (theirs, ours)


def test_citations_are_those_of_all_its_words():
    first, second = Citation(text="a"), Citation(uri="b")
    assert ModelResponse([TextPart("a", [first]), "b", TextPart("c", [second])]).citations == (first, second)


def test_what_says_nothing_isnt_written():
    assert ModelResponse("a", usage=Usage(1)).to_json().keys() == {"message", "finish_reason", "usage"}
    assert ModelResponse("a", "length", complete=False).to_json()["complete"] is False


def test_it_evolves():
    assert ModelResponse("a").evolve(interrupted=True, complete=False) == ModelResponse(
        "a", interrupted=True, complete=False
    )


@pytest.mark.parametrize(
    ("delta", "data"),
    [
        (TextDelta("a"), {"type": "text", "text": "a"}),
        (ReasoningDelta("b"), {"type": "reasoning", "text": "b"}),
        (
            CallDelta(1, '{"x', "c1", "add"),
            {"type": "call", "index": 1, "id": "c1", "name": "add", "arguments": '{"x'},
        ),
        (CallDelta(0), {"type": "call", "index": 0, "id": "", "name": "", "arguments": ""}),
    ],
)
def test_each_is_written_as_json(delta, data):
    assert json.loads(json.dumps(delta.to_json())) == data


@pytest.mark.parametrize("delta", [TextDelta("\ud800"), ReasoningDelta("\ud800"), CallDelta(0, "\ud800")])
def test_half_a_character_is_replaced_since_no_wire_takes_it(delta):
    assert "\ufffd" in json.dumps(delta.to_json(), ensure_ascii=False)
    json.dumps(delta.to_json(), ensure_ascii=False).encode()


@given(USAGES)
def test_it_comes_back_from_json_usage(usage):
    assert Usage.from_json(usage.to_json()) == usage


@given(USAGES, USAGES, USAGES)
def test_adding_is_what_adding_is(a, b, c):
    assert a + NO_USAGE == a
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b).total_tokens == a.total_tokens + b.total_tokens


def test_what_is_missing_is_none():
    assert Usage.from_json({"input_tokens": 3, "other": "x"}) == Usage(3)


@pytest.mark.parametrize("count", ["3", 3.0, True, [3]])
def test_a_count_that_is_none_is_refused_by_name(count):
    with pytest.raises(ValueError, match="output_tokens: must be a whole number"):
        Usage.from_json({"output_tokens": count})
