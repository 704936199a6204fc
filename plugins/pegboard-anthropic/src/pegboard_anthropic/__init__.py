"""pegboard-anthropic: Anthropic's models, through its own SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pegboard_anthropic.anthropic import (
        Anthropic as Anthropic,
        AnthropicLimits as AnthropicLimits,
        thinking_budgets as thinking_budgets,
    )
    from pegboard_anthropic.model import AnthropicModel as AnthropicModel

_HOME = {
    "Anthropic": "anthropic",
    "AnthropicLimits": "anthropic",
    "AnthropicModel": "model",
    "thinking_budgets": "anthropic",
}
"""Where each name lives; it is imported at first use, so that the plugin's import brings no exporter."""

__all__ = ("Anthropic", "AnthropicLimits", "AnthropicModel", "thinking_budgets")


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
