"""An agent with hooks: before and after the model and its tools, and at the end, as an agent of Dive has them.

The hooks of a program in Go, with what stands for each here:

    PreGeneration       before_turn     adds today's date to the instructions
    PreToolUse          before_tool     denies what leads out of the project, and puts paths right
    PostToolUse         after_tool      leaves keys out of what the model reads
    PostToolUseFailure  on_tool_error   tells the model what to do instead
    Stop                on_stop         has the agent go on until the tests have run
    PostGeneration      after_turn      counts what was used
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
    """The hooks, with what they have seen.

    Attributes:
        today: The date that the model is told.
        calls: Each call that ended, as `"name: ok"` or `"name: KIND"`.
        tokens: How many tokens all turns have used.
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
        """Another request in place of the turn's."""
        return request.with_instructions(f"Today is {self.today}.")

    async def stay_inside(self, arguments: Mapping[str, str]) -> Deny | ChangeArguments | None:
        """Denies what leads out of the project; a path that begins with its folder is meant within it."""
        path = PurePosixPath(arguments["path"])
        if ".." in path.parts:
            return Deny("it lies outside of the project; name a path within it.")
        if path.is_absolute():
            return ChangeArguments({**arguments, "path": str(path.relative_to(path.anchor))})
        return None

    async def explain(self, error: BaseException) -> ToolResult | None:
        """Says what to do about a file that isn't there; other errors stay as they are."""
        if isinstance(error, KeyError):
            return ToolResult("There is no such file. list_files names those that there are.", is_error=True)
        return None

    async def hide_keys(self, tool: Tool, result: ToolResult) -> ToolResult | None:
        """Notes the outcome, and leaves keys out of texts."""
        self.calls.append(f"{tool.name}: {result.kind or 'ok'}")
        if not KEY.search(result.text):
            return None
        return ToolResult(TextContent(KEY.sub("(hidden)", result.text)))

    async def test_first(self) -> str | None:
        """Has the turn go on where files were changed and not tested since."""
        writes = [number for number, call in enumerate(self.calls) if call == "write_file: ok"]
        tests = [number for number, call in enumerate(self.calls) if call == "run_tests: ok"]
        return "Run the tests before you finish." if writes and max(tests, default=-1) < writes[-1] else None

    async def count(self, outcome: TurnOutcome) -> None:
        """Counts tokens."""
        self.tokens += outcome.usage.total_tokens


def made_registry(files: dict[str, str], hooks: Hooks) -> ToolRegistry:
    """A registry with tools on files, which are kept in a dict here, and the hooks."""
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
    """What the agent makes of the user's words."""
    request = ModelRequest(text, instructions="You are a careful programmer.")
    return await run_turn(model, request, made_registry(files, hooks))
