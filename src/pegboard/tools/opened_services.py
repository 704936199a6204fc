"""`OpenedServices`: what factories have made, opened once and closed in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import define, field

from pegboard.errors import MissingServiceError
from pegboard.threads import in_event_loop
from pegboard.tools.open_service import (
    OpenService,
    begun,
    facts_of,
    has_method,
    has_to_wait,
    left_now,
    refuse_lost,
)
from pegboard.tools.provided import Provided

if TYPE_CHECKING:
    from pegboard.tools.context import ToolContext

OffLoop: TypeAlias = Callable[..., Awaitable[Any]]
"""Calls a function with its arguments off the event loop."""

Observer: TypeAlias = Callable[[str, BaseException], None]
"""Told who failed, and how."""

CLOSE_SECONDS: Final = 10.0
"""How long one service may take to close."""

_opening: Final[contextvars.ContextVar[tuple[Provided, ...]]] = contextvars.ContextVar("opening", default=())
"""The services whose factories run here, the innermost last."""


class _GivenUpError(Exception):
    """Whoever was opening a service was cancelled; another may try."""


@define(eq=False)
class OpenedServices:
    """What factories have made: for one call, or for a registry.

    Attributes:
        off_loop: Where plain factories that may block run; `None`: where they are asked for.
        observe: Told of what fails while it is closed.
        for_call: Whether it ends with its call, after which nothing is opened any more.
    """

    observe: Observer
    off_loop: OffLoop | None = None
    for_call: bool = False
    _found: dict[Provided, Future[OpenService]] = field(factory=dict[Provided, "Future[OpenService]"], init=False)
    _order: list[OpenService] = field(factory=list[OpenService], init=False)
    _is_closed: bool = field(default=False, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    async def use(self, provided: Provided, context: ToolContext) -> Any:
        """The service, opened by the first who asks; the others wait for it.

        Raises:
            MissingServiceError: Its factory asks for itself, or the call is over.
            BaseException: Whatever the factory raised; the next who asks tries again.
        """
        while True:
            future, is_mine = self._claim(provided)
            if is_mine:
                return (await self._open(provided, context, future)).value
            try:
                opened = future.result() if future.done() else await asyncio.wrap_future(future)
            except _GivenUpError:
                continue
            if not opened.is_lost:
                return opened.value
            self._forget(provided, future)

    def use_now(self, provided: Provided, context: ToolContext) -> Any:
        """The same without waiting for the event loop.

        Raises:
            MissingServiceError: It would have to wait: `await context.use(...)`.
        """
        while True:
            future, is_mine = self._claim(provided)
            if is_mine:
                return self._open_now(provided, context, future).value
            if not future.done() and in_event_loop():
                raise has_to_wait(provided)
            try:
                opened = future.result(context.remaining)
            except _GivenUpError:
                continue
            if not opened.is_lost:
                return opened.value
            self._forget(provided, future)

    async def close(self, error: BaseException | None = None) -> None:
        """Closes what is open, the last first; what fails is told to the observer and costs nothing else.

        Args:
            error: What ended the call, for context managers that undo their work then; or `None`.

        Raises:
            asyncio.CancelledError: Whoever waits was cancelled meanwhile; all the same the others were closed.
        """
        with self._lock:
            order, self._order = self._order, []
            self._found = {}
            self._is_closed = self.for_call
        cancelled: BaseException | None = None
        for opened in reversed(order):
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._leave(opened, error)
            except BaseException as failed:  # noqa: BLE001  whatever a service raises on its way out
                cancelled = failed if _is_cancelled(failed) else cancelled
                if failed is not error:
                    self.observe(f"closing {opened.provided.name}", failed)
        if cancelled is not None:
            raise cancelled

    # How it does it ----------------------------------------------------------------------------------------------

    def _claim(self, provided: Provided) -> tuple[Future[OpenService], bool]:
        """What will hold the service, and whether it is the caller who has to open it."""
        with self._lock:
            future = self._found.get(provided)
            if future is None:
                self._refuse_when_closed(provided)
                future = self._found[provided] = Future()
                future.set_running_or_notify_cancel()  # so that nobody who waits can cancel it for the others
                return future, True
        if not future.done() and provided in _opening.get():
            chain = " -> ".join(each.name for each in (*_opening.get(), provided))
            raise MissingServiceError(f"a factory asks for what it makes: {chain}", kind=provided.kind)
        return future, False

    def _forget(self, provided: Provided, future: Future[OpenService]) -> None:
        with self._lock:
            if self._found.get(provided) is future:
                del self._found[provided]
                self._order = [each for each in self._order if each.provided is not provided]

    def _refuse_when_closed(self, provided: Provided) -> None:
        if self._is_closed:
            raise MissingServiceError(f"{provided.name} isn't opened any more: the call is over", kind=provided.kind)

    async def _open(self, provided: Provided, context: ToolContext, future: Future[OpenService]) -> OpenService:
        with self._attempt(provided, future):
            opened = await self._made(provided, context)
            if not self._keep(opened, future):
                await self._leave(opened, None)
                self._refuse_when_closed(provided)
        return opened

    def _open_now(self, provided: Provided, context: ToolContext, future: Future[OpenService]) -> OpenService:
        with self._attempt(provided, future):
            value, manager = begun(provided, context, may_wait=False)
            opened = OpenService(provided, value, manager)
            if not self._keep(opened, future):
                left_now(opened)
                self._refuse_when_closed(provided)
        return opened

    @contextlib.contextmanager
    def _attempt(self, provided: Provided, future: Future[OpenService]) -> Generator[None]:
        """Where a factory runs; who waits for it learns that it failed."""
        token = _opening.set((*_opening.get(), provided))
        try:
            yield
        except BaseException as error:
            self._forget(provided, future)
            gave_up = isinstance(error, asyncio.CancelledError | GeneratorExit)
            future.set_exception(_GivenUpError() if gave_up else error)
            raise
        finally:
            _opening.reset(token)

    def _keep(self, opened: OpenService, future: Future[OpenService]) -> bool:
        """Notes what has to be closed; false where it is too late for it."""
        with self._lock:
            if self._found.get(opened.provided) is not future:
                return False
            if opened.manager is not None:
                self._order.append(opened)
        future.set_result(opened)
        return True

    async def _made(self, provided: Provided, context: ToolContext) -> OpenService:
        begin = partial(begun, provided, context, may_wait=True)
        value, manager = await self._plainly(provided, begin)
        if manager is not None:
            return OpenService(provided, value, manager)
        loop = None
        if isawaitable(value):
            loop = asyncio.get_running_loop()
            value = await value
        return await self._entered(provided, value, loop)

    async def _entered(self, provided: Provided, value: Any, loop: asyncio.AbstractEventLoop | None) -> OpenService:
        if provided.enter and has_method(value, "__aenter__"):
            return OpenService(provided, await value.__aenter__(), value, asyncio.get_running_loop(), is_async=True)
        if provided.enter and has_method(value, "__enter__"):
            return OpenService(provided, await self._plainly(provided, value.__enter__), value, loop)
        return OpenService(provided, value, None, loop)

    async def _leave(self, opened: OpenService, error: BaseException | None) -> None:
        if opened.is_lost:
            refuse_lost(opened)
        elif opened.is_async:
            await opened.manager.__aexit__(*facts_of(error))
        elif opened.manager is not None:
            await self._plainly(opened.provided, opened.manager.__exit__, *facts_of(error))

    async def _plainly(self, provided: Provided, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls what may block, off the loop where there is such a place."""
        if self.off_loop is None or not provided.blocking:
            return function(*arguments)
        return await self.off_loop(function, *arguments)


def _is_cancelled(error: BaseException) -> bool:
    """Whether it comes of the cancellation of this task, and isn't the service's own."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


__all__ = ["Observer", "OffLoop", "OpenedServices"]
