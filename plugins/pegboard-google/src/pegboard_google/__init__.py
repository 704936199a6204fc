"""pegboard-google: Google's Gemini models, of the Gemini API and of Vertex AI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_google._gemini import GeminiLimits as GeminiLimits
    from pegboard_google.client import GoogleModel as GoogleModel
    from pegboard_google.gemini import Gemini as Gemini, GeminiSchema as GeminiSchema

_MODULES = {"Gemini": "gemini", "GeminiLimits": "_gemini", "GeminiSchema": "gemini", "GoogleModel": "client"}
"""Name -> its module, imported at first use, so that the plugin's import brings no exporter."""

__all__ = ("Gemini", "GeminiLimits", "GeminiSchema", "GoogleModel")
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
