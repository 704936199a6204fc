"""The built-in exporters by name, each imported and made at its first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pegboard.request.exporter import Exporter

_MADE_BY: Final[Mapping[str, tuple[str, str]]] = {
    "openai": ("openai_chat", "OpenAIChat"),
    "openai-responses": ("openai_responses", "OpenAIResponses"),
    "anthropic": ("anthropic", "Anthropic"),
    "gemini": ("gemini", "Gemini"),
    "gemini-schema": ("gemini", "GeminiSchema"),
    "bedrock": ("bedrock", "Bedrock"),
    "ollama": ("ollama", "Ollama"),
    "mcp": ("mcp", "MCP"),
    "llm": ("llm_listing", "LLMListing"),
}
"""The package under `pegboard.request.exporters` that has each, and its class."""


def _factory(package: str, name: str) -> Callable[[], Exporter]:
    @cache
    def made() -> Exporter:
        module = import_module(f"pegboard.request.exporters.{package}")
        exporter: Exporter = getattr(module, name)()
        return exporter

    return made


EXPORTERS: Final[Mapping[str, Callable[[], Exporter]]] = {
    exporter: _factory(*made_by) for exporter, made_by in _MADE_BY.items()
}
"""The built-in exporters: name -> what gives it. One process has one of each, which keeps what it has written."""

__all__ = ["EXPORTERS"]
