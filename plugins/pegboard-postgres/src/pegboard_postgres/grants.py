"""`PostgresGrants`: what people have allowed for longer than one call, and used answers, for all processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from pegboard import ReadonlyContext, Rule
from pegboard.approval import MemoryGrants, session_key
from pegboard.errors import PendingError
from pegboard_postgres.database import Database
from pegboard_postgres.faults import DatabaseError
from pegboard_postgres.keys import key_of

if TYPE_CHECKING:
    from pegboard_postgres.database import Connection

MOST_GRANTS: Final = 1_000
"""Grants of one session; the oldest are dropped."""

_RULES: Final = (
    "SELECT rule FROM grants WHERE session = %s AND tool = %s AND (until IS NULL OR until > now()) ORDER BY id"
)
_ADD: Final = """
    INSERT INTO grants (session, tool, rule, until)
    SELECT %s, %s, rule, now() + %s * interval '1 second' FROM unnest(%s::text[]) AS rule
"""
_DROP_EXPIRED: Final = "DELETE FROM grants WHERE until <= now()"
_DROP_OLDEST: Final = """
    DELETE FROM grants WHERE id IN (SELECT id FROM grants WHERE session = %s ORDER BY id DESC OFFSET %s)
"""
_FORGET: Final = "DELETE FROM grants WHERE session = %s"
_CONSUME: Final = "INSERT INTO answers (key) VALUES (%s) ON CONFLICT DO NOTHING"
_DROP_ANSWERS: Final = "DELETE FROM answers WHERE time < now() - interval '90 days'"


@frozen
class PostgresGrants:
    """Store of grants that several processes share: what one revokes no longer counts for any.

    Grants of calls without session and user stay in memory, as they belong to this process only. Times are those of the
    database's clock.

    Attributes:
        database: Where they are stored.
    """

    database: Database
    _memory: MemoryGrants = field(factory=MemoryGrants, init=False, repr=False)

    async def rules(self, session: str | None, tool: str) -> tuple[Rule, ...]:
        """The grants of a tool in this session that haven't expired, as rules.

        Raises:
            DatabaseError: They can't be read.
        """
        if session is None:
            return self._memory.rules(None, tool)

        async def work(connection: Connection) -> Any:
            return await (await connection.execute(_RULES, [key_of(session), tool])).fetchall()

        try:
            return tuple(_rule(text) for (text,) in await self.database.run(work))
        except (ValueError, TypeError) as error:
            raise DatabaseError("A grant in the shared database is damaged and can't be read.") from error

    async def add(self, session: str | None, tool: str, rules: Sequence[Rule], seconds: float | None = None) -> None:
        """Grants a tool what these rules allow, in this session, for some seconds or without a time limit.

        Raises:
            DatabaseError: They can't be stored.
        """
        if session is None:
            self._memory.add(None, tool, rules, seconds)
            return
        key, texts = key_of(session), [json.dumps([rule.permission, rule.pattern, rule.literal]) for rule in rules]

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                await connection.execute(_DROP_EXPIRED)
                await connection.execute(_ADD, [key, tool, seconds, texts])
                await connection.execute(_DROP_OLDEST, [key, MOST_GRANTS])

        await self.database.run(work)

    async def consume(self, pending_id: str) -> bool:
        """Records that the answer to this pending call is used; true only the first time, over all processes.

        Raises:
            PendingError: It can't be recorded, and so mustn't be used.
        """

        async def work(connection: Connection) -> bool:
            await connection.execute(_DROP_ANSWERS)
            return (await connection.execute(_CONSUME, [key_of(pending_id)])).rowcount == 1

        try:
            return await self.database.run(work)
        except DatabaseError as error:
            raise PendingError(f"its answer can't be recorded as used: {error.text}") from error

    async def forget(self, context: ReadonlyContext) -> None:
        """Revokes all grants of this user in this session, for example when it ends.

        Raises:
            DatabaseError: They can't be changed.
        """
        session = session_key(context)
        if session is None:
            self._memory.forget(context)
            return

        async def work(connection: Connection) -> None:
            await connection.execute(_FORGET, [key_of(session)])

        await self.database.run(work)


def _rule(text: str) -> Rule:
    permission, pattern, literal = json.loads(text)
    return Rule(permission, pattern, "allow", literal=bool(literal))
