"""`Spoken`: content in the forms that OpenAI takes, before either wire writes it; what it doesn't take is described."""

from __future__ import annotations

import base64
from typing import Final, Literal
from urllib.parse import unquote

from attrs import field, frozen

from pegboard.request.exporters.openai.limits import Limits
from pegboard.request.exporters.worded import worded
from pegboard.tools.call import writable
from pegboard.tools.content import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    LinkContent,
    TextContent,
)

_TEXTUAL: Final = ("application/json", "application/xml", "application/yaml", "application/x-yaml")


@frozen
class Spoken:
    """One content.

    Attributes:
        kind: What it goes as.
        value: The text, the picture's URL, the sound in base64, or the file as a data URL.
        name: The file's name, or the sound's format.
    """

    kind: Literal["text", "image", "audio", "file"]
    value: str = field(repr=False)
    name: str = ""


def spoken(content: Content, limits: Limits, *, links: bool = False) -> Spoken:
    """One content as it can be said.

    Args:
        content: The content.
        limits: What the provider takes.
        links: Whether the provider may fetch a picture that is linked; not where a tool has named it.
    """
    if isinstance(content, TextContent):
        return Spoken("text", content.text)
    if isinstance(content, ImageContent) and content.mime_type in limits.images:
        return Spoken("image", _data_url(content.mime_type, content.data))
    if isinstance(content, AudioContent) and content.mime_type in limits.audio:
        return Spoken("audio", base64.b64encode(content.data).decode(), limits.audio[content.mime_type])
    if isinstance(content, FileContent):
        return _file(content, limits)
    if isinstance(content, LinkContent) and links and _is_picture(content, limits):
        return Spoken("image", writable(content.uri))
    return Spoken("text", worded(content))


def _file(content: FileContent, limits: Limits) -> Spoken:
    text = _text_of(content)
    if text is not None:
        return Spoken("text", writable(f"{content.uri}:\n{text}" if content.uri else text))
    data = content.data
    if isinstance(data, bytes) and content.mime_type in limits.images:
        return Spoken("image", _data_url(content.mime_type, data))
    if isinstance(data, bytes) and content.mime_type in limits.files:
        return Spoken("file", _data_url(content.mime_type, data), file_name(content.uri))
    return Spoken("text", worded(content))


def _text_of(content: FileContent) -> str | None:
    if isinstance(content.data, str):
        return content.data
    kind = content.mime_type or ""
    if not kind.startswith("text/") and kind not in _TEXTUAL:
        return None
    try:
        return content.data.decode()
    except UnicodeDecodeError:
        return None


def file_name(uri: str) -> str:
    """What a file is called: the last part of where it stands."""
    return writable(unquote(uri.rstrip("/").rpartition("/")[2])) or "file"


def _is_picture(content: LinkContent, limits: Limits) -> bool:
    return content.uri.startswith(("https://", "http://")) and content.mime_type in limits.images


def _data_url(mime_type: str, data: bytes) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


__all__ = ["Spoken", "file_name", "spoken"]
