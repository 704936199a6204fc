"""pegboard-anthropic: Anthropic's models, through its own SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_anthropic._anthropic import AnthropicLimits as AnthropicLimits, thinking_budgets as thinking_budgets
    from pegboard_anthropic.anthropic import Anthropic as Anthropic
    from pegboard_anthropic.client import AnthropicModel as AnthropicModel

_MODULES = {
    "Anthropic": "anthropic",
    "AnthropicLimits": "_anthropic",
    "AnthropicModel": "client",
    "thinking_budgets": "_anthropic",
}
"""Name -> its module, imported at first use, so that the plugin's import brings no exporter."""

__all__ = ("Anthropic", "AnthropicLimits", "AnthropicModel", "thinking_budgets")
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
