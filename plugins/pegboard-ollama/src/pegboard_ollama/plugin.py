"""The hooks that bring the exporter and the models. Neither is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pegboard import hookimpl

if TYPE_CHECKING:
    from pegboard_ollama.ollama import Ollama


@hookimpl
def pegboard_register_exporters(register: Callable[[str, Any], None]) -> None:
    """Brings `ollama`; one process has one of each.

    Args:
        register: Registers a function that makes it.
    """
    register("ollama", _exporter)


def _exporter() -> Ollama:
    from pegboard_ollama.ollama import exporter

    return exporter()
