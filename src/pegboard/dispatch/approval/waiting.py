"""`Waiting`: one request that waits for its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable

from attrs import define, field

from pegboard.dispatch.approval.answer import Answer
from pegboard.dispatch.approval.request import ApprovalRequest
from pegboard.dispatch.work import CallError


def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@define(eq=False)
class Waiting:
    """One request that waits, in its own event loop.

    Attributes:
        request: With its preview once that is made.
        session: As `session_key` gives it.
        covered: Whether the rules allow it by now.
        queue: What it stands in line for, or `None`.
        loop: Where it waits.
        settled: Done once the outcome is carried out.
        gone: Done once nobody waits any more.
        since: From when on its time to answer counts, by `time.monotonic()`.
        outcome: The answer, or why there is none; the first counts.
    """

    request: ApprovalRequest
    session: str | None
    covered: Callable[[], bool]
    queue: Hashable
    loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)
    settled: asyncio.Future[None] = field(factory=_future, init=False)
    gone: asyncio.Future[None] = field(factory=_future, init=False)
    since: float = field(factory=time.monotonic, init=False)
    outcome: Answer | CallError | None = field(default=None, init=False)

    def wake(self) -> None:
        """Says in its loop that it is settled; from any thread."""
        try:
            self.loop.call_soon_threadsafe(self.settled.set_result, None)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more
