"""Memory, artifacts, whole texts, grants and pending calls."""

from __future__ import annotations

import asyncio
import os

import pytest

from pegboard import (
    FileContent,
    ImageContent,
    ReadonlyContext,
    Rule,
    TextContent,
    ToolCall,
    ToolError,
    ToolRegistry,
    tool,
)
from pegboard.approval import PendingCalls, ask_later, session_key
from pegboard.errors import ArtifactError, PendingError
from pegboard_postgres import (
    DatabaseError,
    PostgresArtifacts,
    PostgresGrants,
    PostgresMemory,
    PostgresPendingCalls,
    PostgresTexts,
)

ODD = ["ann", None, "None", "", "o'hara", '"; DROP TABLE entries; --', "a\0b", "\ud800", "x" * 10_000, "%s", '["ann"]']


# Memory


async def test_what_shares_the_most_words_is_found_first(database):
    memory = PostgresMemory(database)
    for text in ("Ann cooks soup.", "Pumpkin soup with ginger", "A pear"):
        await memory.add(text, user="ann")
    found = [entry.text for entry in await memory.search("the pumpkin soups?", user="ann")]
    assert found == ["Pumpkin soup with ginger", "Ann cooks soup."]
    assert len(await memory.search("soup", user="ann", limit=1)) == 1
    assert await memory.search("soup", user="ann", limit=0) == ()


async def test_memories_of_users_and_sessions_are_separate(database):
    memory = PostgresMemory(database)
    for number, user in enumerate(ODD):
        await memory.add(f"plum {number}", user=user, session="s")
        await memory.add(f"plum {number} again", user=user, session=None)
    for number, user in enumerate(ODD):
        found = {entry.text for entry in await memory.search("plum", user=user)}
        assert found == {f"plum {number}", f"plum {number} again"}
        assert [each.text for each in await memory.search("plum", user=user, session="s")] == [f"plum {number}"]


async def test_an_entry_is_returned_as_it_was_added(database):
    memory = PostgresMemory(database)
    metadata = {"a": [1, "\0", "\ud800"]}
    added = await memory.add("\ud800\0" + "word " * 10_000, user="a", session="\0", author="bob", metadata=metadata)
    assert await memory.search("word", user="a") == (added,)
    assert (len(added.text), added.text[:2]) == (20_000, "\ufffd\ufffd")


@pytest.mark.parametrize("query", ["'", "a & (", "!", "a:*", "\\", "\0a", "\ud800", "a" * 50_000, "a " * 50_000, "<->"])
async def test_a_query_has_no_syntax(database, query):
    memory = PostgresMemory(database)
    await memory.add("a near thing")
    assert len(await memory.search(f"{query} near")) <= 1


# Artifacts


@pytest.mark.parametrize(
    "content",
    [TextContent("\0 \ud800 \u20ac"), ImageContent(b"\0\xff", "image/png"), FileContent("a.bin", b"\0", "x/y")],
)
async def test_versions_are_stored_as_they_are(database, content):
    artifacts = PostgresArtifacts(database)
    assert [await artifacts.save("a/b.txt", each) for each in (TextContent("1"), content)] == [1, 2]
    assert await artifacts.load("a/b.txt", 1) == TextContent("1")
    assert await artifacts.load("a/b.txt") == await artifacts.load("a/b.txt", 2) == content


async def test_artifacts_of_users_and_sessions_are_separate(database):
    artifacts = PostgresArtifacts(database)
    for user in ODD:
        await artifacts.save("a", TextContent(f"{user!r}"), user=user, session="s")
        await artifacts.save("user:b", TextContent(f"{user!r}"), user=user, session="s")
    for user in ODD:
        assert (await artifacts.load("a", user=user, session="s")).text == f"{user!r}"
        assert await artifacts.list(user=user, session="s") == ("a", "user:b")
        assert await artifacts.list(user=user, session="t") == ("user:b",)
    await artifacts.delete("a", user="ann", session="s")
    assert await artifacts.list(user="ann", session="s") == ("user:b",)
    assert await artifacts.list(user=None, session="s") == ("a", "user:b")


async def test_what_is_missing_or_not_allowed_is_an_error(database):
    artifacts = PostgresArtifacts(database, most_bytes=1_000)
    await artifacts.save("a", TextContent("1"))
    for version in (2, 0, -1, 1 << 40):
        with pytest.raises(ArtifactError, match=f"There is no version {version} of artifact 'a'"):
            await artifacts.load("a", version)
    with pytest.raises(ArtifactError, match="too large"):
        await artifacts.save("a", TextContent("x" * 2_000))
    for name in ("../a", "a\0", "", "user:../a"):
        with pytest.raises(ArtifactError, match="is not a valid name"):
            await artifacts.load(name)
    await artifacts.delete("a")
    with pytest.raises(ArtifactError, match="There is no artifact 'a'"):
        await artifacts.load("a")


async def test_each_of_many_saves_at_once_gets_a_version(database, opened):
    stores = [PostgresArtifacts(each) for each in (database, opened())]
    saves = [stores[number % 2].save("a", TextContent(f"{number}")) for number in range(40)]
    assert sorted(await asyncio.gather(*saves)) == list(range(1, 41))


async def test_a_damaged_row_is_an_error(database, server):
    artifacts, texts, memory = PostgresArtifacts(database), PostgresTexts(database), PostgresMemory(database)
    await artifacts.save("a", TextContent("1"))
    await memory.add("plum")
    await PostgresGrants(database).add("s", "tool", [Rule("a", "b", "allow")])
    await asyncio.to_thread(texts.keep, "k", "text", session=None)
    for change in (
        "artifacts SET content = '['",
        "texts SET data = 'x'",
        "entries SET facts = '{'",
        "grants SET rule='7'",
    ):
        server.sql(f"UPDATE {database.schema}.{change}")
    with pytest.raises(ArtifactError, match="version 1, is damaged"):
        await artifacts.load("a")
    with pytest.raises(ToolError, match="is damaged"):
        await asyncio.to_thread(texts.load, "k", session=None)
    with pytest.raises(DatabaseError, match="is damaged"):
        await memory.search("plum")
    with pytest.raises(DatabaseError, match="is damaged"):
        await PostgresGrants(database).rules("s", "tool")


# Whole texts


def test_a_text_is_returned_to_its_session_only(database, opened):
    PostgresTexts(database).keep("k", "whole \0 \ud800 text", session="s")
    texts = PostgresTexts(opened())
    assert texts.load("k", session="s") == "whole \0 \ud800 text"
    assert [texts.load("k", session=other) for other in ("t", None, "None")] == [None] * 3
    assert texts.load("other\0", session="s") is None


def test_the_oldest_texts_are_deleted_when_there_is_no_room(database):
    texts = PostgresTexts(database, most_bytes=100_000)
    for number in range(30):
        texts.keep(f"{number}", os.urandom(4_000).hex(), session=None)
    kept = [number for number in range(30) if texts.load(f"{number}", session=None)]
    assert kept == list(range(kept[0], 30))
    assert 10 <= len(kept) < 30
    with pytest.raises(ToolError, match="too long"):
        texts.keep("huge", os.urandom(100_000).hex(), session=None)


# Grants


async def test_a_grant_counts_in_its_session_for_its_tool_until_it_is_revoked(database, opened):
    grants, other = PostgresGrants(database), PostgresGrants(opened())
    ann, bob = ReadonlyContext(user="ann", session="s"), ReadonlyContext(user="b\0b'", session="s")
    rules = [Rule("edit", "*.txt", "allow"), Rule("edit", "o'hara\n%s", "allow", literal=True)]
    await grants.add(session_key(ann), "tool", rules)
    await grants.add(session_key(bob), "tool", rules[:1])
    assert await other.rules(session_key(ann), "tool") == tuple(rules)
    assert await other.rules(session_key(ann), "other") == ()
    await other.forget(ann)
    assert await grants.rules(session_key(ann), "tool") == ()
    assert await grants.rules(session_key(bob), "tool") == tuple(rules[:1])


async def test_a_grant_expires_by_the_clock_of_the_database(database):
    grants = PostgresGrants(database)
    await grants.add("s", "tool", [Rule("a", "b", "allow")], 0)
    await grants.add("s", "tool", [Rule("c", "d", "allow")], 3600)
    assert await grants.rules("s", "tool") == (Rule("c", "d", "allow"),)


async def test_grants_without_user_and_session_belong_to_one_process(database, opened):
    grants, other = PostgresGrants(database), PostgresGrants(opened())
    await grants.add(None, "tool", [Rule("a", "b", "allow")])
    assert await grants.rules(None, "tool") == (Rule("a", "b", "allow"),)
    assert await other.rules(None, "tool") == ()
    await grants.forget(ReadonlyContext())
    assert await grants.rules(None, "tool") == ()


async def test_an_answer_is_used_once_over_all_processes(database, opened):
    stores = [PostgresGrants(each) for each in (database, opened())]
    used = await asyncio.gather(*(stores[number % 2].consume("id \0") for number in range(20)))
    assert used.count(True) == 1


async def test_an_answer_that_cannot_be_recorded_is_not_used(opened, tmp_path):
    grants = PostgresGrants(opened(f"postgresql:///x?host={tmp_path}"))
    with pytest.raises(PendingError, match="can't be recorded as used: The shared database can't be reached"):
        await grants.consume("id")


# Pending calls


@tool(requires_confirmation=True)
async def order(item: str) -> str:
    """Order an item."""
    return f"{item} ordered"


async def suspended(database, context):
    registry = ToolRegistry(approver=ask_later, grants=PostgresGrants(database))
    registry.register(order)
    outcome = await registry.dispatch([ToolCall("order", {"item": "a\0"}, "c1")], context=context)
    return registry, outcome.pending


async def test_another_process_finds_what_waits_and_resumes_it_once(database, opened):
    for user in ("ann", "o'hara\0"):
        context = ReadonlyContext(user=user, session="s")
        _, pending = await suspended(database, context)
        await PostgresPendingCalls(database, key="k" * 16).save(pending)
    other = opened()
    store = PostgresPendingCalls(other, key="k" * 16)
    assert [call.user for call in await store.waiting(user="ann", session="s")] == ["ann"]
    assert len(await store.waiting(user="ann", session="t")) == len(await store.waiting()) == 0
    context = ReadonlyContext(user="ann", session="s")
    waiting = await store.waiting(user="ann", session="s")
    registry, _ = await suspended(other, context)
    results = [
        await registry.resume(waiting, {waiting.calls[0].id: {"answer": "once"}}, context=context) for _ in range(2)
    ]
    assert results[0].results[0].text == "a\0 ordered"
    assert results[1].results[0].kind == "unknown_outcome"
    await store.remove([call.id for call in waiting])
    assert len(await store.waiting(user="ann", session="s")) == 0
    assert len(await store.waiting(user="o'hara\0", session="s")) == 1


async def test_a_pending_call_that_was_changed_in_the_database_is_refused(database, server):
    context = ReadonlyContext(user="ann", session="s")
    _, pending = await suspended(database, context)
    store = PostgresPendingCalls(database, key="k" * 16)
    await store.save(pending)
    changed = PendingCalls(pending.calls).dumps("other key of 16 bytes").encode().hex()
    server.sql(f"UPDATE {database.schema}.pending_calls SET data = '\\x{changed}'")
    with pytest.raises(PendingError, match="not signed with this key"):
        await store.waiting(user="ann", session="s")
