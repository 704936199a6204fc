"""`OrderedConversation`: base of writers for providers that want a turn's results in the order of its calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from attrs import define, field

from pegboard import Message, ToolCall
from pegboard.messages import Part, ResultPart
from pegboard.typing import JsonObject
from pegboard_clients.wire import ORIGINAL, facts_of, in_call_order


@define(eq=False)
class OrderedConversation(ABC):
    """Writer of messages; the results of one turn are together, in the order of the calls.

    Attributes:
        family: The provider's name, which is its key in metadata.
        written: What has been written.
    """

    family: ClassVar[str]

    written: list[JsonObject] = field(factory=list[JsonObject], kw_only=True)
    _calls: list[str] = field(factory=list[str], init=False)
    _wire_ids: dict[str, str] = field(factory=dict[str, str], init=False)
    _results: list[ResultPart] = field(factory=list[ResultPart], init=False)

    def write(self, messages: Iterable[Message]) -> list[JsonObject]:
        """Writes messages; returns all that has been written."""
        for message in messages:
            results = message.results if message.role == "tool" else ()
            if message.role == "assistant":
                self.answer_calls()
                self._calls.clear()
                self.speak(message)
            self._results += results
            rest = [part for part in message.parts if not (results and isinstance(part, ResultPart))]
            if rest and message.role != "assistant":
                self.hear(message.role, rest)
        self.answer_calls()
        return self.written

    def wire_id(self, call: ToolCall) -> str:
        """The provider's id of a call that is sent; `""` if it had none."""
        wire_id = facts_of(call.provider_metadata, self.family).get(ORIGINAL, call.id)
        self._calls.append(call.id)
        self._wire_ids[call.id] = wire_id if isinstance(wire_id, str) else ""
        return self._wire_ids[call.id]

    def answer_calls(self) -> None:
        """Writes the results so far, in the order of their calls."""
        if self._results:
            ordered = in_call_order(self._results, self._calls)
            self.answer([(part, self._wire_ids.get(part.call_id, part.call_id)) for part in ordered])
            self._results = []

    @abstractmethod
    def speak(self, message: Message) -> None:
        """Writes a message of the model."""

    @abstractmethod
    def hear(self, role: str, parts: Sequence[Part]) -> None:
        """Writes the parts of another message, except for results; calls `answer_calls` before it writes anything."""

    @abstractmethod
    def answer(self, results: Sequence[tuple[ResultPart, str]]) -> None:
        """Writes results, each with the provider's id of its call."""
