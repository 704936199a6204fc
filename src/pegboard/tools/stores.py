"""`Artifacts` and `Memory`: storage for tools, as protocols and in-memory implementations."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias

import attrs
from attrs import define, field, frozen

from pegboard.errors import ArtifactError
from pegboard.tools.content import CONTENT_TYPES, Content, TextContent

_USER: Final = "user:"  # name prefix of the artifacts of a user, shared by all of the user's conversations
_MOST_NAME_BYTES: Final = 255  # in UTF-8, as for file names on most systems
MOST_BYTES: Final = 256 << 20  # default capacity of `_InMemoryArtifacts`, for all users together
_FORBIDDEN: Final = frozenset('\\<>:"|?*')
_OVERHEAD: Final = 200  # bytes per version besides its data
_Scope: TypeAlias = tuple[str | None, str | None, bool]  # user, session; whether all sessions of the user share it
_Id: TypeAlias = str | None
_Facts: TypeAlias = Mapping[str, Any] | None
_Context: TypeAlias = Any  # A `ToolContext`; its module imports this one


class Artifacts(Protocol):
    """Versioned storage of artifacts; the host provides its own by `registry.provide(Artifacts, ...)`.

    Names are those that `check_artifact_name` accepts. One that begins with `user:` belongs to the user, any other to
    the user's conversation; users must be isolated from each other.
    """

    async def save(self, name: str, content: Content, *, user: _Id = None, session: _Id = None) -> int:
        """Stores a new version; returns its number, which is higher than all before."""
        ...

    async def load(self, name: str, version: int | None = None, *, user: _Id = None, session: _Id = None) -> Content:
        """One version, the latest by default.

        Raises:
            ArtifactError: It isn't there.
        """
        ...

    async def list(self, *, user: _Id = None, session: _Id = None) -> tuple[str, ...]:
        """The names of all artifacts of the conversation and of the user, sorted."""
        ...

    async def delete(self, name: str, *, user: _Id = None, session: _Id = None) -> None:
        """Deletes all versions; does nothing if there are none."""
        ...


def check_artifact_name(name: str) -> str:
    r"""The name unchanged, if it is safe as a relative path on every system, perhaps after `user:`.

    1 to 255 bytes; parts between `/` that aren't empty, `.` or `..`, and neither begin nor end with a space nor end
    with a dot; none of `\ < > : " | ? *` and no unprintable character; else `ArtifactError`.
    """
    bare = name.removeprefix(_USER)
    if not bare.isprintable():
        reason = "all characters must be printable"
    elif not 1 <= len(name.encode()) <= _MOST_NAME_BYTES:
        reason = f"a name must have 1 to {_MOST_NAME_BYTES} bytes"
    elif not _FORBIDDEN.isdisjoint(bare):
        reason = f"a name must not contain any of {' '.join(sorted(_FORBIDDEN))}"
    elif any(part in ("", ".", "..") or part != part.strip(" ") or part.endswith(".") for part in bare.split("/")):
        reason = "each part between slashes must be a plain file name"
    else:
        return name
    raise ArtifactError(f"{name[:80]!a} is not a valid name of an artifact: {reason}.", name=name)


@define(eq=False)
class _InMemoryArtifacts(Artifacts):
    """In-memory storage of artifacts, for tests and small hosts.

    When it is full, the oldest version of the conversation with the most data is dropped.
    """

    most_bytes: int = MOST_BYTES
    _stored: dict[_Scope, dict[tuple[str, int], Content]] = field(factory=dict[_Scope, Any], init=False)
    _size: int = field(default=0, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    async def save(self, name: str, content: Content, *, user: _Id = None, session: _Id = None) -> int:
        """Stores a new version; the first is 1."""
        if (size := _bytes_of(content)) > self.most_bytes:
            raise ArtifactError(f"{name} is too large to store: over {self.most_bytes:,} bytes.", name=name)
        scope = _scope(check_artifact_name(name), user, session)
        with self._lock:
            while self._size + size > self.most_bytes:
                sizes = {each: sum(map(_bytes_of, stored.values())) for each, stored in self._stored.items()}
                sizes[scope] = sizes.get(scope, 0) + size
                largest = max(self._stored, key=sizes.__getitem__)
                self._drop(largest, next(iter(self._stored[largest])))
            stored = self._stored.setdefault(scope, {})
            version = _latest(stored, name) + 1
            stored[name, version] = content
            self._size += size
            return version

    async def load(self, name: str, version: int | None = None, *, user: _Id = None, session: _Id = None) -> Content:
        with self._lock:
            stored = self._stored.get(_scope(name, user, session), {})
            content = stored.get((name, _latest(stored, name) if version is None else version))
        if content is None:
            what = f"artifact {name[:80]!a}" if version is None else f"version {version} of artifact {name[:80]!a}"
            raise ArtifactError(f"There is no {what}.", name=name)
        return content

    async def list(self, *, user: _Id = None, session: _Id = None) -> tuple[str, ...]:
        with self._lock:
            scopes = [_scope(prefix, user, session) for prefix in ("", _USER)]
            return tuple(sorted({name for scope in scopes for name, _ in self._stored.get(scope, ())}))

    async def delete(self, name: str, *, user: _Id = None, session: _Id = None) -> None:
        scope = _scope(name, user, session)
        with self._lock:
            for key in [key for key in self._stored.get(scope, ()) if key[0] == name]:
                self._drop(scope, key)

    def _drop(self, scope: _Scope, key: tuple[str, int]) -> None:
        self._size -= _bytes_of(self._stored[scope].pop(key))
        if not self._stored[scope]:
            del self._stored[scope]


def _latest(stored: Mapping[tuple[str, int], Content], name: str) -> int:
    return max((version for each, version in stored if each == name), default=0)


def _scope(name: str, user: str | None, session: str | None) -> _Scope:
    return (user, None, True) if name.startswith(_USER) else (user, session, False)


def _bytes_of(content: Content) -> int:
    values: list[object] = [getattr(content, each.name) for each in attrs.fields(type(content))]
    return _OVERHEAD + sum(len(value) for value in values if isinstance(value, str | bytes))


@frozen
class CallArtifacts:
    """Artifacts for one call: those of its conversation, and its user's (`user:...`).

    From a plain function: `context.wait(context.artifacts.save("a.txt", "..."))`.
    """

    context: _Context

    async def save(self, name: str, content: Content | str) -> int:
        """Stores a new version, returns its number, and records it in the call's `artifact_delta`.

        Names are such as `"report.pdf"`, `"charts/2026.png"`, `"user:photo.jpg"`. Raises `ArtifactError` for one that
        `check_artifact_name` refuses, and for a content that is too large.
        """
        check_artifact_name(name)
        if isinstance(content, str):
            content = TextContent(content)
        if not isinstance(content, CONTENT_TYPES):  # pyright: ignore[reportUnnecessaryIsInstance]  (a tool may give anything)
            raise TypeError(f"an artifact is text or one of pegboard's content types, not {type(content).__name__}")
        artifacts = await self.context.use_or(Artifacts, _InMemoryArtifacts)
        version = await artifacts.save(name, content, **self._owner)
        self.context.actions.saved(name, version)
        return version

    async def load(self, name: str, version: int | None = None) -> Content:
        """One version, the latest by default; raises `ArtifactError` if it isn't there."""
        artifacts = await self.context.use_or(Artifacts, _InMemoryArtifacts)
        return await artifacts.load(check_artifact_name(name), version, **self._owner)

    async def list(self) -> tuple[str, ...]:
        """The names of all artifacts of the conversation and of the user, sorted."""
        artifacts = await self.context.use_or(Artifacts, _InMemoryArtifacts)
        return await artifacts.list(**self._owner)

    async def delete(self, name: str) -> None:
        """Deletes all versions; does nothing if there are none."""
        artifacts = await self.context.use_or(Artifacts, _InMemoryArtifacts)
        await artifacts.delete(check_artifact_name(name), **self._owner)
        self.context.actions.artifact_delta.pop(name, None)

    @property
    def _owner(self) -> dict[str, str | None]:
        return {"user": self.context.user, "session": self.context.session}


MOST_ENTRIES: Final = 10_000  # default capacity of `_InMemoryMemory`, for all users together
_WORD: Final = re.compile(r"\w+")
MOST_CHARACTERS: Final = 20_000  # of one entry of `_InMemoryMemory`; the rest is cut off


@frozen
class MemoryEntry:
    """Entry of a memory.

    Attributes:
        text: The text to remember.
        user: Its user; entries without a user (`None`) are separate from those of every user.
        session: The conversation that it is from, or `None`.
        author: Its author, or `None`.
        time: When it was added, in seconds since 1970 (UTC).
        metadata: Additional facts.
    """

    text: str
    user: str | None = None
    session: str | None = None
    author: str | None = None
    time: float = 0.0
    metadata: Mapping[str, Any] = field(factory=dict[str, Any])


class Memory(Protocol):
    """Searchable memory; the host provides its own by `registry.provide(Memory, ...)`.

    Users must be isolated from each other: a search for `user=None` finds entries without a user, not all.
    """

    async def search(
        self, query: str, *, user: _Id = None, session: _Id = None, limit: int = 10
    ) -> tuple[MemoryEntry, ...]:
        """The entries that match a query, the best first.

        Args:
            query: In plain words.
            user: The user whose entries are searched.
            session: Only entries of this conversation; `None` for all of the user's.
            limit: The maximum number of entries.
        """
        ...

    async def add(
        self, text: str, *, user: _Id = None, session: _Id = None, author: _Id = None, metadata: _Facts = None
    ) -> MemoryEntry:
        """Adds an entry; returns it as stored."""
        ...


@define(eq=False)
class _InMemoryMemory(Memory):
    """In-memory memory for tests and small hosts, searched by the words that a query and an entry share.

    When it is full, the oldest entry of the user with the most entries is dropped.
    """

    most_entries: int = MOST_ENTRIES
    _stored: dict[str | None, deque[tuple[MemoryEntry, frozenset[str]]]] = field(factory=dict[Any, Any], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    async def search(
        self, query: str, *, user: _Id = None, session: _Id = None, limit: int = 10
    ) -> tuple[MemoryEntry, ...]:
        """The entries that share words with the query, the most first, then the newest."""
        wanted = frozenset(_WORD.findall(query.casefold()))
        with self._lock:
            stored = list(self._stored.get(user, ()))
        newest_first = [pair for pair in reversed(stored) if session is None or pair[0].session == session]
        scored = [(len(wanted & words), entry) for entry, words in newest_first]
        best_first = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return tuple(entry for _, entry in best_first[: max(limit, 0)])

    async def add(
        self, text: str, *, user: _Id = None, session: _Id = None, author: _Id = None, metadata: _Facts = None
    ) -> MemoryEntry:
        """Adds the first 20,000 characters of a text."""
        entry = MemoryEntry(text[:MOST_CHARACTERS], user, session, author, time.time(), dict(metadata or {}))
        words = frozenset(_WORD.findall(entry.text.casefold()))
        with self._lock:
            self._stored.setdefault(user, deque()).append((entry, words))
            if sum(map(len, self._stored.values())) > self.most_entries:
                most_stored, entries = max(self._stored.items(), key=lambda item: len(item[1]))
                entries.popleft()
                if not entries:
                    del self._stored[most_stored]
        return entry


@frozen
class CallMemory:
    """Memory for one call: that of the call's user.

    From a plain function: `context.wait(context.memory.search("..."))`.
    """

    context: _Context

    async def search(self, query: str, *, limit: int = 10, session_only: bool = False) -> tuple[MemoryEntry, ...]:
        """The entries of this user, or only those of this conversation, that match a query; the best first."""
        memory = await self.context.use_or(Memory, _InMemoryMemory)
        session = self.context.session if session_only else None
        return await memory.search(query, user=self.context.user, session=session, limit=limit)

    async def add(self, text: str, *, author: _Id = None, metadata: _Facts = None) -> MemoryEntry:
        """Adds an entry for this user and conversation; `author` is the call's agent by default."""
        context = self.context
        memory = await context.use_or(Memory, _InMemoryMemory)
        author = context.agent if author is None else author
        return await memory.add(text, user=context.user, session=context.session, author=author, metadata=metadata)
