"""`Wildcard`: `*` is any run of characters, `?` is one, the rest is literal; anchored.

A trailing `" *"` also matches the bare word: `git *` matches `git`.

A text may hold holes: places where nobody can say what will stand there (`$NAME` in a shell). A pattern *covers* such
a text if it matches whatever fills the holes, and *touches* it if it matches something that could fill them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from attrs import define, field

from pegboard.toolsets.predicate import Matcher, matcher

HOLE: Final = "\0"
"""Stands in a text for anything, also for nothing. No argument of a process and no path can hold this character."""

_BARE: Final = " *"
_LITERAL: Final = re.compile(r"[^*?]*")


@define
class Wildcard:
    """One pattern, compiled. What a match costs is bounded by length of pattern x length of text.

    Attributes:
        pattern: As it was written, but for stars side by side, which are one.
    """

    pattern: str = field(converter=lambda pattern: re.sub(r"\*+", "*", pattern))
    _match: Matcher = field(init=False, repr=False, eq=False)
    _match_bare: Matcher | None = field(default=None, init=False, repr=False, eq=False)
    _positions: _Positions | None = field(default=None, init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        self._match = matcher(self.pattern)
        if len(self.pattern) > len(_BARE) and self.pattern.endswith(_BARE):
            self._match_bare = matcher(self.pattern[: -len(_BARE)])

    @property
    def is_everything(self) -> bool:
        """Whether it matches whatever there is."""
        return self.pattern == "*"

    def matches(self, text: str) -> bool:
        """Whether it matches a text without holes."""
        return bool(self._match(text)) or (self._match_bare is not None and bool(self._match_bare(text)))

    def covers(self, text: str) -> bool:
        """Whether it matches whatever fills the holes."""
        if HOLE not in text:
            return self.matches(text)
        return self._could_start(text) and self._compiled().runs(text, sure=True)

    def touches(self, text: str) -> bool:
        """Whether it matches something that could fill the holes."""
        if HOLE not in text:
            return self.matches(text)
        return self._could_start(text) and self._compiled().runs(text, sure=False)

    def _could_start(self, text: str) -> bool:
        """Whether what is certain at the start of both is the same; settles most cases."""
        mine = _LITERAL.match(self.pattern)
        assert mine is not None
        start = mine[0][: text.index(HOLE)]
        return text.startswith(start)

    def _compiled(self) -> _Positions:
        if self._positions is None:
            self._positions = _Positions.of(self.pattern)
        return self._positions


@define
class _Positions:
    """Which places of a pattern have been reached, one bit each: bit i says that what is from i on is still to come.

    Attributes:
        literal: Character -> the places where it stands.
        any_one: The places of `?`.
        any_run: The places of `*`.
        ends: The places at which a text may end.
        last: The number of places.
    """

    literal: dict[str, int]
    any_one: int
    any_run: int
    ends: int
    last: int

    @classmethod
    def of(cls, pattern: str) -> _Positions:
        literal: dict[str, int] = {}
        for place, character in enumerate(pattern):
            literal[character] = literal.get(character, 0) | 1 << place
        last = len(pattern)
        bare = last > len(_BARE) and pattern.endswith(_BARE)
        ends = 1 << last | (1 << (last - len(_BARE)) if bare else 0)
        return cls(literal, literal.pop("?", 0), literal.pop("*", 0), ends, last)

    def runs(self, text: str, *, sure: bool) -> bool:
        """Whether the whole text is matched: for sure, or perhaps."""
        reached = self._on(1)
        for character in text:
            if character != HOLE:
                passed = reached & (self.literal.get(character, 0) | self.any_one)
                reached = self._on(passed << 1 | reached & self.any_run)
            elif sure:
                reached = self._on(reached & self.any_run)
            else:  # some run of characters leads from the first place that was reached to each later one
                reached = (2 << self.last) - (reached & -reached)
            if not reached:
                return False
        return bool(reached & self.ends)

    def _on(self, reached: int) -> int:
        """With the places behind each `*` that was reached: it may be empty."""
        return reached | (reached & self.any_run) << 1


@lru_cache(maxsize=1024)
def wildcard(pattern: str) -> Wildcard:
    """The pattern, compiled once."""
    return Wildcard(pattern)


__all__ = ["HOLE", "Wildcard", "wildcard"]
