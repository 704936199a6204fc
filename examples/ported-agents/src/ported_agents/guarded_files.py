"""An agent with hooks before and after the model and its tools, and at the end, like an agent of Dive.

Dive's hooks (in Go), and the callback that each becomes here:

    PreGeneration       before_turn     adds today's date to the instructions
    PreToolUse          before_tool     denies paths outside of the project, and corrects others
    PostToolUse         after_tool      hides keys from the model
    PostToolUseFailure  on_tool_error   tells the model what to do instead
    Stop                on_stop         continues until the tests have run
    PostGeneration      after_turn      counts the used tokens
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from attrs import define, field

from pegboard import (
    ChangeArguments,
    Deny,
    Model,
    ModelRequest,
    TextContent,
    Tool,
    ToolRegistry,
    ToolResult,
    TurnOutcome,
    run_turn,
    tool,
)

KEY = re.compile(r"sk-\w+")


@define
class Hooks:
    """The hooks, with their records.

    Attributes:
        today: The date in the instructions.
        calls: Each call that ended, as `"name: ok"` or `"name: KIND"`.
        tokens: The number of tokens that all turns have used.
    """

    today: str
    calls: list[str] = field(factory=list[str])
    tokens: int = 0

    def add_to(self, registry: ToolRegistry) -> None:
        """Adds them to a registry."""
        registry.add_callback("before_turn", self.add_date)
        registry.add_callback("before_tool", self.stay_inside, where="tag:files")
        registry.add_callback("on_tool_error", self.explain)
        registry.add_callback("after_tool", self.hide_keys)
        registry.add_callback("on_stop", self.test_first)
        registry.add_callback("after_turn", self.count)

    async def add_date(self, request: ModelRequest) -> ModelRequest:
        """Adds the date to the instructions of the request."""
        return request.with_instructions(f"Today is {self.today}.")

    async def stay_inside(self, arguments: Mapping[str, str]) -> Deny | ChangeArguments | None:
        """Denies a path outside of the project; an absolute path is taken as relative to it."""
        path = PurePosixPath(arguments["path"])
        if ".." in path.parts:
            return Deny("it is outside of the project; give a path in it.")
        if path.is_absolute():
            return ChangeArguments({**arguments, "path": str(path.relative_to(path.anchor))})
        return None

    async def explain(self, error: BaseException) -> ToolResult | None:
        """Explains what to do about a missing file; other errors stay as they are."""
        if isinstance(error, KeyError):
            return ToolResult("There is no such file. Use list_files to see all files.", is_error=True)
        return None

    async def hide_keys(self, tool: Tool, result: ToolResult) -> ToolResult | None:
        """Records the outcome, and hides keys in texts."""
        self.calls.append(f"{tool.name}: {result.kind or 'ok'}")
        if not KEY.search(result.text):
            return None
        return ToolResult(TextContent(KEY.sub("(hidden)", result.text)))

    async def test_first(self) -> str | None:
        """Continues the turn if files were changed and not tested since."""
        writes = [number for number, call in enumerate(self.calls) if call == "write_file: ok"]
        tests = [number for number, call in enumerate(self.calls) if call == "run_tests: ok"]
        return "Run the tests before you finish." if writes and max(tests, default=-1) < writes[-1] else None

    async def count(self, outcome: TurnOutcome) -> None:
        """Counts tokens."""
        self.tokens += outcome.usage.total_tokens


def made_registry(files: dict[str, str], hooks: Hooks) -> ToolRegistry:
    """A registry with the hooks, and tools for files, which are in a dict here."""
    registry = ToolRegistry()

    @tool(read_only=True)
    async def list_files() -> list[str]:
        """List the files of the project."""
        return sorted(files)

    @tool(read_only=True, tags=["files"])
    async def read_file(path: str) -> str:
        """Read a file."""
        return files[path]

    @tool(tags=["files"])
    async def write_file(path: str, text: str) -> str:
        """Write a file."""
        files[path] = text
        return f"wrote {path}"

    @tool
    async def run_tests() -> str:
        """Run the tests."""
        return "all tests pass"

    registry.register(list_files, read_file, write_file, run_tests)
    hooks.add_to(registry)
    return registry


async def work(model: Model, text: str, files: dict[str, str], hooks: Hooks) -> TurnOutcome:
    """Runs the agent with the user's message."""
    request = ModelRequest(text, instructions="You are a careful programmer.")
    return await run_turn(model, request, made_registry(files, hooks))
