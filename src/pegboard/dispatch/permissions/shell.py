r"""Reads a shell's command line, strictly: what every POSIX shell takes in one way, and the rest not at all.

It finds every simple command of a line, wherever it stands: between operators, in groups and control structures, in
substitutions. Quotes, escapes, comments and `\`-newlines are taken away; where only the shell knows what will stand
(`$NAME`, `*.py`, `$(...)`), the word has a hole.

What can't be read for sure is refused as a whole, as a decision about what may run must not rest on a guess.
(Grammars made for editors guess: they recover from what they don't know.) Where shells differ, more commands are found
than one of them would run, never fewer.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import define, field

from pegboard.dispatch.permissions.shell_line import Command, Line, UnreadableError
from pegboard.dispatch.permissions.shell_word import Word, WordReader
from pegboard.dispatch.permissions.wildcard import HOLE

MOST_CHARACTERS: Final = 32_768

_BLANK: Final = re.compile(r"(?:[ \t]|\\\n)*")
_COMMENT: Final = re.compile(r"#[^\n]*")
_OPERATOR: Final = re.compile(r"\n|;;&|;;|;&|;|&&|&|\|\||\|&|\|")
_REDIRECTION: Final = re.compile(r"([0-9]*)(<<<|<<-|<<|<>|<&|<|>>|>&|>\||>)|(&>>|&>)")
_DESCRIPTOR: Final = re.compile(r"[0-9]+-?|-")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ENDS: Final = frozenset({"", *" \t\n;&|()<>"})
_FUNCTION: Final = re.compile(r"\(\)\{")
_SUM: Final = re.compile(r"\(\(((?:(?!<<)[A-Za-z0-9_+*/%<>=!&|^~?:,;. \t$-])*)\)\)")
"""`((...))` in which nothing can hide. Some shells take it for arithmetic, others for groups."""

_AROUND: Final = frozenset({"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!"})
"""Words that stand round commands and do nothing themselves."""

_STRANGE: Final = frozenset({"for", "select", "case", "[["})
"""Words that start something whose parts aren't all commands: it can be looked at, but not allowed."""

_HARMLESS: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_SIGNS: Final = {">|": ">", ">&": ">", "<&": "<", "&>": ">", "&>>": ">>"}


def read_line(text: str) -> Line:
    """Every command of a shell's line.

    Raises:
        UnreadableError: It can't be read for sure.
    """
    if len(text) > MOST_CHARACTERS or HOLE in text or any("\ud800" <= each <= "\udfff" for each in text):
        raise UnreadableError("too long, or with characters that no line has")
    line = Line()
    _Reader(text, line).read("")
    return line


@define
class _Document:
    """A here-document: the lines that follow, up to `end`."""

    end: str
    is_literal: bool
    has_tabs: bool
    command: Command


@define
class _Reader(WordReader):
    """Reads the commands of a text, or of a part of it in brackets, into a line."""

    current: Command = field(factory=Command, init=False)
    span: tuple[int, int] | None = field(default=None, init=False)
    is_whole: bool = field(default=True, init=False)
    is_closed: bool = field(default=False, init=False)
    cases: int = field(default=0, init=False)
    waiting: list[_Document] = field(factory=list[_Document], init=False)

    def read(self, closing: str) -> None:
        """Reads up to `closing`, which is passed over, or up to the end."""
        self.deeper()
        if self.waiting:
            raise UnreadableError("a here-document before a bracket")
        outer, self.cases = self.cases, 0
        self.renew()
        while not self.ends(closing):
            self.step()
        self.flush()
        if self.waiting:
            raise UnreadableError("a here-document isn't there")
        self.place += len(closing)
        self.cases = outer
        self.level -= 1

    def ends(self, closing: str) -> bool:
        """Whether this is the end; `)` may also stand behind the pattern of a case."""
        self.must(_BLANK, "")
        if self.place < len(self.text):
            return closing != "" and self.at(closing) and not self.cases
        if closing:
            raise UnreadableError("a bracket isn't closed")
        return True

    def step(self) -> None:
        """Reads one operator, group, redirection, comment or word."""
        if self.at("#"):
            self.comment()
        elif self.at("("):
            self.group()
        elif self.at(")"):
            self.pattern_ends()
        elif not (self.at("<(") or self.at(">(")) and (redirection := self.take(_REDIRECTION)):
            self.redirection(redirection[2] or redirection[3])
        elif operator := self.take(_OPERATOR):
            self.flush()
            if operator[0] == "\n":
                self.documents()
        else:
            self.take_word()

    def comment(self) -> None:
        if self.current.words[:1] == ["[["]:
            raise UnreadableError("a comment in a test")
        self.must(_COMMENT, "")

    def pattern_ends(self) -> None:
        if not self.cases:
            raise UnreadableError("a bracket isn't opened")
        self.place += 1
        self.flush()

    def group(self) -> None:
        """A group, or what only looks like one: a definition, an array, a pattern. All parts are taken for commands."""
        joined = bool(self.current.words or self.current.assignments)
        if joined or self.at("(("):
            self.line.is_plain = False
        if self.at("(("):
            inner = self.must(_SUM, "arithmetic")[1]
            self.flush()
            self.nested(inner)
            return
        self.flush()
        start, self.place = self.place, self.place + 1
        self.read(")")
        if joined and self.text[self.place : self.place + 1] not in _ENDS and not _FUNCTION.match(self.text, start):
            raise UnreadableError("a word that goes on behind a bracket")

    def redirection(self, sign: str) -> None:
        self.is_whole = False
        self.is_closed = self.is_closed or sign.startswith("&")
        self.must(_BLANK, "")
        word = self.whole_word()
        if word.text == "" and word.is_bare:
            raise UnreadableError("a redirection to nothing")
        if sign in ("<<", "<<-"):
            if HOLE in word.text or "\n" in word.text:
                raise UnreadableError("a here-document whose end isn't known")
            self.waiting.append(_Document(word.text, not word.is_bare, sign == "<<-", self.current))
        elif sign == "<<<":
            self.current.scripts.append(word.text)
        elif not (sign in ("<&", ">&") and _DESCRIPTOR.fullmatch(word.text)) and word.text not in _HARMLESS:
            self.line.add(Command([_SIGNS.get(sign, sign), word.text], inside=self.inside, is_program=False))

    def take_word(self) -> None:
        if self.is_closed:
            raise UnreadableError("a word behind '&>', where some shells start another command")
        start = self.place
        word = self.whole_word()
        at_front = not self.current.words and not self.current.assignments
        if at_front and word.is_bare and self.is_own(word.text):
            return
        if not self.current.words and _ASSIGNMENT.match(word.text):
            self.current.assignments.append(word.text)
            self.line.add(Command([word.text], inside=self.inside, is_program=False))
        else:
            self.current.words.append(word.text)
            self.span = (start if self.span is None else self.span[0], self.place)

    def is_own(self, word: str) -> bool:
        """Whether this is one of the shell's own words, which stand round commands."""
        if word in _STRANGE:
            self.line.is_plain = False
            self.cases += word == "case"
        elif word == "esac":
            self.cases -= self.cases > 0
            return True
        elif word == "function":
            self.line.is_plain = False
            self.must(_BLANK, "")
            self.word()
            return True
        elif word == "coproc":
            raise UnreadableError("a coprocess")
        return word in _AROUND

    def whole_word(self) -> Word:
        start = self.place
        word = self.word()
        if self.waiting and "\n" in self.text[start : self.place]:
            raise UnreadableError("a here-document behind a word of several lines")
        return word

    def flush(self) -> None:
        """The current command is complete."""
        if self.span is not None:
            self.current.source = self.text[slice(*self.span)] if self.is_whole else None
            self.line.add(self.current)
        self.renew()

    def renew(self) -> None:
        self.current, self.span, self.is_whole, self.is_closed = Command(inside=self.inside), None, True, False

    def documents(self) -> None:
        """Reads the here-documents that were announced on the line before."""
        waiting, self.waiting = self.waiting, []
        for document in waiting:
            body = self.body(document)
            document.command.scripts.append(body if document.is_literal else self.filled(body))

    def body(self, document: _Document) -> str:
        """The lines of a here-document; behind it goes on what is behind its last line."""
        rows = list[str]()
        while self.place < len(self.text):
            end = self.text.find("\n", self.place) + 1 or len(self.text)
            row = self.text[self.place : end]
            self.place = end
            if (row.lstrip("\t") if document.has_tabs else row).removesuffix("\n") == document.end:
                return "".join(rows)
            rows.append(row)
            if row.endswith("\\\n") and not document.is_literal:
                break
        raise UnreadableError("where a here-document ends isn't known")

    def filled(self, body: str) -> str:
        """A here-document with holes where the shell fills it in."""
        reader = _Reader(body, self.line, self.level, self.inside)
        reader.deeper()
        return reader.quoted("")

    def nested(self, text: str) -> None:
        _Reader(text, self.line, self.level, inside=True).read("")

    def substitution(self) -> None:
        self.line.is_plain = False
        outer = (self.current, self.span, self.is_whole, self.is_closed, self.inside)
        self.inside = True
        self.read(")")
        self.current, self.span, self.is_whole, self.is_closed, self.inside = outer


__all__ = ["Command", "Line", "UnreadableError", "read_line"]
