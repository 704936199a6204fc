"""The hook that brings the models. Neither the SDK nor an exporter is imported before a model is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pegboard import hookimpl

if TYPE_CHECKING:
    from pegboard_google.model import GoogleModel


@hookimpl
def pegboard_register_models(register: Callable[[str, Any], None]) -> None:
    """Brings `google`, the Gemini models.

    Args:
        register: Hangs it on the board.
    """
    register("google", _gemini)


def _gemini(model: str, **options: Any) -> GoogleModel:
    from pegboard_google.model import GoogleModel

    return GoogleModel(model, **options)
