"""pegboard-memory: memory in blocks and in full-text search, artifacts in versions, and messages to others."""

from __future__ import annotations

from pegboard_memory.artifacts import DirectoryArtifacts
from pegboard_memory.database import Database
from pegboard_memory.memory import Blocks, SqliteMemory, SqliteTexts
from pegboard_memory.router import LocalRouter, Message, MessageRouter, OutboxRouter

__all__ = [
    "Blocks",
    "Database",
    "DirectoryArtifacts",
    "LocalRouter",
    "Message",
    "MessageRouter",
    "OutboxRouter",
    "SqliteMemory",
    "SqliteTexts",
]
