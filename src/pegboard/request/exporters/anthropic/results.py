"""What a call answered, as a `tool_result` block."""

from __future__ import annotations

from typing import Final

from pegboard.messages.message import ResultPart
from pegboard.request.exporters.anthropic.limits import FAMILY, AnthropicLimits
from pegboard.request.exporters.anthropic.media import content_block, native_block, search_result
from pegboard.request.exporters.passed import passed
from pegboard.request.exporters.untrusted import object_in
from pegboard.schema.json import json_text
from pegboard.tools.content import Content, TextContent, ToolResult
from pegboard.typing import JsonMapping, JsonObject

_KEYS: Final = ("cache_control", "toolset_name")
_FAILED: Final = "The call failed and said nothing."


def result_block(part: ResultPart, use_id: str, limits: AnthropicLimits) -> JsonObject:
    """The answer to a call.

    Where the part's options hold `citations`, files of text become search results, and documents are cited, too.

    Args:
        part: The result.
        use_id: The id of the call's block.
        limits: What the provider takes.
    """
    options = passed(part.provider_metadata, (FAMILY,))
    block: JsonObject = {"type": "tool_result", "tool_use_id": use_id}
    content = result_content(part.result, limits, object_in(options, "citations"))
    if content:
        block["content"] = content
    if part.result.is_error:
        block["is_error"] = True
        block.setdefault("content", _FAILED)  # an error without words is refused (public)
    return {**block, **{key: options[key] for key in _KEYS if options.get(key) is not None}}


def result_content(result: ToolResult, limits: AnthropicLimits, citations: JsonMapping) -> str | list[JsonObject]:
    """What the model reads of a result, and the attachments that it can be shown; one text alone as it is."""
    content = result.content
    if not content and result.structured_content is not None:
        content = (TextContent(_said(result.structured_content)),)
    if len(content) == 1 and isinstance(content[0], TextContent) and not result.attachments:
        return content[0].text if content[0].text.strip() else ""
    shown = [_block(each, limits, citations) for each in content]
    beside = [native_block(each, limits) for each in result.attachments]
    return [block for block in (*shown, *beside) if block is not None]


def _block(content: Content, limits: AnthropicLimits, citations: JsonMapping) -> JsonObject | None:
    block = search_result(content) if citations else None
    block = content_block(content, limits) if block is None else block
    if citations and block is not None and block["type"] in ("document", "search_result"):
        block["citations"] = dict(citations)
    return block


def _said(value: object) -> str:
    """Structured content as JSON; a host may have put anything there."""
    try:
        return json_text(value)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__} that is no JSON"


__all__ = ["result_block", "result_content"]
