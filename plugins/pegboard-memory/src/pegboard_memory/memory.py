"""Memory in SQLite: blocks that a model edits, entries with full-text search, and full texts of results."""

from __future__ import annotations

import json
import re
import threading
import time
import zlib
from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from pegboard import Memory, MemoryEntry, ResultTexts, ToolError
from pegboard.errors import tuple_of
from pegboard.text import confusable_key
from pegboard.threads import run_in_thread
from pegboard.tools import encodable_text
from pegboard_memory.database import Database

MOST_CHARACTERS: Final = 20_000
"""The most characters of a block, and of an entry; longer blocks are refused, longer entries are truncated."""

MOST_BLOCKS: Final = 100
"""The most blocks of one user and agent."""

_MOST_WORDS: Final = 32  # of a query
_NAME: Final = re.compile(r"\w(?:[\w .:-]{0,62}[\w.:-])?")
_DELETE_OLDEST: Final = "DELETE FROM texts WHERE key IN (SELECT key FROM texts ORDER BY time LIMIT 10)"
_ADD_ENTRY: Final = "INSERT INTO entries (user, session, author, time, text, metadata) VALUES (?, ?, ?, ?, ?, ?)"


def _storable(text: str) -> str:
    """The text as SQLite can store it: lone surrogates and zero characters are replaced."""
    return encodable_text(text).replace("\0", "\N{REPLACEMENT CHARACTER}")


# Blocks ---------------------------------------------------------------------------------------------------------------


@frozen
class Blocks:
    """Blocks of text by name, of one user and agent, which every request of the agent contains.

    Attributes:
        database: Where they are stored.
        core: The names of those that can't be archived.
    """

    database: Database
    core: tuple[str, ...] = field(default=(), converter=tuple_of("core", str))

    def all(self, user: str | None, agent: str | None) -> dict[str, str]:
        """Their texts by name, sorted."""
        if not self.database.exists:
            return {}
        with self.database.work() as connection:
            rows = connection.execute("SELECT name, text FROM blocks WHERE scope = ?", (_scope(user, agent),))
            return dict(sorted(rows))

    def create(self, user: str | None, agent: str | None, name: str, content: str) -> str:
        """Makes a block; returns its text.

        Raises:
            ToolError: The name isn't allowed or is taken, or there are too many blocks, or too much text.
        """
        if _NAME.fullmatch(name) is None:
            what = "1 to 64 letters, digits, '_', '.', ':', '-' or inner spaces; the first is a letter, a digit or '_'"
            raise ToolError(f"{name[:80]!a} is not a valid name of a block. A name has {what}.")
        with self.database.work(write=True) as connection:
            rows = connection.execute("SELECT name FROM blocks WHERE scope = ?", (_scope(user, agent),))
            names = {confusable_key(row[0]).casefold(): row[0] for row in rows}
            if (alike := names.get(confusable_key(name).casefold())) is not None:  # the model would confuse them
                raise ToolError(f"Block {alike!r} already exists.", hint='Use operation "append" or "replace".')
            if len(names) >= MOST_BLOCKS:
                raise ToolError(f"There are already {MOST_BLOCKS} blocks, the maximum.", hint="Archive one first.")
            text = _check_length(name, content)
            connection.execute("INSERT INTO blocks VALUES (?, ?, ?, ?)", (_scope(user, agent), name, text, time.time()))
            return text

    def change(self, user: str | None, agent: str | None, name: str, content: str, old: str | None = None) -> str:
        """Changes a block; returns its text.

        Args:
            user: The user.
            agent: The agent.
            name: The block.
            content: The new text: replaces `old`, or is appended after a blank line.
            old: The text to replace, which has to be in the block exactly once; `""`: the whole block; `None`: append.

        Raises:
            ToolError: There is no such block, or `old` isn't in it once, or there is too much text.
        """
        with self.database.work(write=True) as connection:
            before = self._read_text(connection, user, agent, name)
            text = _check_length(name, change_text(before, name, content, old))
            values = (text, time.time(), _scope(user, agent), name)
            connection.execute("UPDATE blocks SET text = ?, time = ? WHERE scope = ? AND name = ?", values)
            return text

    def archive(self, user: str | None, agent: str | None, session: str | None, name: str, label: str | None) -> str:
        """Moves a block into the entries, which a search finds; returns its label there.

        Raises:
            ToolError: There is no such block, or it can't be archived.
        """
        if name in self.core:
            raise ToolError(f"Block {name!r} can't be archived.", hint="Replace its text instead.")
        with self.database.work(write=True) as connection:
            text = self._read_text(connection, user, agent, name)
            now = time.time()
            label = _storable(label or f"{name}_archived_{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}")[:200]
            metadata = json.dumps({"block": name, "label": label})  # `_search` recognises archived blocks by `block`
            row = (user, session, agent, now, f"{label}: {text}", metadata)
            connection.execute(_ADD_ENTRY, row)
            connection.execute("DELETE FROM blocks WHERE scope = ? AND name = ?", (_scope(user, agent), name))
            return label

    def _read_text(self, connection: Any, user: str | None, agent: str | None, name: str) -> str:
        scope = _scope(user, agent)
        query = "SELECT text FROM blocks WHERE scope = ? AND name = ?"
        row = connection.execute(query, (scope, _storable(name))).fetchone()
        if row is not None:
            return row[0]
        rows = connection.execute("SELECT name FROM blocks WHERE scope = ? ORDER BY name", (scope,))
        names = ", ".join(repr(row[0]) for row in rows)
        existing = f"Existing blocks: {names}." if names else "There are no blocks."
        raise ToolError(f"There is no block {name[:80]!a}. {existing}", hint="Create it first.")


def change_text(before: str, name: str, content: str, old: str | None) -> str:
    """The text of a block after a change, as `Blocks.change` describes it.

    Raises:
        ToolError: `old` isn't in it exactly once.
    """
    if old is None:
        return f"{before}\n\n{content}" if before else content
    if old == "":
        return content
    if (times := before.count(old)) != 1:
        what = "was not found" if times == 0 else f"occurs {times} times"
        hint = "Copy it exactly from the block, with enough of the text around it to be unique."
        raise ToolError(f"old_content {what} in block {name!r}.", hint=hint)
    return before.replace(old, content)


def _check_length(name: str, text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        what = f"would have {len(text):,} characters; the maximum is {MOST_CHARACTERS:,}"
        raise ToolError(f"Block {name!r} {what}.", hint="Shorten the text, or archive blocks that you don't need.")
    return _storable(text)


def _scope(user: str | None, agent: str | None) -> str:
    """Whose a block is, as the column `scope` has it."""
    return json.dumps([user, agent])


# Entries --------------------------------------------------------------------------------------------------------------


@frozen
class SqliteMemory(Memory):
    """pegboard's `Memory`, searched by SQLite's full-text index FTS5.

    Attributes:
        database: Where it is stored.
    """

    database: Database

    async def search(
        self,
        query: str,
        *,
        user: str | None = None,
        session: str | None = None,
        limit: int = 10,
        agent: str | None = None,
    ) -> tuple[MemoryEntry, ...]:
        """The entries that share words with a query, best first; English words are stemmed.

        Args:
            query: In plain words, without syntax.
            user: The user whose entries are searched.
            session: Only entries of this conversation.
            limit: How many at most.
            agent: Leaves out what other agents of the user have archived; `None` leaves out nothing.
        """
        stop = threading.Event()
        try:
            return await run_in_thread(self._search, query, user, session, limit, agent, stop)
        finally:
            stop.set()  # a cancelled search ends in its thread, too

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
        entry = MemoryEntry(_storable(text[:MOST_CHARACTERS]), user, session, author, time.time(), dict(metadata or {}))
        await run_in_thread(self._add, entry)
        return entry

    def _add(self, entry: MemoryEntry) -> None:
        row = (entry.user, entry.session, entry.author, entry.time, entry.text, json.dumps(entry.metadata))
        with self.database.work(write=True) as connection:
            connection.execute(_ADD_ENTRY, row)

    def _search(  # noqa: PLR0913, PLR0917  (the parameters of `search`)
        self,
        query: str,
        user: str | None,
        session: str | None,
        limit: int,
        agent: str | None,
        stop: threading.Event,
    ) -> tuple[MemoryEntry, ...]:
        words = list(dict.fromkeys(re.findall(r"\w+", _storable(query[:MOST_CHARACTERS]).casefold())))[:_MOST_WORDS]
        if not words or limit < 1 or not self.database.exists:
            return ()
        match = " OR ".join(f'"{word}"' for word in words)  # quoted: OR, AND, NOT and NEAR would be operators
        conditions, values = "words MATCH ? AND user IS ?", [match, user]
        if session is not None:
            conditions, values = f"{conditions} AND session = ?", [*values, session]
        if agent is not None:
            visible = "(author IS ? OR json_extract(metadata, '$.block') IS NULL)"
            conditions, values = f"{conditions} AND {visible}", [*values, agent]
        select = "SELECT e.text, user, session, author, time, metadata FROM words JOIN entries e ON e.id = words.rowid"
        with self.database.work(stop=stop) as connection:
            rows = connection.execute(f"{select} WHERE {conditions} ORDER BY rank, e.id DESC LIMIT ?", (*values, limit))
            return tuple(MemoryEntry(*row[:5], metadata=self.database.read(json.loads, row[5])) for row in rows)


# Full texts of results ------------------------------------------------------------------------------------------------


@frozen
class SqliteTexts(ResultTexts):
    """pegboard's `ResultTexts`: full texts of truncated results, compressed.

    Attributes:
        database: Where they are stored.
        most_bytes: How many bytes they take in all; the oldest are deleted first, and a longer one is refused.
    """

    database: Database
    most_bytes: int = field(default=256 << 20, kw_only=True)

    def keep(self, key: str, text: str, *, session: str | None) -> None:
        """Stores a text; deletes the oldest to make room."""
        data = zlib.compress(text.encode(errors="surrogatepass"), 1)
        if len(data) > self.most_bytes:
            raise ToolError(f"The text is too long to store: over {self.most_bytes:,} bytes.")
        with self.database.work(write=True) as connection:
            stored = "SELECT coalesce(sum(length(data)), 0) FROM texts"
            while connection.execute(stored).fetchone()[0] + len(data) > self.most_bytes:
                connection.execute(_DELETE_OLDEST)
            connection.execute("INSERT INTO texts VALUES (?, ?, ?, ?)", (key, session, time.time(), data))

    def load(self, key: str, *, session: str | None) -> str | None:
        """The text, if it was stored for this session and is still there."""
        if not self.database.exists:
            return None
        with self.database.work() as connection:
            query = "SELECT data FROM texts WHERE key = ? AND session IS ?"
            row = connection.execute(query, (_storable(key), session)).fetchone()
        return None if row is None else self.database.read(_unpack, row[0])


def _unpack(data: bytes) -> str:
    return zlib.decompress(data).decode(errors="surrogatepass")
