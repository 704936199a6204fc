"""Calls on the wire: their ids and names, given and sent, and calls made of an answer."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import define, field

from pegboard.dialects.values import without_added_nulls
from pegboard.messages import CallPart, Message, ResultPart
from pegboard.request.model_request import ModelRequest
from pegboard.schema.json import is_object, json_faults, json_text
from pegboard.tools.call import CallFault, ToolCall
from pegboard.tools.content import writable
from pegboard.tools.spec import mapped_name
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard.wire.bodies import INPUT, object_or_none, parsed_object

MOST: Final = 1_000
"""Characters of an id, and of a name, that are kept: providers' are shorter by far."""


@define(eq=False)
class CallIdAllocator:
    """Allocator of the ids of one answer's calls: the provider's, or where it gave none or one twice, one made here.

    The same answer gives the same ids. What is made is `call_0`, `call_1` by the call's place, and `ID_2` of an id
    that is there already.
    """

    _taken: set[str] = field(factory=set[str], init=False)
    _repeated: dict[str, int] = field(factory=dict[str, int], init=False)
    _count: int = field(default=0, init=False)

    def take(self, given: object) -> tuple[str, str | None]:
        """The next call's id.

        Args:
            given: What the provider wrote, of any type.

        Returns:
            The id, and what stood on the wire, as far as it can be written, where that is something else: `""` for what
            was no id.
        """
        own = writable(given) if isinstance(given, str) else ""
        wanted = own[:MOST] or f"call_{self._count}"
        self._count += 1
        made = wanted
        while made in self._taken:
            times = self._repeated[wanted] = self._repeated.get(wanted, 1) + 1
            made = f"{wanted}_{times}"
        self._taken.add(made)
        return made, (None if made == own else own)


def in_call_order(answers: Sequence[ResultPart], calls: Sequence[str]) -> list[ResultPart]:
    """The results in the order of the calls' ids; those of no call last, as they came.

    Args:
        answers: The results.
        calls: The calls' ids; one may stand there twice, and is then answered in order.
    """
    places: dict[str, list[int]] = {}
    for place in range(len(calls) - 1, -1, -1):
        places.setdefault(calls[place], []).append(place)
    placed = [(places[part.call_id].pop() if places.get(part.call_id) else len(calls), part) for part in answers]
    return [part for _, part in sorted(placed, key=lambda each: each[0])]


TAKEN: Final = "[A-Za-z0-9_-]{1,64}"
"""What most providers take as a name, as a regular expression."""


def wire_name(name: str, taken: str = TAKEN) -> str:
    """A tool's name as a provider takes it: what a model has called needn't be one.

    Args:
        name: As the model wrote it.
        taken: What the provider takes as it is; anything else becomes a name that all take.
    """
    return name if re.fullmatch(taken, name, re.ASCII) else mapped_name(name)


def called_before(messages: Iterable[Message]) -> list[str]:
    """The names of the tools that a conversation has called, each once, as they are sent."""
    parts = (part for message in messages for part in message.parts if isinstance(part, CallPart))
    names = dict.fromkeys(part.call.name for part in parts if not part.call.provider_executed)
    return [wire_name(name) for name in names]


_DIGITS = 10


@define(eq=False)
class SentIds:
    """Map from the ids of a conversation's calls to ids that its provider takes, in the order of the conversation.

    An id that the provider takes stays as it is at its first call. Others become a readable part and a digest of the
    whole, and one that comes again (providers without ids make `call_0` in every answer) gets a number. A longer
    conversation has the same ids at its beginning, so that what a provider has cached of it stays good. Results find
    the oldest call under their id that has none yet.

    Attributes:
        refused: What can't stand in an id, as a pattern for one character.
        most: How long one may be.
    """

    refused: re.Pattern[str]
    most: int
    _used: set[str] = field(factory=set[str], init=False)
    _numbers: dict[str, int] = field(factory=dict[str, int], init=False)
    _open: dict[str, deque[str]] = field(factory=dict[str, "deque[str]"], init=False)

    def turn(self) -> None:
        """The model speaks again, for providers to which what is still open of its last turn can't be answered."""
        self._open.clear()

    def call(self, own: str) -> str:
        """The provider's id of the next call with this id."""
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
        """The provider's id of the call that this result answers; `None` where no open call has this id."""
        waiting = self._open.get(own)
        return waiting.popleft() if waiting else None

    def _readable(self, own: str) -> str:
        import hashlib

        digest = hashlib.sha256(own.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
        return f"{self.refused.sub('_', own)[: self.most - 1 - _DIGITS] or 'call'}_{digest}"


NO_NAME: Final = CallFault("unknown_tool", "The call names no tool: call one of the tools by its name.")
CALL_CUT_OFF: Final = CallFault("cut_off", "The answer broke off in this call, so it was not run: make it again.")
"""Fault of a call in which the answer broke off."""

ARGUMENTS_TOO_LONG: Final = CallFault(
    "invalid_arguments", "The arguments are too long: make the call again with less in it."
)
"""Fault of a call with more arguments than are read."""

ORIGINAL: Final = "original_id"
"""The key, among the provider's facts of a call that has another id here, of the id that it came with."""

MOST_ARGUMENTS: Final = 1 << 20
"""Characters of one call's arguments, where a provider's limits say nothing else."""

StrictSchema: TypeAlias = Callable[[str], "JsonSchema | None"]
"""Gives the own schema of a tool, by its name, if the provider was to hold its calls to a strict one."""


def strict_schemas(request: ModelRequest | None) -> StrictSchema:
    """The own schemas of the tools whose calls a request wanted to be held to a strict one; none without a request."""
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
    """Factory of the calls of one answer. What they hold can be written as JSON, whatever came.

    Attributes:
        provider: Under which the provider's own facts of a call are kept.
        schemas: Gives the own schema of a tool that the provider held to a strict one.
        names: What tools are called here, by what the provider calls them, where that differs.
        most: Characters of a call's arguments; a call with more is invalid.
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
            name: As the provider wrote it, like all that follows: of any type.
            arguments: An object or its text, which stays as it is; anything else is kept as its text.
            own: The provider's id; one that is missing or comes again gets another, the same for the same answer.
            facts: What the provider wants to have back with it.
            fault: Why it can't run.
        """
        called = name if isinstance(name, str) else ""
        known = self.names.get(called, called)
        identity, was = self._ids.take(own)
        kept = {**facts, **({ORIGINAL: was} if was else {})}
        made = made_call(known, arguments, identity, {self.provider: kept} if kept else None, fault, most=self.most)
        return made if made.invalid else self._meant(made)

    def freeform(self, name: object, text: object, own: object, facts: JsonMapping) -> ToolCall:
        """The next call, which has free text instead of arguments; as `call` has it."""
        if object_or_none(text) is not None:
            return self.call(name, text, own, facts)
        free = text if isinstance(text, str) else "" if text is None else _text(text, self.most)
        fault = ARGUMENTS_TOO_LONG if len(free) > self.most else None
        return self.call(name, {INPUT: free[: self.most]}, own, facts, fault)

    def _meant(self, call: ToolCall) -> ToolCall:
        """The call without the nulls that a strict schema made the model write."""
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
    """A call; one that can't be read is there, with the reason why it can't run.

    Args:
        name: As the provider wrote it, of any type.
        arguments: Likewise: an object, text, or nothing; anything else is kept as its text.
        call_id: The id that it gets here.
        metadata: What the provider wants to have back with it.
        fault: Why it can't run, where that is known.
        most: Characters of its arguments.
    """
    called = writable(name)[:MOST] if isinstance(name, str) else ""
    given, unread = _read(arguments, most)
    fault = fault or unread or (None if called else NO_NAME)
    return ToolCall(called, given, call_id, error=fault, provider_metadata=metadata)


def unreadable(why: str) -> CallFault:
    """The fault of arguments that can't be read."""
    return CallFault("invalid_arguments", f"The arguments can't be read: {why}.", (why,))


def shown(arguments: Any) -> str:
    """The arguments of a call that was made here, as text for people who watch a stream."""
    return arguments if isinstance(arguments, str) else json_text(arguments)


def _read(given: object, most: int) -> tuple[str | JsonObject, CallFault | None]:
    if given is None:
        return {}, None
    if isinstance(given, str):
        return (given, None) if len(given) <= most else (given[:most], ARGUMENTS_TOO_LONG)
    if not isinstance(given, Mapping):
        return _text(given, most), unreadable(f"expected a JSON object, found {type(given).__name__}")
    taken: JsonObject = dict(given)  # pyright: ignore[reportUnknownArgumentType]  whatever came
    faults = json_faults(taken)
    return (taken, None) if not faults else (_text(taken, most), unreadable(faults[0]))


def _text(given: object, most: int) -> str:
    """The text of what may be no JSON, piece by piece: of what shares its parts without end, only the beginning."""
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
        pass  # it holds itself, or is too deep: what has come until there is all that can be shown
    return "".join(pieces)[:most]
