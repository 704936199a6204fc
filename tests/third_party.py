"""A third party's plugins, as the public pages show them, of each kind but exporters; `exercise` uses them all."""

from __future__ import annotations

import click

from pegboard import (
    Deny,
    ModelRequest,
    ModelResponse,
    Policy,
    Tool,
    ToolRegistry,
    ToolsetBase,
    hookimpl,
    run_turn,
    tool,
    tool_of,
)
from pegboard.cli import write
from pegboard.errors import check_keys
from pegboard.execution import ExecutionRequest, ExecutionResponse, LocalExecutor
from pegboard.json import count_text
from pegboard.permissions import read_line


class Tools:
    def __init__(self, settings) -> None:
        check_keys(settings, ["greeting"], "plugins.third-tools")
        self._greeting = settings.get("greeting", "hello")

    @tool(read_only=True, examples=[{"who": "Ann"}])
    def third_greet(self, who: str) -> str:
        """Greets somebody."""
        return f"{self._greeting} {who}"

    @hookimpl
    def pegboard_register_tools(self, register) -> None:
        register(self)


class Orders(ToolsetBase):
    name = "third-orders"

    async def tools(self, context) -> list[Tool]:
        schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
        return [Tool.from_schema("third_status", schema, description="Tells where an order is.", read_only=True)]

    async def call(self, name: str, arguments, context) -> str:
        return f"{name} of {arguments['id']}"


class Toolset:
    @hookimpl
    def pegboard_register_toolsets(self, register) -> None:
        register(Orders())


@tool(read_only=True)
def third_uptime() -> str:
    """How long the other machine has been up."""
    return "41 days"


class Elsewhere:
    def __init__(self) -> None:
        self._far = LocalExecutor([third_uptime])

    async def execute(self, request: ExecutionRequest) -> ExecutionResponse:
        response = await self._far.execute(ExecutionRequest.from_json(request.to_json()))
        return ExecutionResponse.from_json(response.to_json())


class Executor:
    @hookimpl
    def pegboard_register_executors(self, register) -> None:
        register("elsewhere", Elsewhere)

    @hookimpl
    def pegboard_register_tools(self, register) -> None:
        register(tool_of(third_uptime).evolve(policy=Policy(executor="elsewhere")))


class Echo:
    provider = "echo"

    def __init__(self, name: str) -> None:
        self.name = name

    async def respond(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(request.messages[-1].text)


class Client:
    @hookimpl
    def pegboard_register_models(self, register) -> None:
        register("echo", Echo)


class Command:
    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        @group.command("third-count")
        @click.argument("line")
        def count(line: str) -> None:
            """Prints how many commands a shell line has."""
            write(f"{count_text(len(read_line(line).commands), 'command')}\n")


class Guard:
    @hookimpl
    def pegboard_before_tool(self, tool, arguments):
        return Deny("nobody is called Nobody") if arguments.get("who") == "Nobody" else None


KINDS = {"tools": Tools, "toolset": Toolset, "executor": Executor, "client": Client}
KINDS |= {"command": Command, "guard": Guard}
ENTRY_POINTS = "[pegboard]\n" + "".join(f"third-{name} = third_party:{kind.__name__}\n" for name, kind in KINDS.items())


async def exercise(registry: ToolRegistry) -> None:
    """Uses each kind, but for the command."""
    calls = {
        "third_greet": {"who": "Ann"},
        "third_status": {"id": "7"},
        "third_uptime": {},
    }
    texts = [(await registry.call(name, arguments)).text for name, arguments in calls.items()]
    assert texts == ["hello Ann", "third_status of 7", "41 days"]
    assert (await registry.call("third_greet", {"who": "Nobody"})).kind == "denied"
    assert (await run_turn(registry.model("echo/parrot"), "Hi.", registry)).text == "Hi."
