"""`Telling`: who is told of a turn's events."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from pegboard.errors import log_failure
from pegboard.messages.message import Message
from pegboard.messages.response import Delta
from pegboard.turn.events import AnswerDelta, MessageAdded, ModelRetried, TurnEvent
from pegboard.turn.outbox import Outbox


@define(eq=False)
class Telling:
    """Tells whoever reads the turn's events, and its listener.

    Attributes:
        listener: Gets each event; what it raises costs the turn nothing. `None`: nobody.
        outbox: Where a reader takes events from; `None`: nobody reads, and answers needn't come piece by piece.
    """

    listener: Callable[[TurnEvent], None] | None = None
    outbox: Outbox[TurnEvent] | None = field(default=None, init=False)

    def tell(self, event: TurnEvent) -> None:
        """Tells of one event, from where nobody can wait."""
        if self.outbox is not None:
            self.outbox.put_now(event)
        self._tell_listener(event)

    async def tell_delta(self, delta: Delta) -> None:
        """Tells of a piece of an answer; holds up the stream where the reader is slow."""
        event = AnswerDelta(delta)
        if self.outbox is not None:
            await self.outbox.put(event)
        self._tell_listener(event)

    def tell_retry(self, attempt: int, error: BaseException, pause: float) -> None:
        """Tells that a request is sent again."""
        self.tell(ModelRetried(attempt, pause, str(error)))

    def tell_message(self, message: Message) -> None:
        """Tells that the history goes on."""
        self.tell(MessageAdded(message))

    def _tell_listener(self, event: TurnEvent) -> None:
        if self.listener is not None:
            try:
                self.listener(event)
            except (Exception, SystemExit) as error:  # noqa: BLE001  the host's own
                log_failure("the listener of a turn", error)


__all__ = ["Telling"]
