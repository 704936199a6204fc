from __future__ import annotations

import asyncio

import pytest

from pegboard.dispatch.exhausted import exhausted, exhausted_async
from pegboard.tools.context import ToolContext


class Countdown:
    """An async iterator that is no generator."""

    def __init__(self, start):
        self.left = start

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.left:
            raise StopAsyncIteration
        self.left -= 1
        return self.left


def test_items_are_emitted_and_the_list_of_them_is_the_result():
    told = []
    context = ToolContext(listener=told.append)
    assert exhausted(range(3), context) == [0, 1, 2]
    assert asyncio.run(exhausted_async(Countdown(2), context)) == [1, 0]
    assert told == [0, 1, 2, 1, 0]


def test_what_a_generator_returns_is_the_result():
    def generate():
        yield 1
        return "all"

    assert exhausted(generate(), ToolContext()) == "all"


def test_an_async_generator_is_closed_where_a_listener_fails():
    closed = []

    async def generate():
        try:
            yield 1
        finally:
            closed.append(True)

    context = ToolContext(listener=lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(exhausted_async(generate(), context))
    assert closed == [True]
