"""JSON Schema: derived from types, checked, and applied to values; JSON into Python and back."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_MODULES = {
    "Validator": "validator",
    "check_schema": "validator",
    "validator_of": "validator",
}
"""Public name -> its module, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
