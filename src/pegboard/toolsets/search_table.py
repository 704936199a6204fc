"""The tables of the search index: SQLite's FTS5 over plain rows, ranked by BM25; and the tokenizer of queries.

The warm `registry search` uses this module, so it imports nothing but sqlite3 that a bare Python hasn't loaded.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    Row = tuple[str, str, str, str]  # a name; the columns' texts: name, labels (title, tags, parameters), description
    Hit = tuple[str, float]  # a name and its score; a higher one is better

MOST_TEXT = 2_000  # how many characters of a query are read
MOST_WORDS = 24  # how many different words of a query are searched for
_ENGLISH = (
    "a an and any are as at be by can do does for from have how i if in into is it its me my of on or please should "
    "so some something that the their them then there this to want was we what when where which will with would you "
    "your s t"  # `s` and `t` follow apostrophes
)
_STOP_WORDS = frozenset(_ENGLISH.split())


def identifier_parts(identifiers: str) -> list[str]:
    """The words within identifiers, in lower case, as FTS5 separates them, too: `getURLs2` gives get, urls, 2."""
    return [part for segment in _segments(identifiers) for part in _split_word(segment)]


def with_parts(identifiers: str) -> str:
    """Identifiers as they are indexed: unchanged, with the words that FTS5 wouldn't separate appended."""
    if identifiers.islower() and identifiers.replace("_", "").replace(" ", "").isalpha():
        return identifiers
    apart = (parts for segment in _segments(identifiers) if len(parts := _split_word(segment)) > 1)
    return " ".join((identifiers, *(part for parts in apart for part in parts)))


def space_ideographs(text: str) -> str:
    """A text as it is indexed: with spaces around Chinese and Japanese characters, which have none between words."""
    if text.isascii():
        return text
    return "".join(f" {character} " if _is_ideograph(character) else character for character in text)


def query_words(text: str) -> list[str]:
    """The words of a query, in lower case, each once, at most 24; no English stop words, unless there are no others."""
    words: dict[str, None] = {}
    for segment in _segments(text[:MOST_TEXT]):
        for run in _split(segment, lambda text, at: _is_ideograph(text[at]) is not _is_ideograph(text[at - 1])):
            words.update(dict.fromkeys([run.lower(), *_split_word(run)]))
    return ([word for word in words if word not in _STOP_WORDS] or list(words))[:MOST_WORDS]


def query_names(text: str) -> list[str]:
    """What may be a tool's name in a query: the whole of it, and each word that is made of several."""
    text = text[:MOST_TEXT]
    words = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else " " for c in text).split()
    names = [word for word in words if word == text.strip() or len(identifier_parts(word)) > 1]
    return list(dict.fromkeys(names))[:MOST_WORDS]


def match_expression(word: str) -> str:
    """A word of `query_words` in FTS5's query language: a prefix match; a single character matches exactly.

    The words contain no ASCII but letters and digits, so nothing in them is syntax.
    """
    if _is_ideograph(word[0]):
        pairs = [f"{word[at]} {word[at + 1]}" for at in range(len(word) - 1)] or [word]
        return " OR ".join([f'"{pair}"' for pair in pairs])
    return f'"{word}"*' if len(word) > 1 else f'"{word}"'


def _is_ideograph(character: str) -> bool:
    """Whether it is a Chinese character or Japanese kana; Korean words have spaces between them."""
    return "\u3040" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff" or character >= "\U00020000"


def _segments(text: str) -> list[str]:
    """Runs of letters and digits; beyond ASCII, of any printable characters, which FTS5 separates itself."""
    return "".join(c if c.isalnum() or (c > "\x7f" and c.isprintable()) else " " for c in text).split()


def _split_word(segment: str) -> list[str]:
    """A segment split at capitals and between letters and digits, in lower case."""
    if segment.isdigit() or (segment.islower() and segment.isalpha()):
        return [segment]
    return [part.lower() for part in _split(segment, _begins)]


def _split(word: str, begins: Callable[[str, int], bool]) -> list[str]:
    starts = [at for at in range(1, len(word)) if begins(word, at)]
    return [word[start:end] for start, end in zip([0, *starts], [*starts, len(word)], strict=True)]


def _begins(segment: str, at: int) -> bool:
    """Whether a word begins there: `getURLs` is get and URLs, `HTTPServer` HTTP and Server, `v2` v and 2."""
    before, here = segment[at - 1], segment[at]
    if before.isdigit() is not here.isdigit():
        return True
    if not here.isupper():
        return False
    return not before.isupper() or (segment[at + 1 : at + 2].islower() and segment[at + 2 : at + 3].islower())


CREATION = """
CREATE TABLE tools (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE INDEX by_name ON tools (name COLLATE NOCASE);
CREATE VIRTUAL TABLE words USING fts5 (name, labels, description, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE known_words USING fts5vocab (words, col);
INSERT INTO words (words, rank) VALUES ('rank', 'bm25(10.0, 4.0, 1.0)');
"""

_NAMED = "SELECT name FROM tools WHERE name = ? COLLATE NOCASE ORDER BY name <> ?, name LIMIT 1"
_OF_WORD = "SELECT rowid AS id, rank AS score FROM words WHERE words MATCH ?"

_BEST = """
SELECT tools.name, -sum(hits.score) * count(*) / ? AS total
FROM ({hits}) AS hits JOIN tools ON tools.id = hits.id
GROUP BY hits.id ORDER BY tools.name IN ({named}) DESC, total DESC, tools.name LIMIT ?
"""


def add(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Inserts rows of new names."""
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM tools").fetchone()
    numbered = list(enumerate(rows, last + 1))
    connection.executemany("INSERT INTO tools VALUES (?, ?)", ((at, row[0]) for at, row in numbered))
    texts = ((at, *row[1:]) for at, row in numbered)
    connection.executemany("INSERT INTO words (rowid, name, labels, description) VALUES (?, ?, ?, ?)", texts)


def remove(connection: sqlite3.Connection, names: Iterable[str]) -> None:
    """Deletes the rows of these names."""
    for name in names:
        found = connection.execute("SELECT id FROM tools WHERE name = ? COLLATE NOCASE AND name = ?", (name, name))
        ids = found.fetchall()
        connection.executemany("DELETE FROM words WHERE rowid = ?", ids)
        connection.executemany("DELETE FROM tools WHERE id = ?", ids)


def best(connection: sqlite3.Connection, text: str, limit: int) -> list[Hit]:
    """The names that match a query, best first, at most `limit`; names that the query contains come first.

    A score is the sum of the BM25 of the words that matched, times the share of the words that did.
    """
    found = (connection.execute(_NAMED, (name, name)).fetchone() for name in query_names(text))
    named = list(dict.fromkeys(row[0] for row in found if row is not None))  # as they are spelt here
    words = query_words(text)
    if not words:
        return [(name, 0.0) for name in named][:limit]
    statement = _BEST.format(hits=" UNION ALL ".join([_OF_WORD] * len(words)), named=", ".join("?" * len(named)))
    values = (len(words), *map(match_expression, words), *named, limit)
    hits: dict[str, float] = dict(connection.execute(statement, values).fetchall())
    missed = [(name, 0.0) for name in named if name not in hits]
    return [*missed, *hits.items()][:limit]


def words_in_names(connection: sqlite3.Connection) -> list[str]:
    """Every word in a name."""
    return [row[0] for row in connection.execute("SELECT term FROM known_words WHERE col = 'name'")]
