"""`parse_partial`: what can be read of arguments that are still coming in. For display, never for running."""

from __future__ import annotations

from typing import Any, Final

from attrs import define, field, frozen
from jiter import from_json

from pegboard.dispatch.limits import DEFAULT_LIMITS, CallError
from pegboard.dispatch.parse import excess_of, is_too_wide, parse_arguments

_READ_EACH_TIME: Final = 4096
"""Bytes up to which every look reads the text anew: some 10 us for a kibibyte."""

_PART: Final = 16
"""Beyond that, a look reads once a sixteenth has come to what was read: all looks together read 16 times the text."""


@frozen
class Partial:
    """What can be shown of arguments so far.

    Attributes:
        value: What has come in: members as far as they go, a text up to where it stops. `{}` where nothing of an
            object can be read yet.
        complete: Whether the text is whole, and one that would be run as it is.
    """

    value: dict[str, Any]
    complete: bool = False


def parse_partial(
    text: str | bytes,
    *,
    most_bytes: int = DEFAULT_LIMITS.argument_bytes,
    most_nodes: int = DEFAULT_LIMITS.argument_nodes,
) -> Partial:
    """Reads as much of a JSON object's text as there is. Never raises; of what is no text nothing can be read.

    What was begun and can't be shown yet (a name, a number's fraction, `tru`) is left out; a number may still grow.
    What is more than the limits allow isn't shown at all.

    Args:
        text: The beginning of a JSON object, cut anywhere, inside a character too.
        most_bytes: How long it may be.
        most_nodes: How many values it may hold.
    """
    try:
        value = parse_arguments(text, most_bytes=most_bytes, most_nodes=most_nodes)
    except CallError:
        return Partial(_begun(text, most_bytes, most_nodes))
    return Partial(value, complete=bool(text.strip()))


def _begun(text: str | bytes, most_bytes: int, most_nodes: int) -> dict[str, Any]:
    if not isinstance(text, str | bytes) or len(text) > most_bytes:  # pyright: ignore[reportUnnecessaryIsInstance]  it never raises
        return {}
    try:
        data = text.encode() if isinstance(text, str) else text
        if is_too_wide(data, most_nodes):
            return {}
        value = from_json(data, allow_inf_nan=False, cache_mode="none", partial_mode="trailing-strings")
    except ValueError:
        return {}
    return value if isinstance(value, dict) and excess_of(value, most_nodes) is None else {}  # pyright: ignore[reportUnknownVariableType]


@define
class ArgumentsSoFar:
    """Gathers the pieces of streamed arguments; reads them only when somebody looks, and then not all each time.

    Looking after each piece costs time in proportion to the text, not to its square: beyond four kibibytes `partial`
    may be a sixteenth of the text behind.

    Attributes:
        most_bytes: How much is kept; what comes after it only counts, so that the call is refused for its length.
        most_nodes: How many values may be shown.
    """

    most_bytes: int = DEFAULT_LIMITS.argument_bytes
    most_nodes: int = DEFAULT_LIMITS.argument_nodes
    _data: bytearray = field(factory=bytearray, init=False)
    _shown: Partial = field(factory=lambda: Partial({}), init=False)
    _read: int = field(default=0, init=False)

    def feed(self, piece: str | bytes) -> None:
        """Takes in what has come."""
        room = self.most_bytes + 1 - len(self._data)  # the one too many makes the text too long to run
        if room > 0:
            data = piece.encode(errors="surrogatepass") if isinstance(piece, str) else piece
            self._data += data[:room]

    @property
    def text(self) -> bytes:
        """All that has come, for the call's `arguments` once the last piece is there."""
        return bytes(self._data)

    @property
    def partial(self) -> Partial:
        """What can be shown now; reads the text if enough has come to it since the last look."""
        length = len(self._data)
        if length - self._read > (0 if length <= _READ_EACH_TIME else self._read // _PART):
            self._read = length
            self._shown = self.exact()
        return self._shown

    def exact(self) -> Partial:
        """What can be shown of all that has come, read anew."""
        return parse_partial(self.text, most_bytes=self.most_bytes, most_nodes=self.most_nodes)


__all__ = ["ArgumentsSoFar", "Partial", "parse_partial"]
