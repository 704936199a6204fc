"""`interruptible`: what the first Ctrl-C does to work in the event loop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def interruptible(end: Callable[[], None]) -> Generator[None]:
    """Lets the first Ctrl-C end the work in its own way; the next one is what it always was.

    Args:
        end: Ends the work; called in the event loop.
    """
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)

    def interrupt() -> None:
        end()
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)

    try:
        loop.add_signal_handler(signal.SIGINT, interrupt)
    except (NotImplementedError, ValueError, RuntimeError):  # Windows; another thread than the main one
        yield
        return
    try:
        yield
    finally:
        if loop.remove_signal_handler(signal.SIGINT):
            signal.signal(signal.SIGINT, before)


__all__ = ["interruptible"]
