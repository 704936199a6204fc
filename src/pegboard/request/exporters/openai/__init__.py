"""What OpenAI's two wire formats, chat completions and responses, have in common."""

from __future__ import annotations

from pegboard.request.exporters.openai.limits import Limits

__all__ = ["Limits"]
