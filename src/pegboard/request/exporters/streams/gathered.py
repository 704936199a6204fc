"""`Gathered`: text that comes in pieces, never more of it than there is room for."""

from __future__ import annotations

from typing import Final

from attrs import define, field

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


__all__ = ["ANSWER_TEXT", "Gathered", "Room"]
