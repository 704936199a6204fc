"""Commands that run other commands: `sudo`, `env`, `xargs`, `sh -c`, `find -exec` and their like.

What they run is looked for so that it can be denied and asked about. Where an option may or may not take a value, both
readings are looked at. Nothing here allows anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from pegboard.dispatch.permissions.shell_line import Command
from pegboard.dispatch.permissions.wildcard import HOLE

Found: TypeAlias = "Command | str"
"""What is run: a command, or a text that a shell reads."""

SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "rbash", "yash"})

RUNNERS: Final = {
    **dict.fromkeys(("sudo", "doas", "su", "runuser", "setpriv", "command", "builtin", "exec", "env", "nohup"), 0),
    **dict.fromkeys(("time", "nice", "ionice", "stdbuf", "setsid", "unbuffer", "watch", "script", "systemd-run"), 0),
    **dict.fromkeys(("busybox", "toybox", "unshare", "nsenter", "strace", "ltrace", "fakeroot", "entr"), 0),
    **dict.fromkeys(("xargs", "parallel"), 0),
    **dict.fromkeys(("timeout", "chroot", "flock", "taskset", "chrt", "ssh"), 1),
}
"""Their names, and how many words of their own stand before the command."""

_FILL_IN: Final = frozenset({"xargs", "parallel"})
"""Add words that they read elsewhere."""

_READ_TEXTS: Final = frozenset({"ssh", "su", "runuser", "env", "watch", "script", "flock", "parallel"})
"""Hand a word to a shell, or split it as one."""

_ONLY_TELLS: Final = frozenset({"-v", "-V"})
"""What `command` tells about a command."""

_FINDERS: Final = {
    "find": frozenset({"-exec", "-execdir", "-ok", "-okdir"}),
    "fd": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
    "fdfind": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
}
_ENDS_OF_EXEC: Final = (";", "+")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_TAKES_TEXT: Final = re.compile(r"[-+][A-Za-z]*c[A-Za-z]*")
_BEFORE_TEXT: Final = re.compile(r"-[A-Za-z]*c|--command")
_TAKES_NAME: Final = re.compile(r"[-+][A-Za-z]*[oO]")
_GLUED: Final = re.compile(r"--?[A-Za-z-]*=|-[A-Za-z]")
MOST_STARTS: Final = 8
_SOURCES: Final = frozenset({".", "source"})
_STANDARD_INPUT: Final = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_SEVERAL: Final = re.compile(r"[\s;&|()<>$`]")


def name_of(words: Sequence[str]) -> str:
    """The name of a command, without its folder, in lower case (there are systems that find `RM`).

    A `=` before it, which zsh replaces by its folder, is taken away too.
    """
    return words[0].rpartition("/")[2].lower().lstrip("=")


def run_by(command: Command) -> Iterator[Found]:
    """What a command runs, as far as its words say."""
    if not command.is_program or not command.words:
        return
    name, arguments = name_of(command.words), command.words[1:]
    if name in SHELLS:
        yield from _by_shell(arguments, command.scripts)
    if name in RUNNERS and not (name == "command" and arguments and arguments[0] in _ONLY_TELLS):
        for words in starts(arguments, RUNNERS[name]):
            yield Command(_filled(words, arguments) if name in _FILL_IN else words, scripts=command.scripts)
    if name in _READ_TEXTS:
        yield from _texts(arguments)
    if name in _FINDERS:
        yield from _by_finder(arguments, _FINDERS[name])
    yield from _by_builtin(name, arguments)


def _by_builtin(name: str, arguments: Sequence[str]) -> Iterator[str]:
    """The texts that a shell's own commands run."""
    if name == "eval":
        yield " ".join(arguments)
    elif name == "trap":
        yield from arguments[:1]
    elif name == "alias":
        yield from (each.partition("=")[2] for each in arguments)
    elif name in _SOURCES and (HOLE in "".join(arguments[:1]) or not _STANDARD_INPUT.isdisjoint(arguments[:1])):
        yield HOLE


def starts(arguments: Sequence[str], own: int) -> Iterator[list[str]]:
    """Every way to read `[options] [own words] command`: the command, at each place where it may start.

    At most 8; where there are more ways, the last says that it may be any command.
    """
    least = most = found = 0
    behind_option = False
    for place, word in enumerate(arguments):
        if HOLE not in word and ((word.startswith("-") and word != "-") or _ASSIGNMENT.match(word)):
            behind_option = word.startswith("-") and "=" not in word and word != "--"
            continue
        if least <= own <= most:
            found += 1
            yield list(arguments[place:]) if found < MOST_STARTS else [HOLE]
        most += 1
        least += not (behind_option or HOLE in word)
        behind_option = HOLE in word
        if least > own or found == MOST_STARTS:
            return


def _filled(words: list[str], arguments: Sequence[str]) -> list[str]:
    """A command with holes where `xargs` fills it in: at its end, and at a mark."""
    marks = {"{}"}
    for place, word in enumerate(arguments):
        if word.startswith("-I"):
            marks.add(word[2:] or "".join(arguments[place + 1 : place + 2]))
    for mark in marks - {""}:
        words = [word.replace(mark, HOLE) for word in words]
    return [*words, HOLE]


def _texts(arguments: Sequence[str]) -> Iterator[str]:
    """What stands behind `-c`; and the words that are several, as they are and without an option they are glued to."""
    for place, word in enumerate(arguments):
        if _SEVERAL.search(word) or _BEFORE_TEXT.fullmatch(arguments[place - 1] if place else ""):
            yield word
            if glued := _GLUED.match(word):
                yield word[glued.end() :]


def _by_shell(arguments: Sequence[str], scripts: Sequence[str]) -> Iterator[str]:
    """The texts that a shell is given; what nobody can see is a hole."""
    operands = list[str]()
    text_follows = reads = skip = False
    for word in arguments:
        if HOLE in word and not operands and not text_follows:
            yield HOLE
        if text_follows:
            yield word
        if word.startswith(("-", "+")) and word not in _STANDARD_INPUT:
            text_follows = text_follows or _TAKES_TEXT.fullmatch(word) is not None
            reads = reads or (not word.startswith("--") and "s" in word)
            skip = _TAKES_NAME.fullmatch(word) is not None
        elif skip:
            skip = False
        else:
            operands.append(word)
    if not text_follows and (reads or not operands or operands[0] in _STANDARD_INPUT):
        yield from scripts or (HOLE,)


def _by_finder(arguments: Sequence[str], options: frozenset[str]) -> Iterator[Command]:
    for place, word in enumerate(arguments):
        if word in options:
            rest = arguments[place + 1 :]
            end = min((rest.index(each) for each in _ENDS_OF_EXEC if each in rest), default=len(rest))
            if end:
                yield Command([each.replace("{}", HOLE) for each in rest[:end]])


__all__ = ["RUNNERS", "SHELLS", "Found", "name_of", "run_by", "starts"]
