"""pegboard-google: Google's Gemini models, of the Gemini API and of Vertex AI."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pegboard_google._gemini import GeminiLimits as GeminiLimits
    from pegboard_google.gemini import Gemini as Gemini, GeminiSchema as GeminiSchema
    from pegboard_google.model import GoogleModel as GoogleModel

_HOME = {"Gemini": "gemini", "GeminiLimits": "_gemini", "GeminiSchema": "gemini", "GoogleModel": "model"}
"""Where each name lives; it is imported at first use, so that the plugin's import brings no exporter."""

__all__ = ("Gemini", "GeminiLimits", "GeminiSchema", "GoogleModel")


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
