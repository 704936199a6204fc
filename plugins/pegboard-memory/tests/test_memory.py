"""Blocks, entries and full texts."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from pegboard import ToolError
from pegboard_memory import Blocks, SqliteMemory, SqliteTexts
from pegboard_memory.memory import MOST_BLOCKS, MOST_CHARACTERS


@pytest.fixture
def blocks(database):
    return Blocks(database, core=("persona",))


@pytest.fixture
def memory(database):
    return SqliteMemory(database)


def add(memory, *texts, **facts):
    return [asyncio.run(memory.add(text, **facts)) for text in texts]


def search(memory, query, **facts):
    return [entry.text for entry in asyncio.run(memory.search(query, **facts))]


# Blocks


def test_a_block_is_made_added_to_and_replaced(blocks):
    assert blocks.create("ann", "cook", "user", "Ann") == "Ann"
    assert blocks.change("ann", "cook", "user", "likes pears") == "Ann\n\nlikes pears"
    assert blocks.change("ann", "cook", "user", "plums", "pears") == "Ann\n\nlikes plums"
    assert blocks.change("ann", "cook", "user", "new", "") == "new"
    assert blocks.all("ann", "cook") == {"user": "new"}


def test_blocks_belong_to_a_user_and_an_agent(blocks):
    for user, agent in (("ann", "cook"), ("ann", None), (None, "cook"), ("None", "cook"), ('ann", "cook', "")):
        assert blocks.all(user, agent) == {}
        blocks.create(user, agent, "a", f"{user}/{agent}")
        assert blocks.all(user, agent) == {"a": f"{user}/{agent}"}


@pytest.mark.parametrize(
    "name", ["", " a", "../a", "a/b", "a\nb", "\u202ea", "a" * 65, "a'; DROP TABLE blocks; --", "\ud800"]
)
def test_an_invalid_name_is_refused(blocks, name):
    with pytest.raises(ToolError, match="is not a valid name"):
        blocks.create(None, None, name, "x")
    with pytest.raises(ToolError, match="There is no block"):
        blocks.change(None, None, name, "x")
    assert blocks.all(None, None) == {}


def test_a_refused_change_names_its_cause_and_changes_nothing(blocks):
    blocks.create(None, None, "a", "one two one")
    for wrong, act in (
        ("Block 'a' already exists", lambda: blocks.create(None, None, "a", "x")),
        ("There is no block 'b'. Existing blocks: 'a'", lambda: blocks.change(None, None, "b", "x")),
        ("occurs 2 times in block 'a'", lambda: blocks.change(None, None, "a", "x", "one")),
        ("was not found in block 'a'", lambda: blocks.change(None, None, "a", "x", "three")),
        ("There is no block 'b'", lambda: blocks.archive(None, None, None, "b", None)),
        ("the maximum is 20,000", lambda: blocks.change(None, None, "a", "x" * MOST_CHARACTERS)),
    ):
        with pytest.raises(ToolError, match=wrong):
            act()
    assert blocks.all(None, None) == {"a": "one two one"}


def test_the_number_of_blocks_is_limited(blocks):
    with blocks.database.work(write=True) as connection:
        rows = [('["ann", null]', f"{number}", "x", 0.0) for number in range(MOST_BLOCKS - 1)]
        connection.executemany("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
    blocks.create("ann", None, "last", "x")
    with pytest.raises(ToolError, match="the maximum"):
        blocks.create("ann", None, "more", "x")
    blocks.create("bob", None, "more", "x")


def test_an_archived_block_is_found_by_its_agent_alone(blocks, memory):
    blocks.create("ann", "cook", "soups", "Pumpkin is best.")
    label = blocks.archive("ann", "cook", "s", "soups", None)
    assert label.startswith("soups_archived_20")
    assert blocks.all("ann", "cook") == {}
    (entry,) = asyncio.run(memory.search("pumpkin", user="ann", agent="cook"))
    assert (entry.text, entry.metadata) == (f"{label}: Pumpkin is best.", {"block": "soups", "label": label})
    assert search(memory, "pumpkin", user="ann", agent="other") == []
    assert search(memory, "pumpkin", user="bob", agent="cook") == []


def test_a_core_block_stays(blocks):
    blocks.create("ann", None, "persona", "Kind.")
    with pytest.raises(ToolError, match="'persona' can't be archived"):
        blocks.archive("ann", None, None, "persona", None)
    assert blocks.all("ann", None) == {"persona": "Kind."}


# Entries


def test_the_best_match_is_found_first(memory):
    add(memory, "Ann cooks soup.", "Pumpkin soup with ginger", "A pear", user="ann")
    assert search(memory, "the pumpkin soups?", user="ann")[0] == "Pumpkin soup with ginger"
    assert len(search(memory, "pumpkin soup", user="ann")) == 2
    assert search(memory, "soup", user="ann", limit=1) == ["Ann cooks soup."]
    assert search(memory, "soup", user="ann", limit=0) == []


def test_users_and_conversations_are_isolated(memory):
    add(memory, "hers", user="ann", session="s")
    add(memory, "hers again", user="ann", session="t")
    add(memory, "no one's hers", user=None)
    assert sorted(search(memory, "hers", user="ann")) == ["hers", "hers again"]
    assert search(memory, "hers", user="ann", session="s") == ["hers"]
    assert search(memory, "hers") == ["no one's hers"]
    assert search(memory, "hers", user="bob") == []


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "'",
        "a AND",
        "NEAR(",
        "text: x",
        "*",
        "-a",
        "a OR (",
        "^",
        "{a b}: c",
        "\0a",
        "\ud800",
        "a" * 50_000,
        "a " * 50_000,
    ],
)
def test_a_query_has_no_syntax(memory, query):
    add(memory, "and near or text a c x")
    assert len(search(memory, f"{query} near")) <= 1


def test_an_entry_is_stored_with_its_metadata_and_cut_if_it_is_long(memory):
    (entry,) = add(memory, "\ud800\0" + "word " * 10_000, user="ann", session="s", author="bob", metadata={"a": [1]})
    (again,) = asyncio.run(memory.search("word", user="ann"))
    assert again == entry
    assert (len(entry.text), entry.text[:2], entry.metadata) == (MOST_CHARACTERS, "\ufffd\ufffd", {"a": [1]})


def test_a_search_makes_no_database(memory, database):
    assert search(memory, "a") == []
    assert Blocks(database).all(None, None) == {}
    assert SqliteTexts(database).load("a", session=None) is None
    assert not database.path.parent.exists()


def test_a_search_ends_in_its_thread_when_it_is_cancelled(memory, database, monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def search_without_end(*arguments):
        try:
            with database.work(stop=arguments[-1]) as connection:
                begun.set()
                numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
                connection.execute(numbers).fetchone()
        finally:
            ended.set()

    async def cancel():
        search = asyncio.create_task(memory.search("a"))
        assert await asyncio.to_thread(begun.wait, 60)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        assert await asyncio.to_thread(ended.wait, 60)

    monkeypatch.setattr(SqliteMemory, "_search", search_without_end)
    asyncio.run(cancel())


# Full texts


def test_a_text_belongs_to_its_session(database):
    texts = SqliteTexts(database)
    texts.keep("k", "whole \ud800 text", session="s")
    assert texts.load("k", session="s") == "whole \ud800 text"
    assert [texts.load("k", session=other) for other in ("t", None)] == [None, None]
    assert texts.load("other", session="s") is None


def test_the_oldest_texts_are_deleted_to_make_room(database):
    texts = SqliteTexts(database, most_bytes=100_000)
    for number in range(30):
        texts.keep(f"{number}", os.urandom(4_000).hex(), session=None)
    kept = [number for number in range(30) if texts.load(f"{number}", session=None)]
    assert kept == list(range(kept[0], 30))
    assert 10 <= len(kept) < 30
    with pytest.raises(ToolError, match="too long"):
        texts.keep("huge", os.urandom(100_000).hex(), session=None)
