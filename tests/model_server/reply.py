"""`Reply`: one round on its way to one request."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from attrs import frozen

from model_server.request import Request
from model_server.script import Call, Json, Round


class CutError(Exception):
    """The connection is to be cut here."""


@frozen
class Sent:
    """A call with the id under which it goes out; `None`: without one."""

    call: Call
    id: str | None


@frozen
class Reply:
    """One round on its way.

    Attributes:
        round: What the script says.
        number: Which round it is, from 1: what makes ids differ.
        request: What it answers.
    """

    round: Round
    number: int
    request: Request

    @property
    def model(self) -> Json:
        """The model that the client asked for."""
        return self.request.body.get("model")

    def calls(self, prefix: str | None) -> list[Sent]:
        """The calls with their ids.

        Args:
            prefix: Of the ids that are made; `None`: the wire gives none of its own accord.
        """
        made = [None if prefix is None else f"{prefix}{self.number}_{place}" for place in range(len(self.round.calls))]
        return [
            Sent(call, call.id or (None if call.id is None else id_))
            for call, id_ in zip(self.round.calls, made, strict=True)
        ]

    def text_pieces(self) -> Iterator[str]:
        """The text as it is streamed."""
        said = self.round.text
        yield from split(said, self.round.pieces) if isinstance(said, str) else said

    def pieces(self, text: str) -> Iterator[str]:
        """Another text as it is streamed."""
        return split(text, self.round.pieces)

    def argument_pieces(self, call: Call) -> Iterator[str]:
        """A call's arguments as they are streamed.

        Raises:
            CutError: They are those that never end, and the script's patience is at its end.
        """
        if self.round.never_ends is None or call is not self.round.calls[-1]:
            yield from split(call.text, self.round.pieces)
            return
        yield '{"text": "'
        yield from repeat("and so on, ", self.round.never_ends)
        raise CutError

    def endless_calls(self) -> Iterator[Call]:
        """The calls where arguments come whole: the last never ends by coming again and again.

        Raises:
            CutError: As for `argument_pieces`.
        """
        yield from self.round.calls
        if self.round.never_ends is not None:
            yield from repeat(self.round.calls[-1], self.round.never_ends)
            raise CutError


def split(text: str, pieces: int) -> Iterator[str]:
    """The text in at most so many pieces, none of them empty."""
    size = max(1, -(-len(text) // max(1, pieces)))
    for start in range(0, len(text), size):
        yield text[start : start + size]
