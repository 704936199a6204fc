"""pegboard-openai: OpenAI's models, and servers that speak as OpenAI does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_openai.client import OpenAIChatModel as OpenAIChatModel, OpenAIModel as OpenAIModel
    from pegboard_openai.openai_chat import OpenAIChat as OpenAIChat
    from pegboard_openai.openai_responses import OpenAIResponses as OpenAIResponses

_MODULES = {
    "OpenAIChat": "openai_chat",
    "OpenAIChatModel": "client",
    "OpenAIModel": "client",
    "OpenAIResponses": "openai_responses",
}
"""Name -> its module, imported at first use, so that the plugin's import brings no exporter."""

__all__ = ("OpenAIChat", "OpenAIChatModel", "OpenAIModel", "OpenAIResponses")
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
