"""OpenAI chat completions, and what speaks as they do."""

from __future__ import annotations

from pegboard.request.exporters.openai_chat.exporter import OpenAIChat

__all__ = ["OpenAIChat"]
