"""Parts in words, for those who can say nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from pegboard.messages.message import MediaPart, Part, TextPart
from pegboard.request.exporters.worded import worded


def words(parts: Iterable[Part]) -> str:
    """Texts joined as they are; pictures, sounds and files are described."""
    said: list[str] = []
    for part in parts:
        if isinstance(part, TextPart):
            said.append(part.text)
        elif isinstance(part, MediaPart):
            said.append(("\n" if said else "") + worded(part.content))
    return "".join(said)


__all__ = ["words"]
