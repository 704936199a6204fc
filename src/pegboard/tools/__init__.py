"""DEFINE: a function, a typed class or a raw schema becomes a `Tool`."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_MODULES = {
    "ATTRIBUTE": "tool",
    "BINARY": "content",
    "EMPTY_CONTEXT": "context",
    "HOST": "spec",
    "CallError": "call",
    "CallFault": "call",
    "Content": "content",
    "DisplayUpdate": "context",
    "ErrorKind": "content",
    "Handler": "handler",
    "State": "call",
    "as_tools": "typed",
    "check_name": "spec",
    "checked_name": "stores",
    "is_valid_name": "spec",
    "mapped_name": "spec",
    "media_type": "content",
    "merged": "call",
    "read_content": "content",
    "sayable_json": "content",
    "visible_spec": "visible",
    "writable": "content",
}
"""Public name -> its module, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
