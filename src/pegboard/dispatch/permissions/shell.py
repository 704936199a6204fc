"""Strict parser of shell command lines: it accepts only what every POSIX shell reads in the same way.

It finds every simple command of a line: between operators, in groups and control structures, in substitutions. Quotes,
escapes, comments and escaped line ends are removed; what only the shell can fill in (`$NAME`, `*.py`, `$(...)`) is a
hole in the word.

What can't be read for sure is refused as a whole, as a decision about what may run must not rest on a guess. (Grammars
made for editors guess: they recover from what they don't know.) Where shells differ, more commands are found than one
of them would run, never fewer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from attrs import define, field

from pegboard.dispatch.permissions.rule import HOLE, UnreadableError, refuse_if

MOST_COMMANDS: Final = 200


@define
class Command:
    """Simple command; also an assignment, or a redirection to or from a file, each of which counts as one by itself.

    Attributes:
        words: Its words, without quotes, with holes; of a redirection its sign (`>`, `>>`, `<`, `<>`) and the file.
        assignments: The `NAME=value` before the words.
        source: The words as written, or `None` if something else is between them.
        scripts: The texts on its standard input (`<<EOF`, `<<<`), with holes.
        inside: Whether it is in a substitution.
        is_program: Whether it runs something.
    """

    words: list[str] = field(factory=list[str])
    assignments: list[str] = field(factory=list[str])
    source: str | None = None
    scripts: list[str] = field(factory=list[str])
    inside: bool = False
    is_program: bool = True


@define
class Line:
    """Shell line, as the commands that it runs.

    Attributes:
        commands: Every command, in no particular order.
        obstacle: What happens besides the commands (a substitution, a definition, arithmetic), as a clause, or `""`.
    """

    commands: list[Command] = field(factory=list[Command])
    obstacle: str = ""

    def add(self, command: Command) -> None:
        """Appends a command."""
        self.commands.append(command)
        refuse_if(len(self.commands) > MOST_COMMANDS, "too many commands")


MOST_LEVELS: Final = 16  # nesting of substitutions and groups
_WORD_ENDS: Final = frozenset(" \t\n;&|()<>")
_ORDINARY: Final = re.compile(r"[A-Za-z0-9_./:,+@%^=~!#\]}-]+")
_PARAMETER: Final = re.compile(
    r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?!$-]|\{#?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?!$-])\})"
)
"""Parameter expansion without side effects."""

_SUM: Final = re.compile(
    r"\$\(\((?:[A-Za-z0-9_+*/%<>=!&|^~?:,. \t$-]|(?<!\$)\([A-Za-z0-9_+*/%<>=!&|^~?:,. \t$-]*\))*\)\)"
)
"""`$((...))` in which nothing can hide."""

_ANSI: Final = re.compile(r"\$'(?:[^'\\]|\\[^'])*'")
_BACKTICKS: Final = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_BRACED: Final = re.compile(r"\$\{(?![ \t\n|])")

_REST: Final = "\udfff"
"""Placeholder for the rest of a word if the shell replaces it: a lone surrogate, which no input contains."""

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_SINGLE: Final = re.compile(r"'([^']*)'")
_IN_QUOTES: Final = re.compile(r'[^"$`\\]+')
_IN_DOCUMENT: Final = re.compile(r"[^$`\\]+")

MOST_LINE: Final = 32_768
_BLANK: Final = re.compile(r"(?:[ \t]|\\\n)*")
_COMMENT: Final = re.compile(r"#[^\n]*")
_OPERATOR: Final = re.compile(r"\n|;;&|;;|;&|;|&&|&|\|\||\|&|\|")
_REDIRECTION: Final = re.compile(r"([0-9]*)(<<<|<<-|<<|<>|<&|<|>>|>&|>\||>)|(&>>|&>)")
_DESCRIPTOR: Final = re.compile(r"[0-9]+-?|-")
ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ARITHMETIC: Final = re.compile(r"\(\(((?:(?!<<)[A-Za-z0-9_+*/%<>=!&|^~?:,;. \t$-])*)\)\)")
"""`((...))` in which nothing can hide. Some shells read it as arithmetic, others as groups."""

_AROUND: Final = frozenset(
    {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "esac", "function"} | {*"{}!"}
)
"""Keywords around commands that do nothing themselves."""

_STRANGE: Final = frozenset({"for", "select", "case", "[["})
"""Keywords of a construct whose parts aren't all commands: it can be denied, but not allowed."""

_LOOPS: Final = (["for"], ["select"])  # keywords after which `do` may follow the name at once: `for x do a; done`
_TIMED: Final = frozenset({"time", "-p", "--"})
"""Words after which some shells still recognise keywords (`time { a; }`), and others don't."""

_HARMLESS: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_SIGNS: Final = {">|": ">", ">&": ">", "<&": "<", "&>": ">", "&>>": ">>"}


def read_line(text: str) -> Line:
    """Parses a shell line into its commands.

    Raises:
        UnreadableError: It can't be read for sure.
    """
    is_odd = HOLE in text or any("\ud800" <= each <= "\udfff" for each in text)
    refuse_if(is_odd or len(text) > MOST_LINE, "too long, or with characters that no line contains")
    line = Line()
    _Reader(text, line).read("")
    return line


@define
class _Reader:
    """Recursive-descent parser of a text, or of a part of it in brackets."""

    text: str  # the text
    line: Line  # gets the commands
    level: int = 0  # nesting depth
    inside: bool = False  # whether it is in a substitution
    place: int = 0  # current position in the text
    current: Command = field(factory=Command, init=False)  # the command that is read now
    start: int | None = field(default=None, init=False)  # where its words start, `None` before the first
    is_whole: bool = field(default=True, init=False)  # whether nothing else is between them
    is_closed: bool = field(default=False, init=False)  # whether no word may follow
    cases: int = field(default=0, init=False)  # how many `case` are open
    # Here-documents to come: the line that ends each, whether it is literal, whether it is indented by tabs, and the
    # command that reads it
    waiting: list[tuple[str, bool, bool, Command]] = field(factory=list[Any], init=False)

    def read(self, closing: str) -> int:
        """Reads up to `closing` or the end, and returns the position after it; a `)` may also end a case's pattern."""
        self.level += 1
        refuse_if(self.level > MOST_LEVELS, "too deep")
        self.flush()
        self.take(_BLANK)
        while self.place < len(self.text) and not (closing and self.at(closing) and not self.cases):
            self.step()
            self.take(_BLANK)
        refuse_if(closing and self.place == len(self.text), "a bracket isn't closed")
        self.flush()
        refuse_if(self.waiting, "a here-document isn't there")
        return self.place + len(closing)

    def within(self, text: str, place: int, closing: str, *, inside: bool) -> int:
        """Reads a part in brackets, or in backticks as a text of its own; returns the position after it."""
        refuse_if(self.waiting and closing, "a here-document before a bracket")
        return _Reader(text, self.line, self.level, inside, place).read(closing)

    def step(self) -> None:
        """Reads one operator, group, redirection, comment or word."""
        if self.at("#"):
            refuse_if("[[" in self.current.words, "a comment in a test")
            self.take(_COMMENT)
        elif self.at("("):
            self.read_group()
        elif self.at(")"):
            refuse_if(not self.cases, "a bracket isn't opened")
            self.place += 1
            self.flush()
        elif not (self.at("<(") or self.at(">(")) and (redirection := self.take(_REDIRECTION)):
            self.read_redirection(redirection[2] or redirection[3])
        elif operator := self.take(_OPERATOR):
            self.flush()
            if operator[0] == "\n":
                self.read_documents()
        else:
            self.read_word()

    def read_group(self) -> None:
        """Reads a group, or what looks like one: a definition, an array, a pattern. All parts count as commands."""
        joined = bool(self.current.words or self.current.assignments)
        if joined or self.at("(("):
            self.line.obstacle = "the line has a function, an array or arithmetic"
        if self.at("(("):
            inner = self.must(_ARITHMETIC, "arithmetic")[1]
            self.flush()
            self.within(inner, 0, "", inside=True)
            return
        self.flush()
        start = self.place
        self.place = self.within(self.text, start + 1, ")", inside=self.inside)
        goes_on = (self.text[self.place : self.place + 1] or " ") not in _WORD_ENDS
        refuse_if(joined and goes_on and not self.text.startswith("(){", start), "a word that goes on after a bracket")

    def read_redirection(self, sign: str) -> None:
        self.is_whole, self.current.source = False, None
        self.is_closed = self.is_closed or sign.startswith("&")
        self.take(_BLANK)
        text, is_bare = self.word()
        refuse_if(text == "" and is_bare, "a redirection to nothing")
        if sign in ("<<", "<<-"):
            refuse_if(HOLE in text or "\n" in text, "a here-document whose end isn't known")
            self.waiting.append((text, not is_bare, sign == "<<-", self.current))
        elif sign == "<<<":
            self.current.scripts.append(text)
        elif not (sign in ("<&", ">&") and _DESCRIPTOR.fullmatch(text)) and text not in _HARMLESS:
            self.line.add(Command([_SIGNS.get(sign, sign), text], inside=self.inside, is_program=False))

    def read_word(self) -> None:
        refuse_if(self.is_closed, "a word after '&>', where some shells start another command")
        start, words = self.place, self.current.words
        text, is_bare = self.word()
        at_front = not self.current.assignments and words[:1] in ([], ["time"]) and _TIMED.issuperset(words)
        if at_front and is_bare and self.is_keyword(text):
            if words:
                self.line.obstacle = f"the line has {text!r} after 'time'"
        elif text == "do" and is_bare and words[-2:-1] in _LOOPS and _TIMED.issuperset(words[:-2]):
            self.line.obstacle = f"the line has {words[-2]!r}"
            self.flush()
        elif not words and ASSIGNMENT.match(text):
            self.current.assignments.append(text)
            self.line.add(Command([text], inside=self.inside, is_program=False))
        else:
            words.append(text)
            self.start = start if self.start is None else self.start
            self.current.source = self.text[self.start : self.place] if self.is_whole else None

    def is_keyword(self, word: str) -> bool:
        """Whether this is a keyword around commands; reads the name after `function`."""
        if word in _STRANGE:
            self.line.obstacle = f"the line has {word!r}"
            self.cases += word == "case"
        elif word == "esac":
            self.cases -= self.cases > 0
        elif word == "function":
            self.line.obstacle = "the line has a function"
            self.take(_BLANK)
            self.word()
        elif word == "coproc":
            raise UnreadableError("a coprocess")
        return word in _AROUND

    def flush(self) -> None:
        """Ends the current command."""
        if self.start is not None:
            self.line.add(self.current)
        self.current, self.start, self.is_whole, self.is_closed = Command(inside=self.inside), None, True, False

    def read_documents(self) -> None:
        """Reads the here-documents announced on the line before; a line that ends one isn't part of it."""
        waiting, self.waiting = self.waiting, []
        for end, is_literal, has_tabs, command in waiting:
            rows, row = list[str](), ""
            while (row.lstrip("\t") if has_tabs else row).removesuffix("\n") != end or not row:
                if self.place == len(self.text) or (row.endswith("\\\n") and not is_literal):
                    raise UnreadableError("where a here-document ends isn't known")
                start, self.place = self.place, self.text.find("\n", self.place) + 1 or len(self.text)
                row = self.text[start : self.place]
                rows.append(row)
            body = "".join(rows[:-1])
            # It has holes where the shell fills it in.
            filled = body if is_literal else _Reader(body, self.line, self.level, self.inside).read_quotes("")
            command.scripts.append(filled)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Consumes what the pattern matches here, if anything."""
        found = pattern.match(self.text, self.place)
        if found is not None:
            self.place = found.end()
        return found

    def must(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """As `take`; raises if the pattern doesn't match."""
        found = self.take(pattern)
        if found is None:
            raise UnreadableError(what)
        return found

    def at(self, text: str) -> bool:
        """Whether this text is next."""
        return self.text.startswith(text, self.place)

    def word(self) -> tuple[str, bool]:
        """Reads the word that starts here, without quotes, with holes; empty if there is none.

        Also returns whether it has no quotes and no escapes, and so may be a keyword.
        """
        start, parts = self.place, list[str]()
        while self.place < len(self.text):
            if ordinary := self.take(_ORDINARY):
                parts.append(ordinary[0])
            elif self.at("<(") or self.at(">("):
                parts.append(self.substitution())
            elif self.text[self.place] in _WORD_ENDS:
                break
            elif self.text[self.place] in _SPECIAL:
                parts.append(_SPECIAL[self.text[self.place]](self))
            else:
                parts.append(self.character(at_start=self.place == start))
        text, source = "".join(parts), self.text[start : self.place]
        refuse_if(self.waiting and "\n" in source, "a here-document after a word of several lines")
        if _REST in text:
            text = text[: text.index(_REST)] + HOLE
        return text, not any(mark in source for mark in "\\'\"")

    def character(self, *, at_start: bool) -> str:
        """Reads another character, with what it is replaced by: by other words, if it is `[` or `{` in a word."""
        character = self.text[self.place]
        self.place += 1
        if character in "*?":
            return HOLE
        refuse_if(not character.isprintable(), "a character that can't be seen")
        if character not in "[{" or (character == "{" and self.at("}")):
            return character
        if at_start and character == "[" and self.at("["):
            self.place += 1
            character = "[["
        alone = at_start and (self.place == len(self.text) or self.text[self.place] in _WORD_ENDS)
        return character if alone else _REST

    def substitution(self) -> str:
        """Reads a `$(`, `<(` or `>(` substitution."""
        self.line.obstacle = "the line has a substitution"
        self.place = self.within(self.text, self.place + 2, ")", inside=True)
        return HOLE

    def escape(self) -> str:
        r"""Reads `\` and the character after it."""
        escaped = self.must(_ESCAPE, "nothing is escaped")[1]
        refuse_if(not escaped.isprintable() and escaped != "\n", "an escaped character that can't be seen")
        return "" if escaped == "\n" else escaped

    def read_quotes(self, end: str = '"') -> str:
        """Reads a double-quoted text; or, with `""`, a whole here-document."""
        run, parts = (_IN_QUOTES if end else _IN_DOCUMENT), list[str]()
        self.place += len(end)
        while self.place < len(self.text) and not (end and self.at(end)):
            if plain := self.take(run):
                parts.append(plain[0])
            elif self.at("$"):
                parts.append(self.dollar(quoted=True))
            elif self.at("`"):
                parts.append(self.backticks(quoted=True))
            else:
                escaped = self.text[self.place + 1 : self.place + 2]
                self.place += 1 + len(escaped)
                is_marked = escaped != "" and escaped in f"$`\\\n{end}"
                parts.append(escaped.strip("\n") if is_marked else f"\\{escaped}")
        refuse_if(end and self.place == len(self.text), "a quote isn't closed")
        self.place += len(end)
        return "".join(parts)

    def backticks(self, *, quoted: bool = False) -> str:
        r"""Reads a substitution in backticks; shells differ on a `\"` in one in double quotes."""
        inner = self.must(_BACKTICKS, "a backtick isn't closed")[1]
        refuse_if(quoted and '\\"' in inner, "an escaped quote in backticks in quotes")
        self.line.obstacle = "the line has a substitution"
        self.within(re.sub(r"\\([$`\\])", r"\1", inner), 0, "", inside=True)
        return HOLE

    def dollar(self, *, quoted: bool = False) -> str:
        """Reads an expansion."""
        if self.take(_PARAMETER) or (not quoted and self.take(_ANSI)):
            return HOLE
        if self.at("$(("):
            self.must(_SUM, "arithmetic")
            self.line.obstacle = "the line has arithmetic"
            return HOLE
        if self.at("$("):
            return self.substitution()
        if self.at("${"):
            return self._read_braces(quoted=quoted)
        refuse_if(self.at("$[") or (not quoted and self.at("$'")), "what shells read differently")
        self.place += 1
        return HOLE if self.at('"') and not quoted else "$"

    def _read_braces(self, *, quoted: bool) -> str:
        """Reads `${NAME...}`: the rest after the name may hold substitutions, and shells disagree about its quotes."""
        self.must(_BRACED, "a substitution of a new kind")
        self.level += 1
        refuse_if(self.level > MOST_LEVELS, "too deep")
        self.line.obstacle = "the line has a substitution in braces"
        while not self.at("}"):
            refuse_if(self.place == len(self.text) or self.at("'") or (quoted and self.at('"')), "quotes in braces")
            refuse_if(self.at("<(") or self.at(">(") or self.at("@P}"), "a substitution in braces")
            if self.text[self.place] in _SPECIAL:
                _SPECIAL[self.text[self.place]](self)
            else:
                self.place += 1
        self.place += 1
        self.level -= 1
        return HOLE


_SPECIAL: Final[dict[str, Callable[[_Reader], str]]] = {
    "\\": _Reader.escape,
    "'": lambda reader: reader.must(_SINGLE, "a quote isn't closed")[1],
    '"': _Reader.read_quotes,
    "$": _Reader.dollar,
    "`": _Reader.backticks,
}
