"""Runs what may block outside the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any


async def off_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the function in a daemon thread of its own, in a copy of this context, and gives what it gives.

    A thread can't be ended: where the wait is cancelled, what it does goes on, and its answer is dropped. It never
    keeps the program from ending, as a thread of `asyncio.to_thread` would.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        value, error = _outcome(context, function, arguments)
        try:
            loop.call_soon_threadsafe(_settle, future, value, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=work, name="pegboard-toolset", daemon=True).start()
    return await future


def _outcome(
    context: contextvars.Context, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, BaseException | None]:
    try:
        return context.run(function, *arguments), None
    except (StopIteration, KeyboardInterrupt) as raised:
        # A future refuses the one, which would end the coroutine that waits; the other is never the user's: signals
        # reach the main thread only.
        error = RuntimeError(f"{type(raised).__name__}: {raised}")
        error.__cause__ = raised
        return None, error
    except BaseException as raised:  # noqa: BLE001  whoever waits gets it, whatever it is
        return None, raised


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
