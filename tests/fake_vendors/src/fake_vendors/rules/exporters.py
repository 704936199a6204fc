"""Every exporter of the first-party packages, by name; its package is imported when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

from pegboard import Exporter
from pegboard_clients.listing import mcp


def _make(module: str, name: str = "exporter") -> Any:
    return getattr(import_module(module), name)()


EXPORTERS: Final[Mapping[str, Callable[[], Exporter]]] = {
    "openai": partial(_make, "pegboard_openai.openai_chat"),
    "openai-responses": partial(_make, "pegboard_openai.openai_responses"),
    "anthropic": partial(_make, "pegboard_anthropic.anthropic"),
    "gemini": partial(_make, "pegboard_google.gemini"),
    "gemini-schema": partial(_make, "pegboard_google.gemini", "schema_exporter"),
    "bedrock": partial(_make, "pegboard_bedrock.bedrock"),
    "ollama": partial(_make, "pegboard_ollama.ollama"),
    "mcp": mcp,
}
