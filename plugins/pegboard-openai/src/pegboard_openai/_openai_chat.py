"""Parsers of chat completions, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import define, field, frozen

from pegboard import AudioContent, Message, ModelResponse
from pegboard.messages import (
    CallPart,
    Delta,
    FinishReason,
    MediaPart,
    Part,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
)
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.calls import FAULT, StreamedCall, StreamedCalls, fault_in
from pegboard_clients.wire import (
    MadeCalls,
    SizeBudget,
    StreamReader,
    StrictSchema,
    TextBuffer,
    decoded,
    known_text,
    none_readable,
    object_in,
    object_or_none,
    objects_in,
    place_in,
    text_in,
)
from pegboard_openai._openai import (
    CHAT,
    Limits,
    answer_body,
    error_facts,
    failure,
    no_answer,
    read_citations,
    read_usage,
    without_nulls,
)

REASONING: Final = ("reasoning_content", "reasoning")
"""The members in which OpenAI-compatible servers send reasoning."""

EXTRA: Final = "extra_content"
"""The member for data that other servers want back with a call, such as Gemini's signatures."""

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
    """Parser of chat completions."""

    key: str
    strict: StrictSchema
    limits: Limits = CHAT

    def read(self, raw: object) -> ModelResponse:
        """The answer: the first choice.

        Raises:
            ModelError: The body is not a chat completion, or is the provider's error.
        """
        body = answer_body(raw, self.key)
        choices = objects_in(body, "choices")
        if not choices and body.get("error"):
            raise failure(body["error"], self.key)
        if not choices or object_or_none(choices[0].get("message")) is None:
            raise no_answer("it has no choices with a message", self.key)
        return self._answer(body, choices[0])

    def _answer(self, body: JsonMapping, choice: JsonMapping) -> ModelResponse:
        message = object_in(choice, "message")
        parts = self.parts(message)
        if not parts and none_readable(message, "content"):
            raise no_answer("the message has no content that can be read", self.key)
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
        """The parts of a message: reasoning, text, audio, calls."""
        calls = MadeCalls(self.key, self.strict, most=self.limits.argument_text)
        parts = [
            part for read in (_reasoning, _words, _refusal, _audio) if (part := read(message, self.key)) is not None
        ]
        return (*parts, *(_call(each, calls) for each in objects_in(message, "tool_calls")))


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
    """The content in parts, as some servers send it."""
    return objects_in(message, "content")


def _refusal(message: JsonMapping, key: str) -> TextPart | None:
    text = text_in(message, "refusal") or "".join(text_in(part, "refusal") for part in _pieces(message))
    return TextPart(text, provider_metadata={key: {"refusal": True}}) if text else None


def _audio(message: JsonMapping, key: str) -> Part | None:
    """The audio; its transcript if the data can't be read."""
    audio = object_in(message, "audio")
    transcript, known_id = text_in(audio, "transcript"), known_text(audio, "id")
    data = decoded(audio.get("data"))
    if not data:
        return TextPart(transcript) if transcript else None
    facts = {"audio": known_id, "transcript": transcript}
    return MediaPart(AudioContent(data), {key: {name: fact for name, fact in facts.items() if fact}})


def _call(call: JsonMapping, calls: MadeCalls) -> CallPart:
    fault = fault_in(call)
    custom = object_or_none(call.get("custom"))
    if custom is not None and object_or_none(call.get("function")) is None:
        return CallPart(
            calls.freeform(custom.get("name"), custom.get("input"), call.get("id"), {"type": "custom"}, fault)
        )
    function = object_in(call, "function")
    extra = without_nulls(object_in(call, EXTRA))
    facts = {EXTRA: extra} if extra else {}
    return CallPart(calls.call(function.get("name"), function.get("arguments"), call.get("id"), facts, fault))


def _finish(given: Any, parts: tuple[Part, ...]) -> FinishReason:
    """The finish reason: on the wire, a forced call and a refusal end with `stop`, too."""
    reason: FinishReason = "stop" if given is None else "other"
    if isinstance(given, str):
        reason = _FINISH.get(given, "other")
    if reason not in ("stop", "tool_calls"):
        return reason
    if any(isinstance(part, CallPart) for part in parts):
        return "tool_calls"
    return "refusal" if any(isinstance(part, TextPart) and part.provider_metadata for part in parts) else "stop"


_KEPT = ("id", "model", "service_tier", "system_fingerprint")
_NO_ID: Final = "null"
"""An id that some servers, such as Mistral's, send with pieces or calls that have none."""


@define(eq=False)
class ChatReader(StreamReader):
    """Parser of a stream: collects its first choice, and parses it as a whole answer."""

    answers: ChatAnswers
    _calls: StreamedCalls = field(init=False)
    _extras: dict[int, Any] = field(factory=dict[int, Any], init=False)
    _texts: dict[str, TextBuffer] = field(factory=dict[str, TextBuffer], init=False)
    _annotations: list[JsonMapping] = field(factory=list[JsonMapping], init=False)
    _facts: JsonObject = field(factory=dict[str, Any], init=False)
    _audio: JsonObject = field(factory=dict[str, Any], init=False)
    _finish: str | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.answers.limits
        self.budget = SizeBudget(limits.answer_text)
        self._calls = StreamedCalls(self.budget, limits.argument_text)

    def read(self, event: JsonMapping) -> list[Delta]:
        """Parses a `chat.completion.chunk`; returns its deltas."""
        if error := event.get("error"):
            self.end.failed(*error_facts(object_or_none(error) or {"message": error}))
        self._facts |= {name: text for name in _KEPT if (text := text_in(event, name))}
        if object_or_none(event.get("usage")) is not None:
            self._facts["usage"] = event["usage"]
        choices = (choice for choice in objects_in(event, "choices") if choice.get("index") in (0, None))
        return [delta for choice in choices for delta in self._choice(choice)]

    def _choice(self, choice: JsonMapping) -> Iterable[Delta]:
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._finish = reason
            self.end.reached = True
        message = object_or_none(choice.get("delta")) or object_in(choice, "message")
        return self._message(message)

    def _message(self, message: JsonMapping) -> Iterable[Delta]:
        for name in REASONING:
            if piece := self._gather(name, text_in(message, name)):
                yield ReasoningDelta(piece)
        for name in ("content", "refusal"):
            if piece := self._gather(name, text_in(message, name)):
                yield TextDelta(piece)
        self._annotate(message)
        self._hear(object_in(message, "audio"))
        for call in objects_in(message, "tool_calls"):
            yield from self._read_call(call)

    def _read_call(self, piece: JsonMapping) -> Iterable[Delta]:
        custom = object_or_none(piece.get("custom"))
        function = object_in(piece, "function") if custom is None else custom
        index, text = place_in(piece, "index"), function.get("arguments" if custom is None else "input")
        call_id = text_in(piece, "id")
        call_id = "" if call_id == _NO_ID else call_id
        fed = self._calls.feed(index, call_id, text_in(function, "name"), text, free=custom is not None)
        if fed is not None:
            self._extras[fed[0].place] = piece.get(EXTRA) or self._extras.get(fed[0].place)
            yield fed[0].delta(fed[1])

    def _gather(self, name: str, piece: str) -> str:
        if not piece:
            return ""
        return self._texts.setdefault(name, TextBuffer(self.budget)).add(piece)

    def _annotate(self, message: JsonMapping) -> None:
        for annotation in objects_in(message, "annotations"):
            if self.budget.take_item():
                self._annotations.append(annotation)

    def _hear(self, audio: JsonMapping) -> None:
        self._gather("audio", text_in(audio, "data"))
        self._gather("transcript", text_in(audio, "transcript"))
        if text_in(audio, "id"):
            self._audio["id"] = text_in(audio, "id")

    def whole(self) -> ModelResponse:
        """What has come, as a complete answer."""
        texts = {name: gathered.text for name, gathered in self._texts.items()}
        audio = {**self._audio, "data": texts.pop("audio", ""), "transcript": texts.pop("transcript", "")}
        calls = [self._call(call) for call in self._calls.calls]
        message = {**texts, "annotations": self._annotations, "audio": audio, "tool_calls": calls}
        choice = {"message": message, "finish_reason": self._finish}
        return self.answers.read({**self._facts, "choices": [choice]})

    def _call(self, call: StreamedCall) -> JsonObject:
        """The call as in an answer that isn't streamed."""
        facts = {"id": call.id, EXTRA: self._extras.get(call.place), FAULT: call.fault}
        if call.free:
            return {**facts, "custom": {"name": call.name, "input": call.arguments}}
        return {**facts, "function": {"name": call.name, "arguments": call.arguments}}
