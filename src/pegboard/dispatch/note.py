"""`note`: what the board changed of a call before it ran is told, to who listens and with the result."""

from __future__ import annotations

from collections.abc import Sequence

from pegboard.dispatch.telling import tell_note
from pegboard.dispatch.work import Work


def note(work: Work, what: str, changes: Sequence[str]) -> None:
    """Tells it as an event, `"coerced: a: string "1" -> number 1"`, and in the result's metadata, as a list.

    Args:
        work: The call.
        what: What was done: `"coerced"` or `"repaired"`; also the key in the metadata.
        changes: Each as one line.
    """
    tell_note(work, f"{what}: {'; '.join(changes)}")
    work.context.actions.tell(None, {what: list(changes)})
