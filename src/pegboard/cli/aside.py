"""`aside`: while plugins' and tools' code runs, what it prints goes to standard error; standard output is ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


class _Stdout:
    """Stands in for `sys.stdout`: standard error while code runs aside, else what it stands for.

    What a module keeps of it at import (`logging.StreamHandler(sys.stdout)`) stays right afterwards.

    Attributes:
        kept: The descriptor that standard output has meanwhile, or `None` where it isn't descriptor 1.
    """

    def __init__(self, real: Any, nowhere: IO[str] | None) -> None:
        self._real = real
        self._nowhere = nowhere
        self.is_aside = True
        self.kept: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr((self._nowhere or sys.stderr) if self.is_aside else self._real, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._real)

    def write_past(self, text: str) -> None:
        """Writes to what it stands in for, at once."""
        if self.kept is None:
            self._real.write(text)
            self._real.flush()
            return
        data = text.encode(self._real.encoding, errors=self._real.errors)
        while data:
            data = data[os.write(self.kept, data) :]


@contextmanager
def aside() -> Generator[None]:
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
    kept = _turned(real, 2 if nowhere is None else nowhere.fileno())
    stand_in: Any = _Stdout(real, nowhere)
    stand_in.kept = kept
    sys.stdout = stand_in
    try:
        yield
    finally:
        stand_in.is_aside = False
        if sys.stdout is stand_in:
            sys.stdout = real
        if kept is not None:
            with suppress(OSError):
                real.flush()  # what was written past the stand-in, to `sys.__stdout__`, is no output of ours either
            os.dup2(kept, 1)
            os.close(kept)
        if nowhere is not None:
            nowhere.close()


def write_past(text: str) -> None:
    """Writes our own output while others' code runs aside, at once."""
    stream: Any = sys.stdout
    if isinstance(stream, _Stdout):
        stream.write_past(text)
    else:
        stream.write(text)
        stream.flush()


def _turned(real: Any, target: int) -> int | None:
    """Turns descriptor 1 to where another goes; gives what it was, or `None` where it isn't standard output's."""
    try:
        if real.fileno() != 1:
            return None
        kept = os.dup(1)
    except (OSError, ValueError, AttributeError):  # no file, a closed one
        return None
    os.dup2(target, 1)
    return kept
