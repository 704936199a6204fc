"""Content of user messages, as chat completions have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pegboard.messages.message import MediaPart, Part, TextPart
from pegboard.request.exporters.openai.limits import Limits
from pegboard.request.exporters.openai.spoken import Spoken, spoken
from pegboard.request.exporters.openai.user_content import user_content
from pegboard.request.exporters.untrusted import known_text, own
from pegboard.typing import JsonMapping, JsonObject

_NOTHING: Final[JsonMapping] = {}


def users_content(parts: Iterable[Part], limits: Limits, key: str) -> str | list[JsonObject]:
    """What the user says: one text as it is, everything else part by part.

    Args:
        parts: What is said.
        limits: What the provider takes.
        key: Under which a picture's or a file's options stand: `detail`, `file_id`.
    """
    return user_content(parts, lambda part: _part(part, limits, key))


def _part(part: TextPart | MediaPart, limits: Limits, key: str) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    options = own(part.provider_metadata, key)
    file_id = known_text(options, "file_id")
    if file_id is not None:
        return {"type": "file", "file": {"file_id": file_id}}
    return written(spoken(part.content, limits, links=True), options)


def written(said: Spoken, options: JsonMapping = _NOTHING) -> JsonObject:
    """One content; the option `detail` says how closely a picture is looked at."""
    if said.kind == "text":
        return {"type": "text", "text": said.value}
    if said.kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": said.value, "format": said.name}}
    if said.kind == "file":
        return {"type": "file", "file": {"file_data": said.value, "filename": said.name}}
    picture: dict[str, Any] = {"url": said.value}
    detail = known_text(options, "detail")
    return {"type": "image_url", "image_url": picture if detail is None else {**picture, "detail": detail}}


__all__ = ["users_content", "written"]
