"""A pool of child processes that a file's tests share, and a way to call tools in it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # `isolated_tools`: children import it by this name, too

from running import PATIENCE, execute

from pegboard_processes import ChildProcesses, process


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a busy machine, a process may take a while to end."""
    monkeypatch.setattr(process, "LEAVING_SECONDS", PATIENCE)
    monkeypatch.setattr(process, "KILLING_SECONDS", PATIENCE)


@pytest.fixture(scope="module")
def pool():
    """A pool of at most two children, closed after the file."""
    made = ChildProcesses(most=2, grace=0.2)
    yield made
    asyncio.run(made.aclose())


@pytest.fixture
def fresh():
    """Creates pools that are closed after the test."""
    made = []

    def fresh(**settings):
        made.append(ChildProcesses(**{"grace": 0.2, **settings}))
        return made[-1]

    yield fresh
    for pool in made:
        asyncio.run(pool.aclose())


@pytest.fixture
def call(pool):
    """Runs a tool in a child; returns the response."""

    def call(tool, context=None, *, pool=pool, **facts):
        return asyncio.run(execute(pool, tool, context, **facts))

    return call
