"""What only the operator should see: the logger `pegboard.guard`, and what must not go unseen."""

from __future__ import annotations

import logging
from typing import Final

log: Final = logging.getLogger("pegboard.guard")
log.addHandler(logging.NullHandler())  # silent where the program has set up no logging


def warn(text: str) -> None:
    """Tells the operator that something doesn't work as it was asked for.

    Where the program has set up no logging it goes to standard error, as Python's own logging does it: a journal that
    silently isn't written would be worse than none.
    """
    log.warning("%s", text)
    if not _is_heard() and logging.lastResort is not None:
        logging.lastResort.handle(
            log.makeRecord(log.name, logging.WARNING, __file__, 0, f"{log.name}: {text}", (), None)
        )


def _is_heard() -> bool:
    """Whether any handler but a silent one gets what this logger is told."""
    logger: logging.Logger | None = log
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def unknown_turn(rule: str) -> None:
    """Tells that a rule can't be held against calls that don't say which turn they are of."""
    warn(
        f"{rule} counts by turns, and a call came that names none (invocation or message in its context): "
        "it was let through, and so are all such"
    )
