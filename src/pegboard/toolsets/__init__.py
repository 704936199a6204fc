"""RESOLVE: toolsets, predicates, and the tools that one request offers."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_MODULES = {
    "FOUND_TOOLS": "resolve",
    "SEARCHES": "resolve",
    "CachedToolset": "wrappers",
    "ToolsetResult": "toolset",
    "ToolMapper": "toolset",
    "check_tool_schemas": "toolset",
    "error_text": "toolset",
    "found_names": "resolve",
    "resolve_tools": "resolve",
}
"""Public name -> its module, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
