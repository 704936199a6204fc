"""`Sleeper`: a plugin that is listed but not imported yet."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen


@frozen
class Sleeper:
    """A plugin that is listed but not imported yet.

    Attributes:
        hooks: What it brings besides static tools: names of hooks, without `pegboard_`.
        wake: Imports it and hangs what it brings on the board; may take long, never raises.
        offers: The exporters, models and executors that it brings, as (kind, name).
    """

    hooks: frozenset[str]
    wake: Callable[[], None]
    offers: frozenset[tuple[str, str]] = frozenset()
