from __future__ import annotations

import asyncio
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pegboard import (
    Artifacts,
    FileContent,
    ImageContent,
    Memory,
    MemoryEntry,
    ReadonlyContext,
    TextContent,
    ToolContext,
    ToolRegistry,
)
from pegboard.errors import ArtifactError
from pegboard.tools import check_artifact_name
from pegboard.tools.stores import MOST_CHARACTERS, _InMemoryArtifacts, _InMemoryMemory


def run(coroutine):
    return asyncio.run(coroutine)


def of(user=None, session=None, services=None):
    return ToolContext(ReadonlyContext(user=user, session=session), services=services or ToolRegistry().services)


def test_versions_are_counted_and_stored():
    context = of()
    assert run(context.artifacts.save("a.txt", "one")) == 1
    assert run(context.artifacts.save("a.txt", ImageContent(b"two"))) == 2
    assert run(context.artifacts.load("a.txt")) == ImageContent(b"two")
    assert run(context.artifacts.load("a.txt", 1)) == TextContent("one")
    assert run(context.artifacts.list()) == ("a.txt",)


def test_saving_is_reported_to_the_host():
    context = of()
    run(context.artifacts.save("a.txt", "one"))
    run(context.artifacts.save("a.txt", "two"))
    run(context.artifacts.save("b.txt", "three"))
    run(context.artifacts.delete("b.txt"))
    assert context.actions.actions.artifact_delta == {"a.txt": 2}


def test_artifacts_belong_to_a_conversation_and_some_to_its_user():
    services = ToolRegistry().services
    run(of("ann", "1", services).artifacts.save("a.txt", "of the conversation"))
    run(of("ann", "1", services).artifacts.save("user:b.txt", "of the user"))
    assert run(of("ann", "1", services).artifacts.list()) == ("a.txt", "user:b.txt")
    assert run(of("ann", "2", services).artifacts.list()) == ("user:b.txt",)
    assert run(of("ann", None, services).artifacts.list()) == ("user:b.txt",)
    assert run(of("bob", "1", services).artifacts.list()) == ()
    assert run(of(None, None, services).artifacts.list()) == ()
    with pytest.raises(ArtifactError, match=r"There is no artifact 'a.txt'"):
        run(of("ann", "2", services).artifacts.load("a.txt"))


def test_a_missing_version_is_named():
    context = of()
    run(context.artifacts.save("a.txt", "one"))
    with pytest.raises(ArtifactError, match=r"There is no version 2 of artifact 'a.txt'") as caught:
        run(context.artifacts.load("a.txt", 2))
    assert caught.value.name == "a.txt"


def test_deleting_removes_all_versions():
    context = of()
    for text in ("one", "two"):
        run(context.artifacts.save("a.txt", text))
        run(context.artifacts.save("b.txt", text))
    run(context.artifacts.delete("a.txt"))
    run(context.artifacts.delete("never.txt"))
    assert run(context.artifacts.list()) == ("b.txt",)
    assert run(context.artifacts.save("a.txt", "new")) == 1


@pytest.mark.parametrize("name", ["a.txt", "charts/2026 (1).png", "user:photo.jpg", "größe", "a" * 255, ".env"])
def test_plain_names_are_valid(name):
    assert check_artifact_name(name) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "1 to 255 bytes"),
        ("ü" * 128, "1 to 255 bytes"),
        *((each, "plain file name") for each in ("user:", "../a", "a/../../b", "/etc/passwd", "a//b", "a/", " a")),
        *((each, "plain file name") for each in ("a. /b", "a.", "user:../a")),
        *((each, "must not contain any of") for each in ("C:\\a", "a:b", "app:user:a", "a*")),
        *((each, "must be printable") for each in ("a\x00b", "a\nb", "\u202etxt.exe", "\ud800")),
    ],
)
def test_unsafe_names_are_refused_with_the_reason(name, reason):
    context = of()
    for doing in (context.artifacts.save(name, "x"), context.artifacts.load(name), context.artifacts.delete(name)):
        with pytest.raises(ArtifactError, match=reason):
            run(doing)


@given(st.text(alphabet=st.sampled_from("a./\\: ~\n\u202e"), max_size=8) | st.text(max_size=8))
def test_a_valid_name_stays_below_its_folder_on_every_system(name):
    try:
        bare = check_artifact_name(name).removeprefix("user:")
    except ArtifactError:
        return
    for path in (PurePosixPath(bare), PureWindowsPath(bare)):
        assert not path.is_absolute()
        assert not path.drive
        assert ".." not in path.parts
        assert path.as_posix() == bare


def test_only_content_is_stored():
    with pytest.raises(TypeError, match="not dict"):
        run(of().artifacts.save("a.txt", {"a": 1}))


def test_a_too_large_artifact_is_refused():
    artifacts = _InMemoryArtifacts(1000)
    with pytest.raises(ArtifactError, match=r"a\.txt is too large to store: over 1,000 bytes"):
        run(artifacts.save("a.txt", TextContent("x" * 1000)))


def test_a_full_store_drops_from_the_largest_conversation():
    artifacts = _InMemoryArtifacts(2000)
    run(artifacts.save("ann.txt", TextContent("x" * 300), session="ann"))
    for number in range(5):
        run(artifacts.save(f"{number}", FileContent("u", b"x" * 300), session="bob"))
    assert run(artifacts.list(session="ann")) == ("ann.txt",)
    assert run(artifacts.list(session="bob")) == ("3", "4") or run(artifacts.list(session="bob")) == ("2", "3", "4")


def test_the_latest_save_is_not_dropped():
    artifacts = _InMemoryArtifacts(1000)
    run(artifacts.save("small", TextContent("x" * 300), session="1"))
    run(artifacts.save("large", TextContent("x" * 700), session="2"))
    assert run(artifacts.list(session="1")) == ()
    assert run(artifacts.load("large", session="2")) == TextContent("x" * 700)


class StoreStaysBounded(RuleBasedStateMachine):
    """Whatever is saved and deleted, the store keeps its limit and what it says of itself is true."""

    def __init__(self):
        super().__init__()
        self.artifacts = _InMemoryArtifacts(1500)

    @rule(name=st.sampled_from(["a", "b", "user:c"]), session=st.sampled_from("12"), length=st.integers(0, 1200))
    def save(self, name, session, length):
        content = TextContent("x" * length)
        version = run(self.artifacts.save(name, content, session=session))
        assert run(self.artifacts.load(name, version, session=session)) is content
        assert run(self.artifacts.load(name, session=session)) is content

    @rule(name=st.sampled_from(["a", "b", "user:c"]), session=st.sampled_from("12"))
    def delete(self, name, session):
        run(self.artifacts.delete(name, session=session))
        assert name not in run(self.artifacts.list(session=session))

    @invariant()
    def every_name_that_is_listed_can_be_loaded(self):
        for session in "12":
            for name in run(self.artifacts.list(session=session)):
                assert run(self.artifacts.load(name, session=session))

    @invariant()
    def the_size_is_true_and_within_the_limit(self):
        stored = [content for each in self.artifacts._stored.values() for content in each.values()]
        assert self.artifacts._size == sum(200 + len(content.text) for content in stored) <= 1500


StoreStaysBounded.TestCase.settings = settings(stateful_step_count=12)
test_the_store_stays_bounded = StoreStaysBounded.TestCase


class Fixed(Artifacts):
    """Has one artifact."""

    async def load(self, name, version=None, *, user=None, session=None):
        return TextContent(f"{name} {version} {user} {session}")


def test_the_hosts_own_is_found_by_the_protocol():
    context = ToolContext(ReadonlyContext(user="ann", session="s"), services={Artifacts: Fixed()})
    assert run(context.artifacts.load("a", 3)) == TextContent("a 3 ann s")


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


def test_users_are_isolated():
    memory = filled("cat of ann", user="ann")
    asyncio.run(memory.add("cat of nobody"))
    assert texts(asyncio.run(memory.search("cat", user="bob"))) == []
    assert texts(asyncio.run(memory.search("cat", user="ann"))) == ["cat of ann"]
    assert texts(asyncio.run(memory.search("cat"))) == ["cat of nobody"]


def test_a_search_may_be_limited_to_one_conversation():
    memory = filled("cat one", session="1")
    asyncio.run(memory.add("cat two", session="2"))
    assert texts(asyncio.run(memory.search("cat", session="1"))) == ["cat one"]
    assert texts(asyncio.run(memory.search("cat"))) == ["cat two", "cat one"]


def test_a_full_memory_drops_from_the_user_with_the_most_entries():
    memory = filled("cat of ann", user="ann", most=3)
    for number in range(9):
        asyncio.run(memory.add(f"cat {number}", user="bob"))
    assert texts(asyncio.run(memory.search("cat", user="ann"))) == ["cat of ann"]
    assert texts(asyncio.run(memory.search("cat", user="bob"))) == ["cat 8", "cat 7"]


def test_long_texts_are_cut():
    assert len(asyncio.run(_InMemoryMemory().add("x" * (MOST_CHARACTERS + 1))).text) == MOST_CHARACTERS


def test_a_call_remembers_for_its_user_and_conversation():
    context = ToolContext(ReadonlyContext(user="ann", session="s", agent="writer"))
    entry = asyncio.run(context.memory.add("the cat", metadata={"source": "chat"}))
    assert (entry.user, entry.session, entry.author, entry.metadata) == ("ann", "s", "writer", {"source": "chat"})
    assert entry.time > 0
    assert asyncio.run(context.memory.search("cat")) == (entry,)
    assert asyncio.run(context.memory.add("x", author="ann")).author == "ann"


def test_the_default_is_shared_by_all_calls_with_these_services():
    services = ToolRegistry().services
    asyncio.run(ToolContext(services=services).memory.add("cat"))
    assert texts(asyncio.run(ToolContext(services=services.over({int: 1})).memory.search("cat"))) == ["cat"]
    assert asyncio.run(ToolContext().memory.search("cat")) == ()


class FixedMemory(Memory):
    """Remembers one thing."""

    async def search(self, query, *, user=None, session=None, limit=10):
        return (MemoryEntry(f"{query} {user} {session} {limit}"),)


@pytest.mark.parametrize("kind", [Memory, FixedMemory])
def test_the_hosts_own_is_found_by_the_protocol_memory(kind):
    async def opened():
        return FixedMemory()

    for value in (FixedMemory(), opened):
        context = ToolContext(ReadonlyContext(user="ann"), services={kind: value})
        assert texts(asyncio.run(context.memory.search("cat", limit=2))) == ["cat ann None 2"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y x", "z"])), max_size=12), st.integers(0, 5))
def test_the_memory_is_bounded(entries, most):
    memory = _InMemoryMemory(most)
    for user, text in entries:
        asyncio.run(memory.add(text, user=user))
    stored = [asyncio.run(memory.search("x y z", user=user, limit=99)) for user in "ab"]
    assert sum(map(len, stored)) == min(most, len(entries))
