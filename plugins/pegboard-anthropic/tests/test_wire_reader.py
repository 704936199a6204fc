from __future__ import annotations

import asyncio

import pytest
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from pegboard import Tool
from pegboard.messages.message import HostedPart, ReasoningPart, TextPart
from pegboard.messages.response import CallDelta, ReasoningDelta, TextDelta, Usage
from pegboard.request.model_request import ModelRequest
from pegboard.toolsets.resolve import resolve_tools
from pegboard.wire.bodies import EARLY, TOO_LONG
from pegboard.wire.ids import CUT, ENDLESS, NO_NAME
from pegboard_anthropic._anthropic import AnthropicLimits
from pegboard_anthropic.anthropic import Anthropic

EVENT = TypeAdapter(RawMessageStreamEvent)
BEGUN = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 3},
    },
}
PAGES = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
CITED = {
    "type": "web_search_result_location",
    "url": "https://a",
    "title": "A",
    "cited_text": "words",
    "encrypted_index": "i",
}


def start(index, kind, **facts):
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **facts}}


def delta(index, kind, **facts):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **facts}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


def end(reason="end_turn", **facts):
    delta_ = {"stop_reason": reason, "stop_sequence": None, **facts}
    return [{"type": "message_delta", "delta": delta_, "usage": {"output_tokens": 7}}, {"type": "message_stop"}]


def call(index, *pieces, own="t1", name="weather"):
    begun = start(index, "tool_use", id=own, name=name, input={})
    return [begun, *(delta(index, "input_json_delta", partial_json=piece) for piece in pieces), stop(index)]


def words(index, *pieces):
    return [start(index, "text", text=""), *(delta(index, "text_delta", text=piece) for piece in pieces), stop(index)]


WHOLE = [
    BEGUN,
    {"type": "ping"},
    start(0, "thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="H"),
    delta(0, "thinking_delta", thinking="m."),
    delta(0, "signature_delta", signature="sig=="),
    stop(0),
    start(1, "redacted_thinking", data="abc"),
    stop(1),
    start(2, "server_tool_use", id="s1", name="web_search", input={}),
    delta(2, "input_json_delta", partial_json='{"query":'),
    delta(2, "input_json_delta", partial_json='"x"}'),
    stop(2),
    start(3, kind="web_search_tool_result", tool_use_id="s1", content=[]),
    stop(3),
    *words(4, "Let me ", "look.")[:-1],
    delta(4, "citations_delta", citation=CITED),
    stop(4),
    *call(5, "", '{"city":', '"Oslo"}'),
    *call(6, own="t2", name="clock"),
    *end("tool_use"),
]


def fed(events, exporter=None, request=None):
    reader = (exporter or Anthropic()).reader(request)
    deltas = [each for event in events for each in reader.feed(event)]
    return deltas, reader


def read(*events, **facts):
    return fed([BEGUN, *events, *end()], **facts)[1].response()


@pytest.mark.parametrize("dumped", [False, True])
def test_a_stream_of_the_sdk_is_read_to_a_whole_answer(dumped):
    events = (
        [EVENT.validate_python(event).model_dump() for event in WHOLE if event["type"] != "ping"] if dumped else WHOLE
    )

    deltas, reader = fed(events)
    response = reader.response()

    assert [type(part).__name__ for part in response.parts] == [
        *("ReasoningPart", "ReasoningPart", "HostedPart", "HostedPart", "TextPart", "CallPart", "CallPart")
    ]
    assert response.parts[0] == ReasoningPart("Hm.", {"anthropic": {"signature": "sig=="}})
    assert response.parts[1] == ReasoningPart("", {"anthropic": {"redacted": "abc"}})
    assert response.parts[2].data == {
        "type": "server_tool_use",
        "id": "s1",
        "name": "web_search",
        "input": {"query": "x"},
    }
    assert response.parts[3] == HostedPart("anthropic", PAGES, "result", "web_search", "s1")
    assert (response.text, [citation.uri for citation in response.citations]) == ("Let me look.", ["https://a"])
    assert [(each.id, each.name, each.arguments) for each in response.calls] == [
        ("t1", "weather", '{"city":"Oslo"}'),
        ("t2", "clock", {}),
    ]
    assert (response.finish_reason, response.complete, response.interrupted) == ("tool_calls", True, False)
    assert (response.id, response.model, response.usage) == ("msg_1", "claude", Usage(13, 7, 3))
    assert deltas == [
        ReasoningDelta("H"),
        ReasoningDelta("m."),
        TextDelta("Let me "),
        TextDelta("look."),
        CallDelta(0, "", "t1", "weather"),
        CallDelta(0, '{"city":', "t1", "weather"),
        CallDelta(0, '"Oslo"}', "t1", "weather"),
        CallDelta(1, "", "t2", "clock"),
    ]


def test_a_stream_without_its_end_is_interrupted_though_nobody_says_why():
    response = fed(WHOLE[:-1])[1].response()

    assert (response.interrupted, response.error_message, len(response.calls)) == (True, EARLY, 2)


def test_an_answer_may_be_asked_for_on_the_way_and_again():
    _, reader = fed(WHOLE[:-3])

    first = reader.response()
    for event in WHOLE[-3:]:
        reader.feed(event)

    assert first.interrupted
    assert (
        [each.id for each in reader.response().calls] == [each.id for each in reader.response().calls] == ["t1", "t2"]
    )


def test_what_comes_behind_the_end_is_not_read():
    _, reader = fed([*WHOLE, *words(7, "more")])

    assert reader.response().text == "Let me look."


def test_a_new_start_at_an_index_is_a_new_block():
    first, second = call(0, '{"a":1}'), call(0, '{"b":2}', own="t2")

    response = read(*first[:-1], *second)

    assert [(each.id, each.arguments, each.error) for each in response.calls] == [
        ("t1", '{"a":1}', None),
        ("t2", '{"b":2}', None),
    ]


def test_events_without_index_belong_to_the_last_block():
    events = [{key: value for key, value in event.items() if key != "index"} for event in call(0, '{"a":', "1}")]

    response = read(*events, *events)

    assert [(each.arguments, each.error) for each in response.calls] == [('{"a":1}', None)] * 2


def test_pieces_that_nothing_began_begin_a_block():
    response = read(
        delta(0, "text_delta", text="a"),
        delta(1, "thinking_delta", thinking="b"),
        delta(2, "input_json_delta", partial_json="{}"),
        delta(None, "citations_delta", citation=CITED),
    )

    assert response.text == "a"
    assert [(each.name, each.error) for each in response.calls] == [("", CUT)]
    assert read(delta(2, "input_json_delta", partial_json="{}"), stop(2)).calls[0].error == NO_NAME


def test_a_tool_that_the_provider_brings_is_shown_by_its_name_here():
    tools = asyncio.run(resolve_tools([Tool.provider("shell", "anthropic.bash_20250124")], ()))
    request = ModelRequest("x", tools=tools)

    deltas, reader = fed([BEGUN, *call(0, "{}", name="bash"), *end()], request=request)

    assert {each.name for each in deltas} == {"shell"}
    assert reader.response().calls[0].name == "shell"


def test_a_block_may_begin_with_what_it_says():
    events = [
        start(0, "text", text="He", citations=[CITED]),
        delta(0, "text_delta", text="llo"),
        stop(0),
        start(1, "thinking", thinking="H", signature="s"),
        delta(1, "thinking_delta", thinking="m"),
        delta(1, "signature_delta", signature="ig"),
        stop(1),
        start(2, "tool_use", id="t", name="n", input={"a": 1}),
        stop(2),
    ]

    deltas, reader = fed([BEGUN, *events, *end()])
    response = reader.response()

    assert (response.text, len(response.citations)) == ("Hello", 1)
    assert response.parts[1] == ReasoningPart("Hm", {"anthropic": {"signature": "sig"}})
    assert response.calls[0].arguments == {"a": 1}
    assert deltas[0] == TextDelta("He")


def test_arguments_that_never_end_are_cut_and_the_call_is_invalid():
    exporter = Anthropic(AnthropicLimits(argument_text=10))

    response = read(*call(0, *["x" * 4] * 100), *call(1, "{}", own="t2"), exporter=exporter)

    assert [(each.arguments, each.error) for each in response.calls] == [("x" * 10, ENDLESS), ("{}", None)]
    assert response.complete


def test_words_that_never_end_are_cut_and_the_answer_is_not_complete():
    exporter = Anthropic(AnthropicLimits(answer_text=10))

    response = read(*words(0, *["word"] * 100), exporter=exporter)

    assert (response.text, response.complete, response.finish_reason) == ("wordwordwo", False, "length")
    assert response.error_message == TOO_LONG
    thoughts = [start(0, "thinking"), *[delta(0, "signature_delta", signature="word")] * 100, stop(0)]
    assert not read(*thoughts, exporter=exporter).complete


def test_blocks_that_never_end_are_cut(monkeypatch):
    monkeypatch.setattr("pegboard.wire.blocks.MOST_BLOCKS", 2)

    response = read(*words(0, "a"), *words(1, "b"), *words(2, "c"))

    assert (response.text, response.complete) == ("ab", False)


def test_citations_that_never_end_are_cut(monkeypatch):
    monkeypatch.setattr("pegboard_anthropic._anthropic.MOST_CITATIONS", 2)

    response = read(*words(0, "a")[:-1], *[delta(0, "citations_delta", citation=CITED)] * 5)

    assert len(response.citations) == 2


def test_what_the_provider_runs_goes_back_only_when_it_is_whole():
    use = start(0, "server_tool_use", id="s1", name="web_search", input={})
    broken = [use, delta(0, "input_json_delta", partial_json='{"que'), stop(0)]

    assert read(*broken).parts == ()
    assert read(*broken).custom_metadata == {"passed_over": 1}
    assert read(use).parts == ()
    assert read(use, stop(0)).parts[0].data["input"] == {}


def test_an_error_event_marks_the_answer():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    _, reader = fed([*WHOLE[:-2], error])
    response = reader.response()

    assert (response.finish_reason, response.error_code, response.complete) == ("error", "overloaded_error", False)
    assert "Overloaded" in response.error_message
    assert len(response.calls) == 2


def test_a_paused_turn_and_a_limit():
    assert fed([BEGUN, *words(0, "a"), *end("pause_turn")])[1].response().finish_reason == "pause"
    cut = fed([BEGUN, *call(0, '{"a'), *end("max_tokens")])[1].response()
    assert (cut.finish_reason, cut.complete, cut.calls[0].arguments) == ("length", False, '{"a')


def test_an_unknown_delta_is_passed_over():
    assert read(*words(0, "a")[:-1], delta(0, "new_delta", text="b"), stop(0)).parts == (TextPart("a"),)


def test_a_delta_of_another_kind_than_its_block_shows_nothing():
    deltas, _ = fed([start(0, "new"), delta(0, "text_delta", text="a"), delta(0, "thinking_delta", thinking="a")])

    assert deltas == []
