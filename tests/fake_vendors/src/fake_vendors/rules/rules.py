"""What the providers' APIs say no to, beyond the types of their SDKs: one function a provider, over whole tool lists.

A second opinion: written from the providers' rules, and not from the exporters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fake_vendors.rules import anthropic_rules, bedrock_rules, gemini_rules, mcp_rules, openai_rules

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
