from __future__ import annotations

import asyncio
import logging
from abc import ABC
from typing import Generic, Protocol, TypeVar, runtime_checkable

import pytest

from pegboard.errors import MissingServiceError, PegboardError
from pegboard.tools.context import ToolContext
from pegboard.tools.services import Services

T = TypeVar("T")


class Base(ABC): ...  # noqa: B024


class First(Base): ...


class Second(Base): ...


class Repository(Generic[T]): ...


@runtime_checkable
class Searches(Protocol):
    def search(self) -> str: ...


class Index:
    """Searches too, but nobody said that it is what is meant."""

    def search(self):
        return "wrong"


class Meant(Searches):
    def search(self):
        return "right"


def use(services, kind):
    return asyncio.run(services.use(kind, ToolContext(services=services)))


def test_a_value_is_found_by_its_type():
    services = Services({int: 5})
    services.provide(Repository[int], "ints")
    assert (use(services, int), services.use_now(int, ToolContext())) == (5, 5)
    assert use(services, Repository[int]) == "ints"
    assert int in services
    assert str not in services
    assert Repository[str] not in services


def test_the_exact_type_comes_before_one_that_inherits_from_it():
    first, second = First(), Second()
    services = Services({First: first})
    assert use(services, Base) is first
    services.provide(Base, second)
    assert use(services, Base) is second


def test_several_that_inherit_from_it_are_ambiguous():
    services = Services({First: First(), Second: Second()})
    with pytest.raises(MissingServiceError, match="several services are a Base: First, Second; ask for one of them"):
        use(services, Base)


def test_a_protocol_is_found_by_inheritance_not_by_likeness():
    services = Services({Index: Index()})
    assert Searches not in services
    services.provide(Meant, Meant())
    assert use(services, Searches).search() == "right"


def test_what_nobody_provides_is_named_with_the_fix():
    with pytest.raises(MissingServiceError, match=r"registry\.provide\(First, \.\.\.\)") as caught:
        use(Services(), First)
    assert caught.value.kind is First
    assert isinstance(caught.value, LookupError)
    assert isinstance(caught.value, PegboardError)


def test_providing_again_replaces_and_withdrawing_takes_back_only_its_own():
    services = Services()
    one, two = services.provide(int, 1), services.provide(int, 2)
    services.withdraw(one)
    assert use(services, int) == 2
    services.withdraw(two)
    assert int not in services


def test_services_over_others_win():
    below = Services({int: 1, str: "a"})
    above = below.over({int: 2})
    assert (use(above, int), use(above, str), use(below, int)) == (2, "a", 1)
    assert below.over({}) is below
    assert below.over(Services()) is below
    assert below.over(above) is above
    assert use(below.over(Services({str: "b"})), str) == "b"


def test_what_is_open_for_all_calls_is_shared_with_services_over_them():
    below = Services()
    below.provide(list, list, scope="registry")
    above = below.over({int: 1})
    assert use(below, list) is use(above, list)


def test_what_is_open_for_all_calls_is_closed_with_the_registry_and_opened_anew():
    log = []

    async def factory():
        log.append("open")
        yield First()
        log.append("close")

    async def main():
        services = Services()
        services.provide(First, factory, scope="registry")
        one = await services.use(First, ToolContext(services=services))
        assert await services.use(First, ToolContext(services=services)) is one
        await services.aclose()
        await services.aclose()
        assert log == ["open", "close"]
        assert await services.use(First, ToolContext(services=services)) is not one
        await services.aclose()

    asyncio.run(main())
    asyncio.run(Services().aclose())
    assert log == ["open", "close"] * 2


def test_what_fails_while_it_is_closed_is_told_to_the_operator(caplog):
    def factory():
        yield 5
        raise ValueError("stuck")

    services = Services({int: factory})
    context = ToolContext(services=services)
    assert context.service(int) == 5
    with caplog.at_level(logging.ERROR, logger="pegboard"):
        asyncio.run(context.close_services())
    assert "closing int failed" in caplog.text
    assert "stuck" in caplog.text


def test_a_default_is_made_once():
    services = Services()
    assert services.default(list, list) is services.default(list, list)
    assert services.default(list, list) is services.over({int: 1}).default(list, list)
    assert services.default(list, list) is not Services().default(list, list)
