r"""Escapes for text that a person reads: hidden, control, bidirectional and look-alike characters as `\u{202e}`.

A model, a file or a server can put characters into a text that overwrite the terminal (controls), reorder the text
(bidirectional controls, CVE-2021-42574, "Trojan Source"), hide words that a model still reads (no width, tags), or make
a different text look the same (blanks, decomposed letters). The approval prompt and the terminal use the same rule. It
is injective: different texts are shown differently, so an escaped text must not be escaped again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import Final, Literal

_BLANKS: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufffc\ufffd\U0001d159"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
"""Invisible characters that Python calls printable: fillers, selectors, the empty braille pattern."""

_WORD: Final = re.compile(r"[^ \n\t]+")


def visible(text: str, *, newlines: bool = False, again: bool = False) -> str:
    r"""The text with every hidden, control, bidirectional and blank character written as `\u{202e}`.

    A combining mark is escaped if its letter has a composed form (`é` as one character stays, as two it is `e\u{301}`),
    and so is the backslash of a literal `\u{`. A joiner or selector stays inside an emoji, and a joiner between two
    letters of a script that uses it.

    Args:
        text: Any text that isn't escaped yet.
        newlines: Whether line ends (`\n`) and tabs stay.
        again: Whether existing `\u{...}` stay: they may be escapes, as in definitions of tools that aren't the host's
            own.
    """
    if not again:
        text = text.replace("\\u{", "\\u{5c}u{")
    if not text.isascii() or not text.isprintable():
        text = _WORD.sub(lambda match: _escape_word(match[0], _escape), text)
        if not newlines:
            text = text.replace("\n", "\\u{a}").replace("\t", "\\u{9}")
    return text


def visible_json(text: str) -> str:
    r"""A JSON text with the same characters as JSON escapes, `\u202e`, so that its value stays the same."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _WORD.sub(lambda match: _escape_word(match[0], _json_escape), text)


def printable(name: str) -> str:
    r"""A file name with unprintable characters as Python escapes: `\n`, `\x1b`, `\udcff` for an undecodable byte."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in name)


def confusable_key(text: str) -> str:
    """A text by its appearance: without hidden characters, normalized by NFKC, stripped."""
    from unicodedata import category  # not needed for plain characters

    kept = (each for each in text if each not in _BLANKS and (each.isprintable() or category(each) == "Zs"))
    return normalized("NFKC", "".join(kept)).strip()


_ODD: Final = re.compile(r"[^\0-\x7f\w]{256,}")


def normalized(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """A text in a Unicode normal form; as it is if more than 255 marks follow each other, as in no name.

    Python takes quadratic time to sort them, in which no other thread of the process runs: minutes for 100,000.
    """
    from unicodedata import combining, normalize

    runs = (run for odd in _ODD.finditer(text) for is_mark, run in groupby(map(combining, odd[0]), bool) if is_mark)
    return text if any(sum(1 for _ in run) > 255 for run in runs) else normalize(form, text)


def _escape(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _escape_word(word: str, escape: Callable[[str], str]) -> str:
    """A word, without spaces, with every hidden or ambiguous character escaped."""
    if word.isascii() and word.isprintable():
        return word
    import unicodedata  # not needed for plain characters

    is_composed = unicodedata.is_normalized("NFC", word)
    shown: list[str] = []
    shows = False  # whether the last character is shown, so that a mark can combine with it
    for place, character in enumerate(word):
        if " " <= character <= "~":
            shows = True
        elif not character.isprintable() or character in _BLANKS:
            shows = _joins(word, place)
        elif unicodedata.category(character)[0] == "M":
            shows = shows and is_composed
        else:
            is_part = "\u1160" <= character <= "\u11ff" or unicodedata.normalize("NFC", character) != character
            shows = is_composed or not is_part
        shown.append(character if shows else escape(character))
    return "".join(shown)


def _joins(word: str, place: int) -> bool:
    """Whether a joiner or selector is part of an emoji, or joins letters of a script that uses it."""
    character, before, after = word[place], word[max(0, place - 2) : place], word[place + 1 : place + 2]
    if character in "\ufe0e\ufe0f":
        return _is_symbol(before[-1:])
    if character == "\u200d" and _is_symbol(after):
        return _is_symbol(before.removesuffix("\ufe0f")[-1:])
    return character in "\u200c\u200d" and _is_shaped(before[-1:]) and _is_shaped(after)


def _is_symbol(character: str) -> bool:
    import unicodedata

    return character > "\u2000" and unicodedata.category(character)[0] == "S"


def _is_shaped(character: str) -> bool:
    """Whether it belongs to a script that uses joiners: from Arabic to Myanmar, from Khmer to Mongolian."""
    is_script = "\u0600" <= character <= "\u109f" or "\u1780" <= character <= "\u18af"
    return is_script and character.isprintable() and character not in _BLANKS


def visible_html(text: str, *, again: bool = False) -> str:
    """A text as HTML, with hidden characters shown; `again` as for `visible`."""
    from html import escape

    return escape(visible(text, newlines=True, again=again))


def escape_hidden(text: str) -> str:
    """A text for the model, with hidden, bidirectional and control characters escaped.

    Less strict than `visible`, which is for people: line ends, wide spaces and combining marks stay, because
    definitions use them legitimately.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(each) if _is_hidden(text, place) else each for place, each in enumerate(text))


def _is_hidden(text: str, place: int) -> bool:
    character = text[place]
    if character in "\t\n\r" or (character.isprintable() and character not in _BLANKS):
        return False
    import unicodedata  # not needed for printable text

    return unicodedata.category(character) != "Zs" and not _joins(text, place)  # spaces of other widths are fine
