"""The tables of an index: SQLite's FTS5 over plain rows, ranked by BM25.

The warm `registry search` reads by this, so it loads nothing beyond sqlite3 that a bare Python hasn't loaded.
"""

from __future__ import annotations

from pegboard.toolsets.search.words import expression, question_names, question_words

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    Row = tuple[str, str, str, str]
    """A name, and its texts for the three columns: name, labels (title, tags, parameters), description."""

    Hit = tuple[str, float]
    """A name and its score; a higher one is better."""

FORMAT = 1
"""Raised whenever what is indexed, or how, changes: a kept index of another format is made anew."""

_CREATION = f"""
PRAGMA user_version = {FORMAT};
CREATE TABLE tools (id INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL);
CREATE INDEX by_name ON tools (name COLLATE NOCASE);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (name, labels, description, tokenize = 'unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE known_words USING fts5vocab (words, col);
INSERT INTO words (words, rank) VALUES ('rank', 'bm25(10.0, 4.0, 1.0)');
"""  # noqa: S608  made of a number of ours

_NAMED = "SELECT name FROM tools WHERE name = ? COLLATE NOCASE ORDER BY name <> ?, name LIMIT 1"
_OF_WORD = "SELECT rowid AS id, rank AS score FROM words WHERE words MATCH ?"
_BEST = """
SELECT tools.name, -sum(hits.score) * count(*) / ? AS total
FROM ({hits}) AS hits JOIN tools ON tools.id = hits.id
GROUP BY hits.id ORDER BY tools.name IN ({named}) DESC, total DESC, tools.name LIMIT ?
"""


def create(connection: sqlite3.Connection) -> None:
    """Makes the tables.

    Raises:
        sqlite3.OperationalError: This SQLite comes without FTS5.
    """
    connection.executescript(_CREATION)


def is_of_this_format(connection: sqlite3.Connection) -> bool:
    """Whether it holds these tables, as this version makes them.

    Raises:
        sqlite3.DatabaseError: It is no database, or damaged.
    """
    return connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)


def is_whole(connection: sqlite3.Connection) -> bool:
    """Whether what it holds fits together.

    Raises:
        sqlite3.DatabaseError: It doesn't.
    """
    connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    (missing,) = connection.execute("SELECT count(*) FROM tools WHERE id NOT IN (SELECT rowid FROM words)").fetchone()
    return verdict == "ok" and not missing


def add(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Puts rows in; their names aren't there yet. The digest stays empty until `set_digests`."""
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM tools").fetchone()
    numbered = list(enumerate(rows, last + 1))
    connection.executemany("INSERT INTO tools VALUES (?, ?, '')", ((at, row[0]) for at, row in numbered))
    texts = ((at, *row[1:]) for at, row in numbered)
    connection.executemany("INSERT INTO words (rowid, name, labels, description) VALUES (?, ?, ?, ?)", texts)


def remove(connection: sqlite3.Connection, names: Iterable[str]) -> None:
    """Takes the rows of these names out."""
    for name in names:
        found = connection.execute("SELECT id FROM tools WHERE name = ? COLLATE NOCASE AND name = ?", (name, name))
        ids = found.fetchall()
        connection.executemany("DELETE FROM words WHERE rowid = ?", ids)
        connection.executemany("DELETE FROM tools WHERE id = ?", ids)


def digests(connection: sqlite3.Connection) -> dict[str, str]:
    """The digest that is kept with each name; empty where none was set."""
    return dict(connection.execute("SELECT name, digest FROM tools"))


def set_digests(connection: sqlite3.Connection, known: Iterable[tuple[str, str]]) -> None:
    """Keeps digests: pairs of name and digest."""
    told = ((digest, name, name) for name, digest in known)
    connection.executemany("UPDATE tools SET digest = ? WHERE name = ? COLLATE NOCASE AND name = ?", told)


def facts(connection: sqlite3.Connection) -> dict[str, str]:
    """What is noted about the index as a whole."""
    return dict(connection.execute("SELECT name, value FROM facts"))


def set_facts(connection: sqlite3.Connection, known: Iterable[tuple[str, str]]) -> None:
    """Notes facts: pairs of name and value."""
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", known)


def best(connection: sqlite3.Connection, text: str, limit: int) -> list[Hit]:
    """The names that a question finds, best first, at most `limit`; names that stand in the question come first.

    A score is the sum of the BM25 of the words that were found, times the part of the words that was.
    """
    named = _named(connection, text)
    words = question_words(text)
    if not words:
        return [(name, 0.0) for name in named][:limit]
    statement = _BEST.format(
        hits=" UNION ALL ".join([_OF_WORD] * len(words)),
        named=", ".join("?" * len(named)),
    )
    values = (len(words), *map(expression, words), *named, limit)
    found: list[Hit] = connection.execute(statement, values).fetchall()
    missed = [(name, 0.0) for name in named if name not in dict(found)]
    return [*missed, *found][:limit]


def _named(connection: sqlite3.Connection, text: str) -> list[str]:
    """The names that stand in a question, as they are spelt here."""
    found = (connection.execute(_NAMED, (name, name)).fetchone() for name in question_names(text))
    return list(dict.fromkeys(row[0] for row in found if row is not None))


def words_in_names(connection: sqlite3.Connection) -> list[str]:
    """Every word that some name holds."""
    return [row[0] for row in connection.execute("SELECT term FROM known_words WHERE col = 'name'")]
