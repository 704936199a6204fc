"""`Health`: what can't be ended any more, and what was lost."""

from __future__ import annotations

from attrs import frozen


@frozen
class Health:
    """What a host may want to know of a board that has run for long. All zero is well.

    Attributes:
        abandoned_threads: Threads that still work for calls that were given up. They never delay exit.
        abandoned_coroutines: Coroutines that ignored that they were cancelled, and were closed by force.
        blocked: How often an async tool has blocked the event loop for more than 100 ms.
        dropped_events: Events that observers were too slow for.
    """

    abandoned_threads: int = 0
    abandoned_coroutines: int = 0
    blocked: int = 0
    dropped_events: int = 0
