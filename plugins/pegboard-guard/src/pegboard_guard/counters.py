"""`Counters`: what the guards count, for a host of several processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pegboard import ToolContext
from pegboard.errors import PluginError


class Counters(Protocol):
    """Store of the guards' counts, from `registry.provide` or a plugin; without one, each process counts for itself.

    Call limits, order rules and the doom loop use it. What isn't used for a month may be dropped.
    """

    async def update(self, keys: Sequence[str], change: Callable[[float, dict[str, Any]], Mapping[str, Any]]) -> None:
        """Changes the values of some keys, atomically over all processes. Called in several event loops.

        Args:
            keys: At most 300 characters each.
            change: Gets the time in seconds, by one clock for all processes, and the JSON values that there are, by
                key. Returns new JSON values by key: `None` removes one; keys that it leaves out stay. It is quick and
                has no effects, so it may be called again, and in any thread.

        Raises:
            BaseException: They can't be changed; a call that is about to start isn't run. After a call, and at the end
                of a turn, that is only logged, as is a change that takes over 15 % of `Limits.callback_timeout`.
        """
        ...


def is_provided(context: ToolContext, kind: Any) -> bool:
    """Whether there is a service; not from a plugin that can't be loaded, which denies calls itself if it has to."""
    try:
        return context.provides(kind)
    except PluginError:
        return False
