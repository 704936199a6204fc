"""pegboard-ollama: models that an Ollama server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pegboard_ollama.ollama import Ollama as Ollama

_HOME = {"Ollama": "ollama"}
"""Where each name lives; it is imported at first use, so that the plugin's import brings no exporter."""

__all__ = ("Ollama",)


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
