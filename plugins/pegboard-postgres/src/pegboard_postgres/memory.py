"""Memory, searched by PostgreSQL's full-text search, and the whole texts of truncated results."""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from pegboard import Memory, MemoryEntry, ResultTexts, ToolError
from pegboard_postgres.database import Database
from pegboard_postgres.faults import DatabaseError
from pegboard_postgres.keys import key_of, plain

if TYPE_CHECKING:
    from pegboard_postgres.database import Connection

MOST_CHARACTERS: Final = 20_000
"""Characters of one entry; longer ones are cut."""

_MOST_WORDS: Final = 32  # of a query
_MOST_LETTERS: Final = 200  # of a word; PostgreSQL refuses words of 2 KiB
_ADD: Final = "INSERT INTO entries (owner, session, text, facts) VALUES (%s, %s, %s, %s)"
_SEARCH: Final = """
    SELECT text, facts FROM entries, to_tsquery('english', %(query)s) AS query
    WHERE owner = %(owner)s AND words @@ query AND (%(session)s::bytea IS NULL OR session = %(session)s)
    ORDER BY ts_rank(words, query) DESC, id DESC LIMIT %(limit)s
"""


@frozen
class PostgresMemory(Memory):
    """Memory that several processes share.

    Attributes:
        database: Where it is stored.
    """

    database: Database

    async def search(
        self, query: str, *, user: str | None = None, session: str | None = None, limit: int = 10
    ) -> tuple[MemoryEntry, ...]:
        """The entries that share words with a query, best first; English words are stemmed.

        Args:
            query: In plain words, without syntax.
            user: The user whose entries are searched.
            session: Only entries of this conversation.
            limit: How many at most.
        """
        words = dict.fromkeys(re.findall(r"\w+", plain(query[:MOST_CHARACTERS])))
        short = [word for word in words if len(word) <= _MOST_LETTERS][:_MOST_WORDS]
        if not short or limit < 1:
            return ()
        values = {
            "query": " | ".join(f"'{word}'" for word in short),
            "owner": key_of(user),
            "session": None if session is None else key_of(session),
            "limit": limit,
        }

        async def work(connection: Connection) -> list[Any]:
            return await (await connection.execute(_SEARCH, values)).fetchall()

        rows = await self.database.run(work)
        try:
            return tuple(_entry(text, json.loads(facts), user) for text, facts in rows)
        except (ValueError, TypeError, KeyError) as error:
            raise DatabaseError("An entry of the shared memory is damaged and can't be read.") from error

    async def add(
        self,
        text: str,
        *,
        user: str | None = None,
        session: str | None = None,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> MemoryEntry:
        """Stores the first 20,000 characters of a text."""
        entry = MemoryEntry(plain(text[:MOST_CHARACTERS]), user, session, author, time.time(), dict(metadata or {}))
        facts = {"session": session, "author": author, "time": entry.time, "metadata": entry.metadata}
        values = key_of(user), key_of(session), entry.text, json.dumps(facts)

        async def work(connection: Connection) -> None:
            await connection.execute(_ADD, values)

        await self.database.run(work)
        return entry


def _entry(text: str, facts: dict[str, Any], user: str | None) -> MemoryEntry:
    return MemoryEntry(text, user, facts["session"], facts["author"], float(facts["time"]), dict(facts["metadata"]))


# Whole texts of results -----------------------------------------------------------------------------------------------

_KEEP: Final = "INSERT INTO texts (key, session, data) VALUES (%s, %s, %s)"
_LOAD: Final = "SELECT data FROM texts WHERE key = %s AND session = %s"
# The newest ones that take more than the limit together, and all older ones.
_MAKE_ROOM: Final = """
    DELETE FROM texts WHERE key IN (
        SELECT key FROM (SELECT key, sum(octet_length(data)) OVER (ORDER BY time DESC, key) AS total FROM texts) AS all_
        WHERE total > %s
    )
"""


@frozen
class PostgresTexts(ResultTexts):
    """Whole texts of truncated results, compressed, for all processes.

    Attributes:
        database: Where they are stored.
        most_bytes: How many bytes they take in all; the oldest are deleted first, and a longer one is refused.
    """

    database: Database
    most_bytes: int = field(default=256 << 20, kw_only=True)

    def keep(self, key: str, text: str, *, session: str | None) -> None:
        """Stores a text; deletes the oldest to make room. Blocks."""
        data = zlib.compress(text.encode(errors="surrogatepass"), 1)
        if len(data) > self.most_bytes:
            raise ToolError(f"The text is too long to store: over {self.most_bytes:,} bytes.")

        async def work(connection: Connection) -> None:
            await connection.execute(_KEEP, [key_of(key), key_of(session), data])
            await connection.execute(_MAKE_ROOM, [self.most_bytes])

        self.database.run_now(work)

    def load(self, key: str, *, session: str | None) -> str | None:
        """The text, if it was stored for this session and is still there. Blocks."""

        async def work(connection: Connection) -> Any:
            return await (await connection.execute(_LOAD, [key_of(key), key_of(session)])).fetchone()

        row = self.database.run_now(work)
        try:
            return None if row is None else zlib.decompress(row[0]).decode(errors="surrogatepass")
        except (zlib.error, ValueError) as error:
            raise ToolError("The stored text of a result is damaged and can't be read.") from error
