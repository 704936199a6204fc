"""Calls on the wire: ids and names, received and sent, and the calls parsed from an answer."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import define, field

from pegboard import CallFault, Message, ModelRequest, ToolCall
from pegboard.json import is_object, json_problems, json_text
from pegboard.messages import CallPart, ResultPart
from pegboard.schema import without_added_nulls
from pegboard.tools import encodable_text, mapped_name, parsed_object
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_clients.wire.bodies import INPUT, object_or_none

MOST: Final = 1_000
"""Characters of an id or name; further ones are cut. Providers' are far shorter."""


@define(eq=False)
class CallIdAllocator:
    """Allocator of the ids of one answer's calls: the provider's, or a generated one if it is missing or a duplicate.

    Deterministic: `call_0`, `call_1` by the call's place for a missing id, `ID_2` for a duplicate.
    """

    _taken: set[str] = field(factory=set[str], init=False)
    _repeated: dict[str, int] = field(factory=dict[str, int], init=False)
    _count: int = field(default=0, init=False)

    def take(self, given: object) -> tuple[str, str | None]:
        """The next call's id.

        Args:
            given: The provider's value, of any type.

        Returns:
            The id, and the provider's own if it differs: `""` for a missing one, else with lone surrogates replaced.
        """
        own = encodable_text(given) if isinstance(given, str) else ""
        wanted = own[:MOST] or f"call_{self._count}"
        self._count += 1
        made = wanted
        while made in self._taken:
            times = self._repeated[wanted] = self._repeated.get(wanted, 1) + 1
            made = f"{wanted}_{times}"
        self._taken.add(made)
        return made, (None if made == own else own)


def in_call_order(answers: Sequence[ResultPart], calls: Sequence[str]) -> list[ResultPart]:
    """The results in the order of the calls' ids; those without a call last, in their own order.

    Args:
        answers: The results.
        calls: The calls' ids; a duplicate is answered in order.
    """
    places: dict[str, list[int]] = {}
    for place in range(len(calls) - 1, -1, -1):
        places.setdefault(calls[place], []).append(place)
    placed = [(places[part.call_id].pop() if places.get(part.call_id) else len(calls), part) for part in answers]
    return [part for _, part in sorted(placed, key=lambda each: each[0])]


TAKEN: Final = "[A-Za-z0-9_-]{1,64}"
"""The names that most providers accept, as a regular expression."""


def wire_name(name: str, taken: str = TAKEN) -> str:
    """A tool's name as a provider accepts it: the name that a model called may be invalid.

    Args:
        name: The model's name.
        taken: The names that the provider accepts; others become a name that all accept.
    """
    return name if re.fullmatch(taken, name, re.ASCII) else mapped_name(name)


def called_before(messages: Iterable[Message]) -> list[str]:
    """The distinct names of the tools called in a conversation, as they are sent."""
    parts = (part for message in messages for part in message.parts if isinstance(part, CallPart))
    names = dict.fromkeys(part.call.name for part in parts if not part.call.provider_executed)
    return [wire_name(name) for name in names]


_DIGITS = 10


@define(eq=False)
class SentIds:
    """Map from the ids of a conversation's calls to ids that its provider accepts, in the order of the conversation.

    An accepted id is left unchanged at its first call. Others become a readable part and a digest, and a repeated one
    (providers without ids get `call_0` in every answer) gets a number. A longer conversation starts with the same ids,
    so that the provider's prompt cache stays valid. A result belongs to the oldest call with its id that has none yet.

    Attributes:
        refused: A pattern for a character that isn't allowed in an id.
        most: The maximum length of an id.
    """

    refused: re.Pattern[str]
    most: int
    _used: set[str] = field(factory=set[str], init=False)
    _numbers: dict[str, int] = field(factory=dict[str, int], init=False)
    _open: dict[str, deque[str]] = field(factory=dict[str, "deque[str]"], init=False)

    def turn(self) -> None:
        """Starts a new answer, for providers that don't accept results for calls of an earlier one."""
        self._open.clear()

    def call(self, own: str) -> str:
        """Allocates the provider's id for the next call with this id."""
        base = own if 0 < len(own) <= self.most and self.refused.search(own) is None else self._readable(own)
        given = base
        while given in self._used:
            number = self._numbers[base] = self._numbers.get(base, 1) + 1
            suffix = f"_{number}"
            given = base[: self.most - len(suffix)] + suffix
        self._used.add(given)
        self._open.setdefault(own, deque()).append(given)
        return given

    def result(self, own: str) -> str | None:
        """The provider's id for the next result with this id; `None` if no call with this id waits for one."""
        waiting = self._open.get(own)
        return waiting.popleft() if waiting else None

    def _readable(self, own: str) -> str:
        import hashlib

        digest = hashlib.sha256(own.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
        return f"{self.refused.sub('_', own)[: self.most - 1 - _DIGITS] or 'call'}_{digest}"


NO_NAME: Final = CallFault("unknown_tool", "The call has no tool name. Call one of the tools by its name.")
CALL_CUT_OFF: Final = CallFault(
    "cut_off", "Not run: your message was cut off inside this call. Make the complete call again."
)
"""Fault of a call within which the answer broke off."""

ARGUMENTS_TOO_LONG: Final = CallFault(
    "invalid_arguments", "The arguments are too long. Make the call again with shorter arguments."
)
"""Fault of a call whose arguments exceed the size limit."""

ORIGINAL: Final = "original_id"
"""The metadata key for the provider's id of a call that has another id here."""

MOST_ARGUMENTS: Final = 1 << 20
"""Characters of one call's arguments, by default."""

StrictSchema: TypeAlias = Callable[[str], "JsonSchema | None"]
"""Returns the own schema of a tool, by its name, if its calls were requested to be strict."""


def strict_schemas(request: ModelRequest | None) -> StrictSchema:
    """The lookup of the own schemas of a request's strict tools; it finds none without a request."""
    tools = None if request is None else request.tools
    by_default = bool(request is not None and request.config.strict)

    def schema_of(name: str) -> JsonSchema | None:
        tool = None if tools is None else tools.get(name)
        if tool is None or not (by_default if tool.spec.strict is None else tool.spec.strict):
            return None
        return tool.spec.input_schema

    return schema_of


@define(eq=False)
class MadeCalls:
    """Factory of the calls of one answer; their contents can always be written as JSON.

    Attributes:
        provider: The key of the calls' provider metadata.
        schemas: Returns the own schema of a strict tool.
        names: The tools' names here, by their names at the provider, where they differ.
        most: Maximum characters of a call's arguments; a call with more is invalid.
    """

    provider: str
    schemas: StrictSchema = field(factory=lambda: strict_schemas(None))
    names: Mapping[str, str] = field(factory=dict[str, str])
    most: int = MOST_ARGUMENTS
    _ids: CallIdAllocator = field(factory=CallIdAllocator, init=False)

    def call(
        self, name: object, arguments: object, own: object, facts: JsonMapping, fault: CallFault | None = None
    ) -> ToolCall:
        """The next call.

        Args:
            name: The provider's value, of any type, like those that follow.
            arguments: An object, or its text, which is left unchanged; other values are stored as text.
            own: The provider's id; replaced if it is missing or a duplicate, see `CallIdAllocator`.
            facts: Metadata to send back with the call.
            fault: Why it can't run.
        """
        called = name if isinstance(name, str) else ""
        known = self.names.get(called, called)
        identity, was = self._ids.take(own)
        kept = {**facts, **({ORIGINAL: was} if was else {})}
        made = made_call(known, arguments, identity, {self.provider: kept} if kept else None, fault, most=self.most)
        return made if made.invalid else self._without_nulls(made)

    def freeform(
        self, name: object, text: object, own: object, facts: JsonMapping, fault: CallFault | None = None
    ) -> ToolCall:
        """The next call, with free text instead of arguments; otherwise as `call`."""
        if object_or_none(text) is not None:
            return self.call(name, text, own, facts, fault)
        free = text if isinstance(text, str) else "" if text is None else _text(text, self.most)
        fault = ARGUMENTS_TOO_LONG if len(free) > self.most else fault
        return self.call(name, {INPUT: free[: self.most]}, own, facts, fault)

    def _without_nulls(self, call: ToolCall) -> ToolCall:
        """The call without the nulls that a strict schema required."""
        given: Any = call.arguments
        schema = None if isinstance(given, str) and "null" not in given else self.schemas(call.name)
        if schema is None:
            return call
        parsed: Any = parsed_object(given) if isinstance(given, str) else given
        meant = without_added_nulls(parsed, schema) if is_object(parsed) else parsed
        return call if meant is parsed else made_call(call.name, meant, call.id, call.provider_metadata)


def made_call(  # noqa: PLR0913  facts of one call
    name: object,
    arguments: object,
    call_id: str,
    metadata: Any,
    fault: CallFault | None = None,
    *,
    most: int = MOST_ARGUMENTS,
) -> ToolCall:
    """Makes a call from a provider's values; an unreadable one gets a fault.

    Args:
        name: The provider's value, of any type.
        arguments: Likewise: an object, text, or nothing; other values are stored as text.
        call_id: Its id here.
        metadata: Metadata to send back with it.
        fault: A known reason why it can't run.
        most: Maximum characters of its arguments.
    """
    called = encodable_text(name)[:MOST] if isinstance(name, str) else ""
    given, unread = _read(arguments, most)
    fault = fault or unread or (None if called else NO_NAME)
    return ToolCall(called, given, call_id, error=fault, provider_metadata=metadata)


def unreadable(why: str) -> CallFault:
    """The fault of unreadable arguments."""
    return CallFault("invalid_arguments", f"The arguments can't be read: {why}.", (why,))


def shown(arguments: Any) -> str:
    """The arguments of a parsed call as text, for deltas of a stream."""
    return arguments if isinstance(arguments, str) else json_text(arguments)


def _read(given: object, most: int) -> tuple[str | JsonObject, CallFault | None]:
    if given is None:
        return {}, None
    if isinstance(given, str):
        return (given, None) if len(given) <= most else (given[:most], ARGUMENTS_TOO_LONG)
    if not isinstance(given, Mapping):
        return _text(given, most), unreadable(f"expected a JSON object, found {type(given).__name__}")
    taken: JsonObject = dict(given)  # pyright: ignore[reportUnknownArgumentType]  of any type
    faults = json_problems(taken)
    return (taken, None) if not faults else (_text(taken, most), unreadable(faults[0]))


def _text(given: object, most: int) -> str:
    """The first `most` characters of a value as text, encoded piece by piece, as it may be huge or not JSON."""
    pieces: list[str] = []
    length = 0
    try:
        for piece in json.JSONEncoder(default=repr).iterencode(given):
            pieces.append(piece)
            length += len(piece)
            if length > most:
                break
    except TypeError:
        return f"<{type(given).__name__}>"
    except (ValueError, RecursionError):
        pass  # cyclic or too deep: only the pieces before that are shown
    return "".join(pieces)[:most]
