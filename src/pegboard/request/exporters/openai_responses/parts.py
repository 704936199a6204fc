"""Content of users and of results, as responses have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pegboard.messages.message import MediaPart, Part, TextPart
from pegboard.request.exporters.openai.limits import Limits
from pegboard.request.exporters.openai.results import joined
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
        return {"type": "input_text", "text": part.text}
    options = own(part.provider_metadata, key)
    said = spoken(part.content, limits, links=True)
    file_id = known_text(options, "file_id")
    if file_id is None:
        return written(said, options)
    if said.kind == "image":
        return {"type": "input_image", "file_id": file_id, "detail": known_text(options, "detail") or "auto"}
    return {"type": "input_file", "file_id": file_id}


def written(said: Spoken, options: JsonMapping = _NOTHING) -> JsonObject:
    """One content; the option `detail` says how closely a picture is looked at."""
    if said.kind == "image":
        return {"type": "input_image", "image_url": said.value, "detail": known_text(options, "detail") or "auto"}
    if said.kind == "file":
        return {"type": "input_file", "file_data": said.value, "filename": said.name}
    return {"type": "input_text", "text": said.value}


def output_of(said: Sequence[Spoken]) -> str | list[JsonObject]:
    """The output of a call: one text where there is nothing else."""
    if all(each.kind == "text" for each in said):
        return joined(list(said))
    return [written(each) for each in said]


__all__ = ["output_of", "users_content", "written"]
