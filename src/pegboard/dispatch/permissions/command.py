"""Commands: what a shell's line runs, and the patterns that look at it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import define, field, frozen

from pegboard.dispatch.permissions.match import Match, Part, Unreadable
from pegboard.dispatch.permissions.proposal import proposed
from pegboard.dispatch.permissions.rule import Rule
from pegboard.dispatch.permissions.runner import Found, name_of, run_by, starts
from pegboard.dispatch.permissions.shell import read_line
from pegboard.dispatch.permissions.shell_line import Command, Line, UnreadableError
from pegboard.dispatch.permissions.wildcard import HOLE

MOST_CHARACTERS: Final = 100_000
MOST_LEVELS: Final = 6
_SPANS: Final = frozenset(";&|<>\n")
_NEEDS_QUOTES: Final = frozenset(" \t\n\"'\\;&|()<>")


def command_parts(text: str) -> tuple[Part, ...]:
    """The commands of a shell's line, each decided by itself, and behind them what is only seen inside them.

    Args:
        text: The line.
    """
    try:
        line = read_line(text)
        inner = _Search().seen(line.commands)
    except UnreadableError:
        return (Unreadable(text),)
    if not line.commands:
        return (Unreadable(text),)
    parts = sorted((part_of(command, line) for command in line.commands), key=lambda part: part.inside)
    return (*parts, WholeLine(text.strip()), *inner)


@frozen
class WholeLine:
    """A line as it was written: only rules whose pattern spans several commands look at it, to deny and to ask.

    Attributes:
        shown: The line.
    """

    shown: str
    inside: bool = field(default=True, init=False)
    always: None = field(default=None, init=False)

    def match(self, rule: Rule) -> Match:
        """What matches one command is left to that."""
        if rule.allows or _SPANS.isdisjoint(rule.pattern):
            return Match.NO
        return Match.SURELY if rule.wildcard.matches(self.shown) else Match.NO


@frozen
class CommandPart:
    """One command.

    Attributes:
        exact: Its text, as it is and as it was written.
        loose: Other texts of it, which rules may deny and ask about: without its folder or its options, say.
        is_plain: Whether a rule can allow it: its name is known, and its line holds no substitution.
        inside: Whether it is only seen inside another command.
        shown: What people are shown of it.
        always: The pattern that an answer "always" would allow.
    """

    exact: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    is_plain: bool = False
    inside: bool = False
    shown: str = ""
    always: str | None = None

    def match(self, rule: Rule) -> Match:
        """To allow, the pattern must match whatever the shell fills in; to deny and to ask, it may."""
        pattern = rule.wildcard
        if rule.allows:
            return Match.SURELY if self.is_plain and any(map(pattern.covers, self.exact)) else Match.NO
        if any(map(pattern.covers, self.exact)):
            return Match.SURELY
        return Match.PERHAPS if any(map(pattern.touches, (*self.exact, *self.loose))) else Match.NO


_ANYTHING: Final = CommandPart(loose=(HOLE,), inside=True)


def part_of(command: Command, line: Line, *, inside: bool = False) -> CommandPart:
    """What is decided of one command."""
    text = _written(command.words) if command.is_program else " ".join(command.words)
    exact = (text,) if command.source in (None, text) else (text, command.source)
    is_plain = line.is_plain and not (command.is_program and HOLE in command.words[0]) and command.words[0] != ""
    shown = (command.source or text).replace(HOLE, "*")
    always = proposed(command, text) if is_plain else None
    return CommandPart(exact, tuple(_loose(command)), is_plain, inside or command.inside, shown, always)


def _written(words: list[str]) -> str:
    """One text for words, in which each stays one."""
    return " ".join(word if word and _NEEDS_QUOTES.isdisjoint(word) else shlex.quote(word) for word in words)


def _loose(command: Command) -> Iterator[str]:
    """Other texts that mean the same command."""
    words = command.words
    if not command.is_program:
        return
    rests = [words[1:], *starts(words[1:], 0)]
    for name in dict.fromkeys((words[0], *_names(words))):
        yield from (_vague([name, *rest]) for rest in rests)
    if command.assignments:
        yield _written(command.assignments + words)


def _vague(words: list[str]) -> str:
    """One text for words, of which those that the shell fills in may be none at all."""
    text = " ".join(HOLE + word.lstrip("~") if word.startswith("~") else word for word in words)
    return text.replace(f" {HOLE}", HOLE).replace(f"{HOLE} ", HOLE) if HOLE in text else text


def _names(words: list[str]) -> Iterator[str]:
    yield words[0].rpartition("/")[2]
    yield name_of(words)
    if HOLE in words[0]:  # the hole may hold a folder
        yield HOLE + words[0].rpartition(HOLE)[2]


@define
class _Search:
    """Looks for what commands run, and what that runs, with an end to it.

    Attributes:
        left: Characters that may still be looked at.
    """

    left: int = MOST_CHARACTERS

    def seen(self, commands: Sequence[Command], level: int = 0) -> list[CommandPart]:
        """What these commands run.

        Raises:
            UnreadableError: It is too much.
        """
        parts = list[CommandPart]()
        for found in (each for command in commands for each in run_by(command)):
            line = self._line_of(found)
            if line is None or level >= MOST_LEVELS:
                parts.append(_ANYTHING)
                continue
            parts += (part_of(inner, line, inside=True) for inner in line.commands)
            parts += self.seen(line.commands, level + 1)
        return parts

    def _line_of(self, found: Found) -> Line | None:
        """What is run as a line; `None`: that could be anything."""
        self.left -= len(found) if isinstance(found, str) else sum(map(len, found.words)) + len(found.words)
        if self.left < 0:
            raise UnreadableError("commands in commands in commands")
        if isinstance(found, Command):
            return Line([found])
        try:
            return read_line(found)
        except UnreadableError:
            return None


__all__ = ["CommandPart", "command_parts"]
