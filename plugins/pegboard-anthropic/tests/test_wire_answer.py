from __future__ import annotations

import asyncio
import json

import pytest
from anthropic.types import Message as SdkMessage
from hypothesis import strategies as st

from fake_vendors.rules import payloads
from pegboard import Tool
from pegboard.errors import ModelError
from pegboard.messages.message import CallPart, HostedPart, Message, ReasoningPart, TextPart
from pegboard.messages.response import Usage
from pegboard.request.model_request import ModelRequest
from pegboard.tools.content import ToolResult
from pegboard.toolsets.resolve import resolve_tools
from pegboard.wire.ids import NO_NAME, unreadable
from pegboard_anthropic.anthropic import Anthropic

TEXT = {"type": "text", "text": "Hello.", "citations": None}
USE = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}, "caller": None}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "sig=="}
HIDDEN = {"type": "redacted_thinking", "data": "abc"}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
PAGE = {"type": "web_search_result", "url": "https://a", "title": "A", "encrypted_content": "e", "page_age": None}
PAGES = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [PAGE]}
CITED = {
    "type": "web_search_result_location",
    "url": "https://a",
    "title": "A",
    "cited_text": "words",
    "encrypted_index": "i",
}
USAGE = {
    "input_tokens": 10,
    "output_tokens": 7,
    "cache_read_input_tokens": 3,
    "cache_creation_input_tokens": 2,
    "output_tokens_details": {"thinking_tokens": 4},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)


def body(*content, **facts):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": list(content),
        "stop_reason": "end_turn",
        "usage": USAGE,
        **facts,
    }


def read(*content, **facts):
    return Anthropic().response(body(*content, **facts))


@pytest.mark.parametrize("lean", [False, True])
def test_a_whole_answer_of_the_sdk_is_read(lean):
    message = SdkMessage.model_validate(
        body(THOUGHT, HIDDEN, SEARCH, PAGES, {**TEXT, "citations": [CITED]}, USE, stop_reason="tool_use")
    )

    response = Anthropic().response(message.model_dump(exclude_none=lean))

    kinds = [ReasoningPart, ReasoningPart, HostedPart, HostedPart, TextPart, CallPart]
    assert [type(part) for part in response.parts] == kinds
    assert response.finish_reason == "tool_calls"
    assert (response.id, response.model, response.complete) == ("msg_1", "claude", True)
    [call] = response.calls
    assert (call.name, call.arguments, call.id, call.provider_metadata) == ("weather", {"city": "Oslo"}, "t1", None)
    [citation] = response.citations
    assert (citation.text, citation.uri, citation.title) == ("words", "https://a", "A")
    assert response.parts[2].id == response.parts[3].id == "s1"
    assert (response.parts[2].name, response.parts[3].role) == ("web_search", "result")


@pytest.mark.parametrize("lean", [False, True])
def test_an_answer_goes_back_as_it_came(lean):
    blocks = [THOUGHT, HIDDEN, SEARCH, PAGES, {"type": "text", "text": "Hello.", "citations": [CITED]}, USE]
    message = SdkMessage.model_validate(body(*blocks, stop_reason="tool_use"))
    response = Anthropic().response(message.model_dump(exclude_none=lean))
    kept = Message.from_json(json.loads(json.dumps(response.message.to_json())))

    results = Message.tool([(response.calls[0], ToolResult("rain"))])
    sent = Anthropic().request(ModelRequest(["?", kept, results]))["messages"]

    bare = [{key: value for key, value in block.items() if value is not None} for block in blocks]
    found = json.loads(json.dumps(sent[1]["content"]))
    if lean:
        bare[3] = {**PAGES, "content": [{key: value for key, value in PAGE.items() if value is not None}]}
    assert found == bare
    assert payloads.MESSAGES["anthropic"][1](sent) == []


def test_tokens_of_the_cache_are_among_those_of_the_request():
    assert read(TEXT).usage == Usage(15, 7, 3, 2, 4)
    assert read(TEXT, usage=None).usage == Usage()
    assert read(TEXT, usage={"input_tokens": "x", "output_tokens": -1}).usage == Usage()


@pytest.mark.parametrize(
    ("reason", "finish", "complete"),
    [
        ("end_turn", "stop", True),
        ("stop_sequence", "stop", True),
        ("tool_use", "tool_calls", True),
        ("max_tokens", "length", False),
        ("model_context_window_exceeded", "length", False),
        ("pause_turn", "pause", True),
        ("refusal", "refusal", False),
        ("new", "other", True),
        (None, "other", True),
        (["x"], "other", True),
    ],
)
def test_why_it_ended(reason, finish, complete):
    response = read(TEXT, stop_reason=reason)

    assert (response.finish_reason, response.complete) == (finish, complete)


def test_an_answer_with_calls_has_ended_for_them_unless_it_was_cut_off():
    assert read(USE).finish_reason == "tool_calls"
    assert read(USE, stop_reason="max_tokens").finish_reason == "length"
    assert read(USE, stop_reason="pause_turn").finish_reason == "pause"


def test_what_else_it_says():
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    response = read(
        TEXT, stop_reason="refusal", stop_details=details, stop_sequence="END", container={"id": "c", "expires_at": "x"}
    )

    assert response.custom_metadata == {
        "container": {"id": "c", "expires_at": "x"},
        "stop_details": details,
        "stop_sequence": "END",
    }
    assert response.error_message == "No."


def test_who_called_is_kept_for_the_way_back():
    caller = {"type": "code_execution_20250825", "tool_id": "s1"}

    assert read({**USE, "caller": caller}).calls[0].provider_metadata == {"anthropic": {"caller": caller}}


def test_a_tool_that_the_provider_brings_is_found_by_its_name_here():
    tools = asyncio.run(resolve_tools([Tool.provider("shell", "anthropic.bash_20250124")], ()))

    response = Anthropic().response(body({**USE, "name": "bash"}), ModelRequest("x", tools=tools))

    assert response.calls[0].name == "shell"


@pytest.mark.parametrize(
    ("block", "name", "arguments", "fault"),
    [
        ({"type": "tool_use"}, "", {}, NO_NAME),
        ({"type": "tool_use", "name": "t"}, "t", {}, None),
        ({"type": "tool_use", "name": "t", "input": "{"}, "t", "{", None),
        ({"type": "tool_use", "name": "t", "input": [1]}, "t", "[1]", unreadable("expected a JSON object, found list")),
        ({"type": "tool_use", "name": 3, "input": {}, "id": 3}, "", {}, NO_NAME),
    ],
)
def test_a_malformed_call_is_not_lost(block, name, arguments, fault):
    [call] = read(block).calls

    assert (call.name, call.arguments, call.error, call.id) == (name, arguments, fault, "call_0")


def test_a_block_that_is_not_known_is_kept_for_the_way_back():
    upload = {"type": "container_upload", "file_id": "f", "more": None}

    [part] = read(upload).parts

    assert part == HostedPart("anthropic", {"type": "container_upload", "file_id": "f"}, "result", "container_upload")


def test_a_call_of_a_remote_server_is_hosted():
    use = {"type": "mcp_tool_use", "id": "m1", "name": "echo", "server_name": "s", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": []}

    parts = read(use, result).parts

    assert [(part.role, part.name, part.id) for part in parts] == [("call", "echo", "m1"), ("result", "mcp", "m1")]


def test_a_block_that_nobody_could_keep_is_passed_over_and_counted():
    deep: dict[str, object] = {"type": "new"}
    deep["self"] = deep

    response = read({"no": "type"}, deep, {"type": 3}, TEXT, "no block")

    assert response.text == "Hello."
    assert response.custom_metadata == {"passed_over": 3}


def test_an_error_body_is_raised_with_what_it_says():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}

    with pytest.raises(ModelError, match="anthropic: Overloaded") as caught:
        Anthropic().response(error)

    found = caught.value
    assert (found.code, found.status, found.retryable, found.request_id) == ("overloaded_error", 529, True, "req_1")


def kinds():
    known = ["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "x_tool_result"]
    keys = [
        "type",
        "text",
        "id",
        "name",
        "input",
        "citations",
        "thinking",
        "signature",
        "data",
        "caller",
        "tool_use_id",
    ]
    return st.dictionaries(st.sampled_from(keys), JSON | st.sampled_from(known), max_size=6)


def test_what_is_nested_without_end_is_read_and_said_again():
    deep: object = "x"
    for _ in range(100_000):
        deep = {"a": deep}

    response = read(
        {**USE, "input": deep},
        {**USE, "input": [deep]},
        {"type": "new", "data": deep},
        {**TEXT, "citations": [{"a": deep}]},
    )
    [body_] = [Anthropic().request(ModelRequest(["?", response.message]))]

    assert response.text == "Hello."
    assert len(response.calls) == 2
    assert response.custom_metadata == {"passed_over": 1}
    assert "INVALID_JSON" in str(body_["messages"][1]["content"][0])
