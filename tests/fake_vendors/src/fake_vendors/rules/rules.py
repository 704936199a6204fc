"""What the providers' APIs say no to, beyond the types of their SDKs: one function a provider, over whole tool lists.

A second opinion: written from the providers' rules, and not from the exporters.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fake_vendors.rules import anthropic_rules, bedrock_rules, gemini_rules, mcp_rules, openai_rules, payloads
from fake_vendors.rules.sdk_types import faults

Rule = Callable[[Sequence[dict[str, Any]]], list[str]]

RULES: Final[Mapping[str, Rule]] = {
    "openai": openai_rules.chat,
    "openai-responses": openai_rules.responses,
    "anthropic": anthropic_rules.messages,
    "gemini": gemini_rules.by_json_schema,
    "gemini-schema": gemini_rules.by_schema,
    "bedrock": bedrock_rules.converse,
    "ollama": mcp_rules.ollama,
    "mcp": mcp_rules.mcp,
}
"""Exporter -> what is wrong with a list of tools that it wrote, as `"tool/path: reason"`."""


def received_faults(name: str, body: Mapping[str, Any]) -> list[str]:
    """Of a request as it came over the wire: its conversation, tools and tool choice; others may be a host's options.

    Args:
        name: Of the exporter that writes such requests.
        body: What was sent.
    """
    key, judge = payloads.MESSAGES[name]
    conversation, config = body[key], body.get("toolConfig")
    if name == "bedrock":
        conversation = _with_bytes(conversation)
    if name == "openai":  # other servers' own
        conversation = [{k: each for k, each in one.items() if k != "reasoning_content"} for one in conversation]
    found = [] if isinstance(conversation, str) else judge(conversation)
    if name == "bedrock":
        found += [] if config is None else bedrock_rules.shape_faults(config, "toolConfig")
    tools = (config or {}).get("tools") if name == "bedrock" else body.get("tools")
    if tools is not None and not found:
        found += payloads.TOOLS[name](tools) or RULES[_by(name, tools)](tools)
    choice, kind = payloads.CHOICES.get(name, ("", None))
    return found + (faults(body[choice], kind) if body.get(choice) is not None else [])


def _with_bytes(value: Any) -> Any:
    """A member of Bedrock's as botocore is given it; over the wire, bytes go as base64."""
    if isinstance(value, list):
        return [_with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    blobs = {key: base64.b64decode(each) for key, each in value.items() if key in ("bytes", "redactedContent")}
    return {key: _with_bytes(each) for key, each in value.items()} | blobs


def _by(name: str, tools: Sequence[dict[str, Any]]) -> str:
    """Gemini takes its older schema, too."""
    older = name == "gemini" and any("parameters" in each for each in gemini_rules.declarations(tools))
    return "gemini-schema" if older else name
