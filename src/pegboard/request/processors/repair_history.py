"""`repair_history`: every call has exactly one result, right behind it, as every provider wants it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from operator import is_

import attrs
from attrs import define, field

from pegboard.callbacks import quick
from pegboard.messages.message import CallPart, Message, Part, ResultPart
from pegboard.request.model_request import ModelRequest
from pegboard.request.processors.sound_history import is_sound
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ToolResult


@quick
def repair_history(request: ModelRequest) -> ModelRequest | None:
    """Gives every call exactly one result, right behind it and in call order; drops results that no call asked for.

    A call without a result gets an error result: `cut_off` where its message's metadata says `"complete": False`, else
    what the call is marked with, or `not_executed`. Of several results of one call the last is the one. An id that
    calls share is made distinct. A call that its provider has executed needs no result of ours, and gets none. Messages
    with nothing in them go.
    """
    if is_sound(request.messages):
        return None
    messages = rebuilt(request.messages)
    unchanged = len(messages) == len(request.messages) and all(map(is_, messages, request.messages))
    return None if unchanged else request.evolve(messages=messages)


def repaired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, every call with one result; the message objects stay where there is nothing to mend."""
    return tuple(messages) if is_sound(messages) else rebuilt(messages)


def rebuilt(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same, of messages that aren't known to be sound."""
    hosted = {call.id for message in messages for call in message.calls if call.provider_executed}
    history = _History(ids=hosted)  # those aren't ours to change
    for message in messages:
        history.add(message)
    return tuple(history.messages())


@define(eq=False)
class _Slot:
    """One call that wants a result."""

    call: ToolCall
    part: ResultPart | None = None


@define(eq=False)
class _Slots:
    """The calls of one answer that share an id. What has its result leaves a queue only when it comes to its head."""

    open: deque[_Slot] = field(factory=deque[_Slot])
    named: dict[str, deque[_Slot]] = field(factory=dict[str, "deque[_Slot]"])
    last: dict[str | None, _Slot] = field(factory=dict[str | None, _Slot])  # by name; under `None`, of all

    def add(self, slot: _Slot) -> None:
        """Takes in the next call."""
        name = slot.call.name
        self.open.append(slot)
        self.named.setdefault(name, deque()).append(slot)
        self.last[name] = self.last[None] = slot

    def of(self, name: str) -> _Slot:
        """Whose a result with this name is: the first's without one, if it can be of that name; else the last's."""
        first = _first_open(self.open)
        if first is None:
            return self.last.get(name, self.last[None])
        return _first_open(self.named.get(name)) or first


def _first_open(slots: deque[_Slot] | None) -> _Slot | None:
    while slots and slots[0].part is not None:
        slots.popleft()
    return slots[0] if slots else None


@define(eq=False)
class _Round:
    """A message, the calls in it that want results, and the message that had their results."""

    message: Message
    slots: list[_Slot] = field(factory=list[_Slot])
    results: Message | None = None


@define(eq=False)
class _History:
    rounds: list[_Round] = field(factory=list[_Round])
    latest: dict[str, _Slots] = field(factory=dict[str, _Slots])  # of the last message that has the id
    places: dict[int, _Round] = field(factory=dict[int, _Round])
    ids: set[str] = field(kw_only=True)
    counts: Counter[str] = field(factory=Counter[str])

    def add(self, message: Message) -> None:
        """Takes in one more message."""
        if message.role == "assistant":
            self._add_answer(message)
            return
        rest: list[Part] = []
        for part in message.parts:
            if isinstance(part, ResultPart):
                self._settle(part, message)
            elif not isinstance(part, CallPart):
                rest.append(part)
        if rest:
            self.rounds.append(_Round(_with_rest(message, rest)))

    def _add_answer(self, message: Message) -> None:
        """An answer: its calls want results, those that are in it, where they don't belong, among them."""
        hosted = {part.call.id for part in message.parts if isinstance(part, CallPart) and part.call.provider_executed}
        for name in hosted:
            self.latest.pop(name, None)
        parts, moved = _divided(message.parts, hosted)
        made = _Round(message)
        slots: dict[str, _Slots] = {}
        for place, part in enumerate(parts):
            if isinstance(part, CallPart) and not part.call.provider_executed:
                parts[place] = mended = self._distinct(part)
                slot = _Slot(mended.call)
                made.slots.append(slot)
                self.places[id(slot)] = made
                slots.setdefault(part.call.id, _Slots()).add(slot)
        self.latest.update(slots)
        if any(new is not part for new, part in zip(parts, message.parts, strict=False)) or moved:
            made.message = message.evolve(parts=parts)
        if parts:
            self.rounds.append(made)
        for part in moved:
            self._settle(part, None)

    def _distinct(self, part: CallPart) -> CallPart:
        """The part, under an id that no earlier call has."""
        name = part.call.id
        fresh = name
        while not fresh or fresh in self.ids:
            self.counts[name] += 1
            fresh = f"{name or 'call'}_{self.counts[name] + bool(name)}"
        self.ids.add(fresh)
        return part if fresh == name else CallPart(attrs.evolve(part.call, id=fresh))

    def _settle(self, part: ResultPart, message: Message | None) -> None:
        """Gives a result to its call; one that no call asked for is dropped."""
        slots = self.latest.get(part.call_id)
        if slots is None:
            return
        slot = slots.of(part.name)
        slot.part = part
        made = self.places[id(slot)]
        if made.results is None and message is not None and message.role == "tool":
            made.results = message

    def messages(self) -> Iterator[Message]:
        """All of them, results behind their calls."""
        for made in self.rounds:
            yield made.message
            if made.slots:
                yield _results(made)


def _divided(parts: Iterable[Part], hosted: set[str]) -> tuple[list[Part], list[ResultPart]]:
    """What stays in an answer, and the results in it that aren't its provider's."""
    stay: list[Part] = []
    moved: list[ResultPart] = []
    for part in parts:
        if isinstance(part, ResultPart) and part.call_id not in hosted:
            moved.append(part)
        else:
            stay.append(part)
    return stay, moved


def _with_rest(message: Message, rest: list[Part]) -> Message:
    """A message without results and calls; what is said in a message of results is said by the user."""
    role = "user" if message.role == "tool" else message.role
    unchanged = role == message.role and len(rest) == len(message.parts)
    return message if unchanged else message.evolve(role=role, parts=rest)


def _results(made: _Round) -> Message:
    complete = made.message.metadata.get("complete") is not False
    parts = [_answer(slot, complete=complete) for slot in made.slots]
    kept = made.results or Message("tool")
    same = len(kept.parts) == len(parts) and all(new is old for new, old in zip(parts, kept.parts, strict=True))
    return kept if same else kept.evolve(parts=parts)


def _answer(slot: _Slot, *, complete: bool) -> ResultPart:
    """The call's result, under its id and its name."""
    call, part = slot.call, slot.part
    if part is None:
        return ResultPart.of(call, _missing(call, complete=complete))
    if (part.call_id, part.name) == (call.id, call.name):
        return part
    return attrs.evolve(part, call_id=call.id, name=call.name)


def _missing(call: ToolCall, *, complete: bool) -> ToolResult:
    if not complete:
        return ToolResult.error("cut_off", f"{call.name} was not run: the answer that called it was cut off.")
    if call.error is not None:
        return ToolResult.error(call.error.kind, call.error.text)
    text = f"{call.name} was not run, or its result was lost. Call it again if it is still needed."
    return ToolResult.error("not_executed", text)


__all__ = ["rebuilt", "repair_history", "repaired"]
