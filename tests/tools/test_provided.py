from __future__ import annotations

import functools
import threading
from typing import Annotated, Generic, Protocol, TypeVar
from unittest.mock import Mock

import pytest

from pegboard.tools.context import ToolContext
from pegboard.tools.injection import name_of_kind
from pegboard.tools.services import _provided

T = TypeVar("T")


class Database: ...


class Repository(Generic[T]): ...


class Clock(Protocol):
    def now(self) -> float: ...


class CallableDatabase(Database):
    def __call__(self): ...


class CallableClock:
    def now(self): ...

    def __call__(self): ...


class MakesDatabases:
    def __call__(self):
        return Database()


CONTEXT = ToolContext()
DATABASE = Database()


def function():
    return DATABASE


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Database, DATABASE),
        (Database, CallableDatabase()),
        (Database, Mock(spec=Database)),
        (Database, "a stand-in for a test"),
        (Database, None),
        (Clock, CallableClock()),
        (Repository[int], Repository()),
        (type, Database),
        (type(function), function),
    ],
)
def test_a_value_of_the_type_or_what_cannot_be_called_is_kept(kind, value):
    found = _provided(kind, value)
    assert found.value is value
    assert found.make is None


@pytest.mark.parametrize(
    "factory", [function, lambda: DATABASE, functools.partial(function), Mock(return_value=DATABASE)]
)
def test_what_can_be_called_makes_it(factory):
    assert _provided(Database, factory).make(CONTEXT) is DATABASE


def test_a_class_or_a_callable_object_makes_it_too():
    for kind, factory in ((Database, Database), (Database, MakesDatabases()), (Repository[int], Repository)):
        assert isinstance(_provided(kind, factory).make(CONTEXT), (Database, Repository))
    assert isinstance(_provided(Clock, CallableClock).make(CONTEXT), CallableClock)


def test_a_factory_gets_the_context_where_it_asks_for_it():
    factories = [
        lambda context: context,
        lambda anything: anything,
        lambda it, /, other=1: it,
        lambda *, it: it,
        lambda other=1, context=None: context,
        lambda *rest, context=None, **more: context,
    ]
    for factory in factories:
        assert _provided(Database, factory).make(CONTEXT) is CONTEXT
    assert _provided(Database, lambda other=1, *rest, **more: other).make(CONTEXT) == 1


def test_one_without_a_readable_signature_gets_nothing():
    assert _provided(Database, dict).make(CONTEXT) == {}


def test_a_factory_that_asks_for_more_is_refused():
    def factory(url, context): ...

    with pytest.raises(TypeError, match="the factory of Database takes url, context; it gets nothing but the context"):
        _provided(Database, factory)


def test_what_is_made_for_all_calls_gets_no_calls_context():
    with pytest.raises(TypeError, match="the factory of Database takes context; it makes one for all calls"):
        _provided(Database, lambda context: context, scope="registry")
    assert _provided(Database, function, scope="registry").scope == "registry"


@pytest.mark.parametrize("kind", ["Database", 5, T, None, int | str, Annotated[int, 1]])
def test_only_a_type_can_be_asked_for(kind):
    with pytest.raises(TypeError, match="a service is provided for a class or protocol"):
        _provided(kind, 1)


def test_an_unknown_scope_is_refused():
    with pytest.raises(TypeError, match='scope is "call" or "registry", not \'turn\''):
        _provided(Database, function, scope="turn")


def test_generators_become_context_managers():
    def plain():
        yield 1

    async def asynchronous():
        yield 1

    assert hasattr(_provided(int, plain).make(CONTEXT), "__enter__")
    assert hasattr(_provided(int, asynchronous).make(CONTEXT), "__aenter__")
    assert hasattr(_provided(int, functools.partial(plain)).make(CONTEXT), "__enter__")


def test_a_factory_says_how_it_is_treated():
    found = _provided(Database, function, blocking=False, enter=False)
    assert (found.scope, found.blocking, found.enter, found.name) == ("call", False, False, "Database")


def test_types_are_named_for_people():
    assert name_of_kind(Database) == "Database"
    assert name_of_kind(Repository[int]).endswith("Repository[int]")
    assert name_of_kind(threading.Thread) == "Thread"
