"""What a call answered, as a `toolResult` block."""

from __future__ import annotations

from typing import Final

from pegboard.messages.message import ResultPart
from pegboard.request.exporters.bedrock.media import BedrockMedia
from pegboard.request.exporters.calls.arguments import parsed_object
from pegboard.schema.json import is_object, json_faults, json_text
from pegboard.tools.content import Content, TextContent, ToolResult
from pegboard.typing import JsonObject

_NOTHING: Final = {"text": "(nothing)"}
_FAILED: Final = {"text": "The call failed and said nothing."}


def result_block(part: ResultPart, use_id: str, media: BedrockMedia) -> JsonObject:
    """The answer to a call.

    Args:
        part: The result.
        use_id: The id of the call's block.
        media: Writes its media.
    """
    result = part.result
    block: JsonObject = {"toolUseId": use_id, "content": result_content(result, media)}
    if result.is_error:
        block["status"] = "error"
    if not block["content"]:
        block["content"] = [dict(_FAILED if result.is_error else _NOTHING)]
    return {"toolResult": block}


def result_content(result: ToolResult, media: BedrockMedia) -> list[JsonObject]:
    """What the model reads of a result: an object as `json`, everything else as text or media.

    The attachments that it can be shown stand behind.
    """
    data = result.structured_content
    if data is not None and _is_all(result.content, data):
        return [_data(data), *_beside(result, media)]
    shown = [media.block(each, in_result=True) for each in result.content]
    return [*(block for block in shown if block is not None), *_beside(result, media)]


def _is_all(content: tuple[Content, ...], data: object) -> bool:
    """Whether structured content says all that the content does: its text is the same JSON."""
    if not content:
        return True
    text = "".join(each.text for each in content[:1] if isinstance(each, TextContent))
    return len(content) == 1 and bool(text.strip()) and is_object(data) and parsed_object(text) == data


def _data(data: object) -> JsonObject:
    if is_object(data) and not json_faults(data):
        return {"json": data}
    try:
        return {"text": json_text(data)}
    except (TypeError, ValueError, RecursionError):
        return {"text": f"a {type(data).__name__} that is no JSON"}


def _beside(result: ToolResult, media: BedrockMedia) -> list[JsonObject]:
    blocks = [media.native(each, in_result=True) for each in result.attachments]
    return [block for block in blocks if block is not None]


__all__ = ["result_block", "result_content"]
