from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.services import Services
from pegboard.tools.stores import MOST_CHARACTERS, Memory, MemoryEntry, _InMemoryMemory


def texts(found):
    return [entry.text for entry in found]


def filled(*entries, most=100, **facts):
    memory = _InMemoryMemory(most)
    for text in entries:
        asyncio.run(memory.add(text, **facts))
    return memory


def test_entries_are_ranked_by_shared_words_then_the_newest_first():
    memory = filled("the cat sat", "a CAT and a dog", "the dog, the cat!", "a bird")
    assert texts(asyncio.run(memory.search("Cat dog the"))) == ["the dog, the cat!", "a CAT and a dog", "the cat sat"]
    assert texts(asyncio.run(memory.search("cat", limit=1))) == ["the dog, the cat!"]


@pytest.mark.parametrize(("query", "limit"), [("fish", 10), ("", 10), ("...", 10), ("cat", 0), ("cat", -1)])
def test_nothing_fits(query, limit):
    assert asyncio.run(filled("the cat sat").search(query, limit=limit)) == ()


def test_users_never_meet():
    memory = filled("cat of ann", user="ann")
    asyncio.run(memory.add("cat of nobody"))
    assert texts(asyncio.run(memory.search("cat", user="bob"))) == []
    assert texts(asyncio.run(memory.search("cat", user="ann"))) == ["cat of ann"]
    assert texts(asyncio.run(memory.search("cat"))) == ["cat of nobody"]


def test_a_search_may_keep_to_one_conversation():
    memory = filled("cat one", session="1")
    asyncio.run(memory.add("cat two", session="2"))
    assert texts(asyncio.run(memory.search("cat", session="1"))) == ["cat one"]
    assert texts(asyncio.run(memory.search("cat"))) == ["cat two", "cat one"]


def test_a_full_memory_costs_the_one_who_fills_it():
    memory = filled("cat of ann", user="ann", most=3)
    for number in range(9):
        asyncio.run(memory.add(f"cat {number}", user="bob"))
    assert texts(asyncio.run(memory.search("cat", user="ann"))) == ["cat of ann"]
    assert texts(asyncio.run(memory.search("cat", user="bob"))) == ["cat 8", "cat 7"]


def test_a_memory_of_nothing_keeps_nothing():
    memory = filled("cat", most=0)
    assert asyncio.run(memory.search("cat")) == ()


def test_long_texts_are_cut():
    assert len(asyncio.run(_InMemoryMemory().add("x" * (MOST_CHARACTERS + 1))).text) == MOST_CHARACTERS


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y x", "z"])), max_size=12), st.integers(0, 5))
def test_at_most_so_many_are_kept(entries, most):
    memory = _InMemoryMemory(most)
    for user, text in entries:
        asyncio.run(memory.add(text, user=user))
    kept = [asyncio.run(memory.search("x y z", user=user, limit=99)) for user in "ab"]
    assert sum(map(len, kept)) == min(most, len(entries))


def test_a_call_remembers_for_its_user_and_conversation():
    context = ToolContext(ReadonlyContext(user="ann", session="s", agent="writer"))
    entry = asyncio.run(context.memory.add("the cat", metadata={"why": "told"}))
    assert (entry.user, entry.session, entry.author, entry.metadata) == ("ann", "s", "writer", {"why": "told"})
    assert entry.time > 0
    assert asyncio.run(context.memory.search("cat")) == (entry,)
    assert asyncio.run(context.memory.add("x", author="ann")).author == "ann"


def test_a_call_may_search_its_conversation_only():
    services = Services()
    for session in "12":
        asyncio.run(ToolContext(ReadonlyContext(session=session), services=services).memory.add(f"cat {session}"))
    context = ToolContext(ReadonlyContext(session="1"), services=services)
    assert texts(asyncio.run(context.memory.search("cat", session_only=True))) == ["cat 1"]
    assert texts(asyncio.run(context.memory.search("cat", limit=1))) == ["cat 2"]


def test_the_default_is_shared_by_all_calls_with_these_services():
    services = Services()
    asyncio.run(ToolContext(services=services).memory.add("cat"))
    assert texts(asyncio.run(ToolContext(services=services.over({int: 1})).memory.search("cat"))) == ["cat"]
    assert asyncio.run(ToolContext().memory.search("cat")) == ()


class Fixed(Memory):
    """Remembers one thing."""

    async def search(self, query, *, user=None, session=None, limit=10):
        return (MemoryEntry(f"{query} {user} {session} {limit}"),)


@pytest.mark.parametrize("kind", [Memory, Fixed])
def test_the_hosts_own_is_found_by_the_protocol(kind):
    async def opened():
        return Fixed()

    for value in (Fixed(), opened):
        context = ToolContext(ReadonlyContext(user="ann"), services={kind: value})
        assert texts(asyncio.run(context.memory.search("cat", limit=2))) == ["cat ann None 2"]
