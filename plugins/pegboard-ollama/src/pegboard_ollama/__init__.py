"""pegboard-ollama: models that an Ollama server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_ollama.client import OllamaModel as OllamaModel
    from pegboard_ollama.ollama import Ollama as Ollama

_MODULES = {"Ollama": "ollama", "OllamaModel": "client"}
"""Name -> its module, imported at first use, so that the plugin's import brings no exporter."""

__all__ = ("Ollama", "OllamaModel")
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
