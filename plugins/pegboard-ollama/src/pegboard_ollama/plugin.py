"""The hooks that bring the exporter and the models. Neither is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegboard import hookimpl
from pegboard.lazy import lazy_call


@hookimpl
def pegboard_register_exporters(register: Callable[[str, Any], None]) -> None:
    """Registers the exporter `ollama`, one per process.

    Args:
        register: Registers a function that makes it.
    """
    register("ollama", lazy_call("pegboard_ollama.ollama:exporter"))


@hookimpl
def pegboard_register_models(register: Callable[[str, Any], None]) -> None:
    """Registers the models `ollama`, of an Ollama server.

    Args:
        register: Registers a function that makes one of its name.
    """
    register("ollama", lazy_call("pegboard_ollama.client:OllamaModel"))
