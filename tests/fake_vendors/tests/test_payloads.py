"""Payloads that the SDKs' own types take, and such with planted faults that pydantic and type checkers let pass."""

from __future__ import annotations

import pytest

from fake_vendors.rules import payloads

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
PNG = "iVBORw0KGgo="

TOOLS = {
    "openai": [{"type": "function", "function": {"name": "f", "description": "Finds.", "parameters": SCHEMA}}],
    "openai-responses": [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": None}],
    "anthropic": [{"name": "f", "description": "Finds.", "input_schema": SCHEMA}],
    "gemini": [{"functionDeclarations": [{"name": "f", "description": "Finds.", "parametersJsonSchema": SCHEMA}]}],
    "gemini-schema": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT", "nullable": False}}]}],
    "bedrock": [{"toolSpec": {"name": "f", "description": "Finds.", "inputSchema": {"json": SCHEMA}}}],
    "ollama": [{"type": "function", "function": {"name": "f", "description": "Finds.", "parameters": SCHEMA}}],
    "mcp": [{"name": "f", "description": "Finds.", "inputSchema": SCHEMA}],
}


def test_every_exporter_with_types_has_a_check():
    assert set(payloads.TOOLS) == set(TOOLS)
    assert set(payloads.MESSAGES) == set(TOOLS) - {"ollama", "mcp"}


@pytest.mark.parametrize("exporter", TOOLS)
def test_a_sound_list_of_tools_has_no_faults(exporter):
    assert payloads.TOOLS[exporter](TOOLS[exporter]) == []


@pytest.mark.parametrize("exporter", TOOLS)
@pytest.mark.parametrize("other", TOOLS)
def test_a_list_for_one_provider_does_not_fit_another(exporter, other):
    same = {frozenset({"openai", "ollama"}), frozenset({"gemini", "gemini-schema"})}
    fits = exporter == other or frozenset({exporter, other}) in same

    assert (payloads.TOOLS[exporter](TOOLS[other]) == []) is fits


@pytest.mark.parametrize("exporter", TOOLS)
def test_a_key_that_no_type_knows_is_found(exporter):
    tools = [{**TOOLS[exporter][0], "bogus": 1}]

    assert any("bogus" in fault for fault in payloads.TOOLS[exporter](tools))


def test_the_input_schema_of_anthropic_is_looked_at():
    assert payloads.anthropic_tools([{"name": "f", "input_schema": {"type": "array"}}]) == [
        "[0].input_schema.type: expected one of 'object', found str 'array'"
    ]
    assert payloads.anthropic_tools([{"name": "f", "input_schema": {"type": "object", "required": "q"}}])


CONVERSATIONS = {
    "openai": [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
            ],
        },
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "2", "type": "custom", "custom": {"name": "g", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "one"},
        {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "two"}]},
    ],
    "openai-responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "What?"}]},
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "1",
            "output": [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}],
        },
    ],
    "anthropic": [
        {"role": "user", "content": "What?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "tool_use", "id": "1", "name": "f", "input": {"q": "x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "1",
                    "is_error": True,
                    "content": [
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                    ],
                }
            ],
        },
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "What?"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]},
        {
            "role": "model",
            "parts": [{"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": "AA=="}],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "1",
                        "name": "f",
                        "response": {"error": "No."},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}],
                    }
                }
            ],
        },
    ],
    "bedrock": [
        {"role": "user", "content": [{"text": "What?"}, {"image": {"format": "png", "source": {"bytes": b"x"}}}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "f", "input": {}}}]},
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "1", "status": "error", "content": [{"json": {"a": 1}}]}}],
        },
    ],
}
CONVERSATIONS["gemini-schema"] = CONVERSATIONS["gemini"]


@pytest.mark.parametrize("exporter", CONVERSATIONS)
def test_a_sound_conversation_has_no_faults(exporter):
    assert payloads.MESSAGES[exporter][1](CONVERSATIONS[exporter]) == []


@pytest.mark.parametrize("exporter", CONVERSATIONS)
def test_a_conversation_without_its_last_turn_lacks_results(exporter):
    assert payloads.MESSAGES[exporter][1](CONVERSATIONS[exporter][:-1])


def planted(exporter, number, **changes):
    conversation = list(CONVERSATIONS[exporter])
    conversation[number] = {**conversation[number], **changes}
    return payloads.MESSAGES[exporter][1](conversation)


def test_planted_faults_in_messages_are_found_by_the_types():
    assert planted("openai", 3, content=[{"type": "image_url", "image_url": {"url": "x"}}]) != []
    assert planted("openai", 1, content=[{"type": "input_audio", "input_audio": {"data": "x", "format": "ogg"}}]) != []
    assert planted("openai", 4, is_error=True) != []
    assert planted("openai-responses", 3, output=[{"type": "text", "text": "x"}]) != []
    assert planted("openai-responses", 3, is_error=True) != []
    assert planted("anthropic", 0, content=[{"type": "audio", "source": {}}]) != []
    assert planted("anthropic", 0, role="tool") != []
    assert planted("gemini", 0, parts=[{"inline": {}}]) != []
    assert planted("gemini", 0, parts=[{"inlineData": {"mimeType": "image/png", "data": "?"}}]) != []
    assert planted("bedrock", 0, content=[{"image": {"format": "bmp", "source": {"bytes": b"x"}}}]) != []
    assert planted("bedrock", 0, content=[{"image": {"format": "png", "source": {"bytes": "eA=="}}}]) != []
    assert planted("bedrock", 1, content=[{"toolUse": {"toolUseId": "a b", "name": "f", "input": {}}}]) != []


@pytest.mark.parametrize(
    ("check", "fitting", "unfit"),
    [
        (
            payloads.openai_chat_tool_choice,
            {"type": "function", "function": {"name": "f"}},
            {"type": "function", "name": "f"},
        ),
        (payloads.openai_chat_tool_choice, "required", "any"),
        (
            payloads.openai_responses_tool_choice,
            {"type": "function", "name": "f"},
            {"type": "function", "function": {"name": "f"}},
        ),
        (payloads.anthropic_tool_choice, {"type": "tool", "name": "f"}, {"type": "required"}),
        (payloads.anthropic_tool_choice, {"type": "any", "disable_parallel_tool_use": True}, "any"),
        (payloads.anthropic_system, [{"type": "text", "text": "x"}], [{"text": "x"}]),
        (
            payloads.gemini_tool_config,
            {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
            {"functionCallingConfig": {"mode": "SOME"}},
        ),
        (
            payloads.openai_chat_request,
            {"model": "m", "messages": [{"role": "user", "content": "x"}]},
            {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_output_tokens": 1},
        ),
        (
            payloads.openai_responses_request,
            {"model": "m", "input": "x", "max_output_tokens": 1},
            {"model": "m", "messages": []},
        ),
        (
            payloads.anthropic_request,
            {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]},
            {"model": "m", "messages": [{"role": "user", "content": "x"}]},
        ),
    ],
)
def test_other_parts_of_a_request_are_checked_too(check, fitting, unfit):
    assert check(fitting) == []
    assert check(unfit) != []


def test_a_whole_gemini_request_is_checked_by_its_members():
    body = {"contents": CONVERSATIONS["gemini"], "generationConfig": {"maxOutputTokens": 5}, "tools": TOOLS["gemini"]}

    assert payloads.gemini_request(body) == []
    assert payloads.gemini_request({**body, "generationConfig": {"maxTokens": 5}}) != []
    assert payloads.gemini_request({**body, "config": {}}) == [".: unknown key 'config'"]


def test_other_members_of_a_converse_request_are_checked_too():
    tools = TOOLS["bedrock"]

    assert payloads.bedrock_member({"tools": tools, "toolChoice": {"tool": {"name": "f"}}}, "toolConfig") == []
    assert payloads.bedrock_member({"tools": tools, "toolChoice": {"none": {}}}, "toolConfig") != []
    assert payloads.bedrock_member([{"text": "Be brief."}], "system") == []
    assert payloads.bedrock_member("Be brief.", "system") != []
