"""`OpenService`: a service that is open, and how a factory opens it."""

from __future__ import annotations

import asyncio
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any, cast

from attrs import frozen

from pegboard.errors import MissingServiceError
from pegboard.tools.provided import Provided

if TYPE_CHECKING:
    from pegboard.tools.context import ToolContext


@frozen(eq=False)
class OpenService:
    """A service that is open.

    Attributes:
        provided: What it was made by.
        value: The service.
        manager: The context manager to leave, or `None`.
        loop: Where it was opened, if that took an event loop.
        is_async: Whether leaving the context manager takes one too.
    """

    provided: Provided
    value: Any
    manager: Any = None
    loop: asyncio.AbstractEventLoop | None = None
    is_async: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether the event loop that it lived in is closed."""
        return self.loop is not None and self.loop.is_closed()


def begun(provided: Provided, context: ToolContext, *, may_wait: bool) -> tuple[Any, Any]:
    """What a factory gives, entered where that takes no event loop; and the context manager to leave, or `None`.

    Raises:
        MissingServiceError: It would have to wait, and may not.
    """
    assert provided.make is not None
    made = provided.make(context)
    waits = isawaitable(cast("object", made)) or (provided.enter and has_method(made, "__aenter__"))
    if provided.enter and has_method(made, "__enter__") and not (waits and may_wait):
        return made.__enter__(), made
    if waits and not may_wait:
        if iscoroutine(made):
            made.close()
        raise has_to_wait(provided)
    return made, None


def has_method(thing: object, method: str) -> bool:
    """Whether its class has such a method, which is where `with` looks for it."""
    return hasattr(type(thing), method)


def left_now(opened: OpenService) -> None:
    """Closes what was opened without an event loop."""
    if opened.manager is not None:
        opened.manager.__exit__(None, None, None)


def refuse_lost(opened: OpenService) -> None:
    """A generator was closed by its loop at the loop's end; anything else can't be closed any more.

    Raises:
        RuntimeError: It couldn't be closed.
    """
    generator = getattr(opened.manager, "gen", None)
    if getattr(generator, "ag_frame", opened) is not None:
        raise RuntimeError("the event loop that it was opened in was closed before it")


def facts_of(error: BaseException | None) -> tuple[Any, Any, Any]:
    """What a context manager is left with."""
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)


def has_to_wait(provided: Provided) -> MissingServiceError:
    """What is raised where a service can't be had without waiting."""
    name = provided.name
    return MissingServiceError(
        f"{name} isn't open yet, and opening it takes an event loop: write 'await context.use({name})', or in a plain "
        f"function 'context.wait(context.use({name}))'",
        kind=provided.kind,
    )
