"""Confirmation of a call: by the person at the terminal, by `--yes` or `--no`, or later."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from pegboard.cli.output import block
from pegboard.cli.terminal import quiet, stderr_screen
from pegboard.dispatch.approval.queue import ask_later
from pegboard.dispatch.approval.request import Always, Answer, Once, Reject

if TYPE_CHECKING:
    from pegboard.dispatch.approval.queue import AnyApprover
    from pegboard.dispatch.approval.request import ApprovalRequest
    from pegboard.tools.context import ToolContext

TERMINAL: Final = "/dev/tty"


MOST_LINE: Final = 10_000


TRIES: Final = 3


def approver_for(*, yes: bool, no: bool) -> AnyApprover:
    """Who is asked: a person only where standard error is a terminal, and there is one to read from."""
    if yes and no:
        raise click.UsageError("--yes and --no contradict each other: give one of them")
    if yes:
        return approve_all
    if no:
        return reject_all
    return TerminalPrompt() if stderr_screen().is_terminal and _is_there() else ask_later


async def approve_all(_request: ApprovalRequest, _context: ToolContext) -> Answer:
    """`--yes`."""
    return Once()


async def reject_all(_request: ApprovalRequest, _context: ToolContext) -> Answer:
    """`--no`."""
    return Reject()


class TerminalPrompt:
    """The person at the terminal: asked on standard error, answers on the terminal, whatever standard input is."""

    one_at_a_time: Final = True

    def approve(self, request: ApprovalRequest, context: ToolContext) -> Answer | None:
        """Shows what would happen and waits for a line; `None` where the terminal has gone."""
        del context  # the request holds all of it
        with quiet():
            return self._asked(request)

    def _asked(self, request: ApprovalRequest) -> Answer | None:
        screen = stderr_screen()
        self._write(block(request.to_text(), screen, style="bold"))
        always = ", [a]lways in this run" if request.always else ""
        flush_input()
        for _ in range(TRIES):
            self._write(f"Run it? [y]es{always}, [n]o, or n and why: ")
            line = read_line()
            if line is None:
                return None
            answer = answer_of(line, may_always=bool(request.always))
            if answer is not None:
                return answer
        return Reject()

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def flush_input() -> None:
    """Drops what was typed before the question was shown: it answers something else."""
    try:
        import termios
    except ImportError:  # Windows, where there is no such terminal
        return
    try:
        descriptor = os.open(TERMINAL, os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return
    try:
        termios.tcflush(descriptor, termios.TCIFLUSH)
    except termios.error:
        pass
    finally:
        os.close(descriptor)


def answer_of(line: str, *, may_always: bool) -> Answer | None:
    """The answer in a line: `y`, `a`, `n`, or `n` and why; `None` for anything else."""
    word, _, rest = line.strip().partition(" ")
    word = word.lower().rstrip(",:;.")
    if word in ("y", "yes") and not rest:
        return Once()
    if word in ("a", "always") and not rest and may_always:
        return Always()
    if word in ("n", "no"):
        return Reject(rest.strip() or None)
    return None


def read_line() -> str | None:
    """One line from the terminal, or `None` at its end.

    Read from the descriptor itself: a thread that waits in `sys.stdin` holds a lock that the interpreter wants at exit.
    """
    try:
        descriptor = os.open(TERMINAL, os.O_RDONLY)
    except OSError:
        return None
    line = b""
    try:
        while not line.endswith(b"\n") and len(line) < MOST_LINE:
            piece = os.read(descriptor, 1024)
            if not piece:
                break
            line += piece
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return line.decode(errors="replace") if line else None


def _is_there() -> bool:
    try:
        os.close(os.open(TERMINAL, os.O_RDONLY))
    except OSError:
        return False
    return True
