"""How chat completions say which tool the model shall call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pegboard.typing import JsonObject


class ChatChoice:
    """Tool choice in the words of chat completions."""

    def one(self, name: str, entry: JsonObject) -> JsonObject:
        """`{"type": "function", "function": {"name"}}`, and the same of a custom tool."""
        return {"type": entry["type"], entry["type"]: {"name": name}}

    def some(self, mode: Literal["auto", "required"], tools: Sequence[tuple[str, JsonObject]]) -> JsonObject:
        """`{"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}`."""
        named = [self.one(name, entry) for name, entry in tools]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}}


__all__ = ["ChatChoice"]
