"""A chat completion, read."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from pegboard.messages.message import CallPart, MediaPart, Message, Part, ReasoningPart, TextPart
from pegboard.messages.response import FinishReason, ModelResponse
from pegboard.request.exporters.calls.made_calls import MadeCalls, StrictSchema
from pegboard.request.exporters.openai.citations import read_citations
from pegboard.request.exporters.openai.counts import read_usage
from pegboard.request.exporters.openai.failure import failure, no_answer
from pegboard.request.exporters.openai.kept import kept
from pegboard.request.exporters.openai.limits import CHAT, Limits
from pegboard.request.exporters.untrusted import known_text, object_in, object_or_none, objects_in, text_in
from pegboard.tools.content import AudioContent
from pegboard.typing import JsonMapping

REASONING: Final = ("reasoning_content", "reasoning")
"""Where servers that speak as OpenAI does put a model's reasoning."""

EXTRA: Final = "extra_content"
"""Where other servers put what they want back with a call, such as Gemini's signatures."""

_FINISH: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "error": "error",
}
_CUT_OFF: Final = ("length", "content_filter", "error")
_NOTED: Final = ("service_tier", "system_fingerprint")


@frozen
class ChatAnswers:
    """Reads chat completions.

    Attributes:
        key: Under which the provider's own facts are kept; also for errors.
        limits: How much is read.
        strict: Gives the schemas of the tools that were to be strict.
    """

    key: str
    strict: StrictSchema
    limits: Limits = CHAT

    def read(self, raw: object) -> ModelResponse:
        """The answer: the first choice.

        Raises:
            ModelError: It is no chat completion, or the provider's error.
        """
        body = object_or_none(raw)
        if body is None:
            raise no_answer(f"an object was expected, got {type(raw).__name__}", self.key)
        choices = objects_in(body, "choices")
        if not choices and body.get("error"):
            raise failure(body["error"], self.key)
        if not choices or object_or_none(choices[0].get("message")) is None:
            raise no_answer("it has no choices with a message", self.key)
        return self._answer(body, choices[0])

    def _answer(self, body: JsonMapping, choice: JsonMapping) -> ModelResponse:
        message = object_in(choice, "message")
        parts = self.parts(message)
        reason = _finish(choice.get("finish_reason"), parts)
        return ModelResponse(
            Message("assistant", parts),
            reason,
            read_usage(object_in(body, "usage"), "prompt", "completion"),
            known_text(body, "model"),
            known_text(body, "id"),
            complete=reason not in _CUT_OFF,
            custom_metadata={name: body[name] for name in _NOTED if known_text(body, name)},
        )

    def parts(self, message: JsonMapping) -> tuple[Part, ...]:
        """What a message is made of: reasoning, words, sound, calls."""
        calls = MadeCalls(self.key, self.strict, most=self.limits.argument_text)
        said = [
            part for read in (_reasoning, _words, _refusal, _audio) if (part := read(message, self.key)) is not None
        ]
        made = [_call(each, calls) for each in objects_in(message, "tool_calls")]
        legacy = object_or_none(message.get("function_call"))
        if legacy is not None and not made:
            made = [CallPart(calls.call(legacy.get("name"), legacy.get("arguments"), None, {}))]
        return (*said, *made)


def _reasoning(message: JsonMapping, key: str) -> ReasoningPart | None:
    for name in REASONING:
        if text := text_in(message, name):
            return ReasoningPart(text, {key: {"field": name}})
    return None


def _words(message: JsonMapping, key: str) -> TextPart | None:
    content = message.get("content")
    text = content if isinstance(content, str) else "".join(text_in(part, "text") for part in _pieces(message))
    return TextPart(text, read_citations(objects_in(message, "annotations"), key)) if text else None


def _pieces(message: JsonMapping) -> list[JsonMapping]:
    """Some servers write content in parts."""
    return objects_in(message, "content")


def _refusal(message: JsonMapping, key: str) -> TextPart | None:
    text = text_in(message, "refusal") or "".join(text_in(part, "refusal") for part in _pieces(message))
    return TextPart(text, provider_metadata={key: {"refusal": True}}) if text else None


def _audio(message: JsonMapping, key: str) -> Part | None:
    """What was spoken; its words where its bytes can't be read."""
    audio = object_in(message, "audio")
    transcript, known_id = text_in(audio, "transcript"), known_text(audio, "id")
    try:
        data = base64.b64decode(text_in(audio, "data"), validate=True)
    except ValueError:
        data = b""
    if not data:
        return TextPart(transcript) if transcript else None
    facts = {"audio": known_id, "transcript": transcript}
    return MediaPart(AudioContent(data), {key: {name: fact for name, fact in facts.items() if fact}})


def _call(call: JsonMapping, calls: MadeCalls) -> CallPart:
    custom = object_or_none(call.get("custom"))
    if custom is not None and object_or_none(call.get("function")) is None:
        return CallPart(calls.freeform(custom.get("name"), custom.get("input"), call.get("id"), {"type": "custom"}))
    function = object_in(call, "function")
    extra = kept(object_in(call, EXTRA))
    facts = {EXTRA: extra} if extra else {}
    return CallPart(calls.call(function.get("name"), function.get("arguments"), call.get("id"), facts))


def _finish(given: Any, parts: tuple[Part, ...]) -> FinishReason:
    """The reason, in our words: a forced call ends with `stop` on the wire, and a refusal does too."""
    reason: FinishReason = "stop" if given is None else "other"
    if isinstance(given, str):
        reason = _FINISH.get(given, "other")
    if reason not in ("stop", "tool_calls"):
        return reason
    if any(isinstance(part, CallPart) for part in parts):
        return "tool_calls"
    return "refusal" if any(isinstance(part, TextPart) and part.provider_metadata for part in parts) else "stop"


__all__ = ["EXTRA", "REASONING", "ChatAnswers"]
