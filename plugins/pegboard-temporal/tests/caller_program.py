"""Caller of the tests: `caller_program.py ADDRESS QUEUE TOOL CALL_ID ARGUMENTS`; prints the result's kind and text."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from lasting_tools import TOOLS

from pegboard import Policy, ReadonlyContext, ToolRegistry, tool_of
from pegboard_temporal import Settings, TemporalExecutor

CONTEXT = ReadonlyContext(user="ann", session="s", message="m")


def registry_for(
    address: str, queue: str, make: type[TemporalExecutor] = TemporalExecutor, **settings: Any
) -> ToolRegistry:
    """A registry whose tools run by Temporal."""
    registry = ToolRegistry()
    registry.register(*(tool_of(each).evolve(policy=Policy(executor="temporal")) for each in TOOLS))
    registry.add("executors", "temporal", make(Settings(address=address, queue=queue, **settings)))
    return registry


async def main(address: str, queue: str, name: str, call_id: str, arguments: str) -> None:
    async with registry_for(address, queue, heartbeat=3.0, wait=120.0) as registry:
        result = await registry.call(name, arguments, CONTEXT, call_id=call_id)
    sys.stdout.write(json.dumps([result.kind, result.text]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
