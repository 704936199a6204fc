"""`Session`: the connection that a process's locks live and die with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from attrs import define, field

from pegboard_postgres.database import cut_after

if TYPE_CHECKING:
    from pegboard_postgres.database import Connection, Database

BEAT_SECONDS: Final = 2.0
"""How often the server is asked whether it still answers, and, while calls wait, for processes that have died."""

ANSWER_SECONDS: Final = 5.0
"""How long it may take for that."""

# The server ends the connection of a process that it can't reach after 25 s (see `Database.connect`), long after that
# process has noticed by its own questions.
_OPEN: Final = "SELECT open_session()"


@define(eq=False)
class Session:
    """A process's connection for locks; an advisory lock that it holds tells the others that it is alive.

    Attributes:
        database: The database.
        id: Its number, by which its locks are known.
        ended: Set once the connection is lost or closed.
    """

    database: Database
    id: int = field(default=0, init=False)
    ended: asyncio.Event = field(factory=asyncio.Event, init=False)
    _connection: Connection = field(init=False)
    _woken: dict[str, asyncio.Event] = field(factory=dict[str, asyncio.Event], init=False)
    _on_loss: set[Callable[[str], None]] = field(factory=set[Callable[[str], None]], init=False)
    _task: asyncio.Task[None] | None = field(default=None, init=False)

    async def open(self) -> None:
        """Connects; raises as `Database.connect` does."""
        self._connection = connection = await self.database.connect()
        try:
            with cut_after(connection, self.database.seconds):
                row = await (await connection.execute(_OPEN)).fetchone()
                assert row is not None
                self.id = row[0]
                await connection.execute(f"LISTEN {channel_of(self.database.schema, self.id)}".encode())
        except BaseException:
            await connection.close()
            raise
        self._task = asyncio.create_task(self._watch())
        self.database.on_close.add(self.close)

    def on_loss(self, report: Callable[[str], None]) -> Callable[[], None]:
        """Has `report` called with the reason once the connection is lost; returns what withdraws that."""
        self._on_loss.add(report)
        return lambda: self._on_loss.discard(report)

    def event_of(self, hold: str) -> asyncio.Event:
        """The event that is set when another process wakes this one up for a hold, or the session ends."""
        return self._woken.setdefault(hold, asyncio.Event())

    def forget(self, hold: str) -> None:
        """Drops the event of a hold."""
        self._woken.pop(hold, None)

    async def close(self) -> None:
        """Ends the connection, and with it all its locks."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        reason = "the connection was closed"
        try:
            while True:
                async for notice in self._connection.notifies(timeout=BEAT_SECONDS):
                    if (event := self._woken.get(notice.payload)) is not None:
                        event.set()
                with cut_after(self._connection, ANSWER_SECONDS):
                    await self._connection.execute("SELECT sweep(%s)", [self.id])
        except Exception:  # noqa: BLE001  whatever it is, the locks aren't sure any more
            reason = "the connection to the shared database was lost"
        finally:
            await self._end(reason)

    async def _end(self, reason: str) -> None:
        self.ended.set()
        self.database.on_close.discard(self.close)
        await self._connection.close()
        for event in self._woken.values():
            event.set()
        reports, self._on_loss = self._on_loss, set()
        for report in reports:
            report(reason)


def channel_of(schema: str, session: int) -> str:
    """The channel on which a session is woken up, as an SQL name."""
    return f'"pegboard {schema} {session}"'
