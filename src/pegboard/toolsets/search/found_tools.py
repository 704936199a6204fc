"""Which tools a session has found: a list of names in its state."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pegboard.tools.context import NOBODY, ReadonlyContext, ToolContext

FOUND_TOOLS: Final = "pegboard:found_tools"
"""Where the names are in a session's state."""

SEARCHES: Final = "pegboard/searches"
"""Stands in the meta of a search tool's spec: where the provider searches by itself, it isn't offered."""

MOST_FOUND: Final = 128
"""How many names are remembered, those that were found last."""


def found_names(state: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the tools that a session has found, the latest last, at most 128.

    A state that says something else than a list of texts under `pegboard:found_tools` is passed over as far as it
    does: a session's state may come from anywhere.
    """
    kept = state.get(FOUND_TOOLS)
    if not isinstance(kept, list | tuple):
        return ()
    latest: list[Any] = list(kept[-MOST_FOUND:])  # pyright: ignore[reportUnknownArgumentType]
    return tuple(dict.fromkeys(name for name in latest if isinstance(name, str)))


def remember(context: ToolContext, names: Iterable[str]) -> None:
    """Adds names to what the session of a call has found, with what earlier calls of the same answer have found.

    The host takes the changes of the last of several calls of one answer, which don't see each other's: so each of
    them says what those before it have found, too.
    """
    added = list(names)
    if not added:
        return
    earlier = _EARLIER.of(context.request)
    known = (*found_names(context.state), *earlier, *added)
    earlier += added
    del earlier[:-MOST_FOUND]
    latest = list(dict.fromkeys(reversed(known)))[:MOST_FOUND]
    context.state[FOUND_TOOLS] = latest[::-1]


class _Earlier:
    """What calls have found that answer one request: a request is one context object, for as long as that lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[int, tuple[weakref.ref[ReadonlyContext], list[str]]] = {}

    def of(self, request: ReadonlyContext) -> list[str]:
        """The names that were found for this request, to be added to; nothing is kept for nobody."""
        if request is NOBODY:
            return []
        key = id(request)
        with self._lock:
            known = self._names.get(key)
            if known is None or known[0]() is not request:
                reference = weakref.ref(request, lambda _: self._names.pop(key, None))
                known = self._names[key] = (reference, [])
            names = known[1]
            if set(names).issubset(found_names(request.state)):
                names.clear()  # the host has taken them over: from now on the state decides
        return names


_EARLIER: Final = _Earlier()

__all__ = ["FOUND_TOOLS", "MOST_FOUND", "found_names", "remember"]
