"""Toolsets, predicates, and the tools that one request offers."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_NAMES = {
    "filters": "error_text",
    "resolve": "FOUND_TOOLS SEARCHES found_names resolve_tools",
    "toolset": "ToolMapper ToolsetResult check_tool_schemas identity_of",
    "transforms": "ToolTransform",
    "wrappers": "CachedToolset",
}
"""Module -> its public names, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
