"""Texts of plugins on their way to a terminal: what can't be seen, or moves the cursor, is written out.

A control character could rewrite what a person has just read; a bidirectional one shows text in another order than it
has (CVE-2021-42574, "Trojan Source"); an invisible one can hide words from a person that a model still reads.
"""

from __future__ import annotations

import re
from functools import cache

_HIDDEN = (
    "\x00-\x1f\x7f-\x9f"  # controls
    "\xad\u034f\u061c"  # soft hyphen, grapheme joiner, Arabic letter mark
    "\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # fillers that look like spaces, vowels that look like nothing
    "\u180b-\u180f"  # Mongolian selectors
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # widthless, joiners, line ends, bidirectional, invisible operators
    "\ud800-\udfff"  # lone surrogates
    "\ufe00-\ufe0f\ufeff\ufff9-\uffff"  # variation selectors, byte order mark, annotations, no characters
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # shorthand and music controls
    "\U000e0000-\U000e0fff"  # tags and more variation selectors
)
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")


@cache
def _hidden() -> re.Pattern[str]:
    return re.compile(f"[{_HIDDEN}]")


def visible(text: str, *, newlines: bool = False) -> str:
    r"""A text in which every hidden, control and bidirectional character stands as `\u{202e}`.

    A joiner or an emoji's variation selector stays as it is where it stands right after a visible character beyond
    ASCII: emoji and several scripts are written with them.

    Args:
        text: Anything that a plugin says.
        newlines: Whether line ends and tabs may stay; `\r\n` becomes `\n`.
    """
    if text.isascii() and text.isprintable():
        return text
    if newlines:
        text = text.replace("\r\n", "\n")
    return _hidden().sub(lambda match: _written(match, newlines=newlines), text)


def _written(match: re.Match[str], *, newlines: bool) -> str:
    character = match.group()
    if newlines and character in "\n\t":
        return character
    if character in _JOINERS and _joins(match.string, match.start()):
        return character
    return f"\\u{{{ord(character):x}}}"


def _joins(text: str, position: int) -> bool:
    before = text[position - 1 : position]
    if before == "\ufe0f" and text[position] == "\u200d":  # as in a rainbow flag: flag, selector, joiner, rainbow
        before = text[position - 2 : position - 1]
    return before > "\x7f" and _hidden().match(before) is None


def visible_json(text: str) -> str:
    r"""A JSON text in which every hidden character stands as JSON writes it, `\u202e`: the same value to a reader."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _hidden().sub(_as_json, text)


def _as_json(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code == ord("\n"):  # between values; inside a string JSON has written it out already
        return "\n"
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
