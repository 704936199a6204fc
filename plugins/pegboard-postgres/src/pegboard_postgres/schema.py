"""The tables, by versions: what each migration adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pegboard import ToolError
from pegboard_postgres.lock_tables import LOCKS

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_COMMAND: Final = "registry postgres migrate"

MIGRATIONS: Final = (
    # 1: stores. Who owns a row is a digest: names of users may be of any length, and contain what PostgreSQL refuses.
    """
    CREATE TABLE entries (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        owner bytea NOT NULL,
        session bytea NOT NULL,
        text text NOT NULL,
        facts text NOT NULL,
        words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED
    );
    CREATE INDEX ON entries (owner);
    CREATE INDEX ON entries USING gin (words);
    CREATE TABLE artifacts (
        owner bytea, name text, version integer, content bytea NOT NULL, PRIMARY KEY (owner, name, version)
    );
    CREATE TABLE texts (
        key bytea PRIMARY KEY, session bytea NOT NULL, data bytea NOT NULL, time timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX ON texts (time);
    CREATE TABLE grants (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session bytea NOT NULL,
        tool text NOT NULL,
        rule text NOT NULL,
        until timestamptz
    );
    CREATE INDEX ON grants (session);
    CREATE TABLE answers (key bytea PRIMARY KEY, time timestamptz NOT NULL DEFAULT now());
    CREATE INDEX ON answers (time);
    CREATE TABLE pending_calls (
        id bytea PRIMARY KEY, owner bytea NOT NULL, data bytea NOT NULL, time timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX ON pending_calls (owner, time);
    """,
    # 2: what calls of several processes share while they run.
    LOCKS
    + """
    CREATE TABLE operations (
        key bytea PRIMARY KEY,
        call_key bytea NOT NULL,
        user_key bytea NOT NULL,
        session bytea NOT NULL,
        data bytea NOT NULL,
        number bigint GENERATED ALWAYS AS IDENTITY,
        completed bigint,
        claimed timestamptz,
        time timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX ON operations (call_key);
    CREATE INDEX ON operations (session, completed);
    CREATE SEQUENCE completions;
    CREATE TABLE counters (key text PRIMARY KEY, value text NOT NULL, time timestamptz NOT NULL DEFAULT now());
    CREATE INDEX ON counters (time);
    CREATE TABLE journal (number bigint PRIMARY KEY, line text NOT NULL, hash text NOT NULL);
    CREATE TABLE secrets (name text PRIMARY KEY, value bytea NOT NULL);
    """,
)
VERSION: Final = len(MIGRATIONS)


async def read_version(connection: AsyncConnection[Any]) -> int:
    """The version of the tables in the connection's schema; 0 without any."""
    row = await (await connection.execute("SELECT to_regclass('version')")).fetchone()
    if row is None or row[0] is None:
        return 0
    row = await (await connection.execute("SELECT max(number) FROM version")).fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


def check_version(found: int) -> None:
    """Checks that this package knows the tables.

    Raises:
        ToolError: They are missing, older or newer.
    """
    if found == VERSION:
        return
    if found > VERSION:
        what = f"its tables are of version {found}, written by a newer pegboard-postgres"
        raise ToolError(f"The shared database can't be used: {what}.", hint="Update pegboard-postgres.")
    what = f"its tables are of version {found}, and version {VERSION} is needed" if found else "it has no tables yet"
    raise ToolError(f"The shared database can't be used: {what}.", hint=f"Run: {_COMMAND}")


async def migrate_tables(connection: AsyncConnection[Any], schema: str, to: int = VERSION) -> tuple[int, int]:
    """Creates the schema and runs the migrations that it lacks, in one transaction; several processes take turns.

    Returns:
        The version before and after.

    Raises:
        ToolError: The tables are newer.
    """
    from psycopg.sql import SQL, Identifier

    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"pegboard {schema}"])
        found = await (await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [schema])).fetchone()
        if found is None:  # `IF NOT EXISTS` needs the right to create schemas even if there is one
            await connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        before = await read_version(connection)
        if before > VERSION:
            check_version(before)
        if before == 0:
            await connection.execute("CREATE TABLE IF NOT EXISTS version (number integer PRIMARY KEY)")
        for number, statements in enumerate(MIGRATIONS[before:to], before + 1):
            await connection.execute(statements)
            await connection.execute("INSERT INTO version VALUES (%s)", [number])
    return before, max(before, to)
