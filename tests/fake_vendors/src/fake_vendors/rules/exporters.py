"""Every exporter of the first-party packages, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pegboard_anthropic.anthropic
import pegboard_bedrock.bedrock
import pegboard_google.gemini
import pegboard_ollama.ollama
import pegboard_openai.openai_chat
import pegboard_openai.openai_responses
from pegboard import Exporter
from pegboard_clients.listing import mcp

EXPORTERS: Final[Mapping[str, Callable[[], Exporter]]] = {
    "openai": pegboard_openai.openai_chat.exporter,
    "openai-responses": pegboard_openai.openai_responses.exporter,
    "anthropic": pegboard_anthropic.anthropic.exporter,
    "gemini": pegboard_google.gemini.exporter,
    "gemini-schema": pegboard_google.gemini.schema_exporter,
    "bedrock": pegboard_bedrock.bedrock.exporter,
    "ollama": pegboard_ollama.ollama.exporter,
    "mcp": mcp,
}
