r"""Escapes for text that a person reads: hidden, control and bidirectional characters as `\u{202e}`.

A model, a file or a server can put characters into a text that rewrite what a person has just read (controls), show it
in another order than it has (bidirectional controls, CVE-2021-42574, "Trojan Source"), or hide words that a model still
reads (no width, tags). The approval prompt and the terminal use the same rule.
"""

from __future__ import annotations

import re
from typing import Final

_BLANKS: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufffc\ufffd\U0001d159"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
"""Characters that Python calls printable and that show nothing: fillers, selectors, a braille pattern of no dots."""

_JOINERS: Final = frozenset("\u200c\u200d\ufe0e\ufe0f")
_SUSPECT: Final = re.compile(r"[^\x20-\x7e]")


def visible(text: str, *, newlines: bool = False) -> str:
    r"""The text with every hidden, control and bidirectional character written as `\u{202e}`.

    A joiner or an emoji's variation selector stays where it stands right after a visible character beyond ASCII: emoji
    and several scripts are written with them.

    Args:
        text: Anything.
        newlines: Whether line ends and tabs stay; `\r\n` becomes `\n`.
    """
    if text.isascii() and text.isprintable():
        return text
    if newlines:
        text = text.replace("\r\n", "\n")
    kept = "\n\t" if newlines else ""
    return _SUSPECT.sub(lambda match: _escaped(match, kept), text)


def visible_json(text: str) -> str:
    r"""A JSON text with every hidden character escaped as JSON does it, `\u202e`: the same value to a reader."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _SUSPECT.sub(_json_escaped, text)


def looks_of(text: str) -> str:
    """A text as it looks: without hidden characters, what looks the same in one form (NFKC), no blanks at the ends."""
    import unicodedata  # not loaded for a text of plain characters

    return unicodedata.normalize("NFKC", "".join(each for each in text if not _is_hidden(each))).strip()


def _escaped(match: re.Match[str], kept: str) -> str:
    character = match[0]
    if character in kept or not _is_hidden(character):
        return character
    if character in _JOINERS and _joins(match.string, match.start()):
        return character
    return f"\\u{{{ord(character):x}}}"


def _json_escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\n" or not _is_hidden(character):  # a line end stands between values only
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _is_hidden(character: str) -> bool:
    if character.isprintable():
        return character in _BLANKS
    import unicodedata  # not loaded for a text in which everything is printable

    return unicodedata.category(character) != "Zs"  # a space of another width is a space


def _joins(text: str, place: int) -> bool:
    before = text[place - 1 : place]
    if before == "\ufe0f" and text[place] == "\u200d":  # a rainbow flag is a flag, a selector, a joiner and a rainbow
        before = text[place - 2 : place - 1]
    return before > "\x7f" and not _is_hidden(before)
