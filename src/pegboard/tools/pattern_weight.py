"""How much a pattern may cost: at how many of its places a search may stand at once.

The engine (Rust's `regex`) runs in linear time, but linear in the text *and* in the pattern: where a pattern has many
places and can't be turned into a small automaton, as `a[ab]{300}d` can't, each character is looked at by each place.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LIGHT_PLACES: Final = 12
"""So few places make an automaton that stays in the engine's cache (2 MiB): 13 ms for a million characters."""

_UNREADABLE: Final = 10_000
_MOST_DIGITS: Final = 9
_TOKEN: Final = re.compile(
    r"""(?P<open>\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:?))?)
    |(?P<close>\))
    |\{\s*(?P<least>\d+)\s*(?P<range>,\s*(?P<most>\d+)?\s*)?\}
    |(?P<nothing>[*+?|^$])
    |(?P<place>\\(?:[pPxuU]\{[^}]*\}|.)|\[(?:\\.|[^\]\\])*\]|.)""",
    re.VERBOSE | re.DOTALL,
)
_ONE: Final = r"(?:\\[dDwWsS\W]|\[(?:\\.|[^\[\]\\])+\]|[^\\\[\](){}|*+?^$.]|\.)"
_STRAIGHT: Final = re.compile(rf"\^(?:{_ONE}(?:\{{\d+\}})?)*(?:{_ONE}(?:[*+]|\{{\d+,\d*\}}))?\$?", re.DOTALL)


@lru_cache(maxsize=256)
def pattern_weight(pattern: str) -> int:
    """Steps (of some 20 ns) that a search may take for one character; 1 for most patterns.

    Those are patterns of few places, and straight ones, such as `^[0-9a-f]{8}-[0-9a-f]{4}$` and `^[a-z]{1,64}$`: they
    begin at `^`, and only their end varies in length, so that a search never stands at two places at once.
    """
    if _STRAIGHT.fullmatch(pattern):
        return 1
    places = _places(pattern)
    return 1 if places <= LIGHT_PLACES else places


def _places(pattern: str) -> int:
    """What stands for one character, as often as it is repeated by number; rather too many than too few."""
    if re.search(r"\(\?[a-zA-Z]*x", pattern):  # blanks and comments may stand anywhere
        return _UNREADABLE
    groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token["open"]:
            groups.append(0)
        elif token["close"]:
            last = groups.pop() if len(groups) > 1 else 0
            groups[-1] += last
        elif token["least"]:
            more = last * (_times(token) - 1)
            groups[-1], last = groups[-1] + more, last + more
        elif token["place"]:
            groups[-1], last = groups[-1] + 1, 1
    return sum(groups)


def _times(token: re.Match[str]) -> int:
    """The places of `{3}`, `{3,}` and `{3,5}` are 3, 4 and 5 copies."""
    least = _number(token["least"])
    most = _number(token["most"]) if token["most"] else least + bool(token["range"])
    return max(least, most, 1)


def _number(digits: str) -> int:
    return int(digits.lstrip("0")[:_MOST_DIGITS] or 0)
