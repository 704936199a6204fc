"""The request to a model, and its export to a provider's wire format."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_NAMES = {"model_request": "ResponseReader StreamingModel ToolChoice", "processors": "DEFERRED"}
"""Module -> its public names, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
