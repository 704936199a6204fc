"""The hook that brings the models. Neither the SDK nor an exporter is imported before a model is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pegboard import hookimpl

if TYPE_CHECKING:
    from pegboard_bedrock.bedrock import Bedrock
    from pegboard_bedrock.client import BedrockModel


@hookimpl
def pegboard_register_exporters(register: Callable[[str, Any], None]) -> None:
    """Brings `bedrock`; one process has one of each.

    Args:
        register: Registers a function that makes it.
    """
    register("bedrock", _exporter)


@hookimpl
def pegboard_register_models(register: Callable[[str, Any], None]) -> None:
    """Brings `bedrock`.

    Args:
        register: Registers it with the registry.
    """
    register("bedrock", _model)


def _model(model: str, **options: Any) -> BedrockModel:
    from pegboard_bedrock.client import BedrockModel

    return BedrockModel(model, **options)


def _exporter() -> Bedrock:
    from pegboard_bedrock.bedrock import exporter

    return exporter()
