"""`GeminiReader`: a streamed answer, chunk by chunk, each a whole `GenerateContentResponse`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import Factory, define, field

from pegboard.messages.response import Delta, ModelResponse
from pegboard.request.exporters.gemini.answer import answer, first_candidate, is_answer, parts_of
from pegboard.request.exporters.gemini.finish import error_of
from pegboard.request.exporters.gemini.spoken import Spoken
from pegboard.request.exporters.gemini.wire_words import in_wire_words
from pegboard.request.exporters.streams.gathered import Room
from pegboard.request.exporters.streams.stream_end import StreamEnd
from pegboard.request.exporters.untrusted import as_object, object_in, objects_in, text_in
from pegboard.typing import JsonMapping, JsonObject

_LATEST: Final = (
    "finishReason",
    "finishMessage",
    "groundingMetadata",
    "urlContextMetadata",
    "safetyRatings",
    "avgLogprobs",
)
_OF_ALL: Final = ("usageMetadata", "modelVersion", "responseId", "promptFeedback")
_MOST_CITATIONS: Final = 1000
_NOTHING_YET: Final[JsonObject] = {"content": {}}
"""A candidate that has said nothing: an answer without any is the provider's fault, and one that broke off isn't."""


@define(eq=False)
class GeminiReader:
    """Reads one streamed answer.

    Attributes:
        room: What the answer may still bring.
    """

    room: Room = field(factory=Room)
    _spoken: Spoken = field(default=Factory(lambda self: Spoken(self.room, streamed=True), takes_self=True), init=False)
    _candidate: JsonObject = field(factory=dict[str, Any], init=False)
    _raw: JsonObject = field(factory=dict[str, Any], init=False)
    _cited: list[JsonMapping] = field(factory=list[JsonMapping], init=False)
    _end: StreamEnd = field(factory=StreamEnd, init=False)

    def feed(self, chunk: Mapping[str, Any]) -> Sequence[Delta]:
        """Takes in one chunk and gives what came with it. Never raises."""
        chunk = in_wire_words(chunk)
        if not is_answer(chunk):
            if as_object(chunk).get("error"):
                error = error_of(chunk)
                self._end.failed(error.code, str(error))
            return ()
        candidate = first_candidate(chunk)
        self._raw.update({key: chunk[key] for key in _OF_ALL if chunk.get(key)})
        self._candidate.update({key: candidate[key] for key in _LATEST if candidate.get(key)})
        cited = objects_in(object_in(candidate, "citationMetadata"), "citations")
        self._cited += cited[: _MOST_CITATIONS - len(self._cited)]
        return [delta for part in parts_of(candidate) for delta in self._spoken.add(part)]

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer from all that has come; interrupted where no chunk has told why it ended.

        Args:
            broken: Why the stream ended early, for the operator.
        """
        parts = self._spoken.parts()
        blocked = text_in(object_in(self._raw, "promptFeedback"), "blockReason")
        self._end.reached = bool(self._candidate.get("finishReason") or blocked)
        if self._cited:
            self._candidate["citationMetadata"] = {"citations": self._cited}
        candidate = self._candidate or ({} if self._end.reached else _NOTHING_YET)
        read = answer(list(parts), candidate, self._raw)
        return self._end.of(read, broken, spent=self.room.spent)


__all__ = ["GeminiReader"]
