"""The hooks that bring the exporters and the models. Nothing of it is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegboard import hookimpl
from pegboard.lazy import lazy_call


@hookimpl
def pegboard_register_exporters(register: Callable[[str, Any], None]) -> None:
    """Registers the exporter `anthropic`, one per process.

    Args:
        register: Registers a function that makes it.
    """
    register("anthropic", lazy_call("pegboard_anthropic.anthropic:exporter"))


@hookimpl
def pegboard_register_models(register: Callable[[str, Any], None]) -> None:
    """Registers the model `anthropic`.

    Args:
        register: Registers it with the registry.
    """
    register("anthropic", lazy_call("pegboard_anthropic.client:AnthropicModel"))
