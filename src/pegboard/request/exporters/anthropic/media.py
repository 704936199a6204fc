"""Pictures, documents and other media as Anthropic's blocks."""

from __future__ import annotations

import base64
from typing import Final

from pegboard.request.exporters.anthropic.limits import AnthropicLimits
from pegboard.request.exporters.worded import worded
from pegboard.tools.content import Content, FileContent, ImageContent, LinkContent
from pegboard.typing import JsonObject

PDF: Final = "application/pdf"


def content_block(content: Content, limits: AnthropicLimits, *, links: bool = False) -> JsonObject | None:
    """Content as a block: of its own kind where there is one, else in words; `None` where there are none.

    Args:
        content: What is to be shown.
        limits: What the provider takes.
        links: Whether the provider shall fetch what a link leads to.
    """
    block = native_block(content, limits, links=links)
    if block is not None:
        return block
    text = worded(content)
    return {"type": "text", "text": text} if text.strip() else None


def native_block(content: Content, limits: AnthropicLimits, *, links: bool = False) -> JsonObject | None:
    """Content as a picture or a document; `None` of what is neither."""
    if isinstance(content, ImageContent):
        return _image(content.data, content.mime_type, limits)
    if isinstance(content, FileContent):
        return _file(content, limits)
    return _linked(content, limits) if links and isinstance(content, LinkContent) else None


def search_result(content: Content) -> JsonObject | None:
    """A file of text as something that was found, of which the model tells what it rests on; `None` of what is none."""
    if not isinstance(content, FileContent) or not isinstance(content.data, str) or not content.data.strip():
        return None
    text = {"type": "text", "text": content.data}
    return {"type": "search_result", "source": content.uri, "title": _title(content), "content": [text]}


def _image(data: bytes, mime_type: str, limits: AnthropicLimits) -> JsonObject | None:
    if mime_type not in limits.images or not data:
        return None
    return {"type": "image", "source": _base64(data, mime_type)}


def _file(content: FileContent, limits: AnthropicLimits) -> JsonObject | None:
    data, kind = content.data, content.mime_type or ""
    if isinstance(data, str):
        if not data.strip():
            return None
        source: JsonObject = {"type": "text", "media_type": "text/plain", "data": data}
    elif kind == PDF and data:
        source = _base64(data, PDF)
    else:
        return _image(data, kind, limits)
    return {"type": "document", "source": source, "title": _title(content)}


def _linked(content: LinkContent, limits: AnthropicLimits) -> JsonObject | None:
    if not content.uri.startswith(("https://", "http://")):
        return None
    source = {"type": "url", "url": content.uri}
    if content.mime_type in limits.images:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": content.name} if content.mime_type == PDF else None


def _title(content: FileContent) -> str:
    return content.uri or "file"


def _base64(data: bytes, mime_type: str) -> JsonObject:
    return {"type": "base64", "media_type": mime_type, "data": base64.b64encode(data).decode()}


__all__ = ["PDF", "content_block", "native_block", "search_result"]
