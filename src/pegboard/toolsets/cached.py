"""`CachedToolset`: the tools of a toolset, asked for once in a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import define, frozen

from pegboard.tools.context import ReadonlyContext
from pegboard.toolsets.offer import Offer
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.wrapper import WrapperToolset

if TYPE_CHECKING:
    import asyncio

MOST_KEPT: Final = 256

Key: TypeAlias = Callable[[ReadonlyContext], Hashable]
"""What tells two contexts apart for which the tools may differ."""


def whole_identity(context: ReadonlyContext) -> Hashable:
    """User, agent, model, provider and session; not the state, which changes all the time."""
    return (context.user, context.agent, context.model, context.provider, context.session)


@frozen
class _Kept:
    offer: Offer
    until: float


@define(eq=False)
class _Fetch:
    """One asking that is under way, and how many wait for it."""

    task: asyncio.Task[Offer | SystemExit]
    waiting: int = 0


class CachedToolset(WrapperToolset):
    """The tools of a toolset, asked for at most once in `ttl` seconds for each key.

    Resolutions that come while it is being asked share that asking; when none of them waits any more, it is
    cancelled. What failed, wholly or in part, isn't kept. At most 256 keys are kept, the latest.

    Args:
        inner: Any toolset.
        ttl: Seconds, counted from the answer.
        clock: Gives seconds.
        key: By default user, agent, model, provider and session. A toolset that looks at the state or at `extra`
            needs a key that does so too; one that is the same for everybody may say `lambda context: None`.

    Raises:
        ValueError: `ttl` isn't above zero.
    """

    def __init__(
        self, inner: Toolset, ttl: float, clock: Callable[[], float] = time.monotonic, key: Key = whole_identity
    ) -> None:
        if not ttl > 0:
            raise ValueError(f"ttl has to be more than 0 seconds, not {ttl!r}")
        super().__init__(inner)
        self._ttl = ttl
        self._clock = clock
        self._key = key
        self._kept: dict[Hashable, _Kept] = {}
        self._fetches: dict[Hashable, _Fetch] = {}

    def clear(self) -> None:
        """Forgets everything; an asking that is under way is answered, but not kept."""
        self._kept = {}
        self._fetches = {}

    async def tools(self, context: ReadonlyContext) -> Offer:
        """What was kept, or what the inner toolset offers."""
        key = self._key(context)
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept.until:
            return kept.offer
        return await self._shared(key, context)

    async def _shared(self, key: Hashable, context: ReadonlyContext) -> Offer:
        """Waits for the asking that is under way in this event loop, or begins one."""
        import asyncio

        place = (asyncio.get_running_loop(), key)
        fetches = self._fetches
        fetch = fetches.get(place)
        if fetch is None:
            fetch = fetches[place] = _Fetch(asyncio.ensure_future(self._fetched(key, context, self._kept)))
            fetch.task.add_done_callback(lambda _: _end(fetches, place, fetch))
        fetch.waiting += 1
        try:
            answer = await asyncio.shield(fetch.task)
        finally:
            fetch.waiting -= 1
            if not fetch.waiting and not fetch.task.done():
                fetch.task.cancel()
                _end(fetches, place, fetch)
        if isinstance(answer, SystemExit):
            raise answer
        return answer

    async def _fetched(self, key: Hashable, context: ReadonlyContext, kept: dict[Hashable, Any]) -> Offer | SystemExit:
        """Asks, and keeps the answer where it was asked for: what `clear` has put aside gets nothing any more."""
        try:
            offer = await self._inner.offer(context)
        except SystemExit as error:
            return error  # a task that raises it ends the event loop
        if not offer.has_failed:
            kept.pop(key, None)
            kept[key] = _Kept(offer, self._clock() + self._ttl)
            for oldest in list(kept)[:-MOST_KEPT]:
                kept.pop(oldest, None)
        return offer


def _end(fetches: dict[Hashable, _Fetch], place: Hashable, fetch: _Fetch) -> None:
    """Nobody joins this asking any more; what it may still raise has been seen."""
    if fetches.get(place) is fetch:
        del fetches[place]
    if fetch.task.done() and not fetch.task.cancelled():
        fetch.task.exception()
