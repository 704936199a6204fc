"""`PostgresLocks`: pegboard's `LockBackend`, locks of calls over all processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from attrs import define, field

from pegboard.backends import HeldLocks, LockBackend, LockClaim
from pegboard.threads import renew_after_fork
from pegboard_postgres.database import Database
from pegboard_postgres.faults import DatabaseError
from pegboard_postgres.keys import key_of
from pegboard_postgres.session import Session

if TYPE_CHECKING:
    from pegboard_postgres.database import Connection

RETRY_SECONDS: Final = 1.0
"""After which locks are released again if that failed."""

ASK_SECONDS: Final = 60.0
"""After which a call that waits asks again although nobody has woken it up; as a precaution only."""

_TRY: Final = "SELECT try_locks(%s::integer, %s::uuid, %s::bytea[], %s::integer[], %s::uuid[])"
_RELEASE: Final = "SELECT release_locks(%s)"


@define(eq=False)
class PostgresHold(HeldLocks):
    """Locks of one call.

    Attributes:
        id: Its key in the database.
        token: Fencing token: greater than those of all earlier holders of these names.
    """

    id: UUID
    token: int = field(default=0, init=False)
    locks: PostgresLocks = field(repr=False)
    session: Session | None = field(default=None, init=False, repr=False)
    asked: asyncio.Task[Any] | None = field(default=None, init=False, repr=False)  # the last statement for it
    withdraw: Callable[[], None] | None = field(default=None, init=False, repr=False)  # of what reports its loss
    is_released: bool = field(default=False, init=False)

    def release(self) -> None:
        """Releases them, in the background."""
        if not self.is_released:
            self.is_released = True
            if self.withdraw is not None:
                self.withdraw()
            if self.session is None or not self.session.ended.is_set():
                self.locks.start_release(self)


@define(eq=False)
class PostgresLocks(LockBackend):
    """Locks that several processes share.

    They belong to a connection that the process keeps open: if that is lost, or the process ends, others may have them.

    Attributes:
        database: Where they are.
    """

    database: Database
    _session: Session | None = field(default=None, init=False, repr=False)
    _opening: tuple[Any, asyncio.Lock] | None = field(default=None, init=False, repr=False)  # of a loop

    def __attrs_post_init__(self) -> None:
        renew_after_fork(self)

    def renew(self) -> None:
        """Forgets the parent's session, in a forked child."""
        self._session = self._opening = None

    async def acquire(
        self, claims: Sequence[LockClaim], *, within: Sequence[HeldLocks] = (), lost: Callable[[str], None]
    ) -> PostgresHold:
        """Waits until all claims are granted, first come, first served; nested calls come before others.

        Args:
            claims: Their names may be of any length.
            within: The locks of the enclosing calls.
            lost: Called, in another thread, once others may have the locks although they weren't released.

        Raises:
            DatabaseError: The server can't be reached, or was lost meanwhile. Nothing is held.
            ToolError: Its tables are missing, older or newer.
        """
        hold = PostgresHold(uuid4(), self)
        names = [key_of(claim.name) for claim in claims], [claim.most for claim in claims]
        outer = [each.id for each in within if isinstance(each, PostgresHold)]
        try:
            await asyncio.wrap_future(self.database.start(self._acquire(hold, (*names, outer), lost)))
        except BaseException:
            hold.release()  # whatever has become of it
            raise
        return hold

    def start_release(self, hold: PostgresHold) -> Future[None]:
        """Starts to release what a hold has, or has asked for. Thread-safe; never waits."""
        return self.database.start(self._release(hold))

    # In the loop of the connections -----------------------------------------------------------------------------------

    async def _acquire(self, hold: PostgresHold, claims: tuple[Any, ...], lost: Callable[[str], None]) -> None:
        hold.session = session = await self._open()
        woken = session.event_of(str(hold.id))

        async def work(connection: Connection) -> Any:
            return await (await connection.execute(_TRY, [session.id, hold.id, *claims])).fetchone()

        while not session.ended.is_set():
            woken.clear()
            hold.asked = asyncio.create_task(self.database.perform(work))
            (token,) = await asyncio.shield(hold.asked)
            if token is not None and not session.ended.is_set():
                hold.token, hold.withdraw = token, session.on_loss(lost)
                return
            await wait_for_event(woken, ASK_SECONDS)
        raise DatabaseError("The connection to the shared database was lost while it waited for locks.", retryable=True)

    async def _open(self) -> Session:
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening[0] is not loop:
            self._opening = loop, asyncio.Lock()
        async with self._opening[1]:
            if self._session is None or self._session.ended.is_set():
                session = Session(self.database)
                await self.database.guard(session.open())
                self._session = session
            return self._session

    async def _release(self, hold: PostgresHold) -> None:
        if (session := hold.session) is None:
            return  # nothing was asked for
        is_unsure = False
        if hold.asked is not None:
            await asyncio.wait([hold.asked])
            failure = None if hold.asked.cancelled() else hold.asked.exception()
            is_unsure = isinstance(failure, DatabaseError) and not failure.is_outcome_known
        session.forget(str(hold.id))
        await self._delete(hold, session)
        if is_unsure:  # the server may not have run it yet
            await asyncio.sleep(2 * self.database.seconds)
            await self._delete(hold, session)

    async def _delete(self, hold: PostgresHold, session: Session) -> None:
        """Deletes its rows; tries again as long as the session, and so the rows, are alive."""

        async def work(connection: Connection) -> None:
            await connection.execute(_RELEASE, [hold.id])

        while not session.ended.is_set():
            try:
                await self.database.perform(work)
            except Exception:  # noqa: BLE001  the server will be back, or the session will end
                await wait_for_event(session.ended, RETRY_SECONDS)
            else:
                return


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Waits for an event, for some seconds at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
