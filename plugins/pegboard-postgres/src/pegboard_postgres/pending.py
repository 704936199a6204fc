"""`PostgresPendingCalls`: calls that wait for a person's answer, by user and session, for all processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from pegboard.approval import PendingCall, PendingCalls
from pegboard_postgres.database import Database
from pegboard_postgres.keys import key_of

if TYPE_CHECKING:
    from pegboard_postgres.database import Connection

_SAVE: Final = """
    INSERT INTO pending_calls (id, owner, data) VALUES (%s, %s, %s)
    ON CONFLICT (id) DO UPDATE SET data = excluded.data WHERE pending_calls.owner = excluded.owner
"""
_WAITING: Final = """
    SELECT data FROM pending_calls WHERE owner = %s AND time > now() - interval '30 days' ORDER BY time, id LIMIT 1000
"""
_DROP_OLD: Final = "DELETE FROM pending_calls WHERE time < now() - interval '30 days'"
_REMOVE: Final = "DELETE FROM pending_calls WHERE id = ANY(%s)"


@frozen
class PostgresPendingCalls:
    """Store of the pending calls of all users.

    Attributes:
        database: Where they are stored.
        key: A secret of at least 16 bytes, the same in all processes, by which calls that were changed in the database
            are found; `None`: they aren't signed.
    """

    database: Database
    key: str | bytes | None = field(default=None, repr=False)

    async def save(self, pending: PendingCalls) -> None:
        """Stores the pending calls of a turn, all or none.

        Raises:
            DatabaseError: They can't be stored.
            ValueError: The key is too short, or a call is too long.
        """
        rows = [(key_of(call.id), key_of(call.user, call.session), self._dumps(call)) for call in pending]

        async def work(connection: Connection) -> None:
            async with connection.transaction(), connection.cursor() as cursor:
                await cursor.execute(_DROP_OLD)
                await cursor.executemany(_SAVE, rows)

        await self.database.run(work)

    async def waiting(self, *, user: str | None = None, session: str | None = None) -> PendingCalls:
        """The calls of a user's session that wait, the oldest first; at most 1,000, and none older than 30 days.

        Raises:
            DatabaseError: They can't be read.
            PendingError: One isn't signed with this key, or was changed.
        """

        async def work(connection: Connection) -> Any:
            return await (await connection.execute(_WAITING, [key_of(user, session)])).fetchall()

        found = [PendingCalls.loads(bytes(data), self.key) for (data,) in await self.database.run(work)]
        return PendingCalls(
            tuple(call for each in found for call in each if (call.user, call.session) == (user, session))
        )

    async def remove(self, ids: Iterable[str]) -> None:
        """Removes calls that have their results; unknown ids are ignored.

        Raises:
            DatabaseError: They can't be removed.
        """
        keys = [key_of(each) for each in ids]

        async def work(connection: Connection) -> None:
            await connection.execute(_REMOVE, [keys])

        await self.database.run(work)

    def _dumps(self, call: PendingCall) -> bytes:
        return PendingCalls((call,)).dumps(self.key).encode()
