"""`Names`: tools, by name or by pattern."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pegboard.toolsets.predicate import matcher

_MOST_KNOWN: Final = 1000
_LONGEST_KNOWN: Final = 100


class Names:
    """The tools whose names match one of some patterns: `*` is any run of characters, `?` is one.

    Args:
        patterns: Names and patterns.
    """

    __slots__ = ("_known", "_matchers", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._matchers = tuple(matcher(pattern) for pattern in self.patterns)
        self._known: dict[str, bool] = {}

    def __contains__(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            known = any(matches(name) for matches in self._matchers)
            if len(name) <= _LONGEST_KNOWN:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[name] = known
        return known

    def __str__(self) -> str:
        return listed(self.patterns)


def listed(words: Iterable[str], last: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    *most, final = words
    return f"{', '.join(most)} {last} {final}" if most else final
