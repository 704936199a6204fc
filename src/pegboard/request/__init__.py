"""REQUEST: the request to a model, and its export to a provider's wire format."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_MODULES = {
    "DEFERRED": "processors",
    "ResponseReader": "model_request",
    "StreamingModel": "model_request",
    "ToolChoice": "model_request",
}
"""Public name -> its module, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
