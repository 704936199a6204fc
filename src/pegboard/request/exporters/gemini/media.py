"""Pictures, sounds, files and links as parts, both ways."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from pegboard.messages.message import MediaPart
from pegboard.request.exporters.gemini.metadata import kept
from pegboard.request.exporters.untrusted import object_in, text_in
from pegboard.request.exporters.worded import worded
from pegboard.tools.content import AudioContent, Content, FileContent, ImageContent, LinkContent, TextContent
from pegboard.typing import JsonMapping, JsonObject

_STORED = ("gs://", "https://generativelanguage.googleapis.com/")
"""How the addresses of files begin that Gemini has itself; other links are told in words."""


def media_part(content: Content) -> JsonObject:
    """A part that holds a content: inline, by its address where Gemini has it, else in words."""
    if isinstance(content, LinkContent) and content.uri.startswith(_STORED):
        named = {} if content.mime_type is None else {"mimeType": content.mime_type}
        return {"fileData": {**named, "fileUri": content.uri}}
    return inline_part(content) or {"text": worded(content)}


def inline_part(content: Content) -> JsonObject | None:
    """A part with a content's bytes; `None` where it is words, or bytes of a kind that isn't known."""
    if isinstance(content, TextContent | LinkContent) or isinstance(content.data, str) or not content.mime_type:
        return None
    return {"inlineData": {"mimeType": content.mime_type, "data": base64.b64encode(content.data).decode()}}


def media_of(part: JsonMapping) -> MediaPart | None:
    """What a part of a model's holds; `None` where it can't be read."""
    blob, file = object_in(part, "inlineData"), object_in(part, "fileData")
    if text_in(file, "fileUri"):
        uri = text_in(file, "fileUri")
        link = LinkContent(uri, text_in(file, "displayName") or uri, text_in(file, "mimeType") or None)
        return MediaPart(link, kept(part))
    data = _bytes(blob.get("data"))
    return None if data is None else MediaPart(_content(data, blob), kept(part))


def _content(data: bytes, blob: JsonMapping) -> ImageContent | AudioContent | FileContent:
    mime_type = text_in(blob, "mimeType")
    kind = mime_type.partition("/")[0]
    if kind == "image":
        return ImageContent(data, mime_type)
    if kind == "audio":
        return AudioContent(data, mime_type)
    return FileContent(text_in(blob, "displayName") or "file", data, mime_type or None)


def _bytes(data: Any) -> bytes | None:
    """Bytes from base64 of either alphabet, or as an SDK's own models hold them."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, str):
        return None
    try:
        return base64.b64decode(data.translate(_STANDARD) + "=" * (-len(data) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


_STANDARD = str.maketrans("-_", "+/")

__all__ = ["inline_part", "media_of", "media_part"]
