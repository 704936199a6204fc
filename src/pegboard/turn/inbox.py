"""`Inbox`: what the user says while a turn is on its way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from attrs import define, field

from pegboard.callbacks import settle
from pegboard.messages.message import Message
from pegboard.turn.options import Steering


@define(eq=False)
class Inbox:
    """Messages that the model hasn't read yet.

    Attributes:
        steering: Gives what the user has said since it was last asked; `None`: there are only those that were put in.
    """

    steering: Steering | None = None
    _messages: list[Message] = field(factory=list[Message], init=False)

    def put(self, given: object, what: str) -> None:
        """Takes in a message, a text, or several.

        Args:
            given: What was said; `None` is nothing.
            what: Who said it, for the error.

        Raises:
            TypeError: Something that is no message.
        """
        self._messages.extend(as_messages(given, what))

    async def listen(self) -> bool:
        """Whether there is something that the model hasn't read."""
        if self.steering is not None:
            self.put(await settle(self.steering()), "steering")
        return bool(self._messages)

    @property
    def has_messages(self) -> bool:
        """Whether there is something that the model hasn't read, as far as is known."""
        return bool(self._messages)

    def take(self) -> list[Message]:
        """All that is there, once."""
        taken, self._messages = self._messages, []
        return taken


def as_messages(given: object, what: str) -> list[Message]:
    """Messages of what people write for short: a text is the user's.

    Raises:
        TypeError: Something that is no message.
    """
    if given is None:
        return []
    each = [given] if isinstance(given, str | Message) or not isinstance(given, Iterable) else cast("list[Any]", given)
    messages: list[Message] = []
    for one in each:
        if not isinstance(one, str | Message):
            raise TypeError(f"{what} gives messages or texts, not {type(one).__name__}")
        messages.append(one if isinstance(one, Message) else Message.user(one))
    return messages


__all__ = ["Inbox", "as_messages"]
