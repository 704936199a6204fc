"""Parsers of Gemini's answers: parts, streams, grounding."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any, Final, cast

import attrs
from attrs import Factory, define, field

from pegboard import CallFault, Message, ModelResponse, ToolCall
from pegboard.json import MAX_DEPTH, is_array, is_object
from pegboard.messages import (
    CallDelta,
    CallPart,
    Citation,
    Delta,
    HostedPart,
    Part,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    Usage,
)
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.calls import StreamedCall, StreamedCalls
from pegboard_clients.wire import (
    CALL_CUT_OFF,
    ORIGINAL,
    CallIdAllocator,
    SizeBudget,
    StreamReader,
    TextBuffer,
    as_object,
    count_in,
    list_in,
    made_call,
    none_readable,
    object_in,
    objects_in,
    shown,
    text_in,
    unreadable,
)
from pegboard_google._gemini import (
    CUT_OFF,
    DATA,
    FAMILY,
    UNEXPECTED,
    error_of,
    media_of,
    metadata_of,
    reason_of,
)

MOST_PIECES: Final = 1 << 20
"""Characters of values and paths in the pieces of one call."""

_STEP: Final = re.compile(r"""\.([^.\[\]'"]+)|\[(\d{1,7})\]|\[(?:'([^']*)'|"([^"]*)")\]""", re.ASCII)
_VALUES: Final = ("stringValue", "numberValue", "boolValue")


class _MisplacedError(Exception):
    """An invalid path, or one through a value that isn't a container."""


@define(eq=False)
class ArgumentPieces:
    """Assembles streamed arguments.

    Attributes:
        fault: The first fault, or `None`; nothing is added after it.
    """

    fault: str | None = field(default=None, init=False)
    _value: JsonObject = field(factory=dict[str, Any], init=False)
    _size: int = field(default=0, init=False)
    _path: str = field(default="", init=False)
    _words: list[str] = field(factory=list[str], init=False)

    def update(self, members: Mapping[str, Any]) -> None:
        """Adds complete members."""
        self._close()
        self._value.update(members)

    def feed(self, piece: JsonMapping) -> None:
        """Adds `{"jsonPath", "stringValue" | "numberValue" | "boolValue" | "nullValue"}`.

        Consecutive texts at the same path are pieces of one text.
        """
        if self.fault is not None:
            return
        path, text = text_in(piece, "jsonPath"), piece.get("stringValue")
        self._size += len(path) + (len(text) if isinstance(text, str) else 1)
        if self._size > MOST_PIECES:
            self.fault = f"more than {MOST_PIECES:,} characters of arguments"
        elif isinstance(text, str) and path == self._path and self._words:
            self._words.append(text)
        else:
            self._close()
            self._put(path, _value_of(piece))
            self._path, self._words = path, [text] if isinstance(text, str) else []

    def value(self) -> JsonObject:
        """The arguments so far."""
        self._close()
        return self._value

    def _close(self) -> None:
        """Sets the text that was received in pieces."""
        if len(self._words) > 1:
            self._put(self._path, "".join(self._words))
        self._words = []

    def _put(self, path: str, value: Any) -> None:
        try:
            steps = _steps(path)
            holder: Any = self._value
            for step, after in pairwise(steps):
                holder = _open(holder, step, [] if isinstance(after, int) else {})
            _set(holder, steps[-1], value)
        except _MisplacedError:
            self.fault = f"{path[:100]!r} is not a valid path"


def _value_of(piece: JsonMapping) -> Any:
    return next((piece[key] for key in _VALUES if piece.get(key) is not None), None)


def _steps(path: str) -> list[str | int]:
    """Names and positions of `$.a[0]['b']`."""
    steps: list[str | int] = []
    position = 1
    while position < len(path) and len(steps) < MAX_DEPTH:
        found = _STEP.match(path, position)
        if found is None:
            raise _MisplacedError
        name, index, single, double = found.groups()
        steps.append(
            int(index) if index is not None else next(part for part in (name, single, double) if part is not None)
        )
        position = found.end()
    if not steps or position < len(path) or path[0] != "$":
        raise _MisplacedError
    return steps


def _open(holder: Any, step: str | int, new: Any) -> Any:
    """The container for the next step, added if it is missing."""
    if _is_there(holder, step) and (isinstance(step, int) or step in holder):
        return holder[step]
    _set(holder, step, new)
    return new


def _set(holder: Any, step: Any, value: Any) -> None:
    if is_array(holder) and step == len(holder):
        holder.append(value)
    elif _is_there(holder, step):
        holder[step] = value
    else:
        raise _MisplacedError


def _is_there(holder: Any, step: str | int) -> bool:
    """Whether a value can be set there: under any name of an object, or an existing index of an array."""
    return is_object(holder) if isinstance(step, str) else is_array(holder) and step < len(holder)


@define(eq=False)
class GeminiCall:
    """A call, whose arguments may come whole or in pieces.

    Attributes:
        wire: The call as its stream tells it from others.
        id: Its id here.
        metadata: The provider metadata.
        given: Its arguments as they came, if they came whole.
    """

    wire: StreamedCall
    id: str
    metadata: dict[str, Any]
    given: Any = None
    _pieces: ArgumentPieces = field(factory=ArgumentPieces)

    def feed(self, call: JsonMapping) -> None:
        """Adds a piece."""
        self.given, args = None, call.get("args")
        if isinstance(args, Mapping):
            self._pieces.update(cast("JsonMapping", args))
        for piece in objects_in(call, "partialArgs"):
            self._pieces.feed(piece)

    def call(self) -> ToolCall:
        """The call; one that isn't complete can't run."""
        value = self._pieces.value() if self.given is None else self.given
        error = self.wire.fault or (None if self.wire.closed else CALL_CUT_OFF)
        if error is None and self._pieces.fault is not None and self.wire.name:
            error = unreadable(self._pieces.fault)
        return made_call(self.wire.name, value, self.id, self.metadata, error)


_RESULTS: Final = frozenset({"functionResponse", "codeExecutionResult", "toolResponse"})
_NAMES: Final[Mapping[str, str]] = {"executableCode": "code_execution", "codeExecutionResult": "code_execution"}


@define(eq=False)
class AnswerParts:
    """Parser of the parts of one answer.

    Consecutive texts of a stream are joined, except for those with a signature, which is of that part only (Gemini API:
    thought signatures).
    """

    budget: SizeBudget = field(factory=SizeBudget)
    streamed: bool = False
    _parts: list[Part | GeminiCall] = field(factory=list["Part | GeminiCall"], init=False)
    _words: TextBuffer = field(default=Factory(lambda self: TextBuffer(self.budget), takes_self=True), init=False)
    _thinking: bool = field(default=False, init=False)
    _ids: CallIdAllocator = field(factory=CallIdAllocator, init=False)
    _streamed: StreamedCalls = field(
        default=Factory(lambda self: StreamedCalls(self.budget, MOST_PIECES), takes_self=True), init=False
    )
    _calls: list[GeminiCall] = field(factory=list[GeminiCall], init=False)

    def add(self, part: JsonMapping) -> list[Delta]:
        """Adds one part; returns its deltas."""
        if isinstance(part.get("functionCall"), Mapping):
            return self._read_call(part)
        if isinstance(part.get("text"), str):
            return self._text(text_in(part, "text"), part)
        if not self._has_room():
            return []
        self._close_words()
        other = _other(part)
        if other is not None:
            self._parts.append(other)
        return []

    def parts(self) -> list[Part]:
        """All parts so far; an incomplete call can't run."""
        self._close_words()
        return [CallPart(part.call()) if isinstance(part, GeminiCall) else part for part in self._parts]

    def _text(self, text: str, part: JsonMapping) -> list[Delta]:
        thinking, metadata = part.get("thought") is True, metadata_of(part)
        alone = not self.streamed or (bool(metadata[FAMILY].keys() - {"thought"}) and self._has_room())
        if alone or thinking is not self._thinking:
            self._close_words()
        self._thinking = thinking
        if self.streamed:
            text = self._words.add(text)
        if alone:
            self._parts.append(_words(text, thinking=thinking, metadata=metadata))
            self._words = TextBuffer(self.budget)
        return [ReasoningDelta(text) if thinking else TextDelta(text)] if text else []

    def _has_room(self) -> bool:
        """Takes the cost of one more part; parts of an answer that isn't streamed are free."""
        return not self.streamed or self.budget.take_item()

    def _close_words(self) -> None:
        text = self._words.text
        self._words = TextBuffer(self.budget)
        if text:
            metadata = {FAMILY: {"thought": True}} if self._thinking else {}
            self._parts.append(_words(text, thinking=self._thinking, metadata=metadata))

    def _read_call(self, part: JsonMapping) -> list[Delta]:
        self._close_words()
        piece = object_in(part, "functionCall")
        name, given_id, args = text_in(piece, "name"), text_in(piece, "id"), piece.get("args")
        grows = isinstance(piece.get("partialArgs"), list)
        # The arguments have no text: an open bracket stands for any, as only the end of the call completes them.
        fed = self._streamed.feed(None, given_id, name, "{" if args or grows else "")
        if fed is None:
            return []
        wire, taken = fed
        is_new = wire.place == len(self._calls)
        if is_new:
            self._begin(wire, part)
        call = self._calls[wire.place]
        if wire.closed or (given_id and given_id != wire.id):
            self._streamed.doubt(wire)
            return []
        goes_on = piece.get("willContinue") is True
        if is_new and not (goes_on or grows):
            call.given = {} if args is None else args
        elif taken:
            call.feed(piece)
        wire.closed = not goes_on
        begun: list[Delta] = [CallDelta(wire.place, "", call.id, wire.name)] if is_new and (goes_on or grows) else []
        return begun if goes_on else [*begun, self._delta(call)]

    def _begin(self, wire: StreamedCall, part: JsonMapping) -> None:
        call_id, own = self._ids.take(object_in(part, "functionCall").get("id"))
        metadata = metadata_of(part) if own is None else metadata_of(part, **{ORIGINAL: own})
        self._calls.append(GeminiCall(wire, call_id, metadata))
        self._parts.append(self._calls[-1])

    def _delta(self, call: GeminiCall) -> CallDelta:
        made = call.call()
        return CallDelta(call.wire.place, shown(made.arguments), made.id, made.name)


def _words(text: str, *, thinking: bool, metadata: dict[str, Any]) -> Part:
    if thinking:
        return ReasoningPart(text, metadata)
    return TextPart(text, provider_metadata=metadata if metadata.get(FAMILY) else {})


def _other(part: JsonMapping) -> Part | None:
    """Media, or a part of the provider's own tools, unchanged; `None` for a part without content."""
    media = media_of(part)
    if media is not None:
        return media
    kind = next((key for key in DATA if isinstance(part.get(key), Mapping)), None)
    if kind is None and not any(isinstance(value, Mapping) for value in part.values()):
        return None
    content = object_in(part, kind or "")
    name = _NAMES.get(kind or "") or text_in(content, "toolType").lower() or text_in(content, "name") or kind or ""
    role = "result" if kind in _RESULTS else "call"
    data = {key: value for key, value in part.items() if value is not None}
    return HostedPart(FAMILY, data, role, name, text_in(content, "id"))


MOST: Final = 1000
"""Citations that are read of one answer; `grounding` has all of them."""

_SOURCES: Final = ("web", "retrievedContext", "maps", "image")


@define(eq=False)
class _Words:
    """A part's text, with conversion of offsets in UTF-8 bytes, as the provider counts them."""

    text: str
    place: int
    citations: list[Citation] = field(factory=list[Citation])
    _ends: list[int] | None = None

    @property
    def length(self) -> int:
        """In bytes."""
        return len(self.text) if self.text.isascii() else self._byte_ends()[-1]

    def character(self, offset: int) -> int | None:
        """The index of the character that starts at a byte; `None` if none does."""
        if self.text.isascii():
            return offset if offset <= len(self.text) else None
        from bisect import bisect_left

        ends = self._byte_ends()
        place = bisect_left(ends, offset)
        return place if place < len(ends) and ends[place] == offset else None

    def _byte_ends(self) -> list[int]:
        if self._ends is None:
            self._ends = [0, *accumulate(len(each.encode(errors="replace")) for each in self.text)]
        return self._ends


def with_citations(parts: Sequence[Part], candidate: JsonMapping) -> list[Part]:
    """The parts with their citations."""
    texts = [_Words(part.text, place) for place, part in enumerate(parts) if isinstance(part, TextPart)]
    if not texts:
        return list(parts)
    for support, chunk in islice(_supports(object_in(candidate, "groundingMetadata")), MOST):
        _cite(texts, object_in(support, "segment"), _of_chunk(chunk), {"chunk": dict(chunk), "support": dict(support)})
    for cited in objects_in(object_in(candidate, "citationMetadata"), "citations")[:MOST]:
        named = Citation(uri=text_in(cited, "uri") or None, title=text_in(cited, "title") or None)
        _cite(texts, cited, named, dict(cited))
    new = list(parts)
    for words in texts:
        part = new[words.place]
        if words.citations and isinstance(part, TextPart):
            new[words.place] = attrs.evolve(part, citations=words.citations)
    return new


def _supports(grounding: JsonMapping) -> Iterable[tuple[JsonMapping, JsonMapping]]:
    """Each support with each of its chunks."""
    chunks = list_in(grounding, "groundingChunks")
    for support in objects_in(grounding, "groundingSupports")[:MOST]:
        for index in list_in(support, "groundingChunkIndices"):
            chunk = chunks[index] if type(index) is int and 0 <= index < len(chunks) else None
            if isinstance(chunk, Mapping):
                yield support, cast("JsonMapping", chunk)


def _of_chunk(chunk: JsonMapping) -> Citation:
    source = as_object(next((chunk[key] for key in _SOURCES if chunk.get(key)), None))
    uri = text_in(source, "uri") or text_in(source, "sourceUri")
    return Citation(text_in(source, "text") or None, uri or None, text_in(source, "title") or None)


def _cite(texts: list[_Words], segment: JsonMapping, named: Citation, raw: JsonMapping) -> None:
    """Adds a citation to the part that has its text; if none does, to the first, without a position."""
    start, end = count_in(segment, "startIndex"), count_in(segment, "endIndex")
    text = text_in(segment, "text")
    wanted = count_in(segment, "partIndex")
    for words in sorted(texts, key=lambda each: each.place != wanted) if len(texts) > 1 else texts:
        found = _character_range(words, start, end, text)
        if found is not None:
            words.citations.append(attrs.evolve(named, start=found[0], end=found[1], data={FAMILY: raw}))
            return
    texts[0].citations.append(attrs.evolve(named, data={FAMILY: raw}))


def _character_range(words: _Words, start: int, end: int, text: str) -> tuple[int, int] | None:
    """Converts a range in bytes to characters; `None` if it is invalid, or has another text."""
    if not start < end <= words.length:
        return None
    first, last = words.character(start), words.character(end)
    if first is None or last is None or (text and (last - first != len(text) or words.text[first:last] != text)):
        return None
    return first, last


_KNOWN: Final = ("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId")
_BESIDE: Final = ("safetyRatings", "urlContextMetadata", "avgLogprobs", "logprobsResult")


def response_of(raw: Any) -> ModelResponse:
    """Parses an answer; of several candidates the first.

    Raises:
        ModelError: The body is not an answer, or is the provider's error.
    """
    candidate = first_candidate(as_object(raw))
    if not is_answer(raw) or none_readable(object_in(candidate, "content"), "parts"):
        raise error_of(raw)
    spoken = AnswerParts()
    for part in parts_of(candidate):
        spoken.add(part)
    return answer(spoken.parts(), candidate, raw)


def is_answer(raw: Any) -> bool:
    """Whether this is the body of an answer, or a chunk of one."""
    read = as_object(raw)
    return not read.get("error") and any(key in read for key in _KNOWN)


def first_candidate(raw: JsonMapping) -> JsonMapping:
    """The first candidate; an empty object if there is none."""
    candidates = objects_in(raw, "candidates")
    return candidates[0] if candidates else {}


def parts_of(candidate: JsonMapping) -> list[JsonMapping]:
    """The parts of its content."""
    return objects_in(object_in(candidate, "content"), "parts")


def answer(parts: list[Part], candidate: JsonMapping, raw: JsonMapping) -> ModelResponse:
    """Builds the response."""
    word = text_in(candidate, "finishReason")
    if word == UNEXPECTED and not any(isinstance(part, CallPart) for part in parts):
        parts = [*parts, _call_of_nothing(text_in(candidate, "finishMessage"))]
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
        error_message=_error_text(candidate, raw, word if reason == "error" else "") if failed else None,
    )


def _call_of_nothing(message: str) -> CallPart:
    """A call in place of one that the provider left out, so that the model gets a result that says so."""
    fault = CallFault("unknown_tool", " ".join(filter(None, (message, "Only the offered tools can be called."))))
    return CallPart(made_call("unknown", {}, "call_0", None, fault))


def usage_of(raw: JsonMapping) -> Usage:
    """The token usage; the provider's own tools count as input, thoughts as output."""
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


def _error_text(candidate: JsonMapping, raw: JsonMapping, word: str) -> str | None:
    feedback = text_in(object_in(raw, "promptFeedback"), "blockReasonMessage")
    message = text_in(candidate, "finishMessage") or feedback
    if not (message or candidate):
        return "the answer holds no candidate"
    return message or (f"the answer ended with {word}" if word else None)


_LATEST: Final = (
    "finishReason",
    "finishMessage",
    "groundingMetadata",
    "urlContextMetadata",
    "safetyRatings",
    "avgLogprobs",
)
_OF_ALL: Final = ("usageMetadata", "modelVersion", "responseId", "promptFeedback")
_NOTHING_YET: Final[JsonObject] = {"content": {}}
"""An empty candidate, for a stream that broke off: a complete answer without a candidate is an error."""


@define(eq=False)
class GeminiReader(StreamReader):
    """Parser of one streamed answer."""

    _spoken: AnswerParts = field(
        default=Factory(lambda self: AnswerParts(self.budget, streamed=True), takes_self=True), init=False
    )
    _candidate: JsonObject = field(factory=dict[str, Any], init=False)
    _raw: JsonObject = field(factory=dict[str, Any], init=False)
    _cited: list[JsonMapping] = field(factory=list[JsonMapping], init=False)

    def read(self, event: JsonMapping) -> Sequence[Delta]:
        """Parses one chunk; returns its deltas."""
        if not is_answer(event):
            if event.get("error"):
                error = error_of(event)
                self.end.failed(error.code, error.message)
            return ()
        candidate = first_candidate(event)
        self._raw.update({key: event[key] for key in _OF_ALL if event.get(key)})
        self._candidate.update({key: candidate[key] for key in _LATEST if candidate.get(key)})
        cited = objects_in(object_in(candidate, "citationMetadata"), "citations")
        self._cited += cited[: MOST - len(self._cited)]
        return [delta for part in parts_of(candidate) for delta in self._spoken.add(part)]

    def whole(self) -> ModelResponse:
        """What has come, as a complete answer; its end is the finish reason."""
        parts = self._spoken.parts()
        blocked = text_in(object_in(self._raw, "promptFeedback"), "blockReason")
        self.end.reached = bool(self._candidate.get("finishReason") or blocked)
        if self._cited:
            self._candidate["citationMetadata"] = {"citations": self._cited}
        candidate = self._candidate or ({} if self.end.reached else _NOTHING_YET)
        return answer(list(parts), candidate, self._raw)
