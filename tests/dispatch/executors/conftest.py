"""A pool of child processes that a file's tests share, and one way to call tools in it."""

from __future__ import annotations

import asyncio

import pytest

from dispatch.executors.calling import execute
from pegboard.dispatch.executors.processes import ChildProcesses


@pytest.fixture(scope="module")
def pool():
    """Two children at most; ended with the file."""
    made = ChildProcesses(most=2, grace=0.2)
    yield made
    asyncio.run(made.aclose())


@pytest.fixture
def call(pool):
    """Runs a tool of `isolated_tools` in a child; gives the response."""

    def call(tool, context=None, *, pool=pool, **facts):
        return asyncio.run(execute(pool, tool, context, **facts))

    return call
