"""What models of a name know; Anthropic's names tell their version."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from pegboard import Exporter
from pegboard_anthropic.anthropic import Anthropic, AnthropicLimits, exporter, thinking_budgets

_CLAUDE: Final = "claude"
_VERSION: Final = re.compile(r"claude-(?:[a-z]{1,20}-|v)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_NEWEST: Final = (99, 0)
_FIRST_THAT_SEARCHES: Final = (4, 5)
"""https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool, its table of models."""

_FIRST_THAT_ADAPTS: Final = (4, 6)
"""https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking: earlier models think within a budget."""


def searches(model: str) -> bool:
    """Whether a model of this name searches and loads deferred tools itself."""
    return _version(model) >= _FIRST_THAT_SEARCHES


def exporter_of(model: str) -> Exporter:
    """The exporter for a model: the built-in `"anthropic"`, for older ones and other makers' one that knows less."""
    return exporter() if _version(model) >= _FIRST_THAT_ADAPTS else earlier_exporter()


@cache
def earlier_exporter() -> Anthropic:
    """For models that think within a budget of tokens, and take `temperature` and `top_p`."""
    return Anthropic(AnthropicLimits(reasoning=thinking_budgets(), sampling=True))


def _version(model: str) -> tuple[int, int]:
    """Major and minor number; the newest where a Claude's name has none, and 0 for other makers' models."""
    if _CLAUDE not in model:
        return (0, 0)
    found = _VERSION.search(model)
    return _NEWEST if found is None else (int(found[1]), int(found[2] or 0))


__all__ = ["earlier_exporter", "exporter_of", "searches"]
