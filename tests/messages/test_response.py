from __future__ import annotations

import json

import pytest
from hypothesis import given

from message_strategies import RESPONSES
from pegboard.messages.message import Citation, Message, TextPart
from pegboard.messages.response import ModelResponse, Usage
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
        ({}, "message: must be an object, got NoneType"),
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
