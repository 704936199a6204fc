r"""`visible`: a text for a person who has to decide, in which nothing is hidden.

A model, a file or a server can put characters into a text that rewrite what a person has just read (controls), show it
in another order than it has (bidirectional controls, CVE-2021-42574), or hide words altogether (no width, tags).
"""

from __future__ import annotations

from typing import Final

_BLANKS: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
"""Marks, letters and symbols by Unicode's book that show nothing: fillers, selectors, a braille pattern of no dots."""

_JOINERS: Final = frozenset("\u200c\u200d\ufe0e\ufe0f")


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
    return "".join(
        character if _may_stay(text, place, character, newlines=newlines) else f"\\u{{{ord(character):x}}}"
        for place, character in enumerate(text)
    )


def cut(text: str, most: int) -> str:
    """The text, or its first `most` characters and a note of how many more there are."""
    return text if len(text) <= most else f"{text[:most]}\n... ({len(text) - most:,} more characters are not shown)"


def _may_stay(text: str, place: int, character: str, *, newlines: bool) -> bool:
    if newlines and character in "\n\t":
        return True
    return not _is_hidden(character) or (character in _JOINERS and _joins(text, place))


def _is_hidden(character: str) -> bool:
    if character.isprintable():
        return character in _BLANKS
    import unicodedata

    return unicodedata.category(character) != "Zs"  # a space of another width is a space


def _joins(text: str, place: int) -> bool:
    before = text[place - 1 : place]
    if before == "\ufe0f" and text[place] == "\u200d":  # a rainbow flag is a flag, a selector, a joiner and a rainbow
        before = text[place - 2 : place - 1]
    return before > "\x7f" and not _is_hidden(before)
