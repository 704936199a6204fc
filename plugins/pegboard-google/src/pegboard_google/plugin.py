"""The hooks that bring the exporters and the models. Nothing of it is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegboard import hookimpl
from pegboard.lazy import lazy_call


@hookimpl
def pegboard_register_exporters(register: Callable[[str, Any], None]) -> None:
    """Registers the exporters `gemini` and `gemini-schema`, one of each per process.

    Args:
        register: Registers a function that makes it.
    """
    register("gemini", lazy_call("pegboard_google.gemini:exporter"))
    register("gemini-schema", lazy_call("pegboard_google.gemini:schema_exporter"))


@hookimpl
def pegboard_register_models(register: Callable[[str, Any], None]) -> None:
    """Registers the models `google`, for Gemini.

    Args:
        register: Registers it with the registry.
    """
    register("google", lazy_call("pegboard_google.client:GoogleModel"))
