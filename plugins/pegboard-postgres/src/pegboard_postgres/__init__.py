"""pegboard-postgres: memory, artifacts, grants and other state that several processes share, in PostgreSQL."""

from __future__ import annotations

from pegboard_postgres.artifacts import PostgresArtifacts
from pegboard_postgres.counters import PostgresCounters
from pegboard_postgres.database import Database
from pegboard_postgres.faults import DatabaseError
from pegboard_postgres.grants import PostgresGrants
from pegboard_postgres.journal import PostgresJournal
from pegboard_postgres.locks import PostgresLocks
from pegboard_postgres.memory import PostgresMemory, PostgresTexts
from pegboard_postgres.operations import PostgresOperations
from pegboard_postgres.pending import PostgresPendingCalls

__all__ = [
    "Database",
    "DatabaseError",
    "PostgresArtifacts",
    "PostgresCounters",
    "PostgresGrants",
    "PostgresJournal",
    "PostgresLocks",
    "PostgresMemory",
    "PostgresOperations",
    "PostgresPendingCalls",
    "PostgresTexts",
]
