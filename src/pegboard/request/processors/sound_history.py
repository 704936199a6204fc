"""Whether a history needs no mending, as nearly all do: told in one look, with nothing built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, field

from pegboard.messages.message import CallPart, Message, Part, ResultPart
from pegboard.tools.call import ToolCall


def is_sound(messages: Iterable[Message]) -> bool:
    """Whether every call has its one result right behind it, and nothing else is amiss.

    `True` is certain; `False` only says that it takes a closer look, as for results that stand in an answer.

    Args:
        messages: The conversation, the oldest first.
    """
    seen = _Seen()
    return all(map(seen.takes, messages)) and seen.is_settled


@define(eq=False)
class _Seen:
    """What has been said so far.

    Attributes:
        ids: Of all calls that want results.
        hosted: The ids of all calls that a provider has executed, whose ids no other may have.
        open: The calls of the latest message, which the next one has to answer.
    """

    ids: set[str] = field(factory=set[str])
    hosted: set[str] = field(factory=set[str])
    open: list[ToolCall] = field(factory=list[ToolCall])

    @property
    def is_settled(self) -> bool:
        """Whether the conversation may end here."""
        return not self.open and self.ids.isdisjoint(self.hosted)

    def takes(self, message: Message) -> bool:
        """Whether this message may stand here."""
        parts = message.parts
        if not parts:
            return False
        if self.open:
            calls, self.open = self.open, []
            return message.role == "tool" and _answer(parts, calls)
        if message.role == "assistant":
            return all(map(self._takes_part, parts))
        return message.role != "tool" and not any(isinstance(part, CallPart | ResultPart) for part in parts)

    def _takes_part(self, part: Part) -> bool:
        """Whether this part may stand in an answer."""
        if not isinstance(part, CallPart):
            return not isinstance(part, ResultPart)
        call = part.call
        if call.provider_executed:
            self.hosted.add(call.id)
            return True
        if not call.id or call.id in self.ids:
            return False
        self.ids.add(call.id)
        self.open.append(call)
        return True


def _answer(parts: Sequence[Part], calls: Sequence[ToolCall]) -> bool:
    """Whether the parts are the results of these calls, each one's once and in their order."""
    return len(parts) == len(calls) and all(
        isinstance(part, ResultPart) and part.call_id == call.id and part.name == call.name
        for part, call in zip(parts, calls, strict=True)
    )


__all__ = ["is_sound"]
