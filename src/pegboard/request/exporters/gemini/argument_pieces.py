"""`ArgumentPieces`: arguments that come value by value, each with its place (`partialArgs`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from attrs import define, field

from pegboard.request.exporters.untrusted import text_in
from pegboard.schema.json import MAX_DEPTH, is_array, is_object
from pegboard.typing import JsonMapping, JsonObject

MOST: Final = 1 << 20
"""Characters of values and places that one call's pieces may have."""

_STEP: Final = re.compile(r"""\.([^.\[\]'"]+)|\[(\d{1,7})\]|\[(?:'([^']*)'|"([^"]*)")\]""", re.ASCII)
_VALUES: Final = ("stringValue", "numberValue", "boolValue")


class _MisplacedError(Exception):
    """A place that can't be: no path, or one through a value that holds no others."""


@define(eq=False)
class ArgumentPieces:
    """Puts arguments together.

    Attributes:
        fault: What is wrong with them, or `None`; after the first fault nothing more is taken.
    """

    fault: str | None = field(default=None, init=False)
    _value: JsonObject = field(factory=dict[str, Any], init=False)
    _size: int = field(default=0, init=False)
    _path: str = field(default="", init=False)
    _words: list[str] = field(factory=list[str], init=False)

    def update(self, members: Mapping[str, Any]) -> None:
        """Takes in members that came whole."""
        self._close()
        self._value.update(members)

    def feed(self, piece: JsonMapping) -> None:
        """Takes in `{"jsonPath", "stringValue" | "numberValue" | "boolValue" | "nullValue"}`.

        Texts at the same place, one after the other, are pieces of one text.
        """
        if self.fault is not None:
            return
        path, text = text_in(piece, "jsonPath"), piece.get("stringValue")
        self._size += len(path) + (len(text) if isinstance(text, str) else 1)
        if self._size > MOST:
            self.fault = f"more than {MOST:,} characters of arguments"
        elif isinstance(text, str) and path == self._path and self._words:
            self._words.append(text)
        else:
            self._close()
            self._put(path, _value_of(piece))
            self._path, self._words = path, [text] if isinstance(text, str) else []

    def value(self) -> JsonObject:
        """The arguments so far."""
        self._close()
        return self._value

    def _close(self) -> None:
        """Puts the text that came in pieces where it belongs."""
        if len(self._words) > 1:
            self._put(self._path, "".join(self._words))
        self._words = []

    def _put(self, path: str, value: Any) -> None:
        try:
            steps = _steps(path)
            holder: Any = self._value
            for step, after in pairwise(steps):
                holder = _opened(holder, step, [] if isinstance(after, int) else {})
            _set(holder, steps[-1], value)
        except _MisplacedError:
            self.fault = f"{path[:100]!r} is no place for a value"


def _value_of(piece: JsonMapping) -> Any:
    return next((piece[key] for key in _VALUES if piece.get(key) is not None), None)


def _steps(path: str) -> list[str | int]:
    """Names and positions of `$.a[0]['b']`."""
    steps: list[str | int] = []
    position = 1
    while position < len(path) and len(steps) < MAX_DEPTH:
        found = _STEP.match(path, position)
        if found is None:
            raise _MisplacedError
        name, index, single, double = found.groups()
        steps.append(
            int(index) if index is not None else next(part for part in (name, single, double) if part is not None)
        )
        position = found.end()
    if not steps or position < len(path) or path[0] != "$":
        raise _MisplacedError
    return steps


def _opened(holder: Any, step: str | int, new: Any) -> Any:
    """What holds the next step, made where it isn't there."""
    if _is_there(holder, step) and (isinstance(step, int) or step in holder):
        return holder[step]
    _set(holder, step, new)
    return new


def _set(holder: Any, step: Any, value: Any) -> None:
    if is_array(holder) and step == len(holder):
        holder.append(value)
    elif _is_there(holder, step):
        holder[step] = value
    else:
        raise _MisplacedError


def _is_there(holder: Any, step: str | int) -> bool:
    """Whether a value may be put there: under any name of an object, in place of an item of an array."""
    return is_object(holder) if isinstance(step, str) else is_array(holder) and step < len(holder)


__all__ = ["MOST", "ArgumentPieces"]
