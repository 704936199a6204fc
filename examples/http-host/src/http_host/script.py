"""A scripted model, and tools for it; a real host has its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from pegboard import ModelRequest, ModelResponse, ToolCall, ToolContext, tool
from pegboard.messages import Delta
from pegboard.testing import ScriptedModel

HELP = 'I follow a script. Write the name of a tool and its arguments, such as: stock_of {"item": "nails"}'
STOCK = {"nails": 12, "screws": 0}
Item = Annotated[str, "As on its label."]


@tool(read_only=True)
def stock_of(item: Item) -> int:
    """Count what is left of an item."""
    return STOCK.get(item, 0)


@tool(requires_confirmation=True, preview=lambda arguments: f"Order {arguments['count']} {arguments['item']}")
def order(item: Item, count: int) -> str:
    """Order more of an item."""
    STOCK[item] = STOCK.get(item, 0) + count
    return f"{count} {item} ordered"


@tool(read_only=True)
async def take_stock(context: ToolContext, seconds: float = 60) -> str:
    """Count everything, which takes a while."""
    for step in range(10):
        context.report(step, 10, f"shelf {step + 1}")
        await asyncio.sleep(seconds / 10)
    return f"{sum(STOCK.values())} things"


TOOLS = stock_of, order, take_stock


def answer(request: ModelRequest) -> str | ToolCall:
    """The script: calls the tool that the user names, then repeats its result.

    Args:
        request: The conversation so far.
    """
    last = request.messages[-1]
    if last.role == "tool":
        return f"Done: {last.results[-1].result.text}"
    name, _, arguments = last.text.partition(" ")
    offered = {each.name for each in request.offered}
    return ToolCall(name, arguments or "{}") if name in offered else HELP


class Script:
    """The script as a model. A real host uses `registry.model("openai/...")` instead."""

    name = "script"
    provider = "scripted"

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The whole answer."""
        return await ScriptedModel([answer]).respond(request)

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """The same answer, word by word."""
        return ScriptedModel([answer]).stream(request)
