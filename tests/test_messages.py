from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given, strategies as st

from message_strategies import CITATIONS, MESSAGES, PARTS, RESPONSES, USAGES
from pegboard import ImageContent, TextContent, ToolCall, ToolResult
from pegboard.messages import (
    NO_USAGE,
    CallDelta,
    CallPart,
    Citation,
    HostedPart,
    MediaPart,
    Message,
    ModelResponse,
    Part,
    ReasoningDelta,
    ReasoningPart,
    ResultPart,
    TextDelta,
    TextPart,
    Usage,
)
from strategies import json_values, mutated

RECORDS = MESSAGES | RESPONSES | CITATIONS | USAGES
MESSAGE = {"role": "assistant", "parts": []}


@given(RECORDS)
def test_a_record_comes_back_from_json(record):
    assert type(record).from_json(json.loads(json.dumps(record.to_json()))) == record


@given(RECORDS.flatmap(lambda record: st.tuples(st.just(type(record)), mutated(record.to_json()) | json_values())))
def test_json_from_outside_is_read_or_refused(given):
    kind, data = given
    try:
        record = kind.from_json(data)
    except ValueError as error:
        assert str(error)  # noqa: PT017  either may come of it
    else:
        assert isinstance(record, kind)


DEEP: list = []


for _ in range(100_000):
    DEEP = [DEEP]


def of_part(data):
    """A message with a part, as JSON."""
    return {"role": "user", "parts": [data]}


HOSTED = {"type": "hosted", "provider": "p", "data": {}}
ANSWER = {"type": "result", "callId": "a", "name": "b"}


@pytest.mark.parametrize(
    ("kind", "data", "wrong"),
    [
        (Message, [], "message: must be an object, got list"),
        (Message, {}, "role: missing"),
        (Message, {"role": "robot"}, "role: must be one of system, user, assistant, tool, got 'robot'"),
        (Message, {"role": "user", "parts": "a"}, "parts: must be an array, got str"),
        (Message, {"role": "user", "parts": [{"type": "text", "text": "a"}, 1]}, "parts[1]: must be an object, got "),
        (Message, {"role": "user", "id": 1}, "id: must be a string, got int"),
        (Message, {"role": "user", "metadata": 1}, "metadata: must be an object, got int"),
        (ModelResponse, 1, "response: must be an object, got int"),
        (ModelResponse, {}, "message: missing"),
        (ModelResponse, {"message": MESSAGE, "finish_reason": "bored"}, "finishReason: must be one of stop, tool_call"),
        (ModelResponse, {"message": MESSAGE, "complete": "no"}, "complete: must be a boolean, got str"),
        (ModelResponse, {"message": MESSAGE, "usage": []}, "usage: must be an object, got list"),
        (ModelResponse, {"message": MESSAGE, "grounding": 1}, "grounding: must be an object, got int"),
        (Citation, None, "citation: must be an object, got NoneType"),
        (Citation, {"text": 1}, "text: must be a string, got int"),
        (Citation, {"start": True}, "start: must be a whole number, got bool"),
        (Citation, {"data": []}, "data: must be an object, got list"),
        *((Usage, {"outputTokens": count}, "outputTokens: must be a whole number") for count in ("3", 3.0, True, [3])),
        (Message, of_part({}), "parts[0].type: missing"),
        (Message, of_part({"type": "voice"}), "parts[0].type: must be one of text, media, call, result, reasoning, h"),
        (Message, of_part({"type": DEEP}), "parts[0].type: must be a string, got list"),
        (Message, of_part({"type": "text"}), "parts[0].text: missing"),
        (
            Message,
            of_part({"type": "text", "text": "a", "citations": [{}, {"uri": 1}]}),
            "parts[0].citations[1].uri: must be a string, got int",
        ),
        (
            Message,
            of_part({"type": "media", "content": TextContent("a").to_json()}),
            "parts[0].content.type: text belongs in a part",
        ),
        (Message, of_part({"type": "media"}), "parts[0].content: missing"),
        (Message, of_part({"type": "media", "content": {"type": DEEP}}), "parts[0].content.type: must be a string"),
        (Message, of_part({"type": "call"}), "parts[0].call: missing"),
        (Message, of_part({"type": "call", "call": {}}), "parts[0].call.name: missing"),
        (Message, of_part(ANSWER), "parts[0].result: missing"),
        (Message, of_part({**ANSWER, "result": {"content": 1}}), "parts[0].result.content: must be an array"),
        (Message, of_part({**ANSWER, "callId": None, "result": {}}), "parts[0].callId: missing"),
        (Message, of_part({**HOSTED, "role": "x"}), "parts[0].role: must be one of call, result, got 'x'"),
        (Message, of_part({"type": "reasoning", "providerMetadata": 1}), "parts[0].providerMetadata: must be an obj"),
    ],
)
def test_invalid_data_is_refused_with_its_path(kind, data, wrong):
    with pytest.raises(ValueError, match=":") as caught:
        kind.from_json(data)
    assert str(caught.value).startswith(wrong)


# --- messages ---

ADD = ToolCall("add", {"a": 1}, "c1")


def read_part(data):
    return Message.from_json(of_part(data)).parts[0]


def test_messages_are_made_of_shorthand():
    assert Message.user("a") == Message("user", (TextPart("a"),)) == Message("user", "a") == Message("user", ["a"])
    assert Message.system("a").role == "system"
    image = ImageContent(b"a")
    assert Message.assistant(TextContent("a"), image, ADD).parts == (TextPart("a"), MediaPart(image), CallPart(ADD))
    with pytest.raises(TypeError, match="parts of a message must be strings, content, calls or parts, got 5"):
        Message.user(5)
    assert Message.tool([(ADD, ToolResult("2"))]) == Message("tool", (ResultPart("c1", "add", ToolResult("2")),))


def test_a_message_has_its_text_calls_and_results():
    hosted = ToolCall("search", id="c2", provider_executed=True)
    message = Message.assistant("a", ImageContent(b""), ADD, "b", hosted)
    assert (message.text, message.calls, message.results) == ("ab", (ADD, hosted), ())
    answered = Message.tool([(ADD, ToolResult("2"))])
    assert (answered.text, answered.calls) == ("", ())
    assert [part.call_id for part in answered.results] == ["c1"]


@given(PARTS.flatmap(lambda part: mutated(part.to_json())))
def test_mutated_json_of_a_part_is_read_or_refused_with_its_path(data):
    """Untrusted data raises nothing but `ValueError`."""
    try:
        part = read_part(data)
    except ValueError as error:
        assert str(error).startswith("parts[0]")  # noqa: PT017  either may come of it
    else:
        assert isinstance(part, Part)


def test_deep_provider_data_is_passed_through():
    part = read_part({**HOSTED, "data": {"deep": DEEP}})
    assert part.data["deep"] is DEEP


@pytest.mark.parametrize(
    ("record", "data"),
    [
        (Message.user("a"), {"role": "user", "parts": [{"type": "text", "text": "a"}]}),
        (ReasoningPart(), {"type": "reasoning", "text": ""}),
        (
            TextPart("a", [Citation(text="b")], {"p": 1}),
            {"type": "text", "text": "a", "citations": [{"text": "b"}], "providerMetadata": {"p": 1}},
        ),
        (Citation(uri="https://example.org", start=0), {"uri": "https://example.org", "start": 0}),
        (Citation(), {}),
        (TextDelta("a"), {"type": "text", "text": "a"}),
        (ReasoningDelta("b"), {"type": "reasoning", "text": "b"}),
        (CallDelta(1, '{"x', "c1", "add"), {"type": "call", "index": 1, "id": "c1", "name": "add", "arguments": '{"x'}),
        (CallDelta(0), {"type": "call", "index": 0, "id": "", "name": "", "arguments": ""}),
    ],
)
def test_defaults_arent_written(record, data):
    assert record.to_json() == data


def test_lone_surrogates_are_replaced():
    assert (TextPart("\ud800").text, ReasoningPart("\ud800").text) == ("\ufffd", "\ufffd")
    assert ResultPart("\ud800", "\ud800", ToolResult("a")).to_json()["callId"] == "\ufffd"
    for delta in (TextDelta("\ud800"), ReasoningDelta("\ud800"), CallDelta(0, "\ud800")):
        assert "\ufffd" in json.dumps(delta.to_json(), ensure_ascii=False)


def test_opaque_data_isnt_shown_in_full():
    """Signatures are long."""
    for part in (TextPart("a", (), {"sig": "secret"}), HostedPart("p", {"sig": "secret"})):
        assert "secret" not in repr(part)


def test_a_result_has_the_provider_metadata_of_its_call():
    result = ToolResult("3")
    answered = ResultPart.of(ToolCall("add", id="c1", provider_metadata={"openai": {"type": "custom"}}), result)
    assert answered == ResultPart("c1", "add", result, {"openai": {"type": "custom"}})
    assert ResultPart.of(ToolCall("add", id="c1", provider_metadata="opaque"), result).provider_metadata == {}


def test_a_conversation_has_no_operator_details():
    result = ToolResult.error("tool_failure", "It failed.", detail="Traceback: /srv/secret.py")
    data = ResultPart("c1", "add", result).to_json()
    assert "secret" not in str(data)
    assert read_part(data).result == ToolResult.error("tool_failure", "It failed.")


# --- answers ---


def test_responses_are_made_of_shorthand():
    assert ModelResponse("hello").message == Message.assistant("hello")
    assert ModelResponse(["a", TextPart("b")]).text == "ab"
    assert ModelResponse(Message.assistant("a")).parts == (TextPart("a"),)
    assert ModelResponse().message == Message("assistant")


@pytest.mark.parametrize(("make", "field"), [(Message, "role"), (partial(ModelResponse, "a"), "finish_reason")])
def test_an_unknown_role_or_finish_reason_is_refused(make, field):
    with pytest.raises(ValueError, match=f"{field}: unknown value 'bored'"):
        make("bored")


def test_calls_executed_by_the_provider_are_left_out():
    ours, theirs = ToolCall("add", id="c1"), ToolCall("search", id="c2", provider_executed=True)
    response = ModelResponse([theirs, "a", ours])
    assert response.calls == (ours,)
    assert response.message.calls == (theirs, ours)


def test_citations_are_those_of_all_text_parts():
    first, second = Citation(text="a"), Citation(uri="b")
    assert ModelResponse([TextPart("a", [first]), "b", TextPart("c", [second])]).citations == (first, second)


def test_defaults_of_a_response_arent_written():
    assert ModelResponse("a", usage=Usage(1)).to_json().keys() == {"message", "finishReason", "usage", "complete"}
    assert ModelResponse("a", "length", complete=False).to_json()["complete"] is False


@given(USAGES, USAGES, USAGES)
def test_adding_usages_is_commutative_and_associative(a, b, c):
    assert a + NO_USAGE == a
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b).total_tokens == a.total_tokens + b.total_tokens


def test_missing_counts_of_a_usage_are_zero():
    assert Usage.from_json({"input_tokens": 3, "other": "x"}) == Usage(3)
