r"""Escapes for text that a person reads: hidden, control and bidirectional characters as `\u{202e}`.

A model, a file or a server can put characters into a text that rewrite what a person has just read (controls), show it
in another order than it has (bidirectional controls, CVE-2021-42574, "Trojan Source"), or hide words that a model still
reads (no width, tags). The approval prompt and the terminal use the same rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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


# Definitions of tools that aren't the host's own ----------------------------------------------------------------------

_SPACES: Final = {ord(each): " " for each in "\t\n\r"}
_IN_PATTERN: Final = re.compile(r"\\[\x20-\x7e]|\\?([^\x20-\x7e])")


def visible_spec(spec: ToolSpec) -> ToolSpec:
    r"""What a tool declares, with hidden characters of its texts and schemas escaped; itself where there are none.

    Descriptions, titles and comments get `\u{202e}`, patterns the `\u202e` that means the same in them.

    Raises:
        SchemaError: A name or a value of a schema, or a grammar, has some; escaped, it would be another.
    """
    changed: dict[str, Any] = {}
    for name in ("description", "title"):
        if _hides(text := getattr(spec, name) or ""):
            changed[name] = visible(text, newlines=True)
    for name, text in (("input_schema", spec.input_schema_text), ("output_schema", spec.output_schema_text)):
        if text is not None and not (text.isascii() and "\\u" not in text):
            changed[name] = _visible_schema(getattr(spec, name), spec.name)
    _refuse_hidden("grammar", None if spec.grammar is None else spec.grammar.definition, spec.name)
    return spec.evolve(**changed) if changed else spec


def _visible_schema(schema: JsonSchema, tool: str) -> JsonSchema:
    from pegboard.schema.references import NAMED, ONE, SOME, mapped

    new = dict(mapped(schema, lambda part, _: _visible_schema(part, tool)))
    for keyword, rule in new.items():
        if keyword in ("description", "title", "$comment") and isinstance(rule, str):
            new[keyword] = visible(rule, newlines=True) if _hides(rule) else rule
        elif keyword == "pattern" and isinstance(rule, str):
            new[keyword] = _IN_PATTERN.sub(_pattern_escaped, rule)
        elif keyword == "patternProperties" and isinstance(rule, dict):
            patterns = cast("dict[str, Any]", rule)
            new[keyword] = {_IN_PATTERN.sub(_pattern_escaped, each): part for each, part in patterns.items()}
        elif keyword in NAMED and isinstance(rule, dict):
            _refuse_hidden(keyword, list(cast("dict[str, Any]", rule)), tool)
        elif keyword not in ONE | SOME:
            _refuse_hidden(keyword, [keyword, rule], tool)
    return new


def _pattern_escaped(match: re.Match[str]) -> str:
    character = match[1]
    if character is None or not _is_hidden(character):
        return match[0]
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\u{{{ord(character):x}}}"


def _refuse_hidden(what: str, data: Any, tool: str) -> None:
    for text in _texts(data):
        if _hides(text):
            from pegboard.errors import SchemaError

            raise SchemaError(f"{what}: '{visible(text)[:100]}' holds hidden characters", tool=tool)


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


def _hides(text: str) -> bool:
    """Whether something in a text is hidden; line ends and tabs aren't."""
    return not (text.isascii() and text.isprintable()) and visible(plain := text.translate(_SPACES)) != plain
