"""`Toolset`: a named source that is asked for its tools at every resolution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeGuard, runtime_checkable

from pegboard.chains import settle
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool


@runtime_checkable
class Toolset(Protocol):
    """A named source of tools.

    Any class with these two will do. These are used, too, where they are there:

    - `call(name, arguments, context)`, plain or async, runs the tools that it lists without a handler: `name` is the
      name that it has listed, `arguments` a mapping that the tool's schema takes, `context` the call's `ToolContext`.
    - `close()`, plain or async, lets go of what it holds.
    - `instructions` is what the model is told before the conversation, as long as a tool of it is in the request: a
      text, several, or a function `(context)`, plain or async, that gives them.

    Give the same `Tool` object for the same tool each time: what is compiled for a tool is kept with the object.
    """

    @property
    def name(self) -> str:
        """What people know it by: `toolset:NAME` in predicates."""
        ...

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        """The tools for this context, now. What it raises costs only its own tools.

        Args:
            context: For whom, and for which model.
        """
        ...


def is_toolset(thing: object) -> TypeGuard[Toolset]:
    """Whether it has a name and `tools(context)`; classes aren't toolsets, their instances are."""
    return (
        not isinstance(thing, type)
        and callable(getattr(thing, "tools", None))
        and isinstance(getattr(thing, "name", None), str)
    )


def name_of(toolset: Toolset) -> str:
    """Its name; where that can't be had, the name of its class."""
    try:
        name: object = toolset.name
    except Exception:  # noqa: BLE001  a toolset without a name costs nobody else
        name = None
    return name if isinstance(name, str) and name else type(toolset).__name__


def speaking(toolset: Toolset) -> Iterator[Toolset]:
    """Those that have `instructions`: it, or else the toolsets that it stands round (`inner_toolsets`)."""
    try:
        speaks = getattr(toolset, "instructions", None) is not None
    except Exception:  # noqa: BLE001  whoever asks it finds out
        speaks = True
    if speaks:
        yield toolset
        return
    inner: Iterable[Toolset] = getattr(toolset, "inner_toolsets", ())
    for each in inner:
        yield from speaking(each)


async def close(toolset: Toolset) -> None:
    """Calls the toolset's `close`, where it has one; raises what that raises."""
    method = getattr(toolset, "close", None)
    if callable(method):
        await settle(method())


async def close_all(toolsets: Iterable[Toolset]) -> tuple[Exception, ...]:
    """Closes them one after the other; one that fails keeps no other from being closed.

    Returns:
        What those that failed raised.
    """
    failures: list[Exception] = []
    for toolset in toolsets:
        try:
            await close(toolset)
        except Exception as error:  # noqa: BLE001  handed back
            failures.append(error)
    return tuple(failures)


__all__ = ["Toolset", "close", "close_all", "is_toolset", "name_of", "speaking"]
