"""What type checkers see of the context and of injection: mypy --strict and pyright read this file, pytest runs it."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import Generic, Protocol, TypeVar, assert_type

import pytest

from pegboard import (
    REMOVED,
    Actions,
    Artifacts,
    Injected,
    Memory,
    MemoryEntry,
    PermissionRules,
    Rule,
    ToolContext,
    tool,
)
from pegboard.messages import Citation, TextPart
from pegboard.tools import Content, merge_actions
from pegboard.tools.services import Services
from pegboard.tools.stores import _InMemoryArtifacts, _InMemoryMemory  # pyright: ignore[reportPrivateUsage]

T = TypeVar("T")


class Database:
    def rows(self) -> list[str]:
        return ["row"]


class Clock(Protocol):
    def now(self) -> float: ...


class Store(ABC):
    @abstractmethod
    def size(self) -> int: ...


class Repository(Generic[T]):
    def first(self) -> T | None:
        return None


class Fixed:
    def now(self) -> float:
        return 5.0


class Small(Store):
    def size(self) -> int:
        return 1


@tool
def lookup(key: str, db: Injected[Database], clock: Injected[Clock] | None = None) -> list[str]:
    assert_type(db, Database)
    assert_type(clock, Clock | None)
    return db.rows()


def plain() -> Iterator[Database]:
    yield Database()


async def asynchronous(context: ToolContext) -> AsyncIterator[Database]:
    yield Database()


def test_injected_parameters_have_the_services_type() -> None:
    assert_type(lookup("a", Database()), list[str])
    lookup("a", Database(), Fixed())
    with pytest.raises(AttributeError):
        lookup("a", "no database")  # type: ignore[arg-type]


def test_services_have_the_type_that_they_are_asked_for_by() -> None:
    services = Services({Clock: Fixed(), Store: Small(), Repository[int]: Repository()})
    services.provide(Database, plain)
    services.provide(Database, asynchronous, scope="call")
    services.provide(Database, Database, scope="registry")
    context = ToolContext(services=services)
    assert_type(context.service(Database), Database)
    assert_type(context.service(Clock), Clock)
    assert_type(context.service(Store), Store)
    assert_type(context.service(Repository[int]), Repository[int])
    assert_type(context.wait(context.use(Clock)), Clock)
    assert_type(context.wait(context.use_or(Memory, _InMemoryMemory)), Memory)


def test_memory_and_artifacts_are_typed() -> None:
    async def ask(context: ToolContext) -> None:
        assert_type(await context.memory.add("a"), MemoryEntry)
        assert_type(await context.memory.search("a"), tuple[MemoryEntry, ...])
        assert_type(await context.artifacts.save("a.txt", "text"), int)
        assert_type(await context.artifacts.load("a.txt"), Content)
        assert_type(await context.artifacts.list(), tuple[str, ...])

    asyncio.run(ask(ToolContext()))
    memory: Memory = _InMemoryMemory()
    artifacts: Artifacts = _InMemoryArtifacts()
    assert type(memory) is _InMemoryMemory
    assert type(artifacts) is _InMemoryArtifacts


def test_lists_are_taken_where_tuples_are_kept() -> None:
    assert_type(PermissionRules([Rule("*", "*", "allow")]).rules, tuple[Rule, ...])
    assert_type(TextPart("a", citations=[Citation(title="b")]).citations, tuple[Citation, ...])


def test_actions_are_typed() -> None:
    context = ToolContext()
    context.state["a"] = {"b": [1]}
    context.actions.transfer_to = "writer"
    assert_type(context.actions.actions, Actions)
    together = merge_actions([context.actions.actions, Actions({"c": REMOVED})])
    state: dict[str, object] = {"c": 1}
    together.apply_to(state)
    assert state == {"a": {"b": [1]}}
