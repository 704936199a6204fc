"""Tools that run until a file is there, and write when they start and end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pegboard import tool


def note(file, text):
    with Path(file).open("a", encoding="utf-8") as written:
        written.write(f"{text}\n")


async def _hold(file, release):
    note(file, f"started {os.getpid()}")
    while not Path(release).exists():  # noqa: ASYNC110, ASYNC240  the test makes it
        await asyncio.sleep(0.02)
    note(file, "ended")
    return "held"


@tool
async def hold(file: str, release: str) -> str:
    """Waits for a file."""
    return await _hold(file, release)


@tool(idempotent=True)
async def hold_again(file: str, release: str) -> str:
    """Waits for a file; may run again."""
    return await _hold(file, release)


async def _work(file, seconds):
    note(file, "started")
    await asyncio.sleep(seconds)
    note(file, "ended")
    return "done"


@tool
async def work(file: str, seconds: float) -> str:
    """Takes a while."""
    return await _work(file, seconds)


@tool(idempotent=True)
async def work_again(file: str, seconds: float) -> str:
    """Takes a while; may run again."""
    return await _work(file, seconds)


TOOLS = (hold, hold_again, work, work_again)
