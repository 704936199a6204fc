"""`PostgresJournal`: pegboard-guard's `JournalSink`, one chain of records of all processes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from pegboard_postgres.database import Database

if TYPE_CHECKING:
    from pegboard_postgres.database import Connection

_KEY_BYTES: Final = 32
_PAGE: Final = 1_000
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('journal ' || current_schema::text, 0))"
_HEAD: Final = """
    SELECT extract(epoch FROM clock_timestamp())::float8,
        (SELECT ARRAY[number::text, hash] FROM journal ORDER BY number DESC LIMIT 1)
"""
_ADD: Final = "INSERT INTO journal (number, line, hash) SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[])"
_READ: Final = "SELECT number, line FROM journal WHERE number > %s ORDER BY number LIMIT %s"
_KEY: Final = """
    WITH added AS (INSERT INTO secrets VALUES ('journal', %s) ON CONFLICT DO NOTHING RETURNING value)
    SELECT value FROM added UNION ALL SELECT value FROM secrets WHERE name = 'journal' LIMIT 1
"""


@define(eq=False)
class PostgresJournal:
    """Journal that several processes write: each record has the hash of the one before. Its methods block.

    Attributes:
        database: Where it is stored.
    """

    database: Database
    _key: bytes | None = field(default=None, init=False, repr=False)

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Stores records, in this order, all or none.

        Raises:
            DatabaseError: They can't be stored, or it isn't known whether they were.
        """
        from pegboard_guard import encode, time_text
        from pegboard_guard.journal_file import START

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                await connection.execute(_LOCK)
                row = await (await connection.execute(_HEAD)).fetchone()
                assert row is not None
                now, last = row
                number, previous = (int(last[0]), last[1]) if last else (0, START)
                first = [] if last else [_first()]
                rows: list[tuple[int, str, str]] = []
                for facts in (*first, *records):
                    number += 1
                    line, previous = encode(number, time_text(now), facts, previous)
                    rows.append((number, line.decode(), previous))
                await connection.execute(_ADD, [list(column) for column in zip(*rows, strict=True)])

        self.database.run_now(work)

    def key(self) -> bytes:
        """The secret key of the digests of arguments, the same for all processes.

        Raises:
            DatabaseError: It can't be read.
        """
        if self._key is None:

            async def work(connection: Connection) -> bytes:
                row = await (await connection.execute(_KEY, [secrets.token_bytes(_KEY_BYTES)])).fetchone()
                if row is None:  # another process has added it while this statement ran
                    row = await (await connection.execute(_KEY, [b""])).fetchone()
                assert row is not None
                return bytes(row[0])

            self._key = self.database.run_now(work)
        return self._key

    def lines(self) -> Iterator[str]:
        """All records as JSON lines, the first first, as `registry guard verify` reads them from a file.

        Raises:
            DatabaseError: They can't be read.
        """
        after = 0
        while True:

            async def work(connection: Connection, after: int = after) -> list[Any]:
                return await (await connection.execute(_READ, [after, _PAGE])).fetchall()

            page = self.database.run_now(work)
            yield from (line for _, line in page)
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def close(self) -> None:
        """Does nothing: the connections are the database's."""


def _first() -> dict[str, Any]:
    return {"kind": "journal", "format": 1, "id": secrets.token_hex(16), "part": 1}
