"""Which type of its SDK each part of a provider's payload has to fit: fault lists for what exporters write.

A missing SDK is an error at import, so that no test passes for want of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Union

from anthropic.types import MessageParam, TextBlockParam, ToolChoiceParam, ToolParam, ToolUnionParam
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from anthropic.types.tool_param import InputSchemaTyped
from google.genai import types as genai
from openai.types.chat import (
    ChatCompletionMessageParam,
    ChatCompletionToolChoiceOptionParam,
    ChatCompletionToolUnionParam,
)
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses import ResponseInputItemParam
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming, ToolChoice
from openai.types.responses.tool_param import ToolParam as ResponsesToolParam

from fake_vendors.rules import bedrock_rules, mcp_rules, pairing
from fake_vendors.rules.walking import faults

Payload = Sequence[dict[str, Any]]
Checked = Callable[[Payload], list[str]]


def _listed(payload: Payload, item: Any) -> list[str]:
    return faults(list(payload), list[item])


# --- OpenAI ---


def openai_chat_tools(payload: Payload) -> list[str]:
    """Of a chat completion's `tools`."""
    return _listed(payload, ChatCompletionToolUnionParam)


def openai_chat_messages(payload: Payload) -> list[str]:
    """Of a chat completion's `messages`, and of how calls are paired in them."""
    return _listed(payload, ChatCompletionMessageParam) or pairing.openai_chat(payload)


def openai_chat_tool_choice(payload: Any) -> list[str]:
    """Of a chat completion's `tool_choice`."""
    return faults(payload, ChatCompletionToolChoiceOptionParam)


def openai_chat_request(payload: Mapping[str, Any]) -> list[str]:
    """Of a whole chat completion request."""
    return faults(payload, CompletionCreateParamsNonStreaming)


def openai_responses_tools(payload: Payload) -> list[str]:
    """Of a response's `tools`."""
    return _listed(payload, ResponsesToolParam)


def openai_responses_input(payload: Payload) -> list[str]:
    """Of a response's `input`, and of how calls are paired in it."""
    return _listed(payload, ResponseInputItemParam) or pairing.openai_responses(payload)


def openai_responses_tool_choice(payload: Any) -> list[str]:
    """Of a response's `tool_choice`."""
    return faults(payload, ToolChoice)


def openai_responses_request(payload: Mapping[str, Any]) -> list[str]:
    """Of a whole response request."""
    return faults(payload, ResponseCreateParamsNonStreaming)


# --- Anthropic ---


def anthropic_tools(payload: Payload) -> list[str]:
    """Of a message request's `tools`. `InputSchema` takes any mapping: the typed half of it is what is wanted."""
    found = _listed(payload, ToolUnionParam)
    for number, tool in enumerate(payload):
        if "input_schema" in tool:
            found += faults(tool, ToolParam, f"[{number}]") if found else []
            found += faults(tool["input_schema"], InputSchemaTyped, f"[{number}].input_schema")
    return found


def anthropic_messages(payload: Payload) -> list[str]:
    """Of a message request's `messages`, and of how calls are paired in them."""
    return _listed(payload, MessageParam) or pairing.anthropic(payload)


def anthropic_system(payload: Any) -> list[str]:
    """Of a message request's `system`."""
    return faults(payload, Union[str, Iterable[TextBlockParam]])  # noqa: UP007  (as the SDK has it)


def anthropic_tool_choice(payload: Any) -> list[str]:
    """Of a message request's `tool_choice`."""
    return faults(payload, ToolChoiceParam)


def anthropic_request(payload: Mapping[str, Any]) -> list[str]:
    """Of a whole message request."""
    return faults(payload, MessageCreateParamsNonStreaming)


# --- Google ---


def gemini_tools(payload: Payload) -> list[str]:
    """Of a request's `tools`."""
    return _listed(payload, genai.Tool)


def gemini_contents(payload: Payload) -> list[str]:
    """Of a request's `contents`, and of how calls are paired in them."""
    return _listed(payload, genai.Content) or pairing.gemini(payload)


def gemini_tool_config(payload: Any) -> list[str]:
    """Of a request's `toolConfig`."""
    return faults(payload, genai.ToolConfig)


def gemini_request(payload: Mapping[str, Any]) -> list[str]:
    """Of the body of a `generateContent` request, member by member: the SDK has no type of the whole."""
    return [
        fault
        for key, value in payload.items()
        for fault in (faults(value, _GEMINI[key], f".{key}") if key in _GEMINI else [f".: unknown key {key!r}"])
    ]


_GEMINI: Final[Mapping[str, Any]] = {
    "model": str,
    "contents": list[genai.Content],
    "systemInstruction": genai.Content,
    "tools": list[genai.Tool],
    "toolConfig": genai.ToolConfig,
    "generationConfig": genai.GenerationConfig,
    "safetySettings": list[genai.SafetySetting],
    "cachedContent": str,
    "labels": dict[str, str],
}


# --- Bedrock ---


def bedrock_tools(payload: Payload) -> list[str]:
    """Of a `toolConfig`'s `tools`."""
    return bedrock_rules.shape_faults({"tools": list(payload)}, "toolConfig")


def bedrock_messages(payload: Payload) -> list[str]:
    """Of a request's `messages`, and of how calls are paired in them."""
    return bedrock_rules.messages(payload) or pairing.bedrock(payload)


def bedrock_member(payload: Any, member: str) -> list[str]:
    """Of any other member of a request: `"toolConfig"`, `"system"`, `"inferenceConfig"`, ..."""
    return bedrock_rules.shape_faults(payload, member)


TOOLS: Final[Mapping[str, Checked]] = {
    "openai": openai_chat_tools,
    "openai-responses": openai_responses_tools,
    "anthropic": anthropic_tools,
    "gemini": gemini_tools,
    "gemini-schema": gemini_tools,
    "bedrock": bedrock_tools,
    "ollama": mcp_rules.ollama,
    "mcp": mcp_rules.mcp,
}
"""Exporter -> the faults of a list of tools, by the SDK's types."""

MESSAGES: Final[Mapping[str, tuple[Literal["messages", "input", "contents"], Checked]]] = {
    "openai": ("messages", openai_chat_messages),
    "openai-responses": ("input", openai_responses_input),
    "anthropic": ("messages", anthropic_messages),
    "gemini": ("contents", gemini_contents),
    "gemini-schema": ("contents", gemini_contents),
    "bedrock": ("messages", bedrock_messages),
    "ollama": ("messages", mcp_rules.ollama_messages),
}
"""Exporter -> the key of the conversation in its request, and the faults of it."""


def request_faults(name: str, body: Mapping[str, Any]) -> list[str]:
    """Of a whole request, and of how calls are paired in it; one without a model shall be some model's."""
    key, judge = MESSAGES[name]
    if name == "bedrock":
        members = body.keys() - {"modelId", key}
        return judge(body[key]) + [fault for each in members for fault in bedrock_member(body[each], each)]
    whole = {
        "openai": openai_chat_request,
        "openai-responses": openai_responses_request,
        "anthropic": anthropic_request,
        "gemini": gemini_request,
        "gemini-schema": gemini_request,
        "ollama": lambda _: [],  # it has no SDK whose types say it
    }
    return judge(body[key]) + whole[name]({"model": "m", **body})
