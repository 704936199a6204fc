"""Generators as tools: their items are partial results, and what they return is the result."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from types import AsyncGeneratorType
from typing import Any

from pegboard.tools.context import ToolContext


def exhausted(source: Iterable[Any], context: ToolContext) -> Any:
    """What the generator returns, or else the list of its items; each item is emitted on the way."""
    generator, items = iter(source), list[Any]()
    while True:
        try:
            item = next(generator)
        except StopIteration as end:
            return items if end.value is None else end.value
        items.append(item)
        context.emit(item)


async def exhausted_async(source: AsyncIterable[Any], context: ToolContext) -> list[Any]:
    """The list of an async generator's items; each is emitted on the way."""
    items: list[Any] = []
    try:
        async for item in source:
            items.append(item)
            context.emit(item)
    finally:
        if isinstance(source, AsyncGeneratorType):
            await source.aclose()
    return items
