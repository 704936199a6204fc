"""`Events`: a stream of the SDK's, read in threads."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from threading import Lock
from typing import Any

from attrs import define, field

from pegboard.threads import WorkerPool
from pegboard.typing import JsonObject
from pegboard_bedrock.bedrock import exception_in
from pegboard_bedrock.errors import body_of, model_error


@define(eq=False)
class Events:
    """A stream on its way.

    Attributes:
        threads: Where it is read.
        send: Sends the request; blocks until the provider begins to answer.
        provider: For errors.
    """

    threads: WorkerPool
    send: Callable[[], Any]
    provider: str
    _stream: Any = field(default=None, init=False)
    _events: Iterator[JsonObject] = field(factory=lambda: iter(()), init=False)
    _left: bool = field(default=False, init=False)
    _reading: Lock = field(factory=Lock, init=False)

    async def data(self) -> AsyncGenerator[JsonObject]:
        """The events; an exception that the provider says among them is one as well, before it is raised.

        Raises:
            ModelError: The provider can't be asked, or answered with an error; or the stream broke off.
        """
        try:
            await self.threads.run(self._open)
            while (event := await self.threads.run(self._next)) is not None:
                yield event
        except Exception as error:  # the SDK and its transport raise all kinds
            made = model_error(error, self.provider)
            said = {made.code or "": body_of(error).get("Error")}
            if exception_in(said) is not None:
                yield said
            raise made from error
        finally:
            await self._hang_up()

    def _open(self) -> None:
        stream = self.send()["stream"]
        self._stream, self._events = stream, iter(stream)
        if self._left:  # while it was on its way
            self._close()

    def _next(self) -> JsonObject | None:
        with self._reading:
            return next(self._events, None)

    async def _hang_up(self) -> None:
        """Closes the connection, also while a thread waits for the provider at its end."""
        self._left = True  # first this, then the look: whoever opens it does the opposite
        if self._stream is None:
            return
        with suppress(Exception):  # it may have ended, and then it can't be shut down
            self._stream._raw_stream.shutdown()  # noqa: SLF001  `close` alone would wait for the thread that reads
        await self.threads.run(self._close)

    def _close(self) -> None:
        with self._reading:
            self._stream.close()


__all__ = ["Events"]
