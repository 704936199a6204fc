"""What Anthropic calls the tools that it brings: a type with a date, and a name that goes with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_DATED: Final = re.compile(r"([a-z0-9_]+?)(?:_20[0-9]{6})?")
_OTHERWISE: Final[Mapping[str, str]] = {
    "text_editor_20241022": "str_replace_editor",
    "text_editor_20250124": "str_replace_editor",
    "text_editor": "str_replace_based_edit_tool",
}
"""Where the name isn't the type without its date (types of the SDK)."""

SEARCH: Final = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
"""What finds deferred tools."""


def is_toolset(kind: str) -> bool:
    """Whether a type stands for several tools, and so has no name (`browser_toolset_20260801`, `mcp_toolset`)."""
    return re.search(r"_toolset(_20[0-9]{6})?$", kind) is not None


def is_search(kind: object) -> bool:
    """Whether a type finds deferred tools."""
    return isinstance(kind, str) and kind.startswith("tool_search_tool_")


def server_tool_name(kind: str) -> str | None:
    """The name that goes with a type (`"web_search"` of `"web_search_20250305"`); `None` where it can be no type."""
    if kind in _OTHERWISE:
        return _OTHERWISE[kind]
    found = _DATED.fullmatch(kind)
    return None if found is None else _OTHERWISE.get(found[1], found[1])


__all__ = ["SEARCH", "is_search", "is_toolset", "server_tool_name"]
