"""A board with a few tools, and turns on it."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import ToolContext, ToolError, ToolRegistry, tool
from pegboard.testing import ScriptedModel
from pegboard.turn.loop import run_turn


@tool
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


@tool
def fail() -> str:
    """Fails."""
    raise ToolError("it is closed.")


@tool
async def remember(context: ToolContext, key: str, value: str) -> str:
    """Notes something in the session."""
    context.state[key] = value
    return "noted"


@tool(requires_confirmation=True)
def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(add, fail, remember, delete)
    return made


@pytest.fixture
def turn(registry):
    """Runs a turn on a script, which has to be used up."""

    def run(steps, request="Go on.", context=None, **options):
        async def main():
            with ScriptedModel(steps) as model:
                outcome = await run_turn(
                    model, request, registry, *([context] if context is not None else []), **options
                )
            return outcome, model

        return asyncio.run(main())

    return run
