"""The hooks that bring the exporter and the models. Neither is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pegboard import hookimpl

if TYPE_CHECKING:
    from pegboard_ollama.client import OllamaModel
    from pegboard_ollama.ollama import Ollama


@hookimpl
def pegboard_register_exporters(register: Callable[[str, Any], None]) -> None:
    """Brings `ollama`; one process has one of each.

    Args:
        register: Registers a function that makes it.
    """
    register("ollama", _exporter)


@hookimpl
def pegboard_register_models(register: Callable[[str, Any], None]) -> None:
    """Brings `ollama`, the models of an Ollama server.

    Args:
        register: Registers a function that makes one of its name.
    """
    register("ollama", _model)


def _model(model: str, **options: Any) -> OllamaModel:
    from pegboard_ollama.client import OllamaModel

    return OllamaModel(model, **options)


def _exporter() -> Ollama:
    from pegboard_ollama.ollama import exporter

    return exporter()
