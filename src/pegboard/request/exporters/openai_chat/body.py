"""The body of a request for a chat completion."""

from __future__ import annotations

from pegboard.request.exporters.body import known, merged
from pegboard.request.exporters.openai.choice import ALLOWED, tool_facts
from pegboard.request.exporters.openai.listed import Listed
from pegboard.request.exporters.openai_chat.choice import ChatChoice
from pegboard.request.exporters.openai_chat.messages import ChatStyle, chat_messages
from pegboard.request.exporters.openai_chat.tools import FAMILY
from pegboard.request.exporters.passed import passed
from pegboard.request.model_request import ModelRequest
from pegboard.typing import JsonObject


def chat_body(request: ModelRequest, listed: Listed, style: ChatStyle, most_tokens: str) -> JsonObject:
    """The whole body.

    Args:
        request: What is asked.
        listed: The tools of the request.
        style: How the conversation is said.
        most_tokens: The member that limits the answer's length.

    Raises:
        ExportError: The tool choice can't be said.
    """
    options = passed(request.config.provider_options, (FAMILY, style.key))
    tools = tool_facts(request, listed, options.pop(ALLOWED, None), style.key, ChatChoice())
    body = {
        **known({"model": request.model}),
        "messages": chat_messages(request.system, request.messages, listed, style),
        **tools,
        **_config(request, most_tokens),
    }
    return merged(body, options)


def _config(request: ModelRequest, most_tokens: str) -> JsonObject:
    config = request.config
    return known(
        {
            most_tokens: config.max_output_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "stop": list(config.stop),
            "seed": config.seed,
            "reasoning_effort": config.reasoning,
        }
    )


__all__ = ["chat_body"]
