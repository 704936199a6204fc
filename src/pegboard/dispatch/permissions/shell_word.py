"""Reads the words of a shell's command line: quotes, escapes, and what the shell fills in."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from attrs import define, field

from pegboard.dispatch.permissions.shell_line import Line, UnreadableError
from pegboard.dispatch.permissions.wildcard import HOLE

MOST_LEVELS: Final = 16
"""Of substitutions and groups in each other."""

_ENDS: Final = frozenset(" \t\n;&|()<>")
_ORDINARY: Final = re.compile(r"[A-Za-z0-9_./:,+@%^=~!#\]}-]+")
_PARAMETER: Final = re.compile(
    r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?!$-]|\{#?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?!$-])\})"
)
"""What stands for a value and does nothing else."""

_SUM: Final = re.compile(
    r"\$\(\((?:[A-Za-z0-9_+*/%<>=!&|^~?:,. \t$-]|(?<!\$)\([A-Za-z0-9_+*/%<>=!&|^~?:,. \t$-]*\))*\)\)"
)
"""`$((...))` in which nothing can hide."""

_ANSI: Final = re.compile(r"\$'(?:[^'\\]|\\[^'])*'")
_BACKTICKS: Final = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_BRACED: Final = re.compile(r"\$\{(?![ \t\n|])")


@define
class Word:
    """One word.

    Attributes:
        text: Without quotes, with holes.
        is_bare: Whether it holds no quotes and no escapes, and so may be one of the shell's own words.
    """

    text: str
    is_bare: bool


@define
class WordReader(ABC):
    """Reads words from a text.

    Attributes:
        text: What is read.
        line: Gets the commands that stand in words.
        level: How deep this text stands in others.
        inside: Whether it stands in a substitution.
        place: Up to where it is read.
    """

    text: str
    line: Line
    level: int = 0
    inside: bool = False
    place: int = field(default=0, init=False)

    @abstractmethod
    def substitution(self) -> None:
        """Reads what a substitution runs, from here up to its `)`."""

    @abstractmethod
    def nested(self, text: str) -> None:
        """Reads what a substitution runs, from a text of its own."""

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Passes over what the pattern matches here."""
        found = pattern.match(self.text, self.place)
        if found is not None:
            self.place = found.end()
        return found

    def must(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """The same, where nothing else may stand."""
        found = self.take(pattern)
        if found is None:
            raise UnreadableError(what)
        return found

    def at(self, text: str) -> bool:
        """Whether this stands here."""
        return self.text.startswith(text, self.place)

    def deeper(self) -> None:
        """One level more."""
        self.level += 1
        if self.level > MOST_LEVELS:
            raise UnreadableError("too deep")

    def word(self) -> Word:
        """The word that starts here; empty where none does."""
        start, parts = self.place, list[str]()
        while self.place < len(self.text):
            if ordinary := self.take(_ORDINARY):
                parts.append(ordinary[0])
            elif self.text[self.place] in _ENDS and not (self.at("<(") or self.at(">(")):
                break
            else:
                parts.append(self._special(at_start=self.place == start))
        text = "".join(parts)
        source = self.text[start : self.place]
        if _REST in text:
            text = text[: text.index(_REST)] + HOLE
        return Word(text, is_bare=not any(mark in source for mark in "\\'\""))

    def _special(self, *, at_start: bool) -> str:
        """A part of a word that isn't ordinary."""
        character = self.text[self.place]
        if character in "<>":
            self.place += 2
            self.substitution()
            return HOLE
        if character in _SPECIAL:
            return _SPECIAL[character](self)
        self.place += 1
        if character in "*?":
            return HOLE
        if character in "[{":
            return self._bracket(character, at_start=at_start)
        if not character.isprintable():
            raise UnreadableError("a character that can't be seen")
        return character

    def _bracket(self, character: str, *, at_start: bool) -> str:
        """`[` and `{`: a word by themselves, or the start of something that the shell replaces by other words."""
        if character == "{" and self.at("}"):
            return character
        if at_start and character == "[" and self.at("["):
            self.place += 1
            character = "[["
        alone = at_start and (self.place == len(self.text) or self.text[self.place] in _ENDS)
        return character if alone else _REST

    def escape(self) -> str:
        r"""`\` and the character behind it."""
        escaped = self.text[self.place + 1 : self.place + 2]
        if not escaped.isprintable() and escaped != "\n":
            raise UnreadableError("an escaped character that can't be seen")
        if not escaped:
            raise UnreadableError("nothing is escaped")
        self.place += 2
        return "" if escaped == "\n" else escaped

    def single(self) -> str:
        """What stands in single quotes, as it is."""
        return self.must(_SINGLE, "a quote isn't closed")[1]

    def double(self) -> str:
        """What stands in double quotes."""
        self.place += 1
        text = self.quoted('"')
        self.place += 1
        return text

    def quoted(self, end: str) -> str:
        """What stands in double quotes, up to the end; or, with `""`, what a whole here-document says."""
        run, parts = (_IN_QUOTES if end else _IN_DOCUMENT), list[str]()
        while self.place < len(self.text) and not (end and self.at(end)):
            if plain := self.take(run):
                parts.append(plain[0])
            elif self.at("$"):
                parts.append(self.dollar(quoted=True))
            elif self.at("`"):
                parts.append(self.backticks(quoted=True))
            else:
                parts.append(self._escape_in_quotes(end))
        if end and self.place == len(self.text):
            raise UnreadableError("a quote isn't closed")
        return "".join(parts)

    def _escape_in_quotes(self, end: str) -> str:
        escaped = self.text[self.place + 1 : self.place + 2]
        self.place += 1 + len(escaped)
        if escaped == "\n":
            return ""
        return escaped if escaped and escaped in f"$`\\{end}" else f"\\{escaped}"

    def backticks(self, *, quoted: bool = False) -> str:
        r"""A substitution of the old kind; `\"` in one that stands in quotes isn't the same to all."""
        inner = self.must(_BACKTICKS, "a backtick isn't closed")[1]
        if quoted and '\\"' in inner:
            raise UnreadableError("an escaped quote in backticks in quotes")
        self.line.is_plain = False
        self.nested(re.sub(r"\\([$`\\])", r"\1", inner))
        return HOLE

    def dollar(self, *, quoted: bool = False) -> str:
        """What the shell fills in."""
        if self.take(_PARAMETER) or (not quoted and self.take(_ANSI)):
            return HOLE
        if self.at("$(("):
            self.must(_SUM, "arithmetic")
            self.line.is_plain = False
            return HOLE
        if self.at("$("):
            self.place += 2
            self.substitution()
            return HOLE
        if self.at("${"):
            return self._braced(quoted=quoted)
        if self.at("$[") or (not quoted and self.at("$'")):
            raise UnreadableError("what shells read differently")
        self.place += 1
        return HOLE if self.at('"') and not quoted else "$"

    def _braced(self, *, quoted: bool) -> str:
        """`${NAME...}`: what stands behind the name may hold substitutions, and shells disagree about its quotes."""
        self.must(_BRACED, "a substitution of a new kind")
        self.line.is_plain = False
        while not self.at("}"):
            if self.place == len(self.text) or self.at("'") or (quoted and self.at('"')):
                raise UnreadableError("quotes in braces")
            if self.at("<(") or self.at(">("):
                raise UnreadableError("a substitution in braces")
            if self.text[self.place] in '"$`\\':
                _SPECIAL[self.text[self.place]](self)
            else:
                self.place += 1
        self.place += 1
        return HOLE


_REST: Final = "\udfff"
"""Stands where the shell replaces the rest of a word; no text from outside can hold it (it is no Unicode)."""

_SINGLE: Final = re.compile(r"'([^']*)'")
_IN_QUOTES: Final = re.compile(r'[^"$`\\]+')
_IN_DOCUMENT: Final = re.compile(r"[^$`\\]+")
_SPECIAL: Final[dict[str, Callable[[WordReader], str]]] = {
    "\\": WordReader.escape,
    "'": WordReader.single,
    '"': WordReader.double,
    "$": WordReader.dollar,
    "`": WordReader.backticks,
}

__all__ = ["MOST_LEVELS", "Word", "WordReader"]
