"""The stage `run`: the handler's function is called, in the loop or off it, within its time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from types import AsyncGeneratorType, CoroutineType
from typing import Any, Final, TypeAlias

import attrs

from pegboard.dispatch.limit import LimitExpiredError, rest_within
from pegboard.dispatch.threads import Threads
from pegboard.dispatch.validate import refusal
from pegboard.dispatch.work import CallError, Work
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Flavour, Handler, StructureError
from pegboard.tools.judge import problem
from pegboard.tools.tool import Tool

ASYNC: Final = Flavour.ASYNC
_COROUTINE: Final[type] = CoroutineType
Starter: TypeAlias = Callable[
    [Handler, Sequence[Any], Mapping[str, Any], ToolContext, Threads], Coroutine[Any, Any, Any]
]


def run(work: Work) -> Awaitable[None] | None:
    """Fills in `work.value`, now or once what is given back has been awaited.

    An async function takes its first step here: one that waits for nothing costs no task, no timer and no frame.

    Raises:
        CallError: `not_executed` where the tool has no handler, `invalid_arguments` where the type refuses what
            the schema took, `timeout`.
        BaseException: Whatever the tool raised.
    """
    tool = work.tool
    assert tool is not None
    handler = tool.handler
    if not isinstance(handler, Handler):
        raise CallError("not_executed", f"{tool.name} has no handler on this board; the host has to run it.")
    context = work.context
    if context.listener is not None and _off_the_loop(handler):
        context = _relayed(context)
    try:
        args, kwargs = tool.bind(context, work.arguments)
    except StructureError as error:
        raise refusal(tool, (problem(error.path, error.reason),)) from None
    if handler.flavour is ASYNC:
        running = handler.function(*args, **kwargs)
    else:
        running = _STARTERS[handler.flavour](handler, args, kwargs, context, work.around.threads)
    coroutine: Coroutine[Any, Any, Any] = running if type(running) is _COROUTINE else _awaited(running)
    try:
        waits_for = coroutine.send(None)
    except StopIteration as end:
        work.value = end.value
        return None
    return _finish(work, context, coroutine, waits_for)


async def _finish(work: Work, context: ToolContext, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> None:
    tool = work.tool
    assert tool is not None
    limit = work.around.limits.timeout if tool.policy.timeout is None else tool.policy.timeout
    try:
        work.value = await rest_within(limit, coroutine, waits_for)
    except LimitExpiredError:
        raise _too_long(tool, limit) from None
    finally:
        if context is not work.context:
            context.listener = None  # an abandoned thread has nobody to talk to


async def _awaited(running: Awaitable[Any]) -> Any:
    return await running


def _off_the_loop(handler: Handler) -> bool:
    return handler.blocking and handler.flavour in (Flavour.PLAIN, Flavour.GENERATOR)


def _relayed(context: ToolContext) -> ToolContext:
    """A context for a thread: what it reports reaches the listener in the loop, in order."""
    listener = context.listener
    assert listener is not None
    return attrs.evolve(context, listener=partial(asyncio.get_running_loop().call_soon_threadsafe, listener))


def _too_long(tool: Tool, limit: float | None) -> CallError:
    goes_on = isinstance(tool.handler, Handler) and _off_the_loop(tool.handler)
    note = "Its work may still be going on." if goes_on else "It was cancelled."
    return CallError("timeout", f"{tool.name} gave no result within {limit:g} s. {note}")


async def _plain(
    handler: Handler, args: Sequence[Any], kwargs: Mapping[str, Any], _context: ToolContext, threads: Threads
) -> Any:
    if handler.blocking:
        value = await threads.run(handler.function, *args, **kwargs)
    else:
        value = handler.function(*args, **kwargs)
    # A lambda round an async function looks plain and isn't.
    return (await value) if isawaitable(value) else value


async def _generator(
    handler: Handler, args: Sequence[Any], kwargs: Mapping[str, Any], context: ToolContext, threads: Threads
) -> Any:
    if not handler.blocking:
        return _exhausted(handler.function(*args, **kwargs), context)
    return await threads.run(lambda: _exhausted(handler.function(*args, **kwargs), context))


def _exhausted(source: Iterable[Any], context: ToolContext) -> Any:
    """What the generator returns, or else the list of its items; each item is emitted on the way."""
    generator, items = iter(source), list[Any]()
    while True:
        try:
            item = next(generator)
        except StopIteration as end:
            return items if end.value is None else end.value
        items.append(item)
        context.emit(item)


async def _async_generator(
    handler: Handler, args: Sequence[Any], kwargs: Mapping[str, Any], context: ToolContext, _threads: Threads
) -> Any:
    source = handler.function(*args, **kwargs)
    items: list[Any] = []
    try:
        async for item in source:
            items.append(item)
            context.emit(item)
    finally:
        if isinstance(source, AsyncGeneratorType):
            await source.aclose()
    return items


_STARTERS: Final[dict[Flavour, Starter]] = {
    Flavour.PLAIN: _plain,
    Flavour.GENERATOR: _generator,
    Flavour.ASYNC_GENERATOR: _async_generator,
}
