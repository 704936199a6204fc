"""`word_for`: a text that a pattern takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pegboard.schema.messages import holds

_COMMON: Final = (
    "sample",
    "a",
    "A",
    "1",
    "12.50",
    "en-US",
    "2024-02-29",
    "12:30:00",
    "1.0.0",
    "#00ff00",
    "sample@example.org",
    "https://example.org/",
    "",
)
_CLASSES: Final = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a", "b": "", "B": ""}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_ASCII: Final = "a0A-_ ./:@," + "".join(map(chr, range(33, 127)))
_TOKEN: Final = re.compile(
    r"(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|\\(?:[xu](?P<code>(?<=x)[0-9a-fA-F]{2}|(?<=u)[0-9a-fA-F]{4})|(?P<escape>.))"
    r"|(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<bar>\|)|(?P<anchor>[\^$])|(?P<any>\.)|(?P<plain>.)",
    re.DOTALL,
)
_REPEAT: Final = re.compile(r"(?:(?P<sign>[*+?])|\{(?P<least>\d+)(?:,\d*)?\})[?+]?")
_MOST_REPEATED: Final = 10_000


def word_for(pattern: str) -> str | None:
    """A text in which the judge finds the pattern; the same for the same pattern.

    A few common words are tried, then the shortest that the pattern itself spells: each group's first branch, each
    repeat's least. It is a guess that the judge confirms: what it doesn't read (lookaround, references, flags) comes
    out as no word.

    Args:
        pattern: Of JSON Schema.

    Returns:
        The text, or `None` where no guess fits, or no judge reads the pattern.
    """
    try:
        return next((word for word in _guesses(pattern) if holds("pattern", pattern, word)), None)
    except ValueError:  # no pattern at all
        return None


def _guesses(pattern: str) -> Iterator[str]:
    yield from _COMMON
    try:
        word, _ = _spelled(pattern, 0)
    except ValueError:
        return
    yield word


def _spelled(pattern: str, place: int) -> tuple[str, int]:
    """The first branch from `place` to the end of its group, and where that is."""
    parts: list[str] = []
    first: str | None = None
    while place < len(pattern) and (token := _TOKEN.match(pattern, place)) is not None:
        place = token.end()
        if token["close"]:
            break
        if token["bar"]:
            first, parts = ("".join(parts) if first is None else first), []
            continue
        if token["open"]:
            piece, place = _spelled(pattern, place)
        else:
            piece = _piece(token)
        times, place = _times(pattern, place)
        parts.append(piece * times)
    return ("".join(parts) if first is None else first), place


def _times(pattern: str, place: int) -> tuple[int, int]:
    repeat = _REPEAT.match(pattern, place)
    if repeat is None:
        return 1, place
    least = int(repeat["least"]) if repeat["least"] else int(repeat["sign"] == "+")
    return min(least, _MOST_REPEATED), repeat.end()


def _piece(token: re.Match[str]) -> str:
    """What one character of the pattern, a class or a set may stand for."""
    if token["set"]:
        return _member(token["set"])
    if token["code"]:
        return chr(int(token["code"], 16))
    if escape := token["escape"]:
        return _CLASSES.get(escape, _CONTROLS.get(escape, escape))
    return "" if token["anchor"] else "a" if token["any"] else token["plain"]


def _member(given: str) -> str:
    """The first common character in a set.

    Raises:
        ValueError: None is.
    """
    member = next((character for character in _ASCII if holds("pattern", f"^{given}$", character)), None)
    if member is None:
        raise ValueError(given)
    return member
