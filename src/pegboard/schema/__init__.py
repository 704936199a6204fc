"""JSON Schema: derived from types, checked, and applied to values; JSON into Python and back."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_NAMES = {
    "messages": "is_of type_of without_added_nulls",
    "references": (
        "NAMED NOTES ONE REFERENCES SOME References Steps compiled mapped parts_of recursive_definitions schemas"
    ),
    "validator": "Validator check_schema validator_of",
}
"""Module -> its public names, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
