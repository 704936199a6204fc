"""The body of a request for a response."""

from __future__ import annotations

from pegboard.request.exporters.body import known, merged
from pegboard.request.exporters.openai.choice import ALLOWED, tool_facts
from pegboard.request.exporters.openai.limits import Limits
from pegboard.request.exporters.openai.listed import Listed
from pegboard.request.exporters.openai_responses.choice import ResponsesChoice
from pegboard.request.exporters.openai_responses.input import ResponsesStyle, input_items
from pegboard.request.exporters.openai_responses.tools import FAMILY
from pegboard.request.exporters.passed import passed
from pegboard.request.model_request import ModelRequest
from pegboard.tools.call import writable
from pegboard.typing import JsonObject


def responses_body(request: ModelRequest, listed: Listed, limits: Limits, key: str) -> JsonObject:
    """The whole body; `stop` and `seed` have no words here.

    Args:
        request: What is asked.
        listed: The tools of the request.
        limits: What the provider takes.
        key: The exporter's name.

    Raises:
        ExportError: The tool choice can't be said.
    """
    options = passed(request.config.provider_options, (FAMILY, key))
    tools = tool_facts(request, listed, options.pop(ALLOWED, None), key, ResponsesChoice())
    style = ResponsesStyle(key, limits, stored=options.get("store") is not False)
    body = {
        **known({"model": request.model, "instructions": writable(request.system) or None}),
        "input": input_items(request.messages, listed, style),
        **tools,
        **_config(request),
    }
    return merged(body, options)


def _config(request: ModelRequest) -> JsonObject:
    config = request.config
    return known(
        {
            "max_output_tokens": config.max_output_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "reasoning": None if config.reasoning is None else {"effort": config.reasoning},
        }
    )


__all__ = ["responses_body"]
