"""A registry with a few tools, and fixtures that run turns."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import ModelRequest, ToolContext, ToolError, ToolRegistry, run_turn, tool
from pegboard.testing import ScriptedModel
from pegboard.tools import EMPTY_CONTEXT


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
    """Runs a turn with a script, which must be used up; returns its outcome and the model."""

    def run(steps, request="Go on.", context=EMPTY_CONTEXT, *, formats=False, **options):
        with ScriptedModel(steps, formats=formats) as model:
            return asyncio.run(run_turn(model, request, registry, context, **options)), model

    return run


@pytest.fixture
def resume(registry):
    """Resumes a suspended turn with a script, which must be used up; returns its outcome."""

    def run(suspended, steps=("Done.",), *, registry=registry, **options):
        with ScriptedModel(steps) as model:
            return asyncio.run(run_turn(model, ModelRequest(), registry, resume=suspended, **options))

    return run


@pytest.fixture
def hangs(registry):
    """An event that is set once the tool `hang`, which never returns, has begun."""
    begun = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hangs."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    registry.register(hang)
    return begun
