"""pegboard-openai: OpenAI's models, and servers that speak as OpenAI does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_openai.chat import OpenAIChatModel as OpenAIChatModel
    from pegboard_openai.openai_chat import OpenAIChat as OpenAIChat
    from pegboard_openai.openai_responses import OpenAIResponses as OpenAIResponses
    from pegboard_openai.responses import OpenAIModel as OpenAIModel

_MODULES = {
    "OpenAIChat": "openai_chat",
    "OpenAIChatModel": "chat",
    "OpenAIModel": "responses",
    "OpenAIResponses": "openai_responses",
}
"""Name -> its module, imported at first use, so that the plugin's import brings no exporter."""

__all__ = ("OpenAIChat", "OpenAIChatModel", "OpenAIModel", "OpenAIResponses")
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
