"""What a call tells of its life while it is on its way: the events, where somebody listens."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pegboard.dispatch.callback import shown
from pegboard.dispatch.events import CallEvent, CallPending, CallRunning, CallUpdated, ended
from pegboard.dispatch.work import Work
from pegboard.tools.context import Progress, Told


def tell(work: Work, kind: type[CallEvent], **facts: Any) -> None:
    """Tells one event; nothing where nobody listens."""
    sink = work.around.events
    if sink is not None:
        sink(kind(work.call.id, work.call.name, time.time(), work.index, **facts))


def tell_pending(work: Work) -> None:
    """The call was taken in; from now on, what the tool reports becomes events too."""
    given = work.call.arguments
    tell(work, CallPending, arguments=given.decode(errors="replace") if isinstance(given, bytes) else given)
    work.context.listener = partial(_heard, work, work.context.listener)
    work.taken_in = time.monotonic()


def tell_running(work: Work) -> None:
    """The tool is started."""
    tell(work, CallRunning, arguments=shown(work))  # read-only: whoever listens changes nothing that was approved


def tell_note(work: Work, note: str) -> None:
    """What the board did with the call, such as `"repaired: ..."`."""
    tell(work, CallUpdated, note=note)


def tell_end(work: Work) -> None:
    """The call has its result."""
    result = work.result
    assert result is not None
    facts: dict[str, Any] = {"result": result, "seconds": time.monotonic() - work.taken_in}
    if work.pending is not None and result.kind == "confirmation_required":
        facts["pending"] = work.pending
    tell(work, ended(result), **facts)


def _heard(work: Work, before: Callable[[object], None] | None, said: object) -> None:
    if before is not None:
        before(said)
    tell(work, CallUpdated, **_update(said))


def _update(said: object) -> dict[str, Any]:
    if isinstance(said, Progress):
        return {"progress": said.progress, "total": said.total, "message": said.message}
    if isinstance(said, Told):
        return {"title": said.title, "metadata": said.facts}
    return {"content": said}
