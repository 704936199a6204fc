from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from fake_vendors.cases import cases_in, check
from pegboard import ModelRequest, Tool, ToolCall
from pegboard.messages import Message, ReasoningPart, TextPart
from pegboard_openai._openai import CHAT, RESPONSES
from pegboard_openai.openai_chat import OpenAIChat
from pegboard_openai.openai_responses import OpenAIResponses

KEY = "openai-responses"
texts = st.text(max_size=5)
called = st.builds(
    ToolCall,
    st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    st.dictionaries(st.text(max_size=3), st.integers() | st.none() | st.text(max_size=3), max_size=3).map(json.dumps),
    st.from_regex(r"call_[a-z0-9]{1,8}", fullmatch=True),
)
calls = st.lists(called, max_size=4, unique_by=lambda call: call.id)


@pytest.mark.parametrize(("exporter", "cases"), cases_in(Path(__file__).parent / "cases"))
def test_the_wire(exporter, cases):
    check(exporter, cases)


def read(exporter, *events):
    reader = exporter.reader()
    for each in events:
        reader.feed(each)
    return reader.response()


def nested(levels):
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    for _ in range(levels - 1):
        schema = {"type": "object", "properties": {"a": schema}}
    return Tool.from_schema("nested", schema, strict=True).spec


@pytest.mark.parametrize(("levels", "strict"), [(10, True), (11, None)])
def test_ten_levels_are_strict(levels, strict):
    assert OpenAIChat().tools([nested(levels)]).entries[0]["function"].get("strict") is strict


# --- chat ---


@given(texts, calls)
def test_chat_messages_round_trip(text, calls):
    """But for texts that are empty, and lone surrogates, which no wire has."""
    message = Message.assistant(*([TextPart(text)] if text else []), *calls)
    said = OpenAIChat().request(ModelRequest([message]))["messages"]
    answers = [OpenAIChat().response({"choices": [{"message": each}]}) for each in said]
    assert tuple(part for answer in answers for part in answer.parts) == message.parts


def chunk(finish=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call_chunk(**facts):
    return chunk(tool_calls=[facts])


def test_a_chat_that_never_ends_isnt_complete():
    exporter = OpenAIChat(limits=evolve(CHAT, answer_text=2_500))
    response = read(exporter, *[chunk(content="x" * 100)] * 30, chunk("stop"))
    assert (len(response.text), response.finish_reason, response.complete) == (2_500, "length", False)
    calls = [call_chunk(index=place, function={"name": "x", "arguments": "{}"}) for place in range(9)]
    response = read(exporter, *calls, chunk("tool_calls"))
    assert (len(response.calls), response.complete) == (2, False)
    assert not read(exporter, *[chunk(annotations=[{"type": "url_citation"}])] * 9, chunk("stop")).complete
    reader = exporter.reader()
    names = [reader.feed(call_chunk(index=0, function={"name": name * 600}))[0].name for name in "abc"]
    assert [len(name) for name in names] == [600, 1_000, 1_000]


FUNCTION = {"name": st.sampled_from(["x", "y", ""]), "arguments": st.sampled_from(["{}", "{", "}", ""])}
PIECE = {
    "index": st.integers(0, 2) | st.none(),
    "id": st.sampled_from(["a", "b", ""]) | st.none(),
    "function": st.fixed_dictionaries({}, optional=FUNCTION),
}


@given(st.lists(st.fixed_dictionaries({}, optional=PIECE), max_size=8))
def test_any_pieces_make_calls_with_ids_of_their_own(pieces):
    response = read(OpenAIChat(), *(call_chunk(**each) for each in pieces), chunk("tool_calls"))
    said = "".join(each.get("function", {}).get("arguments", "") for each in pieces)
    assert len({call.id for call in response.calls}) == len(response.calls)
    assert len("".join(call.arguments for call in response.calls)) <= len(said)


# --- responses ---


@given(texts.filter(bool), calls)
def test_response_items_round_trip(text, calls):
    facts = {KEY: {"type": "function_call", "id": "fc_1"}}
    thought = ReasoningPart("hm", {KEY: {"id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}})
    said = TextPart(text, provider_metadata={KEY: {"id": "msg_1", "status": "completed"}})
    message = Message.assistant(thought, said, *(evolve(call, provider_metadata=facts) for call in calls))
    items = OpenAIResponses().request(ModelRequest([message]))["input"]
    assert OpenAIResponses().response({"output": items}).parts == message.parts


def event(kind, **facts):
    return {"type": f"response.{kind}", **facts}


def function(number, arguments=""):
    item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"c{number}", "name": "weather"}
    return {**item, "arguments": arguments}


def added(index, item, kind="added"):
    return event(f"output_item.{kind}", output_index=index, item=item)


def text(piece, content_index=0):
    return event("output_text.delta", item_id="msg_1", output_index=1, content_index=content_index, delta=piece)


def annotated(index, **facts):
    return event("output_text.annotation.added", output_index=index, annotation=URL, **facts)


URL = {"type": "url_citation", "url": "http://a", "title": "A", "start_index": 0, "end_index": 2}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
COMPLETED = event("completed", response={"status": "completed", "output": []})


def test_responses_that_never_end_arent_complete():
    exporter = OpenAIResponses(limits=evolve(RESPONSES, answer_text=4_500))
    begun = added(1, MESSAGE)
    response = read(exporter, begun, *[text("x" * 100)] * 30, COMPLETED)
    assert (len(response.text), response.finish_reason, response.complete) == (2_500, "length", False)
    many = read(exporter, *(added(place, function(place)) for place in range(9)), COMPLETED)
    assert (len(many.calls), many.complete) == (4, False)
    parts = read(exporter, begun, *(text("x", content_index=place) for place in range(9)), COMPLETED)
    assert (len(parts.parts), parts.complete) == (3, False)
    for endless in (
        [begun, *[annotated(1, item_id="msg_1")] * 9],
        [event("output_text.delta", output_index=place, delta="x") for place in range(9)],
        [added(place, function(place), "done") for place in range(9)],
        [annotated(place) for place in range(9)],
    ):
        assert not read(exporter, *endless, COMPLETED).complete
