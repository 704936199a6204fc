"""The hook that brings the models. Neither the SDK nor an exporter is imported before a model is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pegboard import hookimpl

if TYPE_CHECKING:
    from pegboard_anthropic.anthropic import Anthropic
    from pegboard_anthropic.client import AnthropicModel


@hookimpl
def pegboard_register_exporters(register: Callable[[str, Any], None]) -> None:
    """Brings `anthropic`; one process has one of each.

    Args:
        register: Registers a function that makes it.
    """
    register("anthropic", _exporter)


@hookimpl
def pegboard_register_models(register: Callable[[str, Any], None]) -> None:
    """Brings `anthropic`.

    Args:
        register: Registers it with the registry.
    """
    register("anthropic", _model)


def _model(model: str, **options: Any) -> AnthropicModel:
    from pegboard_anthropic.client import AnthropicModel

    return AnthropicModel(model, **options)


def _exporter() -> Anthropic:
    from pegboard_anthropic.anthropic import exporter

    return exporter()
