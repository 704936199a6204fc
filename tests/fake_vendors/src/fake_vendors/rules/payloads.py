"""Which type of its SDK each part of a provider's payload has to fit: fault lists for what exporters write.

A missing SDK is an error at import, so that no test passes for want of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from anthropic.types import MessageParam, ToolChoiceParam, ToolParam, ToolUnionParam
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
from fake_vendors.rules.sdk_types import faults

Payload = Sequence[dict[str, Any]]
Checked = Callable[[Payload], list[str]]


def _listed(item: Any, payload: Payload) -> list[str]:
    return faults(list(payload), list[item])


def _conversation(item: Any, paired: Checked, payload: Payload) -> list[str]:
    """By the types, and by how calls are paired in it."""
    return _listed(item, payload) or paired(payload)


def _anthropic_tools(payload: Payload) -> list[str]:
    """`InputSchema` takes any mapping: the typed half of it is what is wanted."""
    found = _listed(ToolUnionParam, payload)
    for number, tool in enumerate(payload):
        if "input_schema" in tool:
            found += faults(tool, ToolParam, f"[{number}]") if found else []
            found += faults(tool["input_schema"], InputSchemaTyped, f"[{number}].input_schema")
    return found


_gemini: Final = ("contents", partial(_conversation, genai.Content, pairing.gemini))
TOOLS: Final[Mapping[str, Checked]] = {
    "openai": partial(_listed, ChatCompletionToolUnionParam),
    "openai-responses": partial(_listed, ResponsesToolParam),
    "anthropic": _anthropic_tools,
    "gemini": partial(_listed, genai.Tool),
    "gemini-schema": partial(_listed, genai.Tool),
    "bedrock": lambda payload: bedrock_rules.shape_faults({"tools": list(payload)}, "toolConfig"),
    "ollama": mcp_rules.ollama,
    "mcp": mcp_rules.mcp,
}
"""Exporter -> the faults of a list of tools, by the SDK's types."""

MESSAGES: Final[Mapping[str, tuple[Literal["messages", "input", "contents"], Checked]]] = {
    "openai": ("messages", partial(_conversation, ChatCompletionMessageParam, pairing.openai_chat)),
    "openai-responses": ("input", partial(_conversation, ResponseInputItemParam, pairing.openai_responses)),
    "anthropic": ("messages", partial(_conversation, MessageParam, pairing.anthropic)),
    "gemini": _gemini,
    "gemini-schema": _gemini,
    "bedrock": ("messages", lambda payload: bedrock_rules.messages(payload) or pairing.bedrock(payload)),
    "ollama": ("messages", mcp_rules.ollama_messages),
}
"""Exporter -> the key of the conversation in its request, and the faults of it."""

CHOICES: Final[Mapping[str, tuple[str, Any]]] = {
    "openai": ("tool_choice", ChatCompletionToolChoiceOptionParam),
    "openai-responses": ("tool_choice", ToolChoice),
    "anthropic": ("tool_choice", ToolChoiceParam),
    "gemini": ("toolConfig", genai.ToolConfig),
}
"""Exporter -> the key of the tool choice in its request, and its type."""

_BODIES: Final[Mapping[str, Any]] = {
    "openai": CompletionCreateParamsNonStreaming,
    "openai-responses": ResponseCreateParamsNonStreaming,
    "anthropic": MessageCreateParamsNonStreaming,
}
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
"""Member -> its type: the SDK has no type of the whole."""


def request_faults(name: str, body: Mapping[str, Any]) -> list[str]:
    """Of a whole request, and of how calls are paired in it; one without a model shall be some model's."""
    key, judge = MESSAGES[name]
    found = [] if isinstance(body[key], str) else judge(body[key])
    for member, value in body.items() if name not in (*_BODIES, "ollama") else ():
        if name == "bedrock":
            found += [] if member in ("modelId", key) else bedrock_rules.shape_faults(value, member)
        elif member in _GEMINI:
            found += faults(value, _GEMINI[member], f".{member}")
        else:
            found.append(f".: unknown key {member!r}")
    return found + (faults({"model": "m", **body}, _BODIES[name]) if name in _BODIES else [])
