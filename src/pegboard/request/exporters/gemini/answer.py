"""`response_of`: an answer from the JSON of a `GenerateContentResponse`."""

from __future__ import annotations

from typing import Any, Final

from pegboard.messages.message import CallPart, Message, Part
from pegboard.messages.response import ModelResponse, Usage
from pegboard.request.exporters.gemini.finish import CUT_OFF, error_of, reason_of
from pegboard.request.exporters.gemini.grounding import with_citations
from pegboard.request.exporters.gemini.limits import FAMILY
from pegboard.request.exporters.gemini.spoken import Spoken
from pegboard.request.exporters.gemini.wire_words import in_wire_words
from pegboard.request.exporters.untrusted import as_object, count_in, object_in, objects_in, text_in
from pegboard.typing import JsonMapping, JsonObject

_KNOWN: Final = ("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId")
_BESIDE: Final = ("safetyRatings", "urlContextMetadata", "avgLogprobs", "logprobsResult")


def response_of(raw: Any) -> ModelResponse:
    """An answer; of several candidates the first.

    Raises:
        ModelError: It is no answer, or the provider's error.
    """
    raw = in_wire_words(raw)
    if not is_answer(raw):
        raise error_of(raw)
    candidate = first_candidate(raw)
    spoken = Spoken()
    for part in parts_of(candidate):
        spoken.add(part)
    return answer(spoken.parts(), candidate, raw)


def is_answer(raw: Any) -> bool:
    """Whether this is the body of an answer, or a chunk of one."""
    read = as_object(raw)
    return not read.get("error") and any(key in read for key in _KNOWN)


def first_candidate(raw: JsonMapping) -> JsonMapping:
    """The first candidate; an empty object where there is none."""
    candidates = objects_in(raw, "candidates")
    return candidates[0] if candidates else {}


def parts_of(candidate: JsonMapping) -> list[JsonMapping]:
    """The parts of its content."""
    return objects_in(object_in(candidate, "content"), "parts")


def answer(parts: list[Part], candidate: JsonMapping, raw: JsonMapping) -> ModelResponse:
    """The response of what was said, and of what stands beside it.

    Args:
        parts: What the model said.
        candidate: With its finish reason, grounding and citations.
        raw: With its usage, ids and the feedback on the prompt.
    """
    word = text_in(candidate, "finishReason")
    blocked = text_in(object_in(raw, "promptFeedback"), "blockReason")
    reason = reason_of(word, calls=any(isinstance(part, CallPart) for part in parts))
    if not candidate:
        reason = "content_filter" if blocked else "error"
    failed = reason in CUT_OFF
    return ModelResponse(
        Message("assistant", with_citations(parts, candidate)),  # pyright: ignore[reportArgumentType]
        reason,
        usage_of(raw),
        text_in(raw, "modelVersion") or None,
        text_in(raw, "responseId") or None,
        complete=not failed,
        grounding=dict(object_in(candidate, "groundingMetadata")),
        custom_metadata=_beside(candidate, raw),
        error_code=(blocked or word or None) if failed and reason != "length" else None,
        error_message=_told(candidate, raw) if failed else None,
    )


def usage_of(raw: JsonMapping) -> Usage:
    """What was used; tokens of tools that the provider ran count as the request's, thoughts as the answer's."""
    used = object_in(raw, "usageMetadata")
    thoughts = count_in(used, "thoughtsTokenCount")
    return Usage(
        count_in(used, "promptTokenCount") + count_in(used, "toolUsePromptTokenCount"),
        count_in(used, "candidatesTokenCount") + thoughts,
        count_in(used, "cachedContentTokenCount"),
        0,
        thoughts,
    )


def _beside(candidate: JsonMapping, raw: JsonMapping) -> JsonObject:
    found = {key: candidate[key] for key in _BESIDE if candidate.get(key)}
    if raw.get("promptFeedback"):
        found["promptFeedback"] = raw["promptFeedback"]
    return {FAMILY: found} if found else {}


def _told(candidate: JsonMapping, raw: JsonMapping) -> str | None:
    feedback = text_in(object_in(raw, "promptFeedback"), "blockReasonMessage")
    message = text_in(candidate, "finishMessage") or feedback
    return message or (None if candidate else "the answer holds no candidate")


__all__ = ["answer", "first_candidate", "is_answer", "parts_of", "response_of", "usage_of"]
