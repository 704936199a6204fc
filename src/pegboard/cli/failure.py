"""What went wrong, told in one place: clear lines on standard error, and the exit code."""

from __future__ import annotations

import errno
from typing import Final

import click

from pegboard.cli.arguments import WordError
from pegboard.cli.options import Options
from pegboard.cli.render import block
from pegboard.cli.screen import stderr_screen
from pegboard.errors import (
    ConfigError,
    DefinitionError,
    ExpressionError,
    PegboardError,
    PredicateError,
    RegistrationError,
    UnknownToolError,
)

MISUSES: Final = (
    WordError,
    ConfigError,
    DefinitionError,
    ExpressionError,
    PredicateError,
    RegistrationError,
    UnknownToolError,
)
"""What the person at the keyboard can put right: exit code 2."""

_UNWRITTEN: Final = (errno.ENOSPC, errno.EFBIG, errno.EIO)


def told(error: Exception, options: Options) -> int:
    """Tells of an error on standard error, with its traceback where that is asked for.

    Returns:
        The exit code: 2 for wrong use, 1 for everything else.
    """
    if options.debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        remark(error.format_message())
    else:
        complain(_worded(error))
    return 2 if isinstance(error, (click.ClickException, *MISUSES)) else 1


def complain(text: str) -> None:
    """Writes an error to standard error, in red where that shows."""
    screen = stderr_screen()
    click.echo(block(f"error: {text}", screen, style="red"), nl=False, err=True, color=screen.colour)


def remark(text: str) -> None:
    """Writes a line that isn't an error to standard error."""
    screen = stderr_screen()
    click.echo(block(text, screen), nl=False, err=True, color=screen.colour)


def _worded(error: Exception) -> str:
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "registry"
        return f"{error.format_message()}\nTry '{command} --help'."
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITTEN:
        return f"can't write to standard output: {error.strerror}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, PegboardError | WordError | OSError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error}\nThis is a fault of pegboard's own; --debug shows where."
