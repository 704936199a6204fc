"""Finds the code in a command: texts that programs evaluate or run, by the rules' parser, and scripts.

Wrapped commands (`env`, `xargs`, `docker exec`, `find -exec`) are searched, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import field, frozen

from pegboard.permissions import (
    HOLE,
    LANGUAGES,
    RUN,
    SHELLS,
    Command,
    options_used,
    program_of,
    programs_run,
    wrapped_commands,
)

__all__ = [
    "HOLE",
    "OPERAND",
    "PYTHONS",
    "Interpreter",
    "code_files",
    "interpreters",
    "open_programs",
    "options_that_run",
]

_MOST_LEVELS: Final = 4
_EVALUATE: Final = SHELLS | LANGUAGES | {"source", ".", "trap", "cmd"}
_TEXT_FIRST: Final = frozenset({"awk", "gawk", "mawk", "nawk", "sed", "trap"})
PYTHONS: Final = frozenset({"python", "pypy"})
_RUN_SCRIPTS: Final = SHELLS | PYTHONS | {"perl", "ruby", "node", "nodejs", "php", "lua", "luajit"}
_RUN_FILES: Final = _RUN_SCRIPTS | (_TEXT_FIRST - {"trap"})
_TEXT_OF_SHELL: Final = re.compile(r"[-+][A-Za-z]*c[A-Za-z]*|(?i:-command|-ec|-enc\w*)|--command")
_TEXT_OF_OTHERS: Final = re.compile(
    r"[-+][A-Za-z]*[ceEprBR]|/[ckCK]|eval|--(?:eval|execute|print|expression|source|command|run|process-\w+)"
)
"""An option whose value is code."""

_TEXT_GLUED: Final = re.compile(rf"[-+][A-Za-z]*[ceEprBR][^-]*{HOLE}|--[\w-]+=.*{HOLE}", re.DOTALL)
_MODULE: Final = re.compile(r"-[bBdEiIOPqsSuvx]*m(.*)")
_VALUE: Final = re.compile(r"[^./]*")
"""A word that may be an option's value instead of a script."""

OPERAND: Final = "\1"
"""As `HOLE`, around an argument that is one word and no option."""

_OPEN: Final = re.compile(f"(?!-)[^={HOLE}{OPERAND}]*[{HOLE}{OPERAND}]")
"""A word that begins with an argument, or has one, and is neither an option nor `X={a}`."""


@frozen
class Interpreter:
    """A shell or an interpreter that a command starts.

    Attributes:
        name: Its name.
        texts: The words that it evaluates.
        script: The script that it runs, or `None`.
        module: The module that Python runs, or `None`.
        reads: Whether it evaluates its standard input.
    """

    name: str
    texts: list[str] = field(factory=list[str])
    script: str | None = None
    module: str | None = None
    reads: bool = False


def interpreters(words: Sequence[str]) -> Iterator[Interpreter]:
    """The shells and interpreters that a command starts; its words have holes for arguments.

    Any other program counts as one of what its options name: another program, or code.
    """
    for command in _commands(words):
        name = program_of(command)
        if named := [text for _, text in options_used(command, RUN)]:
            yield Interpreter(name, named)
        if name in _EVALUATE:
            yield _read(name, command[1:])


def open_programs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The wrappers (`env`, `docker exec`) in a command that may run what an argument names, each with that word."""
    for command in _commands(words):
        for found in programs_run(command):
            if _OPEN.match(found[0]):
                yield program_of(command), found[0]


def options_that_run(words: Sequence[str]) -> list[str]:
    """The options of a command, and of its wrapped commands, that name a program or code, and what wrappers run."""
    commands = list(_commands(words))
    options = [f"{command[0]} {option}" for command in commands for option, _ in options_used(command, RUN)]
    return [*options, *(f"{each[0]} ... {found[0]}" for each in commands for found in programs_run(each))]


def code_files(words: Sequence[str]) -> list[str]:
    """The files that a command runs: programs given by path, and scripts of interpreters."""
    programs = [command[0] for command in _commands(words) if "/" in command[0]]
    scripts = [each.script or HOLE for each in interpreters(words) if each.name in _RUN_FILES]
    return [*programs, *(script for script in scripts if HOLE not in script)]


def _commands(words: Sequence[str], level: int = 0) -> Iterator[Sequence[str]]:
    """A command and its wrapped commands."""
    if not words or HOLE in words[0]:
        return
    yield words
    for found in wrapped_commands(Command([*words])) if level < _MOST_LEVELS else ():
        if isinstance(found, Command) and found.is_program:
            yield from _commands(found.words, level + 1)


def _read(name: str, arguments: Sequence[str]) -> Interpreter:
    texts: list[str] = []
    follows, before = name in _TEXT_FIRST, ""
    option = _TEXT_OF_SHELL if name in SHELLS else _TEXT_OF_OTHERS
    for word, after in zip(arguments, [*arguments, ""][1:], strict=True):
        if name in PYTHONS and (named := _MODULE.fullmatch(word)):
            return Interpreter(name, texts, module=named[1] or after)
        if name in _TEXT_FIRST and word in ("-f", "--file"):
            follows = False
        elif name in _TEXT_FIRST and word.startswith(("-f", "--file=")):
            return Interpreter(name, texts, word.removeprefix("--file=").removeprefix("-f"))
        elif option.fullmatch(word):
            follows = True
        elif _TEXT_GLUED.match(word):
            texts.append(word)
        elif follows and not word.startswith(("-", "+")):
            texts.append(word)
            follows = False
            if name in SHELLS:  # the rest are its parameters
                break
        elif _is_operand(word) and not (before.startswith(("-", "+")) and _VALUE.fullmatch(word)):
            return Interpreter(name, texts, None if texts else word)
        before = word
    return Interpreter(name, texts, reads=not texts)


def _is_operand(word: str) -> bool:
    return word != "-" and not word.startswith(("-", "+", "/dev/"))
