"""Helpers to call tools in a pool of child processes, and to wait for other processes."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from isolated_tools import tool_named

from pegboard import Tool, ToolContext
from pegboard.execution import ExecutionRequest, ExecutorCall

PATIENCE = 120  # seconds; only a broken test waits so long


def call_of(tool, context=None, *, timeout=PATIENCE, memory_limit=None, **arguments):
    """A call of a tool, or of one of `isolated_tools` by its name."""
    found = tool if isinstance(tool, Tool) else tool_named(tool)
    context = context or ToolContext(call_id="c1", tool=found.name)
    request = ExecutionRequest.of_call(found.name, arguments, context, timeout=timeout, memory_limit=memory_limit)
    return ExecutorCall(found, request, context)


def execute(pool, tool, context=None, **facts):
    """The response of a call."""
    return pool.execute_tool(call_of(tool, context, **facts))


def skip_time():
    """Puts the clock of the running event loop forward, past the time limit of each call."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + 2 * PATIENCE


def timed_out(pool, tool, begun, **arguments):
    """The response of a call whose time limit passes once the tool has written a file."""

    async def main():
        response = asyncio.ensure_future(execute(pool, tool, **arguments))
        await asyncio.to_thread(written, begun)
        skip_time()
        return await response

    return asyncio.run(main())


def is_there(pid):
    """Whether a process runs; a zombie that waits for init doesn't."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not Path("/proc/self").exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition):
    """Polls until the condition, which another process fulfils, is true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def written(file):
    """Waits for the text of a file that another process writes."""
    until(lambda: file.exists() and file.read_text())
    return file.read_text()
