"""What users say, in the order in which they say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pegboard.messages.message import MediaPart, Part, TextPart
from pegboard.typing import JsonObject


def user_content(parts: Iterable[Part], write: Callable[[TextPart | MediaPart], JsonObject]) -> str | list[JsonObject]:
    """What a user says: one text as it is, everything else part by part.

    Args:
        parts: Of the message; only texts, pictures, sounds and files are the user's.
        write: Writes one.
    """
    said = [write(part) for part in parts if isinstance(part, MediaPart) or (isinstance(part, TextPart) and part.text)]
    return said[0]["text"] if len(said) == 1 and "text" in said[0] else said


__all__ = ["user_content"]
