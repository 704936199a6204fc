"""Calls, and helpers for the outcome of a turn."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from pegboard import ToolCall, stream_turn

ADD = ToolCall("add", {"a": 1, "b": 2}, "c1")
MORE = ToolCall("add", {"a": 3, "b": 4}, "c2")
FAIL = ToolCall("fail", {}, "c3")
HANG = ToolCall("hang", {}, "h")
DELETE = ToolCall("delete", {"path": "a.txt"}, "c4")


def roles(outcome):
    return [message.role for message in outcome.messages]


def results(outcome):
    """`(call id, kind or text)` of every result in the history."""
    return [
        (part.call_id, part.result.kind or part.result.text) for message in outcome.messages for part in message.results
    ]


def everything_is_answered(outcome):
    calls = [call.id for message in outcome.messages for call in message.calls]
    return calls == [id_ for id_, _ in results(outcome)]


async def never(request):
    raise AssertionError


def model_of(respond=never, stream=None):
    """A model of these functions."""
    return SimpleNamespace(name="odd", provider="odd", respond=respond, **({"stream": stream} if stream else {}))


def streamed(model, registry, **options):
    """All events of a turn."""

    async def main():
        return [event async for event in stream_turn(model, "Hi", registry, **options)]

    return asyncio.run(main())
