"""How responses say which tool the model shall call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pegboard.typing import JsonObject

_BY_TYPE: Final = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use",
        "computer_use_preview",
        "file_search",
        "image_generation",
        "programmatic_tool_calling",
        "shell",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
"""Hosted tools that a choice can name; the others can only be the one that is allowed."""


class ResponsesChoice:
    """Tool choice in the words of responses."""

    def one(self, name: str, entry: JsonObject) -> JsonObject:
        """`{"type": "function", "name"}`, the same of a custom tool; a hosted tool goes by its type."""
        reference = self._reference(name, entry)
        if entry["type"] in ("custom", "function", "mcp") or entry["type"] in _BY_TYPE:
            return reference
        return {"type": "allowed_tools", "mode": "required", "tools": [reference]}

    def some(self, mode: Literal["auto", "required"], tools: Sequence[tuple[str, JsonObject]]) -> JsonObject:
        """`{"type": "allowed_tools", "mode", "tools"}`."""
        return {"type": "allowed_tools", "mode": mode, "tools": [self._reference(name, entry) for name, entry in tools]}

    def _reference(self, name: str, entry: JsonObject) -> JsonObject:
        kind = entry["type"]
        if kind in ("custom", "function"):
            return {"type": kind, "name": name}
        return {"type": kind, **({"server_label": entry.get("server_label")} if kind == "mcp" else {})}


__all__ = ["ResponsesChoice"]
