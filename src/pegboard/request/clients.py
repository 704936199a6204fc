"""`Clients`: the client of each event loop, given by the host or made."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from attrs import define, field

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

C = TypeVar("C")
Given = TypeVar("Given")


@define(eq=False)
class Clients(Generic[C]):
    """One client of a provider's for each event loop: open connections belong to theirs, and fail in any other.

    Attributes:
        first: For the first loop, and for whoever asks without one.
        again: Makes one for a further loop; `None`: the first was given, serves all, and is its owner's to close.
        close: Closes one.
    """

    first: C
    again: Callable[[], C] | None
    close: Callable[[C], Awaitable[None]]
    _of_loop: WeakKeyDictionary[AbstractEventLoop, C] = field(
        factory=WeakKeyDictionary["AbstractEventLoop", "C"], init=False
    )
    _is_taken: bool = field(default=False, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @staticmethod
    def of(given: Given | None, make: Callable[[], Given], close: Callable[[Given], Awaitable[None]]) -> Clients[Given]:
        """The client that was given, for all loops; or those that are made, the first one now.

        Args:
            given: A client, or `None`.
            make: Makes one.
            close: Closes one that was made.
        """
        return Clients(make(), make, close) if given is None else Clients(given, None, close)

    def now(self) -> C:
        """The client of the running loop. Loops may run in several threads."""
        from asyncio import get_running_loop

        if self.again is None:
            return self.first
        loop = get_running_loop()
        with self._lock:
            found = self._of_loop.get(loop)
            if found is None:
                found = self.again() if self._is_taken else self.first
                self._of_loop[loop], self._is_taken = found, True
            return found

    async def aclose(self) -> None:
        """Closes the client of the running loop, unless it was given; those of other loops are theirs to close.

        Whoever asks again gets another one.
        """
        from asyncio import get_running_loop

        if self.again is None:
            return
        with self._lock:
            client = self._of_loop.pop(get_running_loop(), None if self._is_taken else self.first)
            self._is_taken = True
        if client is not None:
            await self.close(client)


def check_alone(client: object, beside: Mapping[str, Any]) -> None:
    """Checks that nothing is said beside a client that is given, which has all that it needs.

    Args:
        client: The client, or `None`.
        beside: What makes one, by name; `None` where it isn't said.

    Raises:
        TypeError: Something is said that the client would not use.
    """
    said = [name for name, value in beside.items() if value is not None]
    if client is not None and said:
        raise TypeError(f"client=... is used as it is; leave out {', '.join(said)}")


__all__ = ["Clients", "check_alone"]
