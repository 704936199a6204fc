"""In the child: the memory and the artifacts of the call, which stay in the parent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from pegboard.dispatch.executors.child_host import ChildHost
from pegboard.tools.content import Content, content_from_json
from pegboard.tools.stores import Artifacts, Memory, MemoryEntry


@frozen(eq=False)
class ChildMemory(Memory):
    """What is remembered of the call's user; whose it is, the parent decides."""

    host: ChildHost

    async def search(
        self,
        query: str,
        *,
        user: str | None = None,  # noqa: ARG002  (the parent knows)
        session: str | None = None,
        limit: int = 10,
    ) -> tuple[MemoryEntry, ...]:
        """What fits a query, the best first."""
        found = await self.host.question("memory.search", query=query, session_only=session is not None, limit=limit)
        return tuple(MemoryEntry(**entry) for entry in found)

    async def add(
        self,
        text: str,
        *,
        user: str | None = None,  # noqa: ARG002  (the parent knows)
        session: str | None = None,  # noqa: ARG002
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> MemoryEntry:
        """Remembers something."""
        kept = await self.host.question("memory.add", text=text, author=author, metadata=dict(metadata or {}))
        return MemoryEntry(**kept)


@frozen(eq=False)
class ChildArtifacts(Artifacts):
    """The artifacts of the call's conversation and user; whose they are, the parent decides."""

    host: ChildHost

    async def save(
        self,
        name: str,
        content: Content,
        *,
        user: str | None = None,  # noqa: ARG002  (the parent knows)
        session: str | None = None,  # noqa: ARG002
    ) -> int:
        """Keeps a new version; gives its number."""
        return await self.host.question("artifacts.save", name=name, content=content.to_json())

    async def load(
        self,
        name: str,
        version: int | None = None,
        *,
        user: str | None = None,  # noqa: ARG002  (the parent knows)
        session: str | None = None,  # noqa: ARG002
    ) -> Content:
        """One version, the latest by default."""
        return content_from_json(await self.host.question("artifacts.load", name=name, version=version))

    async def list(self, *, user: str | None = None, session: str | None = None) -> tuple[str, ...]:  # noqa: ARG002
        """The names of all artifacts of the conversation and of the user, sorted."""
        return tuple(await self.host.question("artifacts.list"))

    async def delete(self, name: str, *, user: str | None = None, session: str | None = None) -> None:  # noqa: ARG002
        """Forgets all versions."""
        await self.host.question("artifacts.delete", name=name)
