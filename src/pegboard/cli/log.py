"""Rate-limited log handler of commands that serve for long: one line a warning on standard error."""

from __future__ import annotations

import logging
import sys
import time
from typing import Final

from pegboard.errors import cause_of
from pegboard.text import visible

MOST_LINES: Final = 100
"""Warnings of one place in the code in a minute; the number of omitted ones is in the next line."""

MOST_CHARACTERS: Final = 500
_MINUTE: Final = 60.0


class BoundedHandler(logging.Handler):
    """Handler that writes warnings to standard error, each on one line with invisible characters escaped.

    Each place in the code that logs has its own limit, so that flooding one doesn't silence the others.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._minutes: dict[tuple[str, int], tuple[float, int]] = {}  # by place: when it began, and its warnings

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a warning, unless there were too many."""
        place, now, left_out = (record.pathname, record.lineno), time.monotonic(), 0
        began, lines = self._minutes.get(place, (now, 0))
        if now - began > _MINUTE:
            began, lines, left_out = now, 0, max(lines - MOST_LINES, 0)
        lines += 1
        self._minutes[place] = began, lines
        if lines > MOST_LINES:
            return
        try:
            text = record.getMessage()
            if record.exc_info and record.exc_info[1] is not None:  # `exc_info=False` stays as it is
                text += f": {cause_of(record.exc_info[1])}"
            text = visible(" ".join(text.split()))[:MOST_CHARACTERS]
            more = f" ({left_out:,} more warnings were left out)" if left_out else ""
            more += " (further ones in this minute are left out)" if lines == MOST_LINES else ""
            sys.stderr.write(f"{record.name}: {text}{more}\n")
        except Exception:  # noqa: BLE001  logging must not fail the caller
            self.handleError(record)


def log_to_stderr() -> None:
    """Installs the handler for all libraries, once per process."""
    root = logging.getLogger()
    if not any(isinstance(handler, BoundedHandler) for handler in root.handlers):
        root.addHandler(BoundedHandler())
