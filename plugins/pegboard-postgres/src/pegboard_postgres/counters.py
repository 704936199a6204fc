"""`PostgresCounters`: pegboard-guard's `Counters`, so that limits on calls count those of all processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from pegboard_postgres.database import Database
from pegboard_postgres.faults import DatabaseError
from pegboard_postgres.keys import key_of

if TYPE_CHECKING:
    from pegboard_postgres.database import Connection

# Also keys without a row are locked; in one order, so that no two wait for each other.
_LOCK: Final = "SELECT pg_advisory_xact_lock(lock) FROM unnest(%s::bigint[]) AS lock ORDER BY lock"
_VALUES: Final = """
    SELECT extract(epoch FROM clock_timestamp())::float8,
        ARRAY(SELECT ARRAY[key, value] FROM counters WHERE key = ANY (%s))
"""
_WRITE: Final = """
    INSERT INTO counters (key, value) SELECT * FROM unnest(%s::text[], %s::text[])
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, time = now()
"""
_DELETE: Final = "DELETE FROM counters WHERE key = ANY (%s) OR time < now() - interval '30 days'"

Values = Mapping[str, Any]


@frozen
class PostgresCounters:
    """Values by key that several processes change one after the other.

    Attributes:
        database: Where they are stored.
    """

    database: Database

    async def update(self, keys: Sequence[str], change: Callable[[float, dict[str, Any]], Values]) -> None:
        """Changes the values of some keys, atomically; a key that isn't used for 30 days is dropped.

        Args:
            keys: Texts of any length.
            change: Takes the time, in seconds of the database's clock, and the values of the keys that have one;
                returns what to store, `None` to delete. Quick, as the others who want to change these keys wait.

        Raises:
            DatabaseError: They can't be read or stored.
        """
        hashed = {_hash(key): key for key in keys}

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                await connection.execute(_LOCK, [[_lock_of(each) for each in hashed]])
                row = await (await connection.execute(_VALUES, [list(hashed)])).fetchone()
                assert row is not None
                values = {hashed[key]: _read(value) for key, value in row[1]}
                changed = {_hash(key): value for key, value in change(row[0], values).items()}
                stored = {key: json.dumps(value) for key, value in changed.items() if value is not None}
                if stored:
                    await connection.execute(_WRITE, [list(stored), list(stored.values())])
                if dropped := [key for key, value in changed.items() if value is None]:
                    await connection.execute(_DELETE, [dropped])

        await self.database.run(work)


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise DatabaseError("A counter in the shared database is damaged and can't be read.") from error


def _hash(key: str) -> str:
    return key_of(key).hex()


def _lock_of(hashed: str) -> int:
    return int.from_bytes(key_of("counter", hashed)[:8], "big", signed=True)
