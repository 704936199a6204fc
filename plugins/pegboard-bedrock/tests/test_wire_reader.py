from __future__ import annotations

import asyncio

import pytest

from pegboard import Tool
from pegboard.messages.message import HostedPart, MediaPart, ReasoningPart
from pegboard.messages.response import CallDelta, ReasoningDelta, TextDelta, Usage
from pegboard.request.model_request import ModelRequest
from pegboard.tools.content import ImageContent
from pegboard.toolsets.resolve import resolve_tools
from pegboard.wire.bodies import EARLY, TOO_LONG
from pegboard.wire.ids import CUT, ENDLESS
from pegboard_bedrock._bedrock import BedrockLimits
from pegboard_bedrock.bedrock import Bedrock

BEGUN = {"messageStart": {"role": "assistant"}}
WEB = {"title": "A", "sourceContent": [{"text": "x"}], "location": {"web": {"url": "https://a"}}}
USAGE = {"inputTokens": 10, "outputTokens": 7, "totalTokens": 17}


def start(index, kind, **facts):
    return {"contentBlockStart": {"start": {kind: facts}, "contentBlockIndex": index}}


def delta(index, **facts):
    return {"contentBlockDelta": {"delta": facts, "contentBlockIndex": index}}


def stop(index):
    return {"contentBlockStop": {"contentBlockIndex": index}}


def end(reason="end_turn"):
    return [{"messageStop": {"stopReason": reason}}, {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 1}}}]


def call(index, *pieces, own="t1", name="weather", **facts):
    begun = start(index, "toolUse", toolUseId=own, name=name, **facts)
    return [begun, *(delta(index, toolUse={"input": piece}) for piece in pieces), stop(index)]


WHOLE = [
    BEGUN,
    delta(0, reasoningContent={"text": "H"}),
    delta(0, reasoningContent={"text": "m."}),
    delta(0, reasoningContent={"signature": "sig=="}),
    stop(0),
    delta(1, reasoningContent={"redactedContent": b"abc"}),
    stop(1),
    *call(2, '{"query":', '"x"}', own="s1", name="nova_grounding", type="server_tool_use"),
    start(3, "toolResult", toolUseId="s1", type="nova_grounding_result", status="success"),
    delta(3, toolResult=[{"text": "found"}]),
    stop(3),
    delta(4, text="Let me "),
    delta(4, text="look."),
    delta(4, citation=WEB),
    stop(4),
    *call(5, "", '{"city":', '"Oslo"}'),
    *call(6, own="t2", name="clock"),
    *end("tool_use"),
]


def fed(events, exporter=None, request=None):
    reader = (exporter or Bedrock()).reader(request)
    deltas = [each for event in events for each in reader.feed(event)]
    return deltas, reader


def read(*events, **facts):
    return fed([BEGUN, *events, *end()], **facts)[1].response()


def test_a_stream_is_read_to_a_whole_answer():
    deltas, reader = fed(WHOLE)
    response = reader.response()

    assert response.parts[0] == ReasoningPart("Hm.", {"bedrock": {"signature": "sig=="}})
    assert response.parts[1] == ReasoningPart("", {"bedrock": {"redacted": "YWJj"}})
    hosted = {"toolUseId": "s1", "name": "nova_grounding", "type": "server_tool_use", "input": {"query": "x"}}
    found = {"toolUseId": "s1", "type": "nova_grounding_result", "status": "success", "content": [{"text": "found"}]}
    assert response.parts[2] == HostedPart("bedrock", {"toolUse": hosted}, "call", "nova_grounding", "s1")
    assert response.parts[3] == HostedPart("bedrock", {"toolResult": found}, "result", "nova_grounding_result", "s1")
    assert (response.text, [citation.uri for citation in response.citations]) == ("Let me look.", ["https://a"])
    assert [(each.id, each.name, each.arguments) for each in response.calls] == [
        ("t1", "weather", '{"city":"Oslo"}'),
        ("t2", "clock", {}),
    ]
    assert (response.finish_reason, response.complete, response.interrupted) == ("tool_calls", True, False)
    assert response.usage == Usage(10, 7)
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
    response = fed(WHOLE[:-2])[1].response()

    assert (response.interrupted, response.error_message) == (True, EARLY)


def test_a_stream_that_has_ended_is_whole_without_its_counts():
    assert fed(WHOLE[:-1])[1].response().complete


def test_a_new_start_at_an_index_is_a_new_block():
    response = read(*call(0, '{"a":1}')[:-1], *call(0, '{"b":2}', own="t2"))

    assert [(each.id, each.arguments, each.error) for each in response.calls] == [
        ("t1", '{"a":1}', None),
        ("t2", '{"b":2}', None),
    ]


def test_another_kind_at_an_index_is_a_new_block():
    response = read(delta(0, reasoningContent={"text": "a"}), delta(0, text="b"), stop(0))

    assert [type(part).__name__ for part in response.parts] == ["ReasoningPart", "TextPart"]


def test_events_without_index_belong_to_the_last_block():
    events = [start(None, "toolUse", toolUseId="t", name="n"), delta(None, toolUse={"input": "{}"}), stop(None)]

    response = read(*events, *events)
    mixed = read(start(0, "toolUse", toolUseId="t", name="n"), delta(None, toolUse={"input": "{}"}), stop(0))

    assert [(each.arguments, each.error) for each in response.calls] == [("{}", None)] * 2
    assert [(each.arguments, each.error) for each in mixed.calls] == [("{}", None)]


def test_pieces_that_nothing_began_begin_a_call():
    assert read(delta(0, toolUse={"input": "{}"})).calls[0].error == CUT


def test_a_picture_is_read():
    events = [start(0, "image", format="jpeg"), delta(0, image={"source": {"bytes": b"x"}}), stop(0)]

    assert read(*events).parts == (MediaPart(ImageContent(b"x", "image/jpeg")),)
    assert read(*events[:-1]).parts == ()


def test_a_tool_that_the_provider_hosts_is_shown_by_its_name_here():
    tools = asyncio.run(resolve_tools([Tool.provider("ground", "bedrock.nova_grounding")], ()))

    deltas, _ = fed(call(0, "{}", name="nova_grounding"), request=ModelRequest("x", tools=tools))

    assert {each.name for each in deltas} == {"ground"}


def test_arguments_that_never_end_are_cut_and_the_call_is_invalid():
    exporter = Bedrock(BedrockLimits(argument_text=10))

    response = read(*call(0, *["x" * 4] * 100), *call(1, "{}", own="t2"), exporter=exporter)

    assert [(each.arguments, each.error) for each in response.calls] == [("x" * 10, ENDLESS), ("{}", None)]


def test_words_that_never_end_are_cut_and_the_answer_is_not_complete():
    response = read(*[delta(0, text="word")] * 100, stop(0), exporter=Bedrock(BedrockLimits(answer_text=10)))

    assert (response.text, response.complete, response.error_message) == ("wordwordwo", False, TOO_LONG)


def test_blocks_and_citations_that_never_end_are_cut(monkeypatch):
    monkeypatch.setattr("pegboard.wire.blocks.MOST_BLOCKS", 2)
    monkeypatch.setattr("pegboard_bedrock._bedrock.MOST_LISTED", 2)

    response = read(*[delta(at, text="a") for at in range(4)])
    cited = read(delta(0, text="a"), *[delta(0, citation=WEB)] * 5, stop(0))

    assert (response.text, response.complete) == ("aa", False)
    assert len(cited.citations) == 2


def test_what_the_provider_runs_goes_back_only_when_it_is_whole():
    hosted = {"own": "s1", "name": "nova_grounding", "type": "server_tool_use"}

    assert read(*call(0, '{"que', **hosted)).custom_metadata == {"passed_over": 1}
    assert read(*call(0, "{}", **hosted)[:-1]).parts == ()
    assert read(*call(0, **hosted)).parts[0].data["toolUse"]["input"] == {}


@pytest.mark.parametrize("name", ["throttlingException", "modelStreamErrorException"])
def test_an_exception_marks_the_answer(name):
    response = fed([*WHOLE[:-2], {name: {"message": "Slow down."}}])[1].response()

    assert (response.finish_reason, response.error_code, response.complete) == ("error", name, False)
    assert "Slow down." in response.error_message
    assert len(response.calls) == 2


def test_what_is_not_known_is_passed_over():
    assert read(delta(0, new="x"), start(0, "new", a=1), {"contentBlockStart": {}}, {"x": 1}, stop(9), {}).parts == ()


def test_a_limit_cuts_the_answer_off():
    response = fed([BEGUN, *call(0, '{"a'), *end("max_tokens")])[1].response()

    assert (response.finish_reason, response.complete, response.calls[0].arguments) == ("length", False, '{"a')
