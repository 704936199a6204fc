"""Gemini's answers: parts, streams, grounding, ends."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any, Final, cast

import attrs
from attrs import Factory, define, field, frozen

from pegboard import (
    AudioContent,
    CallPart,
    Citation,
    FileContent,
    HostedPart,
    ImageContent,
    LinkContent,
    MediaPart,
    Message,
    ModelError,
    ModelResponse,
    ReasoningPart,
    TextContent,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
)
from pegboard.messages.message import Part
from pegboard.messages.response import CallDelta, Delta, FinishReason, ReasoningDelta, TextDelta
from pegboard.schema.json import MAX_DEPTH, is_array, is_object
from pegboard.tools.content import Content
from pegboard.typing import JsonMapping, JsonObject
from pegboard.wire import (
    CUT,
    ORIGINAL,
    Gathered,
    GivenIds,
    Room,
    StreamEnd,
    as_object,
    count_in,
    list_in,
    made_call,
    object_in,
    object_or_none,
    objects_in,
    own,
    render_text,
    shown,
    text_in,
    unreadable,
)

FAMILY: Final = "gemini"
"""What both exporters call their provider in metadata, so that either gives back what the other has read."""

OPTION_KEYS: Final = ("google", "gemini")
"""What the provider is called in options, the later over the earlier, and before the dot of a `provider_id`."""

UNVALIDATED: Final = "skip_thought_signature_validator"
"""The signature that Gemini 3 takes on calls that it hasn't made itself (Gemini API: thought signatures)."""


@frozen
class GeminiLimits:
    """What the provider takes.

    Attributes:
        name: What a function's name has to match, as a regular expression.
        functions: How many functions one request may declare.
        result_media: Kinds of media that a function's result may hold, the first part of their type
            (`"image"`) or all of it.
        unvalidated: The signature for the first call of an answer that another provider gave; `None` to send none.
            Not sent to models before Gemini 3, which take no signature but their own.
        dated: How the names of models begin that take a thinking budget instead of a level, and no signatures of
            others.
    """

    name: str = "[A-Za-z_][A-Za-z0-9_.:-]{0,63}"
    functions: int = 512
    result_media: frozenset[str] = field(
        default=frozenset({"image", "audio", "video", "application/pdf"}), converter=frozenset
    )
    unvalidated: str | None = UNVALIDATED
    dated: tuple[str, ...] = ("gemini-1", "gemini-2")

    def takes_name(self, name: str) -> bool:
        """Whether a function may be called so."""
        return re.fullmatch(self.name, name, re.ASCII) is not None

    def takes_in_results(self, mime_type: str) -> bool:
        """Whether a function's result may hold media of this type."""
        return mime_type in self.result_media or mime_type.partition("/")[0] in self.result_media

    def is_dated(self, model: str | None) -> bool:
        """Whether this is a model of before Gemini 3."""
        return model is not None and model.rpartition("/")[2].startswith(self.dated)


DEFAULT_LIMITS: Final = GeminiLimits()


_MOST_LEVELS: Final = 12
"""How deep the provider's own words go; what is deeper stays as it is."""

_OTHERS: Final = frozenset({"args", "response", "part_metadata", "parsed"})
"""Keys whose values hold others' words."""


def camel(name: str) -> str:
    """`googleSearch` of `google_search`, and of itself."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def in_wire_words(raw: Any) -> Any:
    """The answer with keys in camel case, where it is a `model_dump()` without `by_alias`; else itself."""
    return _in_camel_case(raw, _MOST_LEVELS) if _is_dumped(raw) else raw


def _is_dumped(raw: Any) -> bool:
    if not isinstance(raw, Mapping):
        return False
    read = cast("JsonMapping", raw)
    parts: list[Any] = [read, *objects_in(read, "candidates")]
    parts += [part for each in parts[1:] if isinstance(each.get("content"), Mapping) for part in _parts(each)]
    return any("_" in key for part in parts for key in part if isinstance(key, str))


def _parts(candidate: JsonMapping) -> list[JsonMapping]:
    return objects_in(candidate["content"], "parts")


def _in_camel_case(value: Any, levels: int) -> Any:
    if levels == 0:
        return value
    if isinstance(value, list):
        return [_in_camel_case(item, levels - 1) for item in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    return {
        camel(key) if isinstance(key, str) else key: item if key in _OTHERS else _in_camel_case(item, levels - 1)
        for key, item in cast("Mapping[Any, Any]", value).items()
    }


DATA: Final = (
    "text",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
"""What a part may say; it says one of these."""

_OURS: Final = frozenset({ORIGINAL, "thought"})


def kept(part: JsonMapping, **more: Any) -> JsonObject:
    """What a part carries beside what it says, as metadata of the provider's."""
    beside = {key: written(value) for key, value in part.items() if key not in DATA and value is not None}
    return {FAMILY: {**beside, **more}}


def is_own(metadata: object) -> bool:
    """Whether Gemini made the part: it may have nothing that Gemini wants to have back."""
    return object_or_none(as_object(metadata).get(FAMILY)) is not None


def beside(metadata: object) -> JsonObject:
    """What stands in a part beside what it says."""
    return {key: value for key, value in own(metadata, FAMILY).items() if key not in _OURS and key not in DATA}


def written(value: Any) -> Any:
    """As JSON has it: an SDK's own models hold a signature as bytes."""
    return base64.urlsafe_b64encode(value).decode() if isinstance(value, bytes) else value


_STORED = ("gs://", "https://generativelanguage.googleapis.com/")
"""How the addresses of files begin that Gemini has itself; other links are told in words."""


def media_part(content: Content) -> JsonObject:
    """A part that holds a content: inline, by its address where Gemini has it, else in words."""
    if isinstance(content, LinkContent) and content.uri.startswith(_STORED):
        named = {} if content.mime_type is None else {"mimeType": content.mime_type}
        return {"fileData": {**named, "fileUri": content.uri}}
    return inline_part(content) or {"text": render_text(content)}


def inline_part(content: Content) -> JsonObject | None:
    """A part with a content's bytes; `None` where it is words, or bytes of a kind that isn't known."""
    if isinstance(content, TextContent | LinkContent) or isinstance(content.data, str) or not content.mime_type:
        return None
    return {"inlineData": {"mimeType": content.mime_type, "data": base64.b64encode(content.data).decode()}}


def media_of(part: JsonMapping) -> MediaPart | None:
    """What a part of a model's holds; `None` where it can't be read."""
    blob, file = object_in(part, "inlineData"), object_in(part, "fileData")
    if text_in(file, "fileUri"):
        uri = text_in(file, "fileUri")
        link = LinkContent(uri, text_in(file, "displayName") or uri, text_in(file, "mimeType") or None)
        return MediaPart(link, kept(part))
    data = _bytes(blob.get("data"))
    return None if data is None else MediaPart(_content(data, blob), kept(part))


def _content(data: bytes, blob: JsonMapping) -> ImageContent | AudioContent | FileContent:
    mime_type = text_in(blob, "mimeType")
    kind = mime_type.partition("/")[0]
    if kind == "image":
        return ImageContent(data, mime_type)
    if kind == "audio":
        return AudioContent(data, mime_type)
    return FileContent(text_in(blob, "displayName") or "file", data, mime_type or None)


def _bytes(data: Any) -> bytes | None:
    """Bytes from base64 of either alphabet, or as an SDK's own models hold them."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, str):
        return None
    try:
        return base64.b64decode(data.translate(_STANDARD) + "=" * (-len(data) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


_STANDARD = str.maketrans("-_", "+/")


_WORDS = ("output", "error")
"""The keys by which Gemini tells an answer from an error (Gemini API: `FunctionResponse.response`)."""


def response_part(name: str, wire_id: str, result: ToolResult, limits: GeminiLimits) -> JsonObject:
    """The part that answers a call.

    Args:
        name: The function's name as the call had it on the wire.
        wire_id: The call's id there; `""` where it had none.
        result: Its content goes out, and structured data where the content says the same; nothing else does.
        limits: What media a result may hold; others are told in words.
    """
    media = [part for item in result.content if (part := _media(item, limits)) is not None]
    texts = [render_text(item) for item in result.content if _media(item, limits) is None]
    response: JsonObject = {"name": name, "response": _response(result, texts)}
    if wire_id:
        response["id"] = wire_id
    if media:
        response["parts"] = media
    return {"functionResponse": response}


def _media(item: Content, limits: GeminiLimits) -> JsonObject | None:
    if isinstance(item, TextContent | LinkContent) or not limits.takes_in_results(item.mime_type or ""):
        return None
    return inline_part(item)


def _response(result: ToolResult, texts: list[str]) -> JsonObject:
    """`{"error": ...}`, the structured object itself, or `{"output": ...}`.

    Where content and structured data differ, the content counts: it may have been cut for the model.
    """
    if result.is_error:
        return {"error": "\n".join(texts) or "failed"}
    data = result.structured_content
    if data is None or not _says(texts, data):
        return {"output": "\n".join(texts)}
    if isinstance(data, dict) and not any(word in data for word in _WORDS):
        return cast("JsonObject", data)
    return {"output": data}


def _says(texts: Iterable[str], data: Any) -> bool:
    """Whether the content is nothing but the structured data."""
    said = [text for text in texts if text]
    if not said:
        return True
    try:
        return len(said) == 1 and json.loads(said[0]) == data
    except (ValueError, RecursionError):
        return False


MOST_PIECES: Final = 1 << 20
"""Characters of values and places that one call's pieces may have."""

_STEP: Final = re.compile(r"""\.([^.\[\]'"]+)|\[(\d{1,7})\]|\[(?:'([^']*)'|"([^"]*)")\]""", re.ASCII)
_VALUES: Final = ("stringValue", "numberValue", "boolValue")


class _MisplacedError(Exception):
    """A place that can't be: no path, or one through a value that holds no others."""


@define(eq=False)
class ArgumentPieces:
    """Puts arguments together.

    Attributes:
        fault: What is wrong with them, or `None`; after the first fault nothing more is taken.
    """

    fault: str | None = field(default=None, init=False)
    _value: JsonObject = field(factory=dict[str, Any], init=False)
    _size: int = field(default=0, init=False)
    _path: str = field(default="", init=False)
    _words: list[str] = field(factory=list[str], init=False)

    def update(self, members: Mapping[str, Any]) -> None:
        """Takes in members that came whole."""
        self._close()
        self._value.update(members)

    def feed(self, piece: JsonMapping) -> None:
        """Takes in `{"jsonPath", "stringValue" | "numberValue" | "boolValue" | "nullValue"}`.

        Texts at the same place, one after the other, are pieces of one text.
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
        """Puts the text that came in pieces where it belongs."""
        if len(self._words) > 1:
            self._put(self._path, "".join(self._words))
        self._words = []

    def _put(self, path: str, value: Any) -> None:
        try:
            steps = _steps(path)
            holder: Any = self._value
            for step, after in pairwise(steps):
                holder = _opened(holder, step, [] if isinstance(after, int) else {})
            _set(holder, steps[-1], value)
        except _MisplacedError:
            self.fault = f"{path[:100]!r} is no place for a value"


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


def _opened(holder: Any, step: str | int, new: Any) -> Any:
    """What holds the next step, made where it isn't there."""
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
    """Whether a value may be put there: under any name of an object, in place of an item of an array."""
    return is_object(holder) if isinstance(step, str) else is_array(holder) and step < len(holder)


@define(eq=False)
class OpenCall:
    """A call whose arguments are still to come.

    Attributes:
        name: The tool's name.
        id: The id that it gets here.
        metadata: What the provider wants to have back.
    """

    name: str
    id: str
    metadata: dict[str, Any]
    _pieces: ArgumentPieces = field(factory=ArgumentPieces)

    def feed(self, said: JsonMapping) -> None:
        """Takes in what has come."""
        args = said.get("args")
        if isinstance(args, Mapping):
            self._pieces.update(cast("JsonMapping", args))
        for piece in objects_in(said, "partialArgs"):
            self._pieces.feed(piece)

    def call(self) -> ToolCall:
        """The call with all that has come."""
        value, fault = self._pieces.value(), self._pieces.fault
        error = None if fault is None or not self.name else unreadable(fault)
        return made_call(self.name, value, self.id, self.metadata, error)

    def broken_off(self) -> ToolCall:
        """The call as far as it came: it can't run."""
        return made_call(self.name, self._pieces.value(), self.id, self.metadata, CUT)


_RESULTS: Final = frozenset({"functionResponse", "codeExecutionResult", "toolResponse"})
_NAMES: Final[Mapping[str, str]] = {"executableCode": "code_execution", "codeExecutionResult": "code_execution"}


@define(eq=False)
class Spoken:
    """Reads the parts of one answer.

    Words without a signature that follow each other in a stream become one part; a part with a signature stays by
    itself, as the signature is of that part (Gemini API: thought signatures).

    Attributes:
        room: What the answer may still bring, if it is streamed.
        streamed: Whether parts may be pieces of one.
    """

    room: Room = field(factory=Room)
    streamed: bool = False
    _parts: list[Part] = field(factory=list[Part], init=False)
    _words: Gathered = field(default=Factory(lambda self: Gathered(self.room), takes_self=True), init=False)
    _thinking: bool = field(default=False, init=False)
    _ids: GivenIds = field(factory=GivenIds, init=False)
    _calls: int = field(default=0, init=False)
    _open: OpenCall | None = field(default=None, init=False)

    def add(self, part: JsonMapping) -> list[Delta]:
        """Takes in one part, and gives what came with it."""
        if isinstance(part.get("functionCall"), Mapping):
            return self._called(part)
        if isinstance(part.get("text"), str):
            return self._said(text_in(part, "text"), part)
        self._close_words()
        other = _other(part)
        if other is not None:
            self._parts.append(other)
        return []

    def parts(self) -> list[Part]:
        """Everything so far; a call that never ended is there, and can't run."""
        self._close_words()
        if self._open is not None:
            self._parts.append(CallPart(self._open.broken_off()))
            self._open = None
        return self._parts

    def _said(self, text: str, part: JsonMapping) -> list[Delta]:
        thinking, metadata = part.get("thought") is True, kept(part)
        alone = not self.streamed or bool(metadata[FAMILY].keys() - {"thought"})
        if alone or thinking is not self._thinking:
            self._close_words()
        self._thinking = thinking
        if self.streamed:
            text = self._words.add(text)
        if alone:
            self._parts.append(_words(text, thinking=thinking, metadata=metadata))
            self._words = Gathered(self.room)
        return [ReasoningDelta(text) if thinking else TextDelta(text)] if text else []

    def _close_words(self) -> None:
        text = self._words.text
        self._words = Gathered(self.room)
        if text:
            metadata = {FAMILY: {"thought": True}} if self._thinking else {}
            self._parts.append(_words(text, thinking=self._thinking, metadata=metadata))

    def _called(self, part: JsonMapping) -> list[Delta]:
        self._close_words()
        piece = object_in(part, "functionCall")
        if self._open is not None and not text_in(piece, "name"):
            return self._went_on(self._open, piece)
        if self._open is not None:  # another one begins
            self._parts.append(CallPart(self._open.broken_off()))
            self._open = None
        call_id, wire = self._ids.take(piece.get("id"))
        metadata = kept(part) if wire is None else kept(part, **{ORIGINAL: wire})
        self._calls += 1
        if piece.get("willContinue") is True or isinstance(piece.get("partialArgs"), list):
            return self._began(piece, call_id, metadata)
        return [self._delta(self._ended(made_call(piece.get("name"), piece.get("args"), call_id, metadata)))]

    def _began(self, piece: JsonMapping, call_id: str, metadata: dict[str, Any]) -> list[Delta]:
        self._open = OpenCall(text_in(piece, "name"), call_id, metadata)
        begun = CallDelta(self._calls - 1, "", call_id, self._open.name)
        return [begun, *self._went_on(self._open, piece)]

    def _went_on(self, call: OpenCall, piece: JsonMapping) -> list[Delta]:
        call.feed(piece)
        if piece.get("willContinue") is True:
            return []
        self._open = None
        return [self._delta(self._ended(call.call()))]

    def _ended(self, call: ToolCall) -> ToolCall:
        self._parts.append(CallPart(call))
        return call

    def _delta(self, call: ToolCall) -> CallDelta:
        return CallDelta(self._calls - 1, shown(call.arguments), call.id, call.name)


def _words(text: str, *, thinking: bool, metadata: dict[str, Any]) -> Part:
    if thinking:
        return ReasoningPart(text, metadata)
    return TextPart(text, provider_metadata=metadata if metadata.get(FAMILY) else {})


def _other(part: JsonMapping) -> Part | None:
    """Media, or what the provider did by itself, kept as it is; `None` of a part that says nothing."""
    media = media_of(part)
    if media is not None:
        return media
    kind = next((key for key in DATA if isinstance(part.get(key), Mapping)), None)
    if kind is None and not any(isinstance(value, Mapping) for value in part.values()):
        return None
    said = object_in(part, kind or "")
    name = _NAMES.get(kind or "") or text_in(said, "toolType").lower() or text_in(said, "name") or kind or ""
    role = "result" if kind in _RESULTS else "call"
    data = {key: written(value) for key, value in part.items() if value is not None}
    return HostedPart(FAMILY, data, role, name, text_in(said, "id"))


_FILTERED: Final = (
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "MODEL_ARMOR",
)
_FAILED: Final = (
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE",
    "IMAGE_OTHER",
    "NO_IMAGE",
)
_REASONS: Final[Mapping[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "pause",
    **dict.fromkeys(_FILTERED, "content_filter"),
    **dict.fromkeys(_FAILED, "error"),
}
CUT_OFF: Final = frozenset({"length", "content_filter", "error"})
"""Reasons after which an answer isn't whole: its calls never run."""

_RETRYABLE: Final = frozenset({408, 429, 500, 502, 503, 504})
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s", re.ASCII)


def reason_of(word: str, *, calls: bool) -> FinishReason:
    """Why an answer ended, by the provider's word.

    Args:
        word: The `finishReason`; `""` where none was given.
        calls: Whether it calls tools.
    """
    reason = _REASONS.get(word, "other" if word else "stop")
    return "tool_calls" if calls and reason == "stop" else reason


def error_of(body: Any, *, status: int | None = None, retry_after: float | None = None) -> ModelError:
    """The error that a provider's body tells.

    Args:
        body: `{"error": {"code", "message", "status", "details"}}`, or whatever came instead.
        status: The HTTP status, where it is known otherwise.
        retry_after: Seconds, by a header.
    """
    said = object_in(as_object(body), "error")
    code = said.get("code")
    status = code if status is None and type(code) is int else status
    return ModelError(
        text_in(said, "message") or f"an answer that can't be read: {type(body).__name__}",
        provider=FAMILY,
        status=status,
        code=text_in(said, "status") or None,
        retryable=status in _RETRYABLE,
        retry_after=_retry_after(said) if retry_after is None else retry_after,
    )


def _retry_after(said: JsonMapping) -> float | None:
    """Seconds by `google.rpc.RetryInfo`."""
    for detail in objects_in(said, "details"):
        found = _SECONDS.fullmatch(text_in(detail, "retryDelay"))
        if found is not None:
            return float(found[1])
    return None


MOST: Final = 1000
"""Citations that are read of one answer; `grounding` holds whatever there was."""

_SOURCES: Final = ("web", "retrievedContext", "maps", "image")


@define(eq=False)
class _Words:
    """A part's text, whose places the provider counts in bytes of UTF-8.

    Attributes:
        text: The text.
        place: Which of the answer's parts it is.
    """

    text: str
    place: int
    citations: list[Citation] = field(factory=list[Citation])
    _ends: list[int] | None = None

    @property
    def length(self) -> int:
        """In bytes."""
        return len(self.text) if self.text.isascii() else self._byte_ends()[-1]

    def character(self, offset: int) -> int | None:
        """The character that begins at a byte; `None` where none does."""
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
    """The parts with what their words rest on.

    Args:
        parts: The answer's.
        candidate: With `groundingMetadata` and `citationMetadata`, where there are any.
    """
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
    """Puts a citation to the part whose words it is of; where none fits, to the first, without its place."""
    start, end = count_in(segment, "startIndex"), count_in(segment, "endIndex")
    said = text_in(segment, "text")
    wanted = count_in(segment, "partIndex")
    for words in sorted(texts, key=lambda each: each.place != wanted) if len(texts) > 1 else texts:
        found = _placed(words, start, end, said)
        if found is not None:
            words.citations.append(attrs.evolve(named, start=found[0], end=found[1], data={FAMILY: raw}))
            return
    texts[0].citations.append(attrs.evolve(named, data={FAMILY: raw}))


def _placed(words: _Words, start: int, end: int, said: str) -> tuple[int, int] | None:
    """Where some bytes of a text are in characters; `None` where they aren't, or say something else."""
    if not start < end <= words.length:
        return None
    first, last = words.character(start), words.character(end)
    if first is None or last is None or (said and (last - first != len(said) or words.text[first:last] != said)):
        return None
    return first, last


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


__all__ = [
    "CUT_OFF",
    "DATA",
    "DEFAULT_LIMITS",
    "FAMILY",
    "MOST_PIECES",
    "OPTION_KEYS",
    "UNVALIDATED",
    "ArgumentPieces",
    "GeminiLimits",
    "GeminiReader",
    "OpenCall",
    "Spoken",
    "answer",
    "beside",
    "camel",
    "error_of",
    "first_candidate",
    "in_wire_words",
    "inline_part",
    "is_answer",
    "is_own",
    "kept",
    "media_of",
    "media_part",
    "parts_of",
    "reason_of",
    "response_of",
    "response_part",
    "usage_of",
    "with_citations",
    "written",
]
