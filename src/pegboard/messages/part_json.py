"""Parts of messages read back from JSON data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pegboard.messages.citation import Citation
from pegboard.messages.part import CallPart, HostedPart, MediaPart, Part, ReasoningPart, ResultPart, TextPart
from pegboard.messages.reading import below, items, mapping, members, needed, text
from pegboard.tools.call import ToolCall
from pegboard.tools.content import TextContent, ToolResult
from pegboard.tools.content_json import content_from_json
from pegboard.typing import JsonMapping


def part_from_json(data: object, path: str = "part") -> Part:
    """One part, as its `to_json` writes it.

    Args:
        data: A JSON object with a `"type"`.
        path: Where it stands, for errors.

    Raises:
        ValueError: It is no part; the error names the path.
    """
    read = members(data, path)
    with below(path):
        kind = needed(read, "type")
        reader = _READERS.get(kind)
        if reader is None:
            raise ValueError(f"type: must be one of {', '.join(_READERS)}, got {kind!r:.80}")
        return reader(read)


def _metadata(data: JsonMapping) -> dict[str, Any]:
    return mapping(data, "providerMetadata")


def _text(data: JsonMapping) -> TextPart:
    citations: list[Citation] = []
    for place, each in enumerate(items(data, "citations")):
        with below(f"citations[{place}]"):
            citations.append(Citation.from_json(each))
    return TextPart(needed(data, "text"), tuple(citations), _metadata(data))


def _media(data: JsonMapping) -> MediaPart:
    content = content_from_json(data.get("content"))
    if isinstance(content, TextContent):
        raise ValueError("content.type: words are a part of type 'text'")  # noqa: TRY004  (as documented: data from outside)
    return MediaPart(content, _metadata(data))


def _call(data: JsonMapping) -> CallPart:
    call = members(data.get("call"), "call")
    with below("call"):
        return CallPart(ToolCall.from_json(call))


def _result(data: JsonMapping) -> ResultPart:
    said = members(data.get("result"), "result")
    with below("result"):
        result = ToolResult.from_data(said)
    return ResultPart(needed(data, "callId"), needed(data, "name"), result, _metadata(data))


def _reasoning(data: JsonMapping) -> ReasoningPart:
    return ReasoningPart(text(data, "text", ""), _metadata(data))


def _hosted(data: JsonMapping) -> HostedPart:
    role = text(data, "role", "call")
    if role not in ("call", "result"):
        raise ValueError(f"role: must be call or result, got {role!r:.80}")
    return HostedPart(
        needed(data, "provider"),
        mapping(data, "data"),
        role,
        text(data, "name", ""),
        text(data, "id", ""),
    )


_READERS: Final[Mapping[str, Callable[[JsonMapping], Part]]] = {
    "text": _text,
    "media": _media,
    "call": _call,
    "result": _result,
    "reasoning": _reasoning,
    "hosted": _hosted,
}

__all__ = ["part_from_json"]
