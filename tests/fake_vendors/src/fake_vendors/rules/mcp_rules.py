"""The shapes that MCP and Ollama want of tools: no SDK of theirs is needed to say them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from fake_vendors.rules import pairing
from fake_vendors.rules.schema_places import Faults, name_faults, tool_schema_faults
from fake_vendors.rules.sdk_types import faults

NAME: Final = r"[A-Za-z0-9_.-]{1,128}"
META_KEY: Final = (
    r"(?:[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*/)?"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"
)
_RESERVED: Final = r"(?:[^/]*\.)?(?:modelcontextprotocol|mcp)(?:\.[^/.]*)?/.*"
OLLAMA_NAME: Final = r"[A-Za-z0-9_-]{1,64}"


class McpAnnotations(TypedDict, total=False):
    """`ToolAnnotations`, MCP 2025-11-25."""

    title: str
    readOnlyHint: bool
    destructiveHint: bool
    idempotentHint: bool
    openWorldHint: bool


class McpTool(TypedDict):
    """`Tool`, MCP 2025-11-25, without what no exporter writes."""

    name: str
    inputSchema: dict[str, Any]
    title: NotRequired[str]
    description: NotRequired[str]
    outputSchema: NotRequired[dict[str, Any]]
    annotations: NotRequired[McpAnnotations]
    _meta: NotRequired[dict[str, Any]]


def mcp(tools: Sequence[dict[str, Any]]) -> Faults:
    """Of the `tools` of a `tools/list` result."""
    found = faults(list(tools), list[McpTool])
    if found:
        return found
    found = name_faults([tool["name"] for tool in tools], NAME)
    for tool in tools:
        found += [f"{tool['name']}{fault}" for fault in _mcp_tool_faults(tool)]
    return found


def _mcp_tool_faults(tool: dict[str, Any]) -> Faults:
    found: Faults = []
    for which in ("inputSchema", "outputSchema"):
        found += [f": {which}{fault}" for fault in tool_schema_faults(tool.get(which, {"type": "object"}))]
    for key in tool.get("_meta", ()):
        if re.fullmatch(META_KEY, key) is None:
            found.append(f": {key!r} is no key of _meta")
        elif re.fullmatch(_RESERVED, key):
            found.append(f": {key!r} is kept for MCP itself")
    return found


# --- Ollama ---


class OllamaProperty(TypedDict, total=False):
    """What Ollama reads of a property; other keys are passed over."""

    type: str | list[str]
    items: Any
    description: str
    enum: list[Any]
    anyOf: "list[OllamaProperty]"  # noqa: UP037  (it is made of itself)
    properties: "dict[str, OllamaProperty]"  # noqa: UP037
    required: list[str]


class OllamaParameters(TypedDict, total=False):
    """What Ollama reads of the root of a schema."""

    type: Literal["object"]
    required: list[str]
    properties: dict[str, OllamaProperty]
    items: Any


OllamaProperty.__pydantic_config__ = {"extra": "allow"}
OllamaParameters.__pydantic_config__ = {"extra": "allow"}


class OllamaFunction(TypedDict):
    """`api.ToolFunction`."""

    name: str
    description: NotRequired[str]
    parameters: OllamaParameters


class OllamaTool(TypedDict):
    """`api.Tool`."""

    type: Literal["function"]
    function: OllamaFunction


class OllamaCalled(TypedDict):
    """`api.ToolCallFunction`."""

    name: str
    arguments: dict[str, Any]
    index: NotRequired[int]


class OllamaCall(TypedDict):
    """`api.ToolCall`."""

    function: OllamaCalled
    id: NotRequired[str]


class OllamaMessage(TypedDict):
    """`api.Message`."""

    role: Literal["system", "user", "assistant", "tool"]
    content: NotRequired[str]
    thinking: NotRequired[str]
    images: NotRequired[list[str]]
    tool_calls: NotRequired[list[OllamaCall]]
    tool_name: NotRequired[str]
    tool_call_id: NotRequired[str]


def ollama_messages(messages: Sequence[dict[str, Any]]) -> Faults:
    """Of a chat request's `messages`, and of how calls are paired in them."""
    return faults(list(messages), list[OllamaMessage]) or pairing.ollama(messages)


def ollama(tools: Sequence[dict[str, Any]]) -> Faults:
    """Of a chat request's `tools`."""
    found = faults(list(tools), list[OllamaTool])
    if found:
        return found
    found = name_faults([tool["function"]["name"] for tool in tools], OLLAMA_NAME)
    for tool in tools:
        faults_of = tool_schema_faults(tool["function"]["parameters"])
        found += [f"{tool['function']['name']}{fault}" for fault in faults_of]
    return found
