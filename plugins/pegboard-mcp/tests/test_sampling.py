"""`ClientModel`: tools that ask the model of the client which calls them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from mcp import Client
from mcp_types import (
    CreateMessageResult,
    CreateMessageResultWithTools,
    ErrorData,
    ImageContent,
    SamplingCapability,
    SamplingToolsCapability,
    TextContent,
    ToolUseContent,
)

from pegboard import (
    FileContent,
    ImageContent as Picture,
    Message,
    ModelConfig,
    ModelRequest,
    ToolContext,
    ToolRegistry,
    run_turn,
    tool,
)
from pegboard.errors import ModelError
from pegboard_mcp import ClientModel, ToolServer

BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])
WITH_TOOLS = SamplingCapability(tools=SamplingToolsCapability())


@asynccontextmanager
async def calling(work, sample=None, mode="legacy", **options):
    """A client with a tool `work`, whose function is given."""

    @tool
    async def ask(context: ToolContext) -> str:
        """Asks the client's model."""
        try:
            return await work(context)
        except ModelError as error:
            return f"ModelError: {error}"

    registry = ToolRegistry()
    registry.register(ask)
    server = ToolServer(registry).server
    async with registry, Client(server, mode=mode, sampling_callback=sample, **options) as client:
        yield (await client.call_tool("ask", {})).content[0].text


@BOTH
async def test_a_tool_asks_the_model_of_the_client_that_calls_it(mode):
    asked = []

    async def sample(_context, params):
        asked.append(params)
        return CreateMessageResult(
            role="assistant", content=TextContent(text="It is blue."), model="m-1", stop_reason="maxTokens"
        )

    async def work(context):
        messages = [
            Message.user("What is this?", Picture(b"PNG"), FileContent("file:///a.txt", "words", "text/plain")),
            Message.assistant("A picture."),
            Message.system("Be brief."),
        ]
        config = ModelConfig(max_output_tokens=9, temperature=0.5, stop=("x",))
        model = ClientModel.of(context)
        answer = await model.respond(ModelRequest(messages, instructions=["You see."], config=config))
        return f"{model.name} {model.provider}: {answer.text} {answer.model} {answer.finish_reason}"

    async with calling(work, sample, mode) as text:
        assert text == "client mcp: It is blue. m-1 length"
    (params,) = asked
    assert (params.system_prompt, params.max_tokens, params.temperature, params.stop_sequences) == (
        "You see.",
        9,
        0.5,
        ["x"],
    )
    shown = [
        (message.role, [block.model_dump(by_alias=True, exclude_none=True) for block in message.content_as_list])
        for message in params.messages
    ]
    assert shown == [
        (
            "user",
            [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "data": "UE5H", "mimeType": "image/png"},
                {"type": "text", "text": "words"},
            ],
        ),
        ("assistant", [{"type": "text", "text": "A picture."}]),
        ("user", [{"type": "text", "text": "Be brief."}]),
    ]


@BOTH
async def test_a_turn_runs_on_the_clients_model(mode):
    seen = []

    async def sample(_context, params):
        seen.append(params)
        if len(params.messages) == 1:
            use = ToolUseContent(name="add", id="c1", input={"a": 1, "b": 2})
            return CreateMessageResultWithTools(role="assistant", content=[use], model="m", stop_reason="toolUse")
        answer = TextContent(text=f"It is {params.messages[-1].content_as_list[0].content[0].text}.")
        return CreateMessageResultWithTools(role="assistant", content=answer, model="m", stop_reason="endTurn")

    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    async def work(context):
        tools = ToolRegistry()
        tools.register(add)
        return (await run_turn(ClientModel.of(context), "1 + 2?", tools)).text

    async with calling(work, sample, mode, sampling_capabilities=WITH_TOOLS) as text:
        assert text == 'It is {"result": 3}.'
    assert [each.name for each in seen[0].tools] == ["add"]
    assert seen[0].tool_choice.mode == "auto"
    assert seen[1].messages[1].content_as_list[0].input == {"a": 1, "b": 2}


async def test_a_request_that_the_client_does_not_support_is_an_error_with_the_reason():
    async def sample(_context, _params):
        return ErrorData(code=-1, message="User rejected sampling request")

    async def ask(context):
        return (await ClientModel.of(context).respond(ModelRequest("Hello"))).text

    async with calling(ask) as text:
        assert text == "ModelError: mcp: the client doesn't let tools use its model"
    async with calling(ask, sample) as text:
        assert text == "ModelError: mcp: User rejected sampling request"

    async def with_tools(context):
        tools = ToolRegistry()
        tools.register(lambda_tool)
        return (await run_turn(ClientModel.of(context), "Hello", tools)).text

    @tool
    def lambda_tool() -> str:
        """Does nothing."""
        return ""

    async with calling(with_tools, sample) as text:
        assert text == "ModelError: mcp: the client's model takes no tools"

    async def with_file(context):
        message = Message.user(FileContent("file:///a.bin", b"\x00", "application/pdf"))
        return (await ClientModel.of(context).respond(ModelRequest([message]))).text

    async with calling(with_file, sample) as text:
        assert text == "ModelError: mcp: the client's model takes no FileContent"


async def test_a_picture_of_the_clients_model_is_a_picture():
    async def sample(_context, _params):
        picture = ImageContent(data="UE5H", mime_type="image/png")
        return CreateMessageResult(role="assistant", content=picture, model="m")

    async def work(context):
        answer = await ClientModel.of(context).respond(ModelRequest("Draw"))
        return str(answer.parts[0].content == Picture(b"PNG"))

    async with calling(work, sample) as text:
        assert text == "True"


async def test_a_call_without_a_client_has_no_model():
    @tool
    async def ask(context: ToolContext) -> str:
        """Asks."""
        with pytest.raises(ModelError, match="wasn't made by an MCP client"):
            ClientModel.of(context)
        return "none"

    async with ToolRegistry() as registry:
        registry.register(ask)
        assert (await registry.call("ask", {})).text == "none"
