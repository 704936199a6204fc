"""`Status`: one line on a terminal's standard error that tells how far long work is, gone when it is done."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Self

from attrs import define, field

from pegboard.cli.screen import Screen, stderr_screen
from pegboard.cli.table import cells, fitted
from pegboard.tools.visible import visible

_BAR = 20
_quiet: list[None] = []


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

    def tell(self, heard: Any) -> None:
        """Shows a call's `Progress`; partial results are passed over."""
        progress, total = getattr(heard, "progress", None), getattr(heard, "total", None)
        if progress is not None:
            self.show(heard.message or "", progress / total if total else None)

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
