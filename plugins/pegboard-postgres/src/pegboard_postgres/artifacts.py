"""`PostgresArtifacts`: pegboard's `Artifacts`, each version a row that is written once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from pegboard import Artifacts, ToolResult
from pegboard.errors import ArtifactError
from pegboard.tools import Content, check_artifact_name
from pegboard_postgres.database import Database
from pegboard_postgres.keys import key_of

if TYPE_CHECKING:
    from pegboard_postgres.database import Connection

MOST_BYTES: Final = 64 << 20
"""Bytes of one version, as JSON."""

_USER: Final = "user:"
_LOCK: Final = "SELECT pg_advisory_xact_lock(%s)"
_SAVE: Final = """
    INSERT INTO artifacts SELECT %(owner)s, %(name)s, coalesce(max(version), 0) + 1, %(content)s
    FROM artifacts WHERE owner = %(owner)s AND name = %(name)s RETURNING version
"""
_LOAD: Final = """
    SELECT version, content FROM artifacts WHERE owner = %s AND name = %s AND (%s::integer IS NULL OR version = %s)
    ORDER BY version DESC LIMIT 1
"""
_LIST: Final = "SELECT DISTINCT name FROM artifacts WHERE owner = ANY(%s)"
_DELETE: Final = "DELETE FROM artifacts WHERE owner = %s AND name = %s"
_MOST_VERSION: Final = (1 << 31) - 1


@frozen
class PostgresArtifacts(Artifacts):
    """Artifacts that several processes share.

    Attributes:
        database: Where they are stored.
        most_bytes: The size limit of one version.
    """

    database: Database
    most_bytes: int = MOST_BYTES

    async def save(self, name: str, content: Content, *, user: str | None = None, session: str | None = None) -> int:
        """Stores a new version; the first is 1."""
        data = json.dumps(ToolResult(content).to_data()["content"]).encode()
        if len(data) > self.most_bytes:
            raise ArtifactError(f"{name} is too large: over {self.most_bytes:,} bytes.", name=name)
        owner = _owner(check_artifact_name(name), user, session)
        lock = int.from_bytes(key_of(owner.hex(), name)[:8], "big", signed=True)

        async def work(connection: Connection) -> int:
            async with connection.transaction():
                await connection.execute(_LOCK, [lock])  # in a statement of its own: the next sees what the last wrote
                found = await connection.execute(_SAVE, {"owner": owner, "name": name, "content": data})
                return (await found.fetchall())[0][0]

        return await self.database.run(work)

    async def load(
        self, name: str, version: int | None = None, *, user: str | None = None, session: str | None = None
    ) -> Content:
        """One version, the latest by default."""
        owner, row = _owner(check_artifact_name(name), user, session), None

        async def work(connection: Connection) -> Any:
            return await (await connection.execute(_LOAD, [owner, name, version, version])).fetchone()

        if version is None or 0 < version <= _MOST_VERSION:
            row = await self.database.run(work)
        if row is None:
            what = f"artifact {name[:80]!a}" if version is None else f"version {version} of artifact {name[:80]!a}"
            raise ArtifactError(f"There is no {what}.", name=name)
        try:
            (part,) = json.loads(row[1])
            return ToolResult.from_data({"content": [part]}).content[0]
        except (ValueError, TypeError, KeyError) as error:
            raise ArtifactError(f"{name}, version {row[0]}, is damaged and can't be read.", name=name) from error

    async def list(self, *, user: str | None = None, session: str | None = None) -> tuple[str, ...]:
        """The names of all artifacts of the conversation and of the user, sorted."""
        owners = [_owner(name, user, session) for name in ("", _USER)]

        async def work(connection: Connection) -> Any:
            return await (await connection.execute(_LIST, [owners])).fetchall()

        return tuple(sorted(name for (name,) in await self.database.run(work)))

    async def delete(self, name: str, *, user: str | None = None, session: str | None = None) -> None:
        """Deletes all versions at once; does nothing where there are none."""
        owner = _owner(check_artifact_name(name), user, session)

        async def work(connection: Connection) -> None:
            await connection.execute(_DELETE, [owner, name])

        await self.database.run(work)


def _owner(name: str, user: str | None, session: str | None) -> bytes:
    return key_of(user) if name.startswith(_USER) else key_of(user, session)
