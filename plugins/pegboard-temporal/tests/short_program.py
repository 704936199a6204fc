"""Short caller of the tests: `short_program.py ADDRESS`; makes two calls in a loop each, and closes nothing."""

from __future__ import annotations

import sys

from pegboard import Policy, ToolRegistry, tool_of
from pegboard.testing import EXECUTOR_TOOLS
from pegboard_temporal import Settings, TemporalExecutor

registry = ToolRegistry()
registry.register(*(tool_of(each).evolve(policy=Policy(executor="temporal")) for each in EXECUTOR_TOOLS))
registry.add("executors", "temporal", TemporalExecutor(Settings(address=sys.argv[1])))
results = [registry.call_sync("check_add", {"a": number, "b": 2}) for number in range(2)]
if [result.structured_content for result in results] != [{"result": 2}, {"result": 3}]:
    sys.exit(f"{results}")
