"""Lenient accessors for the members of an answer, call arguments as JSON, and size limits for streams."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, cast

from attrs import define, field

from pegboard import AudioContent, FileContent, ImageContent, LinkContent, ModelConfig, NamedTool, TextContent, ToolCall
from pegboard.errors import ExportError, did_you_mean, suggest
from pegboard.json import is_object, json_text
from pegboard.messages import Delta, ModelResponse
from pegboard.request import ToolChoice
from pegboard.tools import (
    BINARY,
    Content,
    arguments_object,
    encodable_text,
    is_text_type,
    media_type,
    parsed_object,
    plain_type,
    text_of_file,
)
from pegboard.typing import JsonMapping, JsonObject

_NOTHING: Final[JsonMapping] = {}


def object_or_none(value: object) -> JsonMapping | None:
    """The value if it is an object, else `None`."""
    return cast("JsonMapping", value) if isinstance(value, Mapping) else None


def as_object(value: object) -> JsonMapping:
    """The value if it is an object, else an empty one."""
    return cast("JsonMapping", value) if isinstance(value, Mapping) else _NOTHING


def object_in(data: JsonMapping, name: str) -> JsonMapping:
    """The object under a name; an empty one if there is none."""
    return as_object(data.get(name))


def list_in(data: JsonMapping, name: str) -> list[Any]:
    """The array under a name; an empty one if there is none."""
    value = data.get(name)
    return cast("list[Any]", value) if isinstance(value, list) else []


def objects_in(data: JsonMapping, name: str) -> list[JsonMapping]:
    """The objects in the array under a name, skipping other items."""
    return [cast("JsonMapping", item) for item in list_in(data, name) if isinstance(item, Mapping)]


def none_readable(data: JsonMapping, name: str) -> bool:
    """Whether an array has items, but none is readable: they aren't objects, or have a `text` of `null`."""
    return bool(items := list_in(data, name)) and all(map(_is_empty, items))


def _is_empty(item: object) -> bool:
    if not isinstance(item, Mapping):
        return True
    facts = dict(cast("JsonMapping", item))
    return facts.pop("text", "") is None and not any(fact for name, fact in facts.items() if name != "type")


def text_in(data: JsonMapping, name: str) -> str:
    """The text under a name; `""` if there is none."""
    value = data.get(name)
    return value if isinstance(value, str) else ""


def known_text(data: JsonMapping, name: str) -> str | None:
    """The text under a name; `None` if there is none, or it is empty."""
    return text_in(data, name) or None


def count_in(data: JsonMapping, name: str) -> int:
    """The whole number from 0 under a name; 0 if there is none."""
    return place_in(data, name) or 0


def place_in(data: JsonMapping, name: str) -> int | None:
    """The index from 0 under a name; `None` if there is none."""
    value = data.get(name)
    return value if type(value) is int and value >= 0 else None


def facts_of(metadata: object, provider: str) -> JsonMapping:
    """One provider's metadata of a part or call; empty if it has none, or it can't be read.

    Args:
        metadata: By provider; may be any value, as it may come from a stored conversation.
        provider: The provider.
    """
    return object_in(as_object(metadata), provider)


_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


def without_empty(facts: Mapping[str, Any]) -> JsonObject:
    """A copy without members that are `None` or empty texts, lists or objects; `False` and 0 stay."""
    return {name: fact for name, fact in facts.items() if fact not in _EMPTY}


def config_facts(config: ModelConfig, names: Mapping[str, str]) -> JsonObject:
    """What a configuration gives, by the provider's names.

    Args:
        config: Of a request.
        names: Attributes of the configuration -> the provider's names.
    """
    given: JsonObject = {wire: getattr(config, name) for name, wire in names.items()}
    given = {wire: [*each] if isinstance(each, tuple) else each for wire, each in given.items()}
    return without_empty(given)


def decoded(data: object) -> bytes | None:
    """The bytes of base64; `None` if it is invalid, or no text."""
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except ValueError:
        return None


def merged(body: JsonObject, options: JsonMapping) -> JsonObject:
    """The body, overridden by the host's options.

    Objects are merged, unless they have different `type`s, as alternatives do (a tool choice). Other values are
    replaced.
    """
    new = dict(body)
    for key, value in options.items():
        old: Any = new.get(key)
        both = is_object(old) and is_object(value)
        one = both and ("type" not in old or old["type"] == value.get("type", old["type"]))
        new[key] = merged(old, value) if one else value
    return new


_MOST_OF_A_NAME = 200


def check_choice(choice: ToolChoice, names: Collection[str], exporter: str) -> None:
    """Refuses a tool choice that can't be met.

    Args:
        choice: The request's tool choice.
        names: The exported tools.
        exporter: For the error.

    Raises:
        ExportError: The chosen tool isn't exported, or a call is required and no tool is.
    """
    if choice == "required" and not names:
        raise ExportError("the tool choice is 'required', and no tool is exported", exporter=exporter)
    if isinstance(choice, NamedTool) and choice.name not in names:
        near = did_you_mean(suggest(choice.name[:_MOST_OF_A_NAME], names))
        text = f"the tool choice names it, and it isn't exported.{near}"
        raise ExportError(text, exporter=exporter, tool=choice.name)


def admit(content: Content, takes: Collection[str]) -> Content:
    """The content as a provider takes it: the gate that every exporter passes each content through.

    Args:
        content: Of a message or a result.
        takes: The media types of the bytes that the provider takes.

    Returns:
        An image, a sound or a file with bytes of one of these types, which is also what the bytes show; a file with
        its text; a link; else a text, which says what can't be shown.
    """
    if isinstance(content, TextContent):
        return content
    if isinstance(content, LinkContent):
        return content.evolve(mime_type=plain_type(content.mime_type)) if content.mime_type else content
    uri = content.uri if isinstance(content, FileContent) else ""
    if isinstance(content, FileContent) and (text := text_of_file(content)) and text.strip():
        kind = plain_type(content.mime_type or "")
        return FileContent(uri, text, kind if is_text_type(kind) else None)
    kind = "" if isinstance(content.data, str) else media_type(content.data, content.mime_type)
    if not content.data or kind not in takes or is_text_type(kind):
        return TextContent(render_text(content))
    data: Any = content.data
    make = {"image": ImageContent, "audio": AudioContent}.get(kind.partition("/")[0])
    return FileContent(uri, data, kind) if make is None else make(data, kind)


def render_text(content: Content) -> str:
    """A text unchanged; a text file with its name; a placeholder for other content, so that it isn't lost silently."""
    return encodable_text(_as_text(content))


def _as_text(content: Content) -> str:
    if isinstance(content, TextContent):
        return content.text
    if isinstance(content, LinkContent):
        kind = f" ({content.mime_type})" if content.mime_type else ""
        name = f" to {content.name}" if content.name else ""
        return f"[link{name}{kind}: {content.uri}]"
    if isinstance(content, FileContent) and (text := text_of_file(content)):
        return f"[file {content.uri}]\n{text}" if content.uri else text
    what = "audio" if isinstance(content, AudioContent) else "image"
    what = f"file {content.uri}" if isinstance(content, FileContent) else what
    shown = "" if isinstance(content.data, str) else media_type(content.data, content.mime_type)
    kind = shown if shown not in ("", BINARY) else content.mime_type
    facts = [kind] if kind else []
    if not content.data:
        return f"[{' '.join([what, *(f'({fact})' for fact in facts)])}: it is empty]"
    return f"[{what} ({', '.join([*facts, f'{len(content.data):,} bytes'])}): it can't be shown here]"


def render_json(value: object) -> str:
    """Structured content as JSON text; a placeholder for values that aren't JSON."""
    try:
        return json_text(value)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__} that isn't JSON"


INPUT: Final = "input"
"""The only argument of a freeform tool."""


def arguments_text(call: ToolCall) -> str:
    """A call's arguments as the text of a JSON object. Never raises.

    The model's own text is left unchanged if it is one; invalid text goes under `INVALID_JSON`, as servers that parse
    the arguments of earlier calls would reject every later request.
    """
    text = _text(call)
    is_object = isinstance(call.arguments, Mapping) or (
        text.lstrip().startswith("{") and parsed_object(text) is not None
    )
    return text if is_object else str(json_text(arguments_object(call)))


def input_text(call: ToolCall) -> str:
    """The free text of a freeform tool's call; its arguments as text if there is none. Never raises."""
    given = call.arguments
    parsed = given if isinstance(given, Mapping) else parsed_object(_text(call))
    free = None if parsed is None or len(parsed) != 1 else parsed.get(INPUT)
    return encodable_text(free) if isinstance(free, str) else _text(call)


def _text(call: ToolCall) -> str:
    given = call.arguments
    if isinstance(given, bytes):
        return given.decode(errors="backslashreplace")
    if isinstance(given, str):
        return encodable_text(given)
    try:
        return encodable_text(json_text(dict(given)))
    except Exception:  # noqa: BLE001  not JSON, or a host's mapping that raises
        return str(json_text(arguments_object(call)))


ANSWER_TEXT: Final = 16 << 20
"""Characters that are read of one streamed answer, by default."""

ITEM_COST: Final = 1_000
"""Characters of the size budget that each item (a call, a picture, a citation) takes besides its text."""


@define(eq=False)
class SizeBudget:
    """Size budget of one streamed answer.

    Attributes:
        left: Characters that may still be read.
        spent: Whether something was dropped for lack of room.
    """

    left: int = ANSWER_TEXT
    spent: bool = False

    def take(self, wanted: int) -> int:
        """Takes up to `wanted` characters from the budget; returns how many."""
        taken = min(wanted, self.left)
        self.left -= taken
        self.spent = self.spent or taken < wanted
        return taken

    def take_item(self) -> bool:
        """Takes the fixed cost of one item, so that their number is bounded; `False` if there is no room."""
        return self.take(ITEM_COST) == ITEM_COST


@define(eq=False)
class TextBuffer:
    """Buffer of one streamed text, within the size budget of its answer.

    Attributes:
        budget: The budget of the answer.
        most: Maximum length of this text; characters beyond it are dropped without spending the budget.
        over: Whether characters were dropped.
    """

    budget: SizeBudget
    most: int | None = None
    over: bool = field(default=False, init=False)
    _pieces: list[str] = field(factory=list[str], init=False)
    _length: int = field(default=0, init=False)

    def add(self, piece: object) -> str:
        """Adds a piece, of any type; returns the part that was added."""
        if not isinstance(piece, str):
            return ""
        taken = piece if self.most is None else piece[: self.most - self._length]
        taken = taken[: self.budget.take(len(taken))]
        self.over = self.over or len(taken) < len(piece)
        if taken:
            self._pieces.append(taken)
            self._length += len(taken)
        return taken

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def __len__(self) -> int:
        return self._length


EARLY: Final = "the stream ended without its end mark"
TOO_LONG: Final = "the answer exceeds the size limit"
NO_WORDS: Final = "the provider answered with an error"
_MOST_MESSAGE: Final = 2_000


@define(eq=False)
class StreamEnd:
    """End state of a stream: end mark, error, or neither.

    Attributes:
        reached: Whether its end mark was received.
        error: Whether an error was received.
        code: The provider's code of the error, or `None`.
        message: The error's text, or `None`.
    """

    reached: bool = False
    error: bool = False
    code: str | None = None
    message: str | None = None

    def failed(self, code: str | None, message: str | None) -> None:
        """Records an error in the stream; the first one counts."""
        if not self.error:
            self.error, self.code = True, code
            self.message = encodable_text(message or NO_WORDS)[:_MOST_MESSAGE]

    def of(self, response: ModelResponse, broken: str | None, *, spent: bool) -> ModelResponse:
        """The answer, marked if it isn't complete.

        Args:
            response: The answer as received.
            broken: Why the stream ended early, or `None`.
            spent: Whether the size budget was exceeded.
        """
        if self.error:
            return response.evolve(
                finish_reason="error",
                complete=False,
                interrupted=not self.reached,
                error_code=self.code,
                error_message=self.message,
            )
        if broken is not None or not self.reached:
            # A reason that cut the answer off says more than the lost end.
            reason = "other" if response.finish_reason in ("stop", "tool_calls") else response.finish_reason
            why = broken or response.error_message or EARLY
            return response.evolve(
                finish_reason=reason, complete=False, interrupted=True, error_message=encodable_text(why)
            )
        if spent:
            return response.evolve(finish_reason="length", complete=False, error_message=TOO_LONG)
        return response


@define(eq=False)
class StreamReader(ABC):
    """Base class of parsers of one streamed answer.

    Attributes:
        budget: The size budget of the answer.
        end: Whether its end, or an error, has come.
    """

    budget: SizeBudget = field(factory=SizeBudget, kw_only=True)
    end: StreamEnd = field(factory=StreamEnd, init=False)

    def feed(self, chunk: Mapping[str, Any]) -> Sequence[Delta]:
        """Parses one event; returns its deltas. Never raises: unreadable events are skipped."""
        event = object_or_none(chunk)
        return () if event is None else self.read(event)

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer as received so far; interrupted if its end hasn't come.

        Args:
            broken: Why the stream ended early, for the operator.
        """
        return self.end.of(self.whole(), broken, spent=self.budget.spent)

    @abstractmethod
    def read(self, event: JsonMapping) -> Sequence[Delta]:
        """Parses one event; returns its deltas."""

    @abstractmethod
    def whole(self) -> ModelResponse:
        """What has come, as a complete answer."""
