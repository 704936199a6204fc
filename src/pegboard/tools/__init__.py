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
    "tools_from": "typed",
    "check_name": "spec",
    "check_artifact_name": "stores",
    "is_valid_name": "spec",
    "valid_name_for": "spec",
    "media_type": "content",
    "merge_actions": "call",
    "read_content": "content",
    "json_or_text": "content",
    "visible_spec": "visible",
    "encodable_text": "content",
}
"""Public name -> its module, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
