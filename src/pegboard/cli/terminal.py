"""The terminal: what its streams can show, the pager, a status line, and standard output kept for our own output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Self

import click
from attrs import define, field, frozen

from pegboard.cli.table import cells, fitted, terminal_size, wants_colour
from pegboard.tools.visible import visible

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_BAR = 20
_quiet: list[None] = []


@frozen
class Screen:
    """What a stream can show.

    Attributes:
        width: Columns, or `None` where it is no terminal and nothing is cut or broken.
        height: Lines, or `None` likewise.
        colour: Whether it takes colours.
    """

    width: int | None = None
    height: int | None = None
    colour: bool = False

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it."""
        return self.width is not None

    def styled(self, text: str, style: str) -> str:
        """The text in a style: `bold`, `dim`, `red`, `green`, `yellow`, or `""` for none."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour and style and text else text


PLAIN: Final = Screen()


def stdout_screen() -> Screen:
    """What standard output can show."""
    return screen_of(sys.stdout)


def stderr_screen() -> Screen:
    """What standard error can show."""
    return screen_of(sys.stderr)


def screen_of(stream: IO[Any] | None, environ: Mapping[str, str] = os.environ) -> Screen:
    """What this stream can show.

    Colour follows `NO_COLOR` (no-color.org), then `FORCE_COLOR`, then `TERM=dumb`, then whether it is a terminal, in
    the order of Python's own tracebacks. Width and height follow `COLUMNS` and `LINES`, then the terminal.
    """
    try:
        on_terminal = stream is not None and stream.isatty()
    except ValueError:  # a closed stream
        on_terminal = False
    colour = wants_colour(environ, on_terminal=on_terminal)
    if stream is None or not on_terminal:
        return Screen(colour=colour)
    width, height = terminal_size(stream.fileno(), environ)
    return Screen(width, height, colour)


def wrapped(text: str, width: int | None) -> list[str]:
    """The lines of a text, each broken between words so that it fits; without a width, as they are.

    A line keeps what it is indented by. A word that is too long stands alone, uncut.
    """
    lines = text.split("\n")
    return lines if width is None else [part for line in lines for part in _broken(line, width)]


def _broken(line: str, width: int) -> list[str]:
    if cells(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    parts: list[str] = []
    here = ""
    for word in line.split():
        if here and cells(f"{indent}{here} {word}") > width:
            parts.append(indent + here)
            here = word
        else:
            here = f"{here} {word}" if here else word
    return [*parts, indent + here]


def write(text: str) -> None:
    """Writes a text, which carries its line ends and whatever colours it is to have, as it is."""
    sys.stdout.write(text)


def write_long(text: str, screen: Screen) -> None:
    """Writes a text; one that is longer than the terminal goes through the pager (`PAGER`, else `less`).

    Nothing is paged where standard output or input is no terminal, or a dumb one.
    """
    if screen.height is None or text.count("\n") < screen.height:
        write(text)
        return
    os.environ.setdefault("LESS", "FRX")
    click.echo_via_pager(text.removesuffix("\n"), color=screen.colour)


@contextmanager
def quiet() -> Generator[None]:
    """No status is shown meanwhile: a person is being asked something."""
    _quiet.append(None)
    try:
        yield
    finally:
        _quiet.pop()


@define
class Status:
    """A line that is written over. Nothing is written where standard error is no terminal, or a dumb one."""

    screen: Screen = field(factory=stderr_screen)
    _shown: int = 0
    _stream: Any = None

    def show(self, text: str, done: float | None = None) -> None:
        """Puts a text in the line's place.

        Args:
            text: What is being done.
            done: How much of it, from 0 to 1, as a bar; `None` where that isn't known.
        """
        if self.screen.width is None or os.environ.get("TERM") == "dumb" or _quiet:
            return
        filled = round(_BAR * min(max(done or 0.0, 0.0), 1.0))
        bar = "" if done is None else f"[{'#' * filled}{'-' * (_BAR - filled)}] "
        line = fitted(bar + visible(" ".join(text.split())), self.screen.width - 1)
        self._write(f"\r{line}{' ' * (self._shown - cells(line))}")
        self._shown = cells(line)

    def clear(self) -> None:
        """Takes the line away."""
        if self._shown:
            self._write(f"\r{' ' * self._shown}\r")
            self._shown = 0

    def __enter__(self) -> Self:
        if self.screen.width is not None:
            self._stream, sys.stderr = sys.stderr, _Clearing(sys.stderr, self.clear)  # pyright: ignore[reportAttributeAccessIssue]  it acts as one
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        if isinstance(sys.stderr, _Clearing) and sys.stderr.stream is self._stream:
            sys.stderr = self._stream

    def _write(self, text: str) -> None:
        stream = sys.stderr if self._stream is None else self._stream
        stream.write(text)
        stream.flush()


class _Clearing:
    """Standard error, from which the line goes before anything else is written: logs, and prints of tools."""

    def __init__(self, stream: Any, clear: Callable[[], None]) -> None:
        self.stream = stream
        self._clear = clear

    def write(self, text: str) -> int:
        """Takes the line away, then writes."""
        self._clear()
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Stdout:
    """Stands in for `sys.stdout`: standard error while it is redirected, else what it stands for.

    What a module keeps of it at import (`logging.StreamHandler(sys.stdout)`) stays right afterwards.

    Attributes:
        descriptor: The descriptor that standard output has meanwhile, or `None` where it isn't descriptor 1.
    """

    def __init__(self, real: Any, nowhere: IO[str] | None) -> None:
        self._real = real
        self._nowhere = nowhere
        self.is_redirected = True
        self.descriptor: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr((self._nowhere or sys.stderr) if self.is_redirected else self._real, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._real)

    def write_through(self, text: str) -> None:
        """Writes to what it stands in for, at once."""
        if self.descriptor is None:
            self._real.write(text)
            self._real.flush()
            return
        data = text.encode(self._real.encoding, errors=self._real.errors)
        while data:
            data = data[os.write(self.descriptor, data) :]


@contextmanager
def redirect_stdout() -> Generator[None]:
    """Sends `sys.stdout`, and file descriptor 1 where that is what it writes to, to standard error.

    Child processes inherit that. Both are put back at the end, however it comes. Inside of itself it does nothing.
    Where standard error is closed, it goes nowhere: another file may have its descriptor.
    """
    real: Any = sys.stdout
    if isinstance(real, _Stdout) or real is None:
        yield
        return
    real.flush()
    no_stderr: bool = sys.stderr is None  # pyright: ignore[reportUnnecessaryComparison]  so it is where it is closed
    nowhere = Path(os.devnull).open("w", encoding="utf-8") if no_stderr else None  # noqa: SIM115  closed below
    descriptor = _redirect_descriptor(real, 2 if nowhere is None else nowhere.fileno())
    stand_in: Any = _Stdout(real, nowhere)
    stand_in.descriptor = descriptor
    sys.stdout = stand_in
    try:
        yield
    finally:
        stand_in.is_redirected = False
        if sys.stdout is stand_in:
            sys.stdout = real
        if descriptor is not None:
            with suppress(OSError):
                real.flush()  # what was written past the stand-in, to `sys.__stdout__`, is no output of ours either
            os.dup2(descriptor, 1)
            os.close(descriptor)
        if nowhere is not None:
            nowhere.close()


def write_through(text: str) -> None:
    """Writes our own output at once, while standard output is redirected."""
    stream: Any = sys.stdout
    if isinstance(stream, _Stdout):
        stream.write_through(text)
    else:
        stream.write(text)
        stream.flush()


def _redirect_descriptor(real: Any, target: int) -> int | None:
    """Turns descriptor 1 to where another goes; gives what it was, or `None` where it isn't standard output's."""
    try:
        if real.fileno() != 1:
            return None
        descriptor = os.dup(1)
    except (OSError, ValueError, AttributeError):  # no file, a closed one
        return None
    os.dup2(target, 1)
    return descriptor
