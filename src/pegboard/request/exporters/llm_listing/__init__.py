"""The listing of `llm tools list --json`, the command of Simon Willison's LLM."""

from __future__ import annotations

from pegboard.request.exporters.llm_listing.exporter import LLMListing

__all__ = ["LLMListing"]
