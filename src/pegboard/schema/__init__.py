"""JSON Schema: derived from types, checked, and applied to values; JSON into Python and back."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_MODULES = {
    "NAMED": "references",
    "NOTES": "references",
    "ONE": "references",
    "REFERENCES": "references",
    "References": "references",
    "SOME": "references",
    "Steps": "references",
    "Validator": "validator",
    "check_schema": "validator",
    "compiled": "references",
    "is_of": "messages",
    "mapped": "references",
    "parts_of": "references",
    "recursive_definitions": "references",
    "schemas": "references",
    "type_of": "messages",
    "validator_of": "validator",
    "without_added_nulls": "messages",
}
"""Public name -> its module, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
