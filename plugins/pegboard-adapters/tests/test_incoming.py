"""Foreign tools as a toolset."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pegboard import ReadonlyContext, Tool, ToolRegistry
from pegboard_adapters.incoming import ForeignToolset, KnownTools, convert_each, function_of, source_of


class Item:
    """A tool of some framework."""

    def __init__(self, name: str, broken: bool = False) -> None:
        self.name, self.broken = name, broken


def convert(item: Any) -> Tool:
    schema = {"$ref": "#/$defs/no\u200bwhere"} if item.broken else {}
    return Tool.from_schema(item.name, schema, lambda arguments: "ran", read_only=True)


async def result_of(trust: Any, name: str = "one") -> Any:
    registry = ToolRegistry()
    registry.register(ForeignToolset("foreign", [Item("one"), Item("two")], convert, trust=trust))
    return await registry.call(name, resolved=await registry.resolve())


def test_one_that_cannot_be_converted_affects_only_itself() -> None:
    toolset = ForeignToolset("foreign", [Item("one"), Item("bad", broken=True), object()], convert)
    result = asyncio.run(toolset.tools(ReadonlyContext()))
    assert [each.name for each in result] == ["one"]
    assert [problem.tool for problem in result.problems] == ["bad", "object"]
    assert "\u200b" not in result.problems[0].cause
    assert asyncio.run(toolset.tools(ReadonlyContext())) is result


@pytest.mark.parametrize(
    ("trust", "runs"),
    [(False, False), (True, True), (["one"], True), (["two"], False), (("pegboard-adapters",), False)],
)
def test_foreign_tools_ask_unless_they_are_trusted(trust: Any, runs: bool) -> None:
    result = asyncio.run(result_of(trust))
    assert (result.text == "ran") == runs


def test_the_source_is_the_package_of_the_function_or_class() -> None:
    import click

    class Wrapped:
        def __init__(self, func: Any) -> None:
            self.func = func

    assert source_of(click.echo) == "click"
    assert source_of(function_of(Wrapped(click.echo))) == "click"
    assert source_of(click.Command("a")) == "click"
    assert source_of(Item("one")) is None


def test_unchanged_tools_stay_the_same_objects() -> None:
    known = KnownTools()
    first = known.same(convert_each([Item("one"), Item("two")], convert))
    again = known.same(convert_each([Item("two"), Item("three")], convert))
    assert again[0] is first[1]
    assert again[1].name == "three"
