"""What type checkers see of `@tool`: mypy --strict and pyright read this file, pytest runs it."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, assert_type

import pytest
from attrs import frozen

from pegboard import Tool, ToolContext, TypedTool, tool, tool_of
from pegboard.errors import DefinitionError
from pegboard.tools import tools_from
from pegboard.tools.options import ToolOptions
from pegboard.tools.typed import _tools_of


@tool
def bare(a: int, b: str = "x") -> float:
    return a + len(b)


@tool(name="named", read_only=True, tags=["a"], requires_confirmation=lambda arguments: "a" in arguments)
def with_options(a: int) -> list[str]:
    return ["x"] * a


@tool
async def coroutine(a: int) -> str:
    return str(a)


@tool()
def generator(a: int) -> Iterator[int]:
    yield a


@tool
async def async_generator(a: int) -> AsyncIterator[int]:
    yield a


def double(a: int) -> int:
    return 2 * a


class Service:
    @tool
    def method(self, a: int) -> str:
        return str(a)

    @tool(title="With options")
    async def async_method(self, a: int) -> str:
        return str(a)

    @classmethod
    @tool
    def of_class(cls, a: int) -> str:
        return cls.__name__ * a

    @staticmethod
    @tool
    def static(a: int) -> str:
        return str(a)

    @tool
    @staticmethod
    def static_below(a: int) -> str:
        return str(a)


@frozen
class Place:
    city: str


@frozen
class Forecast:
    text: str


class Weather(TypedTool[Place, Forecast]):
    """Tell the weather."""

    async def call(self, context: ToolContext, place: Place) -> Forecast:
        return Forecast(f"{context.call_id}{place.city}")


class Lines(TypedTool[Place, list[str]]):
    def call(self, context: ToolContext, place: Place) -> Iterator[str]:
        yield place.city


def test_decorated_functions_keep_their_types() -> None:
    assert_type(bare(1), float)
    assert_type(bare(1, b="y"), float)
    assert_type(with_options(1), list[str])
    assert_type(generator(1), Iterator[int])
    assert_type(async_generator(1), AsyncIterator[int])
    assert_type(asyncio.run(coroutine(1)), str)
    awaited: Coroutine[Any, Any, str] = coroutine(1)
    awaited.close()


def test_wrong_arguments_are_errors_to_checkers() -> None:
    calls: list[Callable[[], object]] = [
        lambda: bare("1"),  # type: ignore[arg-type]
        lambda: with_options(b=1),  # type: ignore[call-arg]
        lambda: tool(double, nmae="x"),  # type: ignore[call-overload]
        lambda: tool(double, timeout="x"),  # type: ignore[call-overload]
        lambda: tool(5),  # type: ignore[call-overload]
    ]
    for call in calls:
        with pytest.raises((TypeError, DefinitionError)):
            call()


def test_methods_keep_their_types() -> None:
    service = Service()
    assert_type(service.method(1), str)
    assert_type(asyncio.run(service.async_method(1)), str)
    assert_type(Service.of_class(1), str)
    assert_type(Service.static(1), str)
    assert_type(Service.static_below(1), str)


def test_a_decorator_may_be_called_and_kept() -> None:
    def function(a: int) -> int:
        return a

    assert_type(tool(function)(1), int)
    assert_type(tool(function, name="other")(1), int)
    assert_type(tool(name="third")(function)(1), int)


def test_tools_are_typed() -> None:
    options: ToolOptions = {"name": "a", "retries": 1}
    assert_type(Tool.from_function(double, **options), Tool)
    assert_type(Tool.from_schema("a", {"type": "object"}, title="A"), Tool)
    assert_type(tool_of(bare), Tool | None)
    assert_type(_tools_of(Service()), list[Tool])
    assert_type(tools_from(Weather), list[Tool])


def test_typed_tools_hold_their_call_to_the_types() -> None:
    async def ask() -> Forecast:
        return await Weather().call(ToolContext(), Place("Rome"))

    assert_type(Weather().as_tool(), Tool)
    assert asyncio.run(ask()) == Forecast("Rome")
    assert_type(list(Lines().call(ToolContext(), Place("Rome"))), list[str])
