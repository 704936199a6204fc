"""Generators as tools: their items are partial results, and what they return is the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Final

from pegboard.dispatch.limits import CallError
from pegboard.errors import CallStoppedError
from pegboard.tools.context import ToolContext

MOST_ITEMS: Final = 1_000_000
"""How many items a generator may give."""

TURN: Final = 1_000
"""After how many items an async generator lets the rest of the loop go on."""


def exhausted(source: Iterable[Any], context: ToolContext) -> Any:
    """What the generator returns, or else the list of its items; each item is emitted on the way.

    Raises:
        CallError: `limit`: it gives too many.
        CallStoppedError: The call was cancelled meanwhile; the generator is closed.
    """
    generator, items = iter(source), list[Any]()
    try:
        while not context.cancelled:
            try:
                item = next(generator)
            except StopIteration as end:
                return items if end.value is None else end.value
            _take(item, items, context)
    finally:
        if isinstance(generator, GeneratorType):
            generator.close()
    raise CallStoppedError("the call was cancelled", kind="aborted")


async def exhausted_async(source: AsyncIterable[Any], context: ToolContext) -> list[Any]:
    """The list of an async generator's items; each is emitted on the way.

    Raises:
        CallError: `limit`: it gives too many.
    """
    items: list[Any] = []
    try:
        async for item in source:
            _take(item, items, context)
            if not len(items) % TURN:
                await asyncio.sleep(0)
    finally:
        if isinstance(source, AsyncGeneratorType):
            await source.aclose()
    return items


def _take(item: Any, items: list[Any], context: ToolContext) -> None:
    if len(items) == MOST_ITEMS:
        raise CallError("limit", f"The tool gave more than {MOST_ITEMS} items and was ended. Ask for less.")
    items.append(item)
    context.emit(item)


__all__ = ["exhausted", "exhausted_async"]
