"""Content of results as the blocks that most frameworks have, both ways."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from pegboard import AudioContent, FileContent, ImageContent, LinkContent, TextContent
from pegboard.json import json_text
from pegboard.tools import BINARY, Content, json_or_text
from pegboard.typing import JsonObject


def blocks_of(content: Iterable[Content]) -> list[JsonObject]:
    """Content as blocks: `{"type": "text", "text"}`, or `{"type": "image", "base64", "mime_type"}` and so on."""
    return [_block(item) for item in content]


def text_of(item: Content) -> str | None:
    """The text of one content; `None` for media and binary files."""
    if isinstance(item, TextContent):
        return item.text
    if isinstance(item, LinkContent):
        return f"{item.name}: {item.uri}"
    return item.data if isinstance(item.data, str) else None


def media_of(item: Content) -> tuple[bytes, str]:
    """The bytes and the MIME type of media and of a binary file: of a content without text."""
    assert not isinstance(item, TextContent | LinkContent)
    assert isinstance(item.data, bytes)
    return item.data, item.mime_type or BINARY


def _block(item: Content) -> JsonObject:
    if (text := text_of(item)) is not None:
        return {"type": "text", "text": text}
    data, mime_type = media_of(item)
    kind = "file" if isinstance(item, FileContent) else item.type
    return {"type": kind, "base64": base64.b64encode(data).decode(), "mime_type": mime_type}


_MEDIA: Final = {"image": ImageContent, "audio": AudioContent}


def content_of(value: Any) -> list[Content]:
    """A framework's content as pegboard's: a string, a block, or several; what isn't known is JSON, or a text."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [item for each in cast("Sequence[Any]", value) for item in _content(each)]
    return [*_content(value)]


def _content(block: Any) -> Iterable[Content]:
    if isinstance(block, str):
        yield TextContent(block)
    elif isinstance(block, Mapping):
        yield _of_block({str(key): fact for key, fact in cast("Mapping[Any, Any]", block).items()})
    elif block is not None:
        data = json_or_text(block)
        yield TextContent(data if isinstance(data, str) else json_text(data))


def _of_block(block: JsonObject) -> Content:
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return TextContent(block["text"])
    url = block.get("url")
    nested = block.get("image_url")
    if isinstance(nested, Mapping | str):  # OpenAI's form
        kind, url = "image", nested if isinstance(nested, str) else cast("Mapping[str, Any]", nested).get("url")
    mime_type = block.get("mime_type")
    data = next((block[key] for key in ("base64", "data", "file_data") if block.get(key)), None)
    if isinstance(data, str) and data.startswith("data:"):
        url = data
    if isinstance(url, str) and url.startswith("data:"):
        head, _, data = url.partition(",")
        mime_type = head.removeprefix("data:").partition(";")[0]
    elif isinstance(url, str):
        return LinkContent(url, str(kind or "file"), mime_type)
    raw = _bytes_of(data)
    if raw is None:
        return TextContent(json_text(json_or_text(block)))
    if kind in _MEDIA:
        return _MEDIA[kind](raw, *([mime_type] if isinstance(mime_type, str) and mime_type else []))
    return FileContent(str(block.get("filename") or block.get("id") or "file"), raw, mime_type)


def _bytes_of(data: object) -> bytes | None:
    if isinstance(data, bytes):
        return data
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except binascii.Error:
        return None
