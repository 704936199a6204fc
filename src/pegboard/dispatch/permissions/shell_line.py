"""`Line`: what a shell's command line runs."""

from __future__ import annotations

from typing import Final

from attrs import define, field

MOST_COMMANDS: Final = 200


class UnreadableError(ValueError):
    """A line that shells may read in several ways, or that can't be read here."""


@define
class Command:
    """One simple command; or an assignment or a redirection to or from a file, each of which is one by itself.

    Attributes:
        words: Its words, without quotes, with holes; of a redirection its sign (`>`, `>>`, `<`, `<>`) and the file.
        assignments: What stands before the words (`NAME=value`).
        source: The words as they were written, or `None` where something else stands between them.
        scripts: The texts that it is given to read (`<<EOF`, `<<<`), with holes.
        inside: Whether it stands in a substitution.
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
    """What a line runs.

    Attributes:
        commands: Every command, in no particular order.
        is_plain: Whether the commands are all that happens: no substitution, no definition, no arithmetic.
    """

    commands: list[Command] = field(factory=list[Command])
    is_plain: bool = True

    def add(self, command: Command) -> None:
        """One command more."""
        self.commands.append(command)
        if len(self.commands) > MOST_COMMANDS:
            raise UnreadableError("too many commands")


__all__ = ["Command", "Line", "UnreadableError"]
