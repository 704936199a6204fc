from __future__ import annotations

import asyncio
import json

import pytest

from fake_vendors.rules import bedrock_rules
from pegboard import Tool
from pegboard.errors import ModelError
from pegboard.messages.message import CallPart, HostedPart, MediaPart, Message, ReasoningPart, TextPart
from pegboard.messages.response import Usage
from pegboard.request.model_request import ModelRequest
from pegboard.tools.content import ImageContent, ToolResult
from pegboard.toolsets.resolve import resolve_tools
from pegboard.wire.ids import NO_NAME, unreadable
from pegboard_bedrock.bedrock import Bedrock

USE = {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Oslo"}}}
HOSTED = {"toolUse": {"toolUseId": "s1", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}}
RESULT = {"toolResult": {"toolUseId": "s1", "content": [{"text": "found"}], "type": "nova_grounding_result"}}
WEB = {"title": "A", "sourceContent": [{"text": "wo"}, {"text": "rds"}], "location": {"web": {"url": "https://a"}}}
CITED = {"citationsContent": {"content": [{"text": "Hel"}, {"text": "lo."}], "citations": [WEB]}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "sig=="}}}
HIDDEN = {"reasoningContent": {"redactedContent": b"abc"}}


def body(*content, **facts):
    return {
        "output": {"message": {"role": "assistant", "content": list(content)}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 10, "outputTokens": 7, "totalTokens": 17},
        "metrics": {"latencyMs": 1},
        "ResponseMetadata": {"RequestId": "req_1", "HTTPStatusCode": 200},
        **facts,
    }


def read(*content, **facts):
    return Bedrock().response(body(*content, **facts))


def test_a_whole_answer_is_read():
    response = read(THOUGHT, HIDDEN, HOSTED, RESULT, CITED, {"text": " Well."}, USE, stopReason="tool_use")

    kinds = [ReasoningPart, ReasoningPart, HostedPart, HostedPart, TextPart, TextPart, CallPart]
    assert [type(part) for part in response.parts] == kinds
    assert response.parts[1] == ReasoningPart("", {"bedrock": {"redacted": "YWJj"}})
    assert (response.text, response.finish_reason, response.complete, response.id) == (
        "Hello. Well.",
        "tool_calls",
        True,
        "req_1",
    )
    [call] = response.calls
    assert (call.name, call.arguments, call.id) == ("weather", {"city": "Oslo"}, "t1")
    [citation] = response.citations
    assert (citation.text, citation.uri, citation.title) == ("words", "https://a", "A")
    assert [(part.role, part.name, part.id) for part in response.parts[2:4]] == [
        ("call", "nova_grounding", "s1"),
        ("result", "nova_grounding_result", "s1"),
    ]


def test_an_answer_goes_back_as_it_came():
    response = read(THOUGHT, HIDDEN, HOSTED, RESULT, CITED, USE, stopReason="tool_use")
    kept = Message.from_json(json.loads(json.dumps(response.message.to_json())))
    results = Message.tool([(response.calls[0], ToolResult("rain"))])

    sent = Bedrock().request(ModelRequest(["?", kept, results]))["messages"]

    cited = {"citationsContent": {"content": [{"text": "Hello."}], "citations": [WEB]}}
    assert sent[1]["content"] == [THOUGHT, HIDDEN, HOSTED, RESULT, cited, USE]
    assert bedrock_rules.messages(sent) == []


def test_redacted_thoughts_may_come_as_base64():
    assert read({"reasoningContent": {"redactedContent": "YWJj"}}).parts == (
        ReasoningPart("", {"bedrock": {"redacted": "YWJj"}}),
    )


def test_thoughts_without_signature_are_shown():
    assert read({"reasoningContent": {"reasoningText": {"text": "Hm."}}}).parts == (ReasoningPart("Hm."),)


def test_pictures_are_bytes():
    picture = {"image": {"format": "jpeg", "source": {"bytes": b"x"}}}

    assert read(picture, {"image": {"source": {"bytes": b"x"}}}).parts == (
        MediaPart(ImageContent(b"x", "image/jpeg")),
        MediaPart(ImageContent(b"x", "image/png")),
    )
    assert type(read({"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b"}}}}).parts[0]) is HostedPart


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        ({"inputTokens": 10, "outputTokens": 7, "totalTokens": 17, "cacheReadInputTokens": 4}, Usage(10, 7, 4)),
        (
            {
                "inputTokens": 10,
                "outputTokens": 7,
                "totalTokens": 23,
                "cacheReadInputTokens": 4,
                "cacheWriteInputTokens": 2,
            },
            Usage(16, 7, 4, 2),
        ),
        ({"inputTokens": 10, "outputTokens": 7}, Usage(10, 7)),
        (None, Usage()),
    ],
)
def test_tokens_of_the_cache_are_among_those_of_the_request(usage, wanted):
    assert read(usage=usage).usage == wanted


@pytest.mark.parametrize(
    ("reason", "finish", "complete"),
    [
        ("end_turn", "stop", True),
        ("stop_sequence", "stop", True),
        ("tool_use", "tool_calls", True),
        ("max_tokens", "length", False),
        ("model_context_window_exceeded", "length", False),
        ("guardrail_intervened", "content_filter", False),
        ("content_filtered", "content_filter", False),
        ("malformed_model_output", "error", False),
        ("malformed_tool_use", "error", False),
        ("new", "other", True),
        (None, "other", True),
    ],
)
def test_why_it_ended(reason, finish, complete):
    response = read({"text": "x"}, stopReason=reason)

    assert (response.finish_reason, response.complete) == (finish, complete)
    assert response.error_code == (reason if finish == "error" else None)


def test_an_answer_with_calls_has_ended_for_them_unless_it_was_cut_off():
    assert read(USE).finish_reason == "tool_calls"
    assert read(USE, stopReason="max_tokens").finish_reason == "length"


def test_what_else_it_says():
    trace = {"promptRouter": {"invokedModelId": "m"}}
    response = read(additionalModelResponseFields={"stop_sequence": "END"}, trace=trace)

    assert response.model == "m"
    assert response.custom_metadata == {"additionalModelResponseFields": {"stop_sequence": "END"}, "trace": trace}


def test_a_tool_that_the_provider_hosts_is_found_by_its_name_here():
    tools = asyncio.run(resolve_tools([Tool.provider("ground", "bedrock.nova_grounding")], ()))
    called = {"toolUse": {**USE["toolUse"], "name": "nova_grounding"}}

    assert Bedrock().response(body(called), ModelRequest("x", tools=tools)).calls[0].name == "ground"


@pytest.mark.parametrize(
    ("use", "name", "arguments", "fault"),
    [
        ({}, "", {}, NO_NAME),
        (None, "", {}, NO_NAME),
        ({"name": "t", "input": "{"}, "t", "{", None),
        ({"name": "t", "input": [1]}, "t", "[1]", unreadable("expected a JSON object, found list")),
    ],
)
def test_a_malformed_call_is_not_lost(use, name, arguments, fault):
    [call] = read({"toolUse": use}).calls

    assert (call.name, call.arguments, call.error, call.id) == (name, arguments, fault, "call_0")


def test_a_block_that_nobody_could_keep_is_passed_over_and_counted():
    response = read({}, {"new": b"bytes"}, {"text": 3, "new": {1}}, {"text": "Hello."}, "no block")

    assert (response.text, response.custom_metadata) == ("Hello.", {"passed_over": 3})


def test_an_error_of_the_client_is_raised_with_what_it_says():
    error = {
        "Error": {"Code": "ThrottlingException", "Message": "Slow down."},
        "ResponseMetadata": {"HTTPStatusCode": 429, "RequestId": "req_1"},
    }

    with pytest.raises(ModelError, match="bedrock: Slow down") as caught:
        Bedrock().response(error)

    found = caught.value
    assert (found.code, found.status, found.retryable, found.request_id) == ("ThrottlingException", 429, True, "req_1")


def test_what_is_nested_without_end_is_read_and_said_again():
    deep: object = "x"
    for _ in range(100_000):
        deep = {"a": deep}

    response = read(
        {"toolUse": {"name": "t", "input": deep}},
        {"toolUse": {"name": "t", "input": [deep]}},
        {"new": deep},
        {"text": "Hello."},
    )
    [body_] = [Bedrock().request(ModelRequest(["?", response.message]))]

    assert response.text == "Hello."
    assert len(response.calls) == 2
    assert response.custom_metadata == {"passed_over": 1}
    assert "INVALID_JSON" in str(body_["messages"][1]["content"][0])
