"""DEFINE: a function, a typed class or a raw schema becomes a `Tool`."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_MODULES = {
    "ATTRIBUTE": "tool",
    "BINARY": "content",
    "EMPTY_CONTEXT": "context",
    "HOST": "spec",
    "LONG_RUNNING": "tool",
    "CallError": "call",
    "CallFault": "call",
    "Content": "content",
    "DisplayUpdate": "context",
    "ErrorKind": "content",
    "Handler": "handler",
    "State": "call",
    "arguments_object": "call",
    "check_artifact_name": "stores",
    "check_name": "spec",
    "is_text_type": "content",
    "is_valid_name": "spec",
    "mapped_name": "spec",
    "media_type": "content",
    "json_or_text": "content",
    "merge_actions": "call",
    "parsed_object": "call",
    "plain_type": "content",
    "read_content": "content",
    "text_of_file": "content",
    "tools_from": "typed",
    "visible_spec": "visible",
    "encodable_text": "content",
}
"""Public name -> its module, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
