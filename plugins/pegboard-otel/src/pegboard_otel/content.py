"""Content of calls and model requests as attributes: JSON text, by the conventions' schemas for messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard import Message, ModelRequest, ModelResponse, ToolResult
from pegboard.events import WrappedCall
from pegboard.messages import CallPart, Part, ReasoningPart, ResultPart, TextPart
from pegboard_otel import conventions as names
from pegboard_otel.attributes import encodable

_MOST: Final = 100_000  # characters of one attribute


def of_call(call: WrappedCall, result: ToolResult | None) -> dict[str, str]:
    """The arguments of a call and what the model gets of its result, never the operator's detail."""
    facts = {names.TOOL_ARGUMENTS: _text(call.arguments)}
    if result is not None:
        facts[names.TOOL_RESULT] = _text(_answer_of(result))
    return facts


def of_request(request: ModelRequest, response: ModelResponse | None) -> dict[str, str]:
    """The instructions, the conversation and the answer."""
    facts = {names.INPUT_MESSAGES: _text([_message(each) for each in request.messages])}
    if request.system:
        facts[names.INSTRUCTIONS] = _text([{"type": "text", "content": request.system}])
    if response is not None:
        answer = {**_message(response.message), "finish_reason": response.finish_reason}
        facts[names.OUTPUT_MESSAGES] = _text([answer])
    return facts


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": [_part(each) for each in message.parts]}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart | ReasoningPart):
        return {"type": part.type, "content": part.text}
    if isinstance(part, CallPart):
        return {"type": "tool_call", "id": part.call.id, "name": part.call.name, "arguments": part.call.arguments}
    if isinstance(part, ResultPart):
        return {"type": "tool_call_response", "id": part.call_id, "response": _answer_of(part.result)}
    return {"type": part.type}  # pictures and the like aren't copied


def _answer_of(result: ToolResult) -> Any:
    return result.text if result.structured_content is None else result.structured_content


def _text(value: Any) -> str:
    """A value as text: a string unchanged, anything else as JSON; cut, and without lone surrogates."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain)
    except (ValueError, RecursionError):  # arguments that were refused may have cycles
        return ""
    return encodable(text if len(text) <= _MOST else f"{text[: _MOST - 1]}…")


def _plain(value: Any) -> Any:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else f"<{type(value).__name__}>"
