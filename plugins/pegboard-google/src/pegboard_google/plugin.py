"""The hook that brings the models. Neither the SDK nor an exporter is imported before a model is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pegboard import hookimpl

if TYPE_CHECKING:
    from pegboard_google.client import GoogleModel
    from pegboard_google.gemini import Gemini, GeminiSchema


@hookimpl
def pegboard_register_exporters(register: Callable[[str, Any], None]) -> None:
    """Brings `gemini` and `gemini-schema`; one process has one of each.

    Args:
        register: Registers a function that makes it.
    """
    register("gemini", _exporter)
    register("gemini-schema", _schema_exporter)


@hookimpl
def pegboard_register_models(register: Callable[[str, Any], None]) -> None:
    """Brings `google`, the Gemini models.

    Args:
        register: Registers it with the registry.
    """
    register("google", _gemini)


def _gemini(model: str, **options: Any) -> GoogleModel:
    from pegboard_google.client import GoogleModel

    return GoogleModel(model, **options)


def _exporter() -> Gemini:
    from pegboard_google.gemini import exporter

    return exporter()


def _schema_exporter() -> GeminiSchema:
    from pegboard_google.gemini import schema_exporter

    return schema_exporter()
