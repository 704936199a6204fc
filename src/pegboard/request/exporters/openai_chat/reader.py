"""A streamed chat completion, read chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

from pegboard.messages.response import Delta, ModelResponse, ReasoningDelta, TextDelta
from pegboard.request.exporters.openai.failure import error_facts
from pegboard.request.exporters.openai_chat.answer import REASONING, ChatAnswers
from pegboard.request.exporters.openai_chat.streamed_calls import COST, StreamedCalls
from pegboard.request.exporters.streams.gathered import Gathered, Room
from pegboard.request.exporters.streams.stream_end import StreamEnd
from pegboard.request.exporters.untrusted import object_in, object_or_none, objects_in, text_in
from pegboard.typing import JsonMapping, JsonObject

_KEPT = ("id", "model", "service_tier", "system_fingerprint")


@define
class ChatReader:
    """Gathers the first choice of a stream, and reads it as if it had come whole.

    Attributes:
        answers: Reads whole answers.
    """

    answers: ChatAnswers
    _room: Room = field(init=False)
    _calls: StreamedCalls = field(init=False)
    _texts: dict[str, Gathered] = field(factory=dict[str, Gathered], init=False)
    _annotations: list[JsonMapping] = field(factory=list[JsonMapping], init=False)
    _facts: JsonObject = field(factory=dict[str, Any], init=False)
    _audio: JsonObject = field(factory=dict[str, Any], init=False)
    _finish: str | None = field(default=None, init=False)
    _end: StreamEnd = field(factory=StreamEnd, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.answers.limits
        self._room = Room(limits.answer_text)
        self._calls = StreamedCalls(self._room, limits.argument_text + 1)

    def feed(self, chunk: Mapping[str, Any]) -> list[Delta]:
        """Takes in a `chat.completion.chunk`, and gives what came with it. Never raises."""
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
        for call in _pieces(message):
            if (delta := self._calls.feed(call)) is not None:
                yield delta

    def _gather(self, name: str, piece: str) -> str:
        if not piece:
            return ""
        return self._texts.setdefault(name, Gathered(self._room)).add(piece)

    def _annotate(self, message: JsonMapping) -> None:
        for annotation in objects_in(message, "annotations"):
            if self._room.take(COST) == COST:
                self._annotations.append(annotation)

    def _hear(self, audio: JsonMapping) -> None:
        self._gather("audio", text_in(audio, "data"))
        self._gather("transcript", text_in(audio, "transcript"))
        if text_in(audio, "id"):
            self._audio["id"] = text_in(audio, "id")

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer from all that has come.

        Args:
            broken: Why the stream ended early.
        """
        texts = {name: gathered.text for name, gathered in self._texts.items()}
        audio = {**self._audio, "data": texts.pop("audio", ""), "transcript": texts.pop("transcript", "")}
        calls = [call.data() for call in self._calls.calls]
        message = {**texts, "annotations": self._annotations, "audio": audio, "tool_calls": calls}
        choice = {"message": message, "finish_reason": self._finish}
        return self._end.of(self.answers.read({**self._facts, "choices": [choice]}), broken, spent=self._room.spent)


def _pieces(message: JsonMapping) -> list[JsonMapping]:
    """The pieces of calls; those of a call in the form of before there were several, too."""
    legacy = object_or_none(message.get("function_call"))
    return [*objects_in(message, "tool_calls"), *([] if legacy is None else [{"index": 0, "function": legacy}])]


__all__ = ["ChatReader"]
