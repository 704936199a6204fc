"""`PostgresOperations`: pegboard's `OperationStore`, long-running operations that any process may complete."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from pegboard.backends import OperationStore
from pegboard_postgres.database import Database
from pegboard_postgres.keys import key_of

if TYPE_CHECKING:
    from pegboard_postgres.database import Connection

_DROP_OLD: Final = "DELETE FROM operations WHERE time < now() - interval '30 days'"
_ADD: Final = "INSERT INTO operations (key, call_key, user_key, session, data) VALUES (%s, %s, %s, %s, %s)"
_FIND: Final = """
    SELECT data FROM operations
    WHERE completed IS NULL AND (%(key)s::bytea IS NULL OR key = %(key)s OR call_key = %(key)s) ORDER BY number
"""
_CLAIM: Final = """
    UPDATE operations SET claimed = clock_timestamp() + %s * interval '1 second'
    WHERE key = %s AND completed IS NULL AND (claimed IS NULL OR claimed <= clock_timestamp())
"""
_FINISH: Final = """
    UPDATE operations SET data = %s, completed = nextval('completions'), claimed = NULL, time = now()
    WHERE key = %s AND completed IS NULL
"""
_TAKE: Final = """
    WITH taken AS (
        DELETE FROM operations WHERE number IN (
            SELECT number FROM operations WHERE session = %(session)s AND completed IS NOT NULL
            AND (%(calls)s::bytea[] IS NULL OR call_key = ANY (%(calls)s))
            AND (%(users)s::bytea[] IS NULL OR user_key = ANY (%(users)s)) FOR UPDATE SKIP LOCKED
        ) RETURNING data, completed
    ) SELECT data FROM taken ORDER BY completed
"""


@frozen
class PostgresOperations(OperationStore):
    """Store of long-running operations that several processes share. Its methods block.

    Operations that nobody has completed, and completions that nobody has taken, are dropped after 30 days.

    Attributes:
        database: Where they are stored.
    """

    database: Database

    def add(self, id: str, data: str, *, call_id: str, user: str | None, session: str | None) -> None:  # noqa: A002
        """Stores a pending operation."""

        async def work(connection: Connection) -> None:
            await connection.execute(_DROP_OLD)
            await connection.execute(_ADD, [*map(key_of, (id, call_id, user, session)), _encode(data)])

        self.database.run_now(work)

    def find(self, name: str | None = None) -> Sequence[str]:
        """The data of the pending operations with this id or this call id, or of all; the oldest first."""
        return self._read(_FIND, {"key": None if name is None else key_of(name)})

    def claim(self, id: str, seconds: float) -> bool:  # noqa: A002
        """Reserves a pending operation for the caller; `False` if it isn't pending, or is reserved for another."""
        return self._changes(_CLAIM, [seconds, key_of(id)])

    def finish(self, id: str, data: str) -> bool:  # noqa: A002
        """Completes a pending operation, exactly once; `False` if it isn't pending any more."""
        return self._changes(_FINISH, [_encode(data), key_of(id)])

    def take(
        self, session: str | None, calls: Collection[str] | None = None, users: Collection[str | None] | None = None
    ) -> Sequence[str]:
        """Removes and returns a session's completions, in their order; each is returned to one caller only."""
        own = [None if each is None else list(map(key_of, each)) for each in (calls, users)]
        return self._read(_TAKE, {"session": key_of(session), "calls": own[0], "users": own[1]})

    def _changes(self, statement: str, values: Sequence[Any]) -> bool:
        async def work(connection: Connection) -> bool:
            return (await connection.execute(statement.encode(), values)).rowcount == 1

        return self.database.run_now(work)

    def _read(self, statement: str, values: Any) -> list[str]:
        async def work(connection: Connection) -> list[Any]:
            return await (await connection.execute(statement.encode(), values)).fetchall()

        return [bytes(data).decode(errors="surrogatepass") for (data,) in self.database.run_now(work)]


def _encode(data: str) -> bytes:
    return data.encode(errors="surrogatepass")
