"""Parsers of chat completions, whole and streamed."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import define, field, frozen

from pegboard import (
    AudioContent,
    CallPart,
    MediaPart,
    Message,
    ModelResponse,
    ReasoningPart,
    TextPart,
)
from pegboard.dialects import deep_copy
from pegboard.messages import CallDelta, Delta, FinishReason, Part, ReasoningDelta, TextDelta
from pegboard.schema.json import json_text
from pegboard.typing import JsonMapping, JsonObject
from pegboard.wire import (
    MadeCalls,
    SizeBudget,
    StreamEnd,
    StrictSchema,
    TextBuffer,
    known_text,
    none_readable,
    object_in,
    object_or_none,
    objects_in,
    place_in,
    text_in,
    writable,
)
from pegboard_clients.json_end import JsonEnd
from pegboard_openai._openai import (
    CHAT,
    Limits,
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
    """Parser of chat completions.

    Attributes:
        key: The key of provider metadata; also for errors.
        limits: Limits on what is read.
        strict: Returns the own schema of a strict tool.
    """

    key: str
    strict: StrictSchema
    limits: Limits = CHAT

    def read(self, raw: object) -> ModelResponse:
        """The answer: the first choice.

        Raises:
            ModelError: The body is not a chat completion, or is the provider's error.
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
    extra = without_nulls(object_in(call, EXTRA))
    facts = {EXTRA: extra} if extra else {}
    return CallPart(calls.call(function.get("name"), function.get("arguments"), call.get("id"), facts))


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


_MOST_NAME: Final = 1_000
"""Characters of a call's name and id; further ones are cut."""


@define
class StreamedCall:
    """One call, as received so far.

    Attributes:
        place: Its index among the answer's calls.
        text: Its arguments, or its free text.
        id: Its id, if known.
        name: Its name, if known.
        custom: Whether it takes free text.
        extra: Data that other servers want back with it.
    """

    place: int
    text: TextBuffer
    id: str = ""
    name: str = ""
    custom: bool = False
    extra: Any = None
    _end: JsonEnd = field(factory=JsonEnd, init=False)
    _unread: list[str] = field(factory=list[str], init=False)

    def named(self, name: str) -> None:
        """Adds a piece of the name; some servers repeat the whole name with each piece."""
        if name and name != self.name and not len(self.text):
            self.name = (self.name + name)[:_MOST_NAME]

    def add(self, piece: str) -> str:
        """Adds a piece of its text; returns the part that was added."""
        taken = self.text.add(piece)
        if taken:
            self._unread.append(taken)
        return taken

    def is_whole(self) -> bool:
        """Whether its arguments are a complete object."""
        unread, self._unread = self._unread, []
        return self._end.reached("".join(unread)) and not self.custom

    def repeats(self, text: str) -> bool:
        """Whether a piece repeats the whole text, as some servers do at the end."""
        return len(text) == len(self.text) and self.is_whole() and text == self.text.text

    def data(self) -> JsonObject:
        """The call as in an answer that isn't streamed."""
        if self.custom:
            return {"id": self.id, "custom": {"name": self.name, "input": self.text.text}}
        function = {"name": self.name, "arguments": self.text.text}
        return {"id": self.id, "function": function, EXTRA: self.extra}


@define
class StreamedCalls:
    """The calls of an answer, as received so far.

    Attributes:
        budget: The size budget of the answer.
        most: Stored characters of one call's arguments; one more than is allowed, so that a longer call is refused.
    """

    budget: SizeBudget
    most: int
    calls: list[StreamedCall] = field(factory=list[StreamedCall], init=False)
    _at: dict[int | None, StreamedCall] = field(factory=dict["int | None", StreamedCall], init=False)
    _by_id: dict[tuple[int | None, str], StreamedCall] = field(
        factory=dict[tuple["int | None", str], StreamedCall], init=False
    )

    def feed(self, piece: JsonMapping) -> CallDelta | None:
        """Adds a piece; returns its delta, or `None` if there was no room."""
        custom = object_or_none(piece.get("custom"))
        function = custom if custom is not None else object_in(piece, "function")
        index, call_id, name = place_in(piece, "index"), text_in(piece, "id"), text_in(function, "name")
        text = _text(function.get("input" if custom is not None else "arguments"))
        call = self._of(index, call_id, name, text)
        if call is None:
            return None
        if call_id and call.id == call_id and call.repeats(text):
            return None
        call.custom = call.custom or custom is not None
        call.extra = piece.get(EXTRA) or call.extra
        call.named(name)
        return CallDelta(call.place, call.add(text), writable(call.id), writable(call.name))

    def _of(self, index: int | None, call_id: str, name: str, text: str) -> StreamedCall | None:
        """The call of a piece. A new id starts a new call under any index, as does a name after a complete call."""
        current = self._at.get(index) if index is not None else self._last()
        if call_id:
            known = self._by_id.get((index, call_id))
            if known is not None and not _is_another(known, name, text):
                return known
            if current is None or current.id or known is not None:
                return self._new(index, call_id)
            current.id = call_id[:_MOST_NAME]
            self._by_id[index, call_id] = current
            return current
        return current if current is not None and not _is_another(current, name, text) else self._new(index, "")

    def _last(self) -> StreamedCall | None:
        return self.calls[-1] if self.calls else None

    def _new(self, index: int | None, call_id: str) -> StreamedCall | None:
        if not self.budget.take_item():
            return None
        call = StreamedCall(len(self.calls), TextBuffer(self.budget, self.most), call_id[:_MOST_NAME])
        self.calls.append(call)
        self._at[index] = call
        self._by_id[index, call_id] = call
        return call


def _is_another(call: StreamedCall, name: str, text: str) -> bool:
    """Whether a piece starts another call: it has a name and starts an object, and this call's object is complete."""
    begins = bool(name) and len(call.text) > 0 and text.lstrip().startswith("{")
    return begins and call.is_whole() and not call.repeats(text)


def _text(arguments: object) -> str:
    """Arguments as text; some servers send an object."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    data, fault = deep_copy(arguments)
    return str(json_text(data)) if fault is None else fault  # not JSON either, so that the call is refused


_KEPT = ("id", "model", "service_tier", "system_fingerprint")


@define
class ChatReader:
    """Parser of a stream: collects its first choice, and parses it as a whole answer.

    Attributes:
        answers: Reads whole answers.
    """

    answers: ChatAnswers
    _budget: SizeBudget = field(init=False)
    _calls: StreamedCalls = field(init=False)
    _texts: dict[str, TextBuffer] = field(factory=dict[str, TextBuffer], init=False)
    _annotations: list[JsonMapping] = field(factory=list[JsonMapping], init=False)
    _facts: JsonObject = field(factory=dict[str, Any], init=False)
    _audio: JsonObject = field(factory=dict[str, Any], init=False)
    _finish: str | None = field(default=None, init=False)
    _end: StreamEnd = field(factory=StreamEnd, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.answers.limits
        self._budget = SizeBudget(limits.answer_text)
        self._calls = StreamedCalls(self._budget, limits.argument_text + 1)

    def feed(self, chunk: Mapping[str, Any]) -> list[Delta]:
        """Parses a `chat.completion.chunk`; returns its deltas. Never raises."""
        body = object_or_none(chunk)
        if body is None:
            return []
        if body.get("error"):
            self._end.failed(*error_facts(object_or_none(body["error"]) or {"message": body["error"]}))
        self._facts |= {name: text for name in _KEPT if (text := text_in(body, name))}
        if object_or_none(body.get("usage")) is not None:
            self._facts["usage"] = body["usage"]
        deltas: list[Delta] = []
        for choice in objects_in(body, "choices"):
            if choice.get("index") in (0, None):
                deltas += self._choice(choice)
        return deltas

    def _choice(self, choice: JsonMapping) -> list[Delta]:
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._finish = reason
            self._end.reached = True
        message = object_or_none(choice.get("delta")) or object_in(choice, "message")
        return list(self._message(message))

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
            if (delta := self._calls.feed(call)) is not None:
                yield delta

    def _gather(self, name: str, piece: str) -> str:
        if not piece:
            return ""
        return self._texts.setdefault(name, TextBuffer(self._budget)).add(piece)

    def _annotate(self, message: JsonMapping) -> None:
        for annotation in objects_in(message, "annotations"):
            if self._budget.take_item():
                self._annotations.append(annotation)

    def _hear(self, audio: JsonMapping) -> None:
        self._gather("audio", text_in(audio, "data"))
        self._gather("transcript", text_in(audio, "transcript"))
        if text_in(audio, "id"):
            self._audio["id"] = text_in(audio, "id")

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer as received so far.

        Args:
            broken: Why the stream ended early.
        """
        texts = {name: gathered.text for name, gathered in self._texts.items()}
        audio = {**self._audio, "data": texts.pop("audio", ""), "transcript": texts.pop("transcript", "")}
        calls = [call.data() for call in self._calls.calls]
        message = {**texts, "annotations": self._annotations, "audio": audio, "tool_calls": calls}
        choice = {"message": message, "finish_reason": self._finish}
        return self._end.of(self.answers.read({**self._facts, "choices": [choice]}), broken, spent=self._budget.spent)
