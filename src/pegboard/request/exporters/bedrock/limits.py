"""`BedrockLimits`: what the provider takes, as far as that is a number or a list; a host may know better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen

from pegboard.request.exporters.alternating.strict_budget import STRICT_LIMITS, StrictLimits
from pegboard.typing import JsonMapping

FAMILY: Final = "bedrock"
"""What the provider is called in options, in metadata, and before the dot of a `provider_id`."""

IMAGES: Final[Mapping[str, str]] = {f"image/{word}": word for word in ("png", "jpeg", "gif", "webp")}
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
DOCUMENTS: Final[Mapping[str, str]] = {
    "application/pdf": "pdf",
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}wordprocessingml.document": "docx",
    f"{_OFFICE}spreadsheetml.sheet": "xlsx",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
}
VIDEOS: Final[Mapping[str, str]] = {
    "video/mp4": "mp4",
    "video/mpeg": "mpeg",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-flv": "flv",
    "video/x-matroska": "mkv",
    "video/x-ms-wmv": "wmv",
    "video/3gpp": "three_gp",
}
AUDIO: Final[Mapping[str, str]] = {
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/mp4": "mp4",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/ogg": "ogg",
    "audio/opus": "opus",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/webm": "webm",
}
REASONING: Final[Mapping[str, JsonMapping]] = {
    "none": {},
    **{word: {"outputConfig": {"effort": word}} for word in ("low", "medium", "high")},
}
"""In Converse's own words. What a model wants beside (a budget) goes under `additionalModelRequestFields`."""


@frozen(kw_only=True)
class BedrockLimits:
    """What the provider takes; known from botocore's model of the service, its pages and its error reports.

    Attributes:
        name: What a tool's name has to match, as a regular expression.
        strict: How much of a request may be held to schemas.
        reasoning: What a request's body holds for each word of `ModelConfig.reasoning`.
        images: Media types of pictures, and what each is called.
        documents: Media types of documents, and what each is called.
        videos: Media types of videos, and what each is called.
        audio: Media types of sounds, and what each is called.
        call_id: Characters of a call's id.
        document_name: Characters of a document's name.
        argument_text: Characters of one call's arguments that are read of a stream; a call with more is invalid.
        answer_text: Characters of all that is read of a stream; an answer with more isn't complete.
    """

    name: str = "[a-zA-Z0-9_-]{1,64}"
    strict: StrictLimits = STRICT_LIMITS
    reasoning: Mapping[str, JsonMapping] = field(default=REASONING, repr=False)
    images: Mapping[str, str] = field(default=IMAGES, repr=False)
    documents: Mapping[str, str] = field(default=DOCUMENTS, repr=False)
    videos: Mapping[str, str] = field(default=VIDEOS, repr=False)
    audio: Mapping[str, str] = field(default=AUDIO, repr=False)
    call_id: int = 64
    document_name: int = 200
    argument_text: int = 1 << 20
    answer_text: int = 16 << 20


DEFAULT_LIMITS: Final = BedrockLimits()

__all__ = ["AUDIO", "DEFAULT_LIMITS", "DOCUMENTS", "FAMILY", "IMAGES", "REASONING", "VIDEOS", "BedrockLimits"]
