"""What calls answered, as `functionResponse` parts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from pegboard.request.exporters.gemini.limits import GeminiLimits
from pegboard.request.exporters.gemini.media import inline_part
from pegboard.request.exporters.worded import worded
from pegboard.tools.content import Content, LinkContent, TextContent, ToolResult
from pegboard.typing import JsonObject

_WORDS = ("output", "error")
"""The keys by which Gemini tells an answer from an error (Gemini API: `FunctionResponse.response`)."""


def response_part(name: str, wire_id: str, result: ToolResult, limits: GeminiLimits) -> JsonObject:
    """The part that answers a call.

    Args:
        name: The function's name as the call had it on the wire.
        wire_id: The call's id there; `""` where it had none.
        result: Its content goes out, and structured data where the content says the same; nothing else does.
        limits: What media a result may hold; others are told in words.
    """
    media = [part for item in result.content if (part := _media(item, limits)) is not None]
    texts = [worded(item) for item in result.content if _media(item, limits) is None]
    response: JsonObject = {"name": name, "response": _response(result, texts)}
    if wire_id:
        response["id"] = wire_id
    if media:
        response["parts"] = media
    return {"functionResponse": response}


def _media(item: Content, limits: GeminiLimits) -> JsonObject | None:
    if isinstance(item, TextContent | LinkContent) or not limits.takes_in_results(item.mime_type or ""):
        return None
    return inline_part(item)


def _response(result: ToolResult, texts: list[str]) -> JsonObject:
    """`{"error": ...}`, the structured object itself, or `{"output": ...}`.

    Where content and structured data differ, the content counts: it may have been cut for the model.
    """
    if result.is_error:
        return {"error": "\n".join(texts) or "failed"}
    data = result.structured_content
    if data is None or not _says(texts, data):
        return {"output": "\n".join(texts)}
    if isinstance(data, dict) and not any(word in data for word in _WORDS):
        return cast("JsonObject", data)
    return {"output": data}


def _says(texts: Iterable[str], data: Any) -> bool:
    """Whether the content is nothing but the structured data."""
    said = [text for text in texts if text]
    if not said:
        return True
    try:
        return len(said) == 1 and json.loads(said[0]) == data
    except (ValueError, RecursionError):
        return False


__all__ = ["response_part"]
