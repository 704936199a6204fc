"""Full-text index of tools, for `registry search` and search tools."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from attrs import frozen

from pegboard.errors import suggest
from pegboard.json import is_object
from pegboard.schema.references import schemas
from pegboard.tools.spec import ToolSpec
from pegboard.toolsets import search_table as table
from pegboard.toolsets.search_table import MOST_TEXT, query_words, space_ideographs, with_parts

if TYPE_CHECKING:
    from pegboard.toolsets.search_table import Row

_MOST_INDEXED: Final = 20_000  # how many characters of a description are indexed
_MOST_PARAMETERS: Final = 500  # how many names of parameters are indexed, those that lie outermost first


def _row_of(spec: ToolSpec) -> Row:
    return (
        spec.name,
        with_parts(spec.name),
        space_ideographs(with_parts(" ".join((spec.title or "", *spec.tags, *_parameter_names(spec))))),
        space_ideographs(spec.description[:_MOST_INDEXED]),
    )


def _parameter_names(spec: ToolSpec) -> list[str]:
    """The names of a tool's parameters, nested ones too, each once, outermost first; at most 500."""
    of_schemas = (each.get("properties") for each in schemas(spec.input_schema))
    names = (name for properties in of_schemas if is_object(properties) for name in properties)
    return list(dict.fromkeys(names))[:_MOST_PARAMETERS]


MOST_NEAR: Final = 3  # how many tools with names like a whole query are given, where nothing matches
MOST_GUESSED: Final = 4  # how many words of a query are compared with all known ones, 20 ms each among 10,000 tools


@frozen
class Found:
    """A tool that was found.

    Attributes:
        spec: The tool's.
        score: BM25 times the share of the query's words that matched; higher is better, and 0.0 is unknown.
            Comparable within one search only.
        near: Whether no word matched, and this tool's name, or a word of it, is a near miss.
    """

    spec: ToolSpec
    score: float
    near: bool = False

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.spec.name


class ToolIndex:
    """Search index of tools by the words of their names, titles, tags, parameters and descriptions.

    An SQLite FTS5 table in memory, ranked by BM25: a word weighs most in a name, then in title, tags and names of
    parameters (nested ones too), then in the description. A word matches whatever begins with it; case, accents and
    English endings are ignored. May be used by several threads.

    Args:
        specs: The specs to index first.

    Raises:
        RuntimeError: This Python's SQLite comes without FTS5.
    """

    def __init__(self, specs: Iterable[ToolSpec] = ()) -> None:
        import sqlite3  # loaded only to search

        self._lock = threading.RLock()
        self._specs: dict[str, ToolSpec] = {}
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._connection.close)  # Python 3.13 warns of one left open
        try:
            self._connection.executescript(table.CREATION)
        except sqlite3.Error as error:
            self.close()
            raise RuntimeError(f"searching tools needs an SQLite with FTS5: {error}") from None
        if specs:
            self.update(specs)

    def dump(self) -> bytes:
        """The whole index as an SQLite database, which another process can search."""
        with self._lock:
            return self._connection.serialize()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the indexed tools, sorted."""
        return tuple(sorted(self._specs))

    def __len__(self) -> int:
        return len(self._specs)

    def update(self, specs: Iterable[ToolSpec]) -> bool:
        """Replaces the indexed tools with these, of two of one name with the first; returns whether any has changed.

        Only what has changed is indexed again: specs with the same digest are equal.
        """
        wanted: dict[str, ToolSpec] = {}
        for spec in specs:
            wanted.setdefault(spec.name, spec)
        with self._lock:
            new = [spec for name, spec in wanted.items() if self._specs.get(name) != spec]
            old = [name for name, spec in self._specs.items() if wanted.get(name) != spec]
            with self._connection:
                table.remove(self._connection, old)
                table.add(self._connection, map(_row_of, new))
            self._specs = wanted
            return bool(new or old)

    def search(self, words: str, *, limit: int = 10) -> tuple[Found, ...]:
        """Searches the index: the best match first, ties by name.

        A tool matches by any of the words; the more of them, the better. The query has no syntax; of its first 2,000
        characters, 24 different words are used. A tool whose name is the whole query, or is in it and is made of
        several words, comes first. Where no word matches, tools with similar names are found.

        Args:
            words: The query, in any words.
            limit: How many tools at most, from 1.

        Raises:
            ValueError: The limit is below 1.
        """
        if limit < 1:
            raise ValueError(f"limit has to be at least 1, not {limit!r}")
        with self._lock:
            hits = table.best(self._connection, words, limit)
            found = hits or self._near(words[:MOST_TEXT], limit)
            return tuple(Found(self._specs[name], score, not hits) for name, score in found if name in self._specs)

    def search_among(self, specs: Iterable[ToolSpec], words: str, *, limit: int = 10) -> tuple[Found, ...]:
        """`update` and `search`, as one atomic step."""
        with self._lock:
            self.update(specs)
            return self.search(words, limit=limit)

    def _near(self, text: str, limit: int) -> list[tuple[str, float]]:
        """The tools whose names are like the whole text, then those with words like one of its words."""
        hits = dict.fromkeys(suggest(text.strip(), self._specs, most=MOST_NEAR), 0.0)
        known = table.words_in_names(self._connection)
        guessed = [word for word in query_words(text) if len(word) > 2][:MOST_GUESSED]
        words = [near for word in guessed for near in suggest(word, known, most=1)]
        if words:
            hits = {**hits, **dict(table.best(self._connection, " ".join(words), limit))}
        return list(hits.items())[:limit]

    def close(self) -> None:
        """Closes the database and frees its memory; the index can't be used afterwards."""
        with self._lock:
            self._connection.close()
