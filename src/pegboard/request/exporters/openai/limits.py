"""`Limits`: the numbers and lists of OpenAI's that a host can override."""

from __future__ import annotations

import re
from typing import Final

from attrs import field, frozen

REFUSED_IN_IDS: Final = re.compile("[\ud800-\udfff]")
"""What can't stand in a call's id: what UTF-8 can't say."""

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
FILES: Final = frozenset(
    {
        "application/pdf",
        f"{_OFFICE}wordprocessingml.document",
        f"{_OFFICE}presentationml.presentation",
        f"{_OFFICE}spreadsheetml.sheet",
    }
)


@frozen(kw_only=True)
class Limits:
    """What the provider takes; known from its reference and from its error reports.

    Attributes:
        tools: Entries in a request's list of tools.
        description: Characters of a tool's description, or `None` where they are free.
        call_id: Characters of a call's id.
        images: Media types of pictures.
        audio: Media types of sounds, and what each is called.
        files: Media types of files that are no text; text goes as text.
        argument_text: Characters of one call's arguments that are read of an answer; a call with more is invalid.
        answer_text: Characters of all that is read of a streamed answer; one with more isn't complete.
    """

    tools: int = 128
    description: int | None = None
    call_id: int = 64
    images: frozenset[str] = field(default=IMAGES, converter=frozenset)
    audio: dict[str, str] = field(factory=dict[str, str])
    files: frozenset[str] = field(default=FILES, converter=frozenset)
    argument_text: int = 1 << 20
    answer_text: int = 16 << 20


CHAT: Final = Limits(
    description=1_024,
    call_id=40,
    audio={"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"},
)
RESPONSES: Final = Limits()

__all__ = ["CHAT", "FILES", "IMAGES", "REFUSED_IN_IDS", "RESPONSES", "Limits"]
