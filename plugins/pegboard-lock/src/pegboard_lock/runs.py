"""Patterns for a run of characters of one class, such as `^[a-z0-9_-]{1,64}$`: the only ones that are compared."""

from __future__ import annotations

import math
import re
from typing import Final

from attrs import evolve, frozen

_RUN: Final = re.compile(r"\^\[([^\]]+)\](?:([*+?])|\{([0-9]{1,6})(?:(,)([0-9]{1,6})?)?\})?\$")
_RANGE: Final = re.compile("0-9|a-z|A-Z|[0-9]-[0-9]|[a-z]-[a-z]|[A-Z]-[A-Z]")
_SINGLE: Final = re.compile(r"[0-9A-Za-z_ .,:;@/-]")  # those that mean themselves in each engine
_ESCAPES: Final = {r"\d": "0-9", r"\w": "0-9A-Za-z_", r"\-": "-", r"\.": ".", r"\/": "/"}
_QUANTIFIERS: Final = {None: (1, 1), "*": (0, math.inf), "+": (1, math.inf), "?": (0, 1)}


@frozen
class Runs:
    """The texts of `least` to `most` characters, each of which is one of `characters`."""

    characters: frozenset[str]
    least: float
    most: float

    def limit(self, least: float, most: float) -> Runs:
        """Those of these lengths."""
        return evolve(self, least=max(self.least, least), most=min(self.most, most))

    def is_within(self, other: Runs) -> bool:
        """Whether the other runs have all of these."""
        are_lengths_within = other.least <= self.least and self.most <= other.most
        return self.least > self.most or (are_lengths_within and self.characters <= other.characters)


def runs_of(pattern: str) -> Runs | None:
    """The texts that fit a pattern; `None` if it has another form."""
    found = _RUN.fullmatch(pattern)
    characters = None if found is None else _characters(found[1])
    if found is None or characters is None:
        return None
    if found[3] is None:
        return Runs(characters, *_QUANTIFIERS[found[2]])
    least = int(found[3])
    most = least if found[4] is None else math.inf if found[5] is None else int(found[5])
    return Runs(characters, least, most)


def _characters(members: str) -> frozenset[str] | None:
    """The characters of a class of ASCII letters, digits and some others; `None` for another class."""
    characters: set[str] = set()
    waiting = members
    while waiting:
        if found := _RANGE.match(waiting):
            characters.update(map(chr, range(ord(waiting[0]), ord(waiting[2]) + 1)))
            waiting = waiting[found.end() :]
        elif (meaning := _ESCAPES.get(waiting[:2])) is not None:
            characters |= _characters(meaning) or set()
            waiting = waiting[2:]
        elif _SINGLE.match(waiting) and (waiting[1:2] != "-" or len(waiting) == 2):
            characters.add(waiting[0])
            waiting = waiting[1:]
        else:
            return None
    return frozenset(characters)
