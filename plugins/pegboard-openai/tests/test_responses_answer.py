from __future__ import annotations

import base64

import pytest
from attrs import evolve
from hypothesis import given, strategies as st
from openai.types.responses import Response

from fake_vendors.rules.samples import asked, called, nested
from pegboard import Tool
from pegboard.errors import ModelError
from pegboard.messages.message import HostedPart, MediaPart, Message, ReasoningPart, TextPart
from pegboard.request.model_request import ModelConfig
from pegboard.tools.content import ImageContent, ToolResult
from pegboard_openai.openai_responses import OpenAIResponses

KEY = "openai-responses"
URL = {"type": "url_citation", "url": "http://a", "title": "A", "start_index": 0, "end_index": 2}
FILE = {"type": "file_citation", "file_id": "f", "filename": "a.txt", "index": 1}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "x", "sources": [{"type": "url", "url": "http://a"}]},
}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
    "encrypted_content": "c2ln==",
}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": [URL, FILE]}],
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "weather",
    "arguments": '{"city": "Oslo"}',
    "status": "completed",
    "namespace": "crm",
}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c2", "name": "note", "input": "x"}
USAGE = {
    "input_tokens": 10,
    "output_tokens": 5,
    "total_tokens": 15,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "output_tokens_details": {"reasoning_tokens": 3},
}


def raw(*output, status="completed", **facts):
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1.0,
        "model": "gpt-x",
        "status": status,
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE,
        **facts,
    }


def read(body, request=None):
    return OpenAIResponses().response(body, request)


def dumps(body):
    model = Response.model_validate(body)
    return [model.model_dump(), model.model_dump(exclude_none=True), model.model_dump(mode="json", by_alias=True)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_the_sdk_gives_is_read(place):
    response = read(dumps(raw(REASONING, SEARCH, MESSAGE, CALL, CUSTOM))[place])

    thought, search, text, call, custom = response.parts
    assert thought == ReasoningPart("a\n\nb", {KEY: {name: REASONING[name] for name in REASONING if name != "type"}})
    assert search == HostedPart(KEY, SEARCH, "call", "web_search", "ws_1")
    assert (text.text, [cited.uri or cited.title for cited in text.citations]) == ("Hi", ["http://a", "a.txt"])
    assert text.citations[1].data == {KEY: FILE}
    assert text.provider_metadata == {KEY: {"id": "msg_1", "status": "completed"}}
    assert (call.call.name, call.call.arguments, call.call.id) == ("weather", '{"city": "Oslo"}', "c1")
    assert call.call.provider_metadata == {KEY: {"type": "function_call", "id": "fc_1", "namespace": "crm"}}
    assert (custom.call.arguments, custom.call.id) == ({"input": "x"}, "c2")
    assert (response.finish_reason, response.complete, response.id) == ("tool_calls", True, "resp_1")
    assert response.grounding == {"sources": [{"type": "url", "url": "http://a"}]}
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (10, 5, 4)
    assert (usage.cache_write_tokens, usage.reasoning_tokens) == (2, 3)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_was_read_goes_back_as_it_was(place):
    response = read(dumps(raw(REASONING, SEARCH, MESSAGE, CALL, CUSTOM))[place])
    results = Message.tool([(call, ToolResult("1")) for call in response.calls])
    items = OpenAIResponses().request(asked(response.message, results))["input"]
    without_status = {name: fact for name, fact in CALL.items() if name != "status"}
    assert items[:5] == [REASONING, SEARCH, MESSAGE, without_status, CUSTOM]


@pytest.mark.parametrize(
    ("body", "reason", "complete"),
    [
        (raw(MESSAGE), "stop", True),
        ({"output": [MESSAGE]}, "stop", True),
        (raw(CALL), "tool_calls", True),
        (raw(CALL, status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "length", False),
        (raw(status="incomplete", incomplete_details={"reason": "content_filter"}), "content_filter", False),
        (raw(status="incomplete", incomplete_details={"reason": "steered"}), "other", False),
        (raw(status="incomplete", incomplete_details=None), "other", False),
    ],
)
def test_why_it_ended(body, reason, complete):
    response = read(body)
    assert (response.finish_reason, response.complete, response.partial) == (reason, complete, False)


def test_an_answer_on_its_way_is_partial_and_a_cancelled_one_interrupted():
    assert read(raw(status="queued")).partial
    assert read(raw(status="in_progress")).partial
    assert (read(raw(status="cancelled")).interrupted, read(raw(status="cancelled")).complete) == (True, False)


def test_a_refusal_is_a_text_that_is_marked():
    response = read(raw({**MESSAGE, "content": [{"type": "refusal", "refusal": "no"}]}))
    assert (response.text, response.finish_reason) == ("no", "refusal")
    assert response.parts[0].provider_metadata[KEY]["refusal"] is True


def test_reasoning_without_a_summary_has_its_own_words():
    item = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    (part,) = read(raw(item)).parts
    assert part.text == "hm"


def test_malformed_calls_are_kept():
    given = [
        {"type": "function_call", "name": "weather", "arguments": '{"city'},
        {"type": "function_call", "call_id": "c", "arguments": "{}"},
        {"type": "function_call", "call_id": "c", "name": "weather", "arguments": {"city": "Oslo"}},
        {"type": "custom_tool_call", "call_id": "c", "name": "note", "input": 7},
    ]
    calls = read(raw(*given)).calls
    assert [call.id for call in calls] == ["call_0", "c", "c_2", "c_3"]
    assert [call.arguments for call in calls] == ['{"city', "{}", {"city": "Oslo"}, {"input": "7"}]
    assert [call.invalid for call in calls] == [False, True, False, False]


@pytest.mark.parametrize("name", ["async", "async_"])
def test_what_goes_back_with_a_call_is_kept(name):
    caller = {"type": "program", "caller_id": "p"}
    (call,) = read(raw({**CALL, "caller": caller, name: True})).calls
    assert call.provider_metadata[KEY]["async"] is True
    assert call.provider_metadata[KEY]["caller"] == caller


def test_items_that_nobody_knows_are_kept_as_they_are():
    items = [
        {"type": "tool_search_output", "call_id": "ts_1", "tools": []},
        {"type": "mcp_call", "id": "m", "name": "find", "arguments": '{"a": null}', "server_label": "s"},
        {"type": "somewhat_new", "id": "n"},
        {"id": "untyped"},
    ]
    parts = read(raw(*items)).parts
    assert [(part.role, part.name, part.id, part.data) for part in parts] == [
        ("result", "tool_search", "ts_1", items[0]),
        ("call", "find", "m", items[1]),
        ("call", "somewhat_new", "n", items[2]),
        ("call", "", "untyped", items[3]),
    ]


def test_a_picture_that_the_provider_made_can_be_seen():
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "output_format": "webp"}
    hosted, picture = read(raw({**item, "result": base64.b64encode(b"x").decode()})).parts
    assert hosted.data["id"] == "ig_1"
    assert picture == MediaPart(ImageContent(b"x", "image/webp"), {KEY: {"of": "ig_1"}})
    assert len(read(raw({**item, "result": "?"})).parts) == 1
    assert len(read(raw({**item, "result": None})).parts) == 1
    assert len(read(raw({**item, "result": "eA==", "output_format": "svg"})).parts) == 1


def test_calls_that_the_host_runs_are_calls():
    action = {"type": "exec", "command": ["ls"], "env": {}}
    item = {"type": "local_shell_call", "id": "l", "call_id": "c", "action": action, "status": "completed"}
    (call,) = read(raw(item)).calls
    assert (call.name, call.arguments, call.id) == ("local_shell", action, "c")
    assert call.provider_metadata == {KEY: {"type": "local_shell_call", "item": item}}
    named = asked(tools=[Tool.provider("a", "openai.web_search"), Tool.provider("sh", "openai.local_shell")])
    assert read(raw(item), named).calls[0].name == "sh"
    assert read(raw(item), asked()).calls[0].name == "local_shell"


def test_actions_of_a_computer_are_its_arguments():
    item = {"type": "computer_call", "id": "l", "call_id": "c", "actions": [{"type": "screenshot"}]}
    (call,) = read(raw(item), asked(tools=[Tool.provider("pc", "openai.computer_use_preview")])).calls
    assert (call.name, call.arguments) == ("pc", {"actions": [{"type": "screenshot"}]})
    (empty,) = read(raw({"type": "computer_call", "call_id": "c"})).calls
    assert (empty.name, empty.arguments) == ("computer", {})


def test_a_shell_in_the_providers_own_container_is_hosted():
    environment = {"type": "container_reference", "container_id": "x"}
    item = {"type": "shell_call", "call_id": "c", "action": {"commands": []}, "environment": environment}
    response = read(raw(item))
    assert (response.calls, response.parts[0].name) == ((), "shell")


def test_results_of_a_file_search_are_grounding():
    item = {"type": "file_search_call", "id": "fs", "queries": [], "results": [{"file_id": "f", "text": "t"}]}
    assert read(raw(item)).grounding == {"sources": [{"file_id": "f", "text": "t"}]}


def test_nulls_of_a_strict_schema_are_taken_away():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    body = raw({**CALL, "name": "t", "arguments": '{"a": null}'})
    tool = Tool.from_schema("t", schema)
    assert read(body, asked(tools=[tool], config=ModelConfig(strict=True))).calls[0].arguments == {}
    assert read(body, asked(tools=[tool])).calls[0].arguments == '{"a": null}'


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": "server_error", "message": "Down."}},
        raw(status="failed", error={"code": "server_error", "message": "Down."}),
    ],
)
def test_an_error_is_the_providers_error(body):
    with pytest.raises(ModelError, match="openai-responses: Down") as caught:
        read(body)
    assert (caught.value.code, caught.value.retryable) == ("server_error", True)


def test_deep_nesting_ends_in_no_recursion():
    deep = nested(5_000)
    items = [{**each, "x": deep, "arguments": deep} for each in (REASONING, SEARCH, MESSAGE, CALL, CUSTOM)]
    response = read(raw(*items, {"type": "local_shell_call", "action": deep}))
    assert [call.id for call in response.calls] == ["c1", "c2", "call_2"]
    assert response.custom_metadata["unread_items"] == ["reasoning", "web_search_call", "local_shell_call"]


def test_what_else_is_said_is_kept():
    body = raw(status="incomplete", incomplete_details={"reason": "steered"}, service_tier="flex")
    assert read(body).custom_metadata == {"service_tier": "flex", "incomplete": "steered"}


@given(st.text(min_size=1, max_size=5), st.lists(called, max_size=4, unique_by=lambda call: call.id))
def test_what_is_said_is_read_as_it_was(text, calls):
    facts = {KEY: {"type": "function_call", "id": "fc_1"}}
    thought = ReasoningPart("hm", {KEY: {"id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}})
    said = TextPart(text, provider_metadata={KEY: {"id": "msg_1", "status": "completed"}})
    message = Message.assistant(thought, said, *(evolve(call, provider_metadata=facts) for call in calls))
    items = OpenAIResponses().request(asked(message, tools=()))["input"]
    assert read(raw(*items)).parts == message.parts
