"""pegboard-openai: OpenAI's models, and servers that speak as OpenAI does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pegboard_openai.chat import OpenAIChatModel as OpenAIChatModel
    from pegboard_openai.openai_chat import OpenAIChat as OpenAIChat
    from pegboard_openai.openai_responses import OpenAIResponses as OpenAIResponses
    from pegboard_openai.responses import OpenAIModel as OpenAIModel

_HOME = {
    "OpenAIChat": "openai_chat",
    "OpenAIChatModel": "chat",
    "OpenAIModel": "responses",
    "OpenAIResponses": "openai_responses",
}
"""Where each name lives; it is imported at first use, so that the plugin's import brings no exporter."""

__all__ = ("OpenAIChat", "OpenAIChatModel", "OpenAIModel", "OpenAIResponses")


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
