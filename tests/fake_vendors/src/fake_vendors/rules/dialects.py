"""Every dialect of the first-party packages, by its constant's name."""

from __future__ import annotations

from pegboard_anthropic.anthropic import ANTHROPIC, ANTHROPIC_STRICT
from pegboard_bedrock.bedrock import BEDROCK, BEDROCK_STRICT
from pegboard_clients.dialects.dialect import PLAIN
from pegboard_google.gemini import GEMINI_JSON_SCHEMA, GEMINI_SCHEMA
from pegboard_ollama.ollama import OLLAMA
from pegboard_openai._openai import MOONSHOT, OPENAI, OPENAI_STRICT

__all__ = [
    "ANTHROPIC",
    "ANTHROPIC_STRICT",
    "BEDROCK",
    "BEDROCK_STRICT",
    "GEMINI_JSON_SCHEMA",
    "GEMINI_SCHEMA",
    "MOONSHOT",
    "OLLAMA",
    "OPENAI",
    "OPENAI_STRICT",
    "PLAIN",
]
