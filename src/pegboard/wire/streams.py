"""Answers that come in pieces: how much of one is read, and how it ended."""

from __future__ import annotations

from typing import Final

from attrs import define, field

from pegboard.messages.response import ModelResponse
from pegboard.tools.call import writable

ANSWER_TEXT: Final = 16 << 20
"""Characters of one answer that are read of a stream, where a provider's limits say nothing else."""


@define(eq=False)
class Room:
    """What one answer may still bring.

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
class Gathered:
    """One text.

    Attributes:
        room: Of the answer.
        most: Characters of this text; what comes after them is passed over, and isn't the answer's fault.
        over: Whether more came than was taken.
    """

    room: Room
    most: int | None = None
    over: bool = field(default=False, init=False)
    _pieces: list[str] = field(factory=list[str], init=False)
    _length: int = field(default=0, init=False)

    def add(self, piece: object) -> str:
        """Takes in a piece, of any type, and gives what was taken of it."""
        if not isinstance(piece, str):
            return ""
        taken = piece if self.most is None else piece[: self.most - self._length]
        taken = taken[: self.room.take(len(taken))]
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
_MOST_SHOWN: Final = 2_000


@define(eq=False)
class StreamEnd:
    """How a stream ended.

    Attributes:
        reached: Whether its end mark came.
        error: Whether it said an error.
        code: The provider's word for it, or `None`.
        message: Its text, or `None`.
    """

    reached: bool = False
    error: bool = False
    code: str | None = None
    message: str | None = None

    def failed(self, code: str | None, message: str | None) -> None:
        """The stream has said an error; the first one counts."""
        if not self.error:
            self.error, self.code = True, code
            self.message = writable(message or NO_WORDS)[:_MOST_SHOWN]

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


__all__ = ["ANSWER_TEXT", "EARLY", "NO_WORDS", "TOO_LONG", "Gathered", "Room", "StreamEnd"]
