"""OpenAI responses."""

from __future__ import annotations

from pegboard.request.exporters.openai_responses.exporter import OpenAIResponses

__all__ = ["OpenAIResponses"]
