"""`ToolIndex`: finds tools by words."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from attrs import frozen

from pegboard.tools.spec import ToolSpec
from pegboard.toolsets.search import table
from pegboard.toolsets.search.entry import row_of
from pegboard.toolsets.search.words import MOST_TEXT, question_words

if TYPE_CHECKING:
    import sqlite3

MOST_NEAR: Final = 3
"""How many near misses stand for a question, or for a word of it, that nothing is found for."""

MOST_GUESSED: Final = 4
"""How many words of a question are held against all that is known; each takes some 20 ms among 10,000 tools."""


@frozen
class Found:
    """A tool that was found.

    Attributes:
        spec: The tool's.
        score: BM25, times the part of the question's words that was found; a higher one is better, and 0.0 tells
            nothing. Comparable within one answer only.
        near: Whether no word was found as it was written, and this tool's name, or a word of it, is near to one.
    """

    spec: ToolSpec
    score: float
    near: bool = False

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.spec.name


class ToolIndex:
    """Finds tools by the words of their names, titles, tags, parameters and descriptions.

    Kept in memory by SQLite's FTS5 and ranked by BM25: a word weighs most in a name, then in title, tags and names of
    parameters (nested ones too), then in the description. A word finds whatever begins with it, without regard to
    case and accents. May be used by several threads.

    Args:
        specs: What to begin with.
        saved: An index as `dump` has written it; it finds tools once `update` has been told of their specs.

    Raises:
        RuntimeError: This Python's SQLite comes without FTS5.
        ValueError: What was saved is damaged, or another version's.
    """

    def __init__(self, specs: Iterable[ToolSpec] = (), *, saved: bytes | None = None) -> None:
        self._lock = threading.RLock()
        self._specs: dict[str, ToolSpec] = {}
        self._kept: dict[str, str] = {}
        self._connection = _made() if saved is None else _loaded(saved)
        weakref.finalize(self, self._connection.close)  # from Python 3.13 on, one left open is warned of
        if saved is not None:
            self._kept = table.digests(self._connection)
        if specs:
            self.update(specs)

    def dump(self, facts: Mapping[str, str] | None = None) -> bytes:
        """The whole index, to begin with another time.

        Args:
            facts: What to note in it; see `facts`.
        """
        with self._lock:
            own = [(name, spec.digest) for name, spec in self._specs.items()]
            with self._connection:
                table.set_digests(self._connection, own)
                table.set_facts(self._connection, (facts or {}).items())
            return self._connection.serialize()

    @property
    def facts(self) -> Mapping[str, str]:
        """What was noted by `dump`."""
        with self._lock:
            return table.facts(self._connection)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools that it finds, sorted."""
        return tuple(sorted(self._specs))

    def __len__(self) -> int:
        return len(self._specs)

    def update(self, specs: Iterable[ToolSpec]) -> bool:
        """Makes these the tools that are found; of two of one name the first.

        Only what has changed is indexed anew: a spec counts as the same where its digest is.

        Returns:
            Whether anything had to be changed.
        """
        wanted: dict[str, ToolSpec] = {}
        for spec in specs:
            wanted.setdefault(spec.name, spec)
        with self._lock:
            new = [spec for name, spec in wanted.items() if not self._has(name, spec)]
            fresh = {spec.name for spec in new}
            known = self._specs.keys() | self._kept.keys()
            old = [name for name in known if name not in wanted or name in fresh]
            with self._connection:
                table.remove(self._connection, old)
                table.add(self._connection, map(row_of, new))
            self._specs, self._kept = wanted, {}
            return bool(new or old)

    def _has(self, name: str, spec: ToolSpec) -> bool:
        known = self._specs.get(name)
        if known is not None:
            return known is spec or known.digest == spec.digest
        return name in self._kept and self._kept[name] == spec.digest

    def search(self, words: str, *, limit: int = 10) -> tuple[Found, ...]:
        """The tools that some words ask for, best first; ties by name.

        A tool is found by any of the words; the more of them, the better. Whatever stands in the text is looked for
        and nothing is syntax: the first 2,000 characters, and 24 different words of them. A tool whose name is the
        whole text, or stands in it and is made of several words, comes first. Where no word is found at all, tools
        with near names are.

        Args:
            words: What is wanted, in any words.
            limit: How many tools at most, from 1.

        Raises:
            ValueError: The limit is below 1.
        """
        if limit < 1:
            raise ValueError(f"limit has to be at least 1, not {limit!r}")
        with self._lock:
            hits = table.best(self._connection, words, limit)
            near = not hits
            if near:
                hits = self._near(words[:MOST_TEXT], limit)
            return tuple(Found(self._specs[name], score, near) for name, score in hits if name in self._specs)

    def search_among(self, specs: Iterable[ToolSpec], words: str, *, limit: int = 10) -> tuple[Found, ...]:
        """`update` and `search`, with no other thread's between them."""
        with self._lock:
            self.update(specs)
            return self.search(words, limit=limit)

    def _near(self, text: str, limit: int) -> list[tuple[str, float]]:
        """The tools whose names are near to the whole text, then those with words that are near to one of it."""
        from pegboard.errors import suggest

        hits = dict.fromkeys(suggest(text.strip(), self._specs, most=MOST_NEAR), 0.0)
        known = table.words_in_names(self._connection)
        asked = [word for word in question_words(text) if len(word) > 2][:MOST_GUESSED]
        words = [near for word in asked for near in suggest(word, known, most=1)]
        if words:
            hits = {**hits, **dict(table.best(self._connection, " ".join(words), limit))}
        return list(hits.items())[:limit]

    def close(self) -> None:
        """Gives its memory back; afterwards it can't be used."""
        with self._lock:
            self._connection.close()


def _made() -> sqlite3.Connection:
    import sqlite3

    connection = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        table.create(connection)
    except sqlite3.OperationalError as error:
        connection.close()
        raise RuntimeError(f"searching for tools needs an SQLite with FTS5: {error}") from error
    return connection


def _loaded(saved: bytes) -> sqlite3.Connection:
    import sqlite3

    connection = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        connection.deserialize(saved)
        if table.is_of_this_format(connection) and table.is_whole(connection):
            connection.commit()
            return connection
        fault = "it is another version's, or its parts don't fit together"
    except (sqlite3.Error, MemoryError, OverflowError) as error:  # SQLite takes no bytes at all for a lack of memory
        fault = str(error) or type(error).__name__
    connection.close()
    raise ValueError(f"the index can't be used: {fault}")


__all__ = ["Found", "ToolIndex"]
