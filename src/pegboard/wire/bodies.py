"""Bodies and streams: the members of an answer, read whatever came, and how much of a streamed one is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from attrs import define, field

from pegboard.errors import ExportError, did_you_mean, suggest
from pegboard.messages import ModelResponse
from pegboard.request.model_request import NamedTool, ToolChoice
from pegboard.schema.json import is_object, json_faults, json_text, strict_json
from pegboard.tools.call import ToolCall
from pegboard.tools.content import AudioContent, Content, ImageContent, LinkContent, TextContent, writable
from pegboard.typing import JsonMapping, JsonObject

_NOTHING: Final[JsonMapping] = {}


def object_or_none(value: object) -> JsonMapping | None:
    """The value where it is an object."""
    return cast("JsonMapping", value) if isinstance(value, Mapping) else None


def as_object(value: object) -> JsonMapping:
    """The value where it is an object; else an empty one."""
    return cast("JsonMapping", value) if isinstance(value, Mapping) else _NOTHING


def object_in(data: JsonMapping, name: str) -> JsonMapping:
    """An object; an empty one where there is none."""
    return as_object(data.get(name))


def list_in(data: JsonMapping, name: str) -> list[Any]:
    """An array; an empty one where there is none."""
    value = data.get(name)
    return cast("list[Any]", value) if isinstance(value, list) else []


def objects_in(data: JsonMapping, name: str) -> list[JsonMapping]:
    """The objects of an array, whatever else is in it passed over; none where there is no array."""
    return [cast("JsonMapping", item) for item in list_in(data, name) if isinstance(item, Mapping)]


def none_readable(data: JsonMapping, name: str) -> bool:
    """Whether an array has items, and nothing can be read of any: they are no objects, or have a `text` of `null`."""
    return bool(items := list_in(data, name)) and all(map(_is_empty, items))


def _is_empty(item: object) -> bool:
    if not isinstance(item, Mapping):
        return True
    facts = dict(cast("JsonMapping", item))
    return facts.pop("text", "") is None and not any(fact for name, fact in facts.items() if name != "type")


def text_in(data: JsonMapping, name: str) -> str:
    """A text; `""` where there is none."""
    value = data.get(name)
    return value if isinstance(value, str) else ""


def known_text(data: JsonMapping, name: str) -> str | None:
    """A text; `None` where there is none, or an empty one."""
    return text_in(data, name) or None


def count_in(data: JsonMapping, name: str) -> int:
    """A whole number that isn't below 0; 0 where there is none."""
    return place_in(data, name) or 0


def place_in(data: JsonMapping, name: str) -> int | None:
    """A place in a list or in a text, from 0; `None` where there is none."""
    value = data.get(name)
    return value if type(value) is int and value >= 0 else None


def facts_of(metadata: object, provider: str) -> JsonMapping:
    """One provider's part of metadata; empty where it holds nothing that can be read.

    Args:
        metadata: Of a part or a call, by provider: it may come from a stored conversation, and be anything.
        provider: Whose.
    """
    return object_in(as_object(metadata), provider)


_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


def without_empty(facts: Mapping[str, Any]) -> JsonObject:
    """The facts that are neither `None` nor empty texts, lists or objects; `False` and 0 stay."""
    return {name: fact for name, fact in facts.items() if fact not in _EMPTY}


def merged(body: JsonObject, options: JsonMapping) -> JsonObject:
    """The body with the host's options over it.

    Objects in both become one, unless they have different `type`s: such are alternatives (a tool choice). Anything else
    is replaced.
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
    """Refuses a choice that can't be met.

    Args:
        choice: The request's.
        names: The tools that can be called.
        exporter: For the error.

    Raises:
        ExportError: The tool that must be called isn't exported, or there is none and one must be called.
    """
    if choice == "required" and not names:
        raise ExportError("a call of a tool is required, and there is no tool to call", exporter=exporter)
    if isinstance(choice, NamedTool) and choice.name not in names:
        near = did_you_mean(suggest(choice.name[:_MOST_OF_A_NAME], names))
        text = f"the tool choice names it, and it isn't among the tools that are exported.{near}"
        raise ExportError(text, exporter=exporter, tool=choice.name)


def render_text(content: Content) -> str:
    """A text as it is; a file that is text with its name; anything else named, so that it isn't lost silently."""
    return writable(_worded(content))


def _worded(content: Content) -> str:
    if isinstance(content, TextContent):
        return content.text
    if isinstance(content, LinkContent):
        kind = f" ({content.mime_type})" if content.mime_type else ""
        name = f" to {content.name}" if content.name else ""
        return f"[link{name}{kind}: {content.uri}]"
    if isinstance(content, ImageContent | AudioContent):
        what = "an image" if isinstance(content, ImageContent) else "a sound"
        return f"[{what} ({content.mime_type}, {len(content.data):,} bytes) that can't be shown here]"
    if isinstance(content.data, str):
        return f"[file {content.uri}]\n{content.data}"
    kind = f"{content.mime_type}, " if content.mime_type else ""
    return f"[file {content.uri} ({kind}{len(content.data):,} bytes) that can't be shown here]"


def render_json(value: object) -> str:
    """Structured content as JSON text; a host may have put anything there."""
    try:
        return json_text(value)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__} that is no JSON"


INVALID: Final = "INVALID_JSON"
"""The key under which arguments stand that were no JSON object."""

INPUT: Final = "input"
"""The one argument of a freeform tool."""

MOST_INVALID: Final = 2_000
"""Characters of arguments that were no JSON: enough for the model to see what went wrong."""

_NO_JSON: Final = "arguments that are no JSON"


def arguments_object(call: ToolCall) -> JsonObject:
    """A call's arguments as a JSON object; what is none stands as text in one, under `INVALID_JSON`. Never raises."""
    if isinstance(call.arguments, Mapping):
        try:
            taken = dict(call.arguments)
        except Exception:  # noqa: BLE001  whatever a host's mapping makes of being read
            return {INVALID: _NO_JSON}
        return {INVALID: _NO_JSON} if json_faults(taken) else taken
    text = _text(call.arguments)
    cut = text if len(text) <= MOST_INVALID else f"{text[:MOST_INVALID]} … ({len(text):,} characters)"
    parsed = parsed_object(text)
    return {INVALID: cut} if parsed is None else parsed


def arguments_text(call: ToolCall) -> str:
    """A call's arguments as the text of a JSON object. Never raises.

    Text that a model wrote stays as it is where it is one; what isn't stands in one, under `INVALID_JSON`: servers
    that read the arguments of earlier calls would reject each later request.
    """
    text = _text(call.arguments)
    is_object = isinstance(call.arguments, Mapping) or (text.strip() and parsed_object(text) is not None)
    return text if is_object else str(json_text(arguments_object(call)))


def input_text(call: ToolCall) -> str:
    """The free text of a call of a freeform tool; its arguments as text where there is none. Never raises."""
    given = call.arguments
    parsed = given if isinstance(given, Mapping) else parsed_object(_text(given))
    free = None if parsed is None or len(parsed) != 1 else parsed.get(INPUT)
    return writable(free) if isinstance(free, str) else _text(given)


def parsed_object(text: str) -> JsonObject | None:
    """The JSON object that a text is, blank text an empty one; else `None`. Never raises.

    As strict as the validation of calls: each key once, and no number that JSON doesn't have.
    """
    if not text.strip():
        return {}
    try:
        value: Any = strict_json(text.encode())
    except ValueError:
        return None
    return value if is_object(value) and not json_faults(value) else None


def _text(given: str | bytes | Mapping[str, Any]) -> str:
    if isinstance(given, bytes):
        return given.decode(errors="backslashreplace")
    if isinstance(given, str):
        return writable(given)
    try:
        return writable(json_text(dict(given)))
    except Exception:  # noqa: BLE001  no JSON, or a host's mapping that breaks when it is read
        return str(json_text({INVALID: _NO_JSON}))


ANSWER_TEXT: Final = 16 << 20
"""Characters of one answer that are read of a stream, where a provider's limits say nothing else."""


@define(eq=False)
class SizeBudget:
    """Size budget of one streamed answer: how many characters are still read.

    Attributes:
        left: Characters.
        spent: Whether something found no room.
    """

    left: int = ANSWER_TEXT
    spent: bool = False

    def take(self, wanted: int) -> int:
        """How many of these characters there is room for."""
        taken = min(wanted, self.left)
        self.left -= taken
        self.spent = self.spent or taken < wanted
        return taken


@define(eq=False)
class TextBuffer:
    """Text buffer: one text that comes in pieces, within its answer's size budget.

    Attributes:
        budget: The answer's.
        most: Characters of this text; what comes after them is passed over, and isn't the answer's fault.
        over: Whether more came than was taken.
    """

    budget: SizeBudget
    most: int | None = None
    over: bool = field(default=False, init=False)
    _pieces: list[str] = field(factory=list[str], init=False)
    _length: int = field(default=0, init=False)

    def add(self, piece: object) -> str:
        """Takes in a piece, of any type, and gives what was taken of it."""
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
        """All that has been taken in."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def __len__(self) -> int:
        return self._length


EARLY: Final = "the stream ended without its end mark"
TOO_LONG: Final = "more came than is read of an answer"
NO_WORDS: Final = "the provider answered with an error"
_MOST_MESSAGE: Final = 2_000


@define(eq=False)
class StreamEnd:
    """End state of a stream: end mark, error, or neither.

    Attributes:
        reached: Whether its end mark came.
        error: Whether an error came in it.
        code: The provider's word for it, or `None`.
        message: Its text, or `None`.
    """

    reached: bool = False
    error: bool = False
    code: str | None = None
    message: str | None = None

    def failed(self, code: str | None, message: str | None) -> None:
        """An error came in the stream; the first one counts."""
        if not self.error:
            self.error, self.code = True, code
            self.message = writable(message or NO_WORDS)[:_MOST_MESSAGE]

    def of(self, response: ModelResponse, broken: str | None, *, spent: bool) -> ModelResponse:
        """The answer, marked where it isn't whole.

        Args:
            response: All that has come.
            broken: Why the stream ended early, or `None`.
            spent: Whether there was more than is read.
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
            # What cut an answer off is worth more than that its end was lost, too.
            reason = "other" if response.finish_reason in ("stop", "tool_calls") else response.finish_reason
            why = broken or response.error_message or EARLY
            return response.evolve(finish_reason=reason, complete=False, interrupted=True, error_message=writable(why))
        if spent:
            return response.evolve(finish_reason="length", complete=False, error_message=TOO_LONG)
        return response
