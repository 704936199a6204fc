r"""Escapes for text that a person reads: hidden, control, bidirectional and look-alike characters as `\u{202e}`.

A model, a file or a server can put characters into a text that rewrite what a person has just read (controls), show it
in another order than it has (bidirectional controls, CVE-2021-42574, "Trojan Source"), hide words that a model still
reads (no width, tags), or make another text of it that looks the same (blanks, decomposed letters). The approval prompt
and the terminal use the same rule. It is injective: two texts that differ are shown differently, so what is shown
already must not be escaped once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pegboard.tools.spec import ToolSpec
    from pegboard.typing import JsonSchema

_BLANKS: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufffc\ufffd\U0001d159"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
"""Characters that Python calls printable and that show nothing: fillers, selectors, a braille pattern of no dots."""

_WORD: Final = re.compile(r"[^ \n\t]+")


def visible(text: str, *, newlines: bool = False, again: bool = False) -> str:
    r"""The text with every hidden, control, bidirectional and blank character written as `\u{202e}`.

    Marks are written out where a letter has them beside its composed form (`é` in one character stays, in two it is
    `e\u{301}`), and the backslash of a literal `\u{` is. A joiner or a selector stays inside an emoji, and a joiner
    between two letters of a script whose letters it shapes.

    Args:
        text: Anything; what isn't shown yet.
        newlines: Whether line ends (`\n`) and tabs stay.
        again: Whether what looks like an escape stays: it may be one, as in definitions of tools that aren't the
            host's own.
    """
    if not again:
        text = text.replace("\\u{", "\\u{5c}u{")
    if not text.isascii() or not text.isprintable():
        text = _WORD.sub(lambda match: _escaped(match[0], _escape), text)
        if not newlines:
            text = text.replace("\n", "\\u{a}").replace("\t", "\\u{9}")
    return text


def visible_json(text: str) -> str:
    r"""A JSON text with the same characters escaped as JSON does it, `\u202e`: the same value to a reader."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _WORD.sub(lambda match: _escaped(match[0], _json_escape), text)


def printable(name: str) -> str:
    r"""The name of a file with what can't be printed as Python writes it: `\n`, `\x1b`, `\udcff` for a stray byte."""
    return (
        name
        if name.isprintable()
        else "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in name)
    )


def looks_of(text: str) -> str:
    """A text as it looks: without hidden characters, what looks the same in one form (NFKC), no blanks at the ends."""
    import unicodedata  # not loaded for a text of plain characters

    kept = (each for each in text if each not in _BLANKS and (each.isprintable() or unicodedata.category(each) == "Zs"))
    return unicodedata.normalize("NFKC", "".join(kept)).strip()


def _escape(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _escaped(word: str, escape: Callable[[str], str]) -> str:
    """A word, without spaces, in which every character that a person can't read for sure is escaped."""
    if word.isascii() and word.isprintable():
        return word
    import unicodedata  # not loaded for such a word

    is_composed = unicodedata.is_normalized("NFC", word)
    shown: list[str] = []
    stands = False  # whether a mark would stand on a character that is shown
    for place, character in enumerate(word):
        if " " <= character <= "~":
            stands = True
        elif not character.isprintable() or character in _BLANKS:
            stands = _joins(word, place)
        elif unicodedata.category(character)[0] == "M":
            stands = stands and is_composed
        else:
            is_part = "\u1160" <= character <= "\u11ff" or unicodedata.normalize("NFC", character) != character
            stands = is_composed or not is_part
        shown.append(character if stands else escape(character))
    return "".join(shown)


def _joins(word: str, place: int) -> bool:
    """Whether a joiner or a selector is one that an emoji, or a script, is written with."""
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
    """Whether it belongs to a script whose letters a joiner shapes: from Arabic to Myanmar, from Khmer to Mongolian."""
    is_script = "\u0600" <= character <= "\u109f" or "\u1780" <= character <= "\u18af"
    return is_script and character.isprintable() and character not in _BLANKS


def html_of(text: str, *, again: bool = False) -> str:
    """A text as HTML, with hidden characters shown; `again` as for `visible`."""
    from html import escape

    return escape(visible(text, newlines=True, again=again))


# Definitions of tools that aren't the host's own ----------------------------------------------------------------------


def visible_spec(spec: ToolSpec) -> ToolSpec:
    r"""What a tool declares, with hidden characters of its texts and schemas escaped; itself where there are none.

    Descriptions, titles and comments get `\u{202e}`.

    Raises:
        SchemaError: A name, a value or a pattern of a schema, a grammar or what a provider gets as it is has some;
            escaped, it would be another.
    """
    changed: dict[str, Any] = {}
    for name in ("description", "title"):
        text = getattr(spec, name) or ""
        if (shown := revealed(text)) != text:
            changed[name] = shown
    for name, text in (("input_schema", spec.input_schema_text), ("output_schema", spec.output_schema_text)):
        if text is not None and not (text.isascii() and "\\u" not in text):
            changed[name] = _visible_schema(getattr(spec, name), spec.name)
    _refuse_hidden("provider_arguments", spec.provider_arguments, spec.name)
    _refuse_hidden("provider_options", spec.provider_options, spec.name)
    _refuse_hidden("grammar", None if spec.grammar is None else spec.grammar.definition, spec.name)
    return spec.evolve(**changed) if changed else spec


def _visible_schema(schema: JsonSchema, tool: str) -> JsonSchema:
    from pegboard.schema.references import NAMED, ONE, SOME, mapped

    new = dict(mapped(schema, lambda part, _: _visible_schema(part, tool)))
    for keyword, rule in new.items():
        if keyword in ("description", "title", "$comment") and isinstance(rule, str):
            new[keyword] = revealed(rule)
        elif keyword in NAMED and isinstance(rule, dict):
            _refuse_hidden(keyword, list(cast("dict[str, Any]", rule)), tool)
        elif keyword not in ONE | SOME:
            _refuse_hidden(keyword, [keyword, rule], tool)
    return new


def _refuse_hidden(what: str, data: Any, tool: str) -> None:
    for text in _texts(data):
        if (shown := revealed(text)) != text:
            from pegboard.errors import SchemaError

            raise SchemaError(f"{what}: '{shown[:100]}' holds hidden characters", tool=tool)


def _texts(data: Any) -> Iterator[str]:
    """Every text of JSON data, keys among them."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for key, value in cast("Mapping[str, Any]", data).items():
            yield key
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for each in cast("list[Any]", data):
            yield from _texts(each)


def revealed(text: str) -> str:
    """A text that a model reads, with hidden, bidirectional and control characters escaped.

    `visible` is the stricter one, for people. Here line ends, wide spaces and letters with marks of their own stay:
    a definition uses them rightly, and escaped, a value of it would be another.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(each) if _is_hidden(text, place) else each for place, each in enumerate(text))


def _is_hidden(text: str, place: int) -> bool:
    character = text[place]
    if character in "\t\n\r" or (character.isprintable() and character not in _BLANKS):
        return False
    import unicodedata  # not loaded for a text in which everything is printable

    return unicodedata.category(character) != "Zs" and not _joins(text, place)  # a space of another width is a space
