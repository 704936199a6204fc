"""Rate-limited log handler of commands that serve for long: one line a warning on standard error."""

from __future__ import annotations

import logging
import sys
import time
from typing import Final

from attrs import define, field

from pegboard.errors import cause_of
from pegboard.text import visible

MOST_LINES: Final = 100
"""Warnings of one place in the code in a minute; the number of omitted ones is in the next line."""

MOST_CHARACTERS: Final = 500
_MINUTE: Final = 60.0


@define
class _Minute:
    """The count of one place in the code since a moment."""

    began: float = field(factory=time.monotonic)
    lines: int = 0
    left_out: int = 0


class BoundedHandler(logging.Handler):
    """Handler that writes warnings to standard error, each on one line with invisible characters escaped.

    Each place in the code that logs has its own limit, so that flooding one doesn't silence the others.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._minutes: dict[tuple[str, int], _Minute] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a warning, unless there were too many."""
        place = record.pathname, record.lineno
        minute = self._minutes.setdefault(place, _Minute())
        left_out = 0
        if time.monotonic() - minute.began > _MINUTE:
            left_out = minute.left_out
            minute = self._minutes[place] = _Minute()
        minute.lines += 1
        if minute.lines > MOST_LINES:
            minute.left_out += 1
            return
        try:
            text = record.getMessage()
            if record.exc_info and record.exc_info[1] is not None:  # `exc_info=False` stays as it is
                text += f": {cause_of(record.exc_info[1])}"
            text = visible(" ".join(text.split()))[:MOST_CHARACTERS]
            more = f" ({left_out:,} more warnings were left out)" if left_out else ""
            more += " (further ones in this minute are left out)" if minute.lines == MOST_LINES else ""
            sys.stderr.write(f"{record.name}: {text}{more}\n")
        except Exception:  # noqa: BLE001  logging must not fail the caller
            self.handleError(record)


def log_to_stderr() -> None:
    """Installs the handler for all libraries, once per process."""
    root = logging.getLogger()
    if not any(isinstance(handler, BoundedHandler) for handler in root.handlers):
        root.addHandler(BoundedHandler())
