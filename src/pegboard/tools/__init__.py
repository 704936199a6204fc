"""Tools: a function, a typed class or a raw schema becomes a `Tool`."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_NAMES = {
    "call": "CallError CallFault State arguments_object merge_actions parsed_object",
    "content": (
        "BINARY Content ErrorKind encodable_text is_text_type json_or_text media_type plain_type read_content "
        "text_of_file"
    ),
    "context": "EMPTY_CONTEXT DisplayUpdate",
    "handler": "Handler",
    "spec": "HOST alike check_name is_valid_name mapped_name",
    "stores": "check_artifact_name",
    "tool": "ATTRIBUTE LONG_RUNNING",
    "typed": "tools_from",
    "visible": "visible_spec",
}
"""Module -> its public names, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
