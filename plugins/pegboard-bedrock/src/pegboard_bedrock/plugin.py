"""The hooks that bring the exporters and the models. Nothing of it is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegboard import hookimpl
from pegboard.lazy import lazy_call


@hookimpl
def pegboard_register_exporters(register: Callable[[str, Any], None]) -> None:
    """Registers the exporter `bedrock`, one per process.

    Args:
        register: Registers a function that makes it.
    """
    register("bedrock", lazy_call("pegboard_bedrock.bedrock:exporter"))


@hookimpl
def pegboard_register_models(register: Callable[[str, Any], None]) -> None:
    """Registers the model `bedrock`.

    Args:
        register: Registers it with the registry.
    """
    register("bedrock", lazy_call("pegboard_bedrock.client:BedrockModel"))
