"""`History`: the conversation as a turn makes it longer. Whatever happens, each call in it gets its one result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
from attrs import define, field

from pegboard.dispatch.background import Completion
from pegboard.messages.message import CallPart, Message, ResultPart
from pegboard.messages.response import ModelResponse
from pegboard.tools.call import ToolCall
from pegboard.tools.content import TextContent, ToolResult


@define(eq=False)
class History:
    """Messages, the oldest first.

    Attributes:
        messages: All of them.
    """

    messages: list[Message] = field(converter=list[Message])

    def add_answer(self, response: ModelResponse) -> Message:
        """Takes in an answer; one that isn't complete is marked so, as its calls never run."""
        message = with_own_ids(response.message, self.call_ids)
        if not response.complete:
            message = message.evolve(metadata={**message.metadata, "complete": False})
        self.messages.append(message)
        return message

    def add_results(self, answers: Iterable[tuple[ToolCall, ToolResult]]) -> Message:
        """Takes in the results of the last answer's calls."""
        message = Message.tool(answers)
        self.messages.append(message)
        return message

    def replace_results(self, results: Mapping[str, ToolResult]) -> list[Message]:
        """Puts results in the place of earlier ones of the same calls, the latest of an id; gives what was changed."""
        left, changed = dict(results), list[Message]()
        for place in range(len(self.messages) - 1, -1, -1):
            if not left:
                break
            message = self.messages[place]
            mine = {part.call_id for part in message.results} & left.keys()
            if mine:
                parts = [
                    attrs.evolve(part, result=left[part.call_id])
                    if isinstance(part, ResultPart) and part.call_id in mine
                    else part
                    for part in message.parts
                ]
                self.messages[place] = message.evolve(parts=parts)
                changed.append(self.messages[place])
                left = {id_: result for id_, result in left.items() if id_ not in mine}
        return changed

    def complete(self, completion: Completion) -> Message | None:
        """Takes in what came of a long-running call: in its result's place, or as a message of its own.

        Returns:
            The message, where it is one.
        """
        id_ = completion.call_id
        if completion.replaces and any(part.call_id == id_ for each in self.messages for part in each.results):
            self.replace_results({id_: completion.result})
            return None
        operation = completion.operation
        text = f"Operation {operation.id} of {completion.tool} (call {id_}) has ended:"
        message = Message.user(TextContent(text), *completion.result.content)
        self.messages.append(message)
        return message

    @property
    def call_ids(self) -> frozenset[str]:
        """The ids of all calls."""
        return frozenset(call.id for message in self.messages for call in message.calls)

    def unanswered(self) -> Sequence[ToolCall]:
        """The calls of the last answer that have no result: nothing but results may stand behind it."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if message.role == "assistant":
                return [call for call in message.calls if not call.provider_executed and call.id not in answered]
            answered.update(part.call_id for part in message.results)
        return ()


def with_own_ids(message: Message, earlier: Iterable[str] = ()) -> Message:
    """A message each of whose calls has an id of its own: no other has it, here or earlier, and it is never empty.

    Args:
        message: An answer.
        earlier: The ids of the calls before it; some providers give none, and those made for them begin anew.
    """
    ids, seen = [call.id for call in message.calls], set(earlier)
    if "" not in ids and len(set(ids)) == len(ids) and seen.isdisjoint(ids):
        return message
    names = _FreeNames({*ids, *seen})
    parts = list(message.parts)
    for place, part in enumerate(parts):
        if isinstance(part, CallPart):
            id_ = part.call.id
            if not id_ or id_ in seen:
                id_ = names.after(id_ or "call")
                parts[place] = CallPart(attrs.evolve(part.call, id=id_))
            seen.add(id_)
    return message.evolve(parts=parts)


@define
class _FreeNames:
    """Names that nothing has, each given once; it remembers how far it has counted for each stem."""

    taken: set[str]
    counted: dict[str, int] = field(factory=dict[str, int], init=False)

    def after(self, stem: str) -> str:
        number = self.counted.get(stem, 1) + 1
        while f"{stem}_{number}" in self.taken:
            number += 1
        self.counted[stem] = number
        self.taken.add(f"{stem}_{number}")
        return f"{stem}_{number}"


__all__ = ["History", "with_own_ids"]
