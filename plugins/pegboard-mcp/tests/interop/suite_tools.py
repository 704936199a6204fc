"""A plugin with the tools that the official conformance suite asks a server for, and some for other programs."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

from pegboard import (
    AudioContent,
    FileContent,
    ImageContent,
    ModelConfig,
    ModelRequest,
    ReadonlyContext,
    TextContent,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    hookimpl,
    tool,
)
from pegboard_mcp import ClientModel

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SILENCE = b"RIFF&\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0\x80>\0\0\2\0\x10\0data\2\0\0\0\0\0"

FULL_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool(read_only=True)
def test_simple_text() -> str:
    """Gives a text."""
    return "This is a simple text response for testing."


@tool(read_only=True)
def test_image_content() -> ImageContent:
    """Gives a picture."""
    return ImageContent(PIXEL)


@tool(read_only=True)
def test_audio_content() -> AudioContent:
    """Gives a sound."""
    return AudioContent(SILENCE)


@tool(read_only=True)
def test_embedded_resource() -> FileContent:
    """Gives a file."""
    return FileContent("test://embedded-resource", "This is an embedded resource content.", "text/plain")


@tool(read_only=True)
def test_multiple_content_types() -> ToolResult:
    """Gives a text, a picture and a file."""
    file = FileContent("test://mixed-content-resource", json.dumps({"test": "data", "value": 123}), "application/json")
    return ToolResult([TextContent("Multiple content types test:"), ImageContent(PIXEL), file])


@tool(read_only=True)
def test_error_handling() -> str:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool(read_only=True)
async def test_tool_with_logging(context: ToolContext) -> str:
    """Shows what it does, thrice."""
    for title in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        context.metadata(title)
        await asyncio.sleep(0)
    return "Tool with logging executed successfully"


@tool(read_only=True)
async def test_tool_with_progress(context: ToolContext) -> str:
    """Reports how far it is, thrice."""
    for done in (0, 50, 100):
        context.report(done, 100)
        await asyncio.sleep(0)
    return "done"


@tool(read_only=True)
def test_reconnection() -> str:
    """Answers on a stream that can be resumed."""
    return "done"


@tool(read_only=True)
async def test_logging_tool(context: ToolContext) -> str:
    """Shows what it does."""
    context.metadata("Working")
    return "done"


@tool(read_only=True)
async def test_elicitation(context: ToolContext, message: str) -> str:
    """Asks the client's user."""
    return f"User response: {await context.request_confirmation(message)}"


@tool(read_only=True)
async def test_streaming_elicitation(context: ToolContext) -> str:
    """Asks the client's user."""
    return f"User response: {await context.request_confirmation('Go on?')}"


DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}


@tool(read_only=True)
async def test_elicitation_sep1034_defaults(context: ToolContext) -> str:
    """Asks the client's user by a form whose fields have defaults."""
    form = {"form": {"type": "object", "properties": DEFAULTS}}
    return f"User response: {await context.request_confirmation('Who are you?', form)}"


@tool(read_only=True)
async def test_elicitation_sep1330_enums(context: ToolContext) -> str:
    """Asks the client's user by a form with choices of each kind."""
    form = {"form": {"type": "object", "properties": ENUMS}}
    return f"User response: {await context.request_confirmation('What do you choose?', form)}"


@tool(read_only=True)
async def test_input_required_result_elicitation(context: ToolContext) -> str:
    """Asks the client's user."""
    return f"User response: {await context.request_confirmation('Go on?')}"


@tool(read_only=True)
async def test_input_required_result_request_state(context: ToolContext) -> str:
    """Asks the client's user."""
    return f"User response: {await context.request_confirmation('Go on?')}"


@tool(read_only=True)
async def test_input_required_result_tampered_state(context: ToolContext) -> str:
    """Asks the client's user."""
    return f"User response: {await context.request_confirmation('Go on?')}"


@tool(read_only=True)
async def test_input_required_result_multi_round(context: ToolContext) -> str:
    """Asks the client's user twice."""
    first = await context.request_confirmation("Go on?")
    return f"User responses: {first}, {await context.request_confirmation('And further?')}"


@tool(read_only=True)
async def test_sampling(context: ToolContext, prompt: str) -> str:
    """Asks the client's model."""
    answer = await ClientModel.of(context).respond(ModelRequest(prompt, config=ModelConfig(max_output_tokens=100)))
    return f"LLM response: {answer.text}"


@tool(read_only=True)
async def test_input_required_result_sampling(context: ToolContext) -> str:
    """Asks the client's model."""
    return await test_sampling(context, "What is the capital of France?")


@tool(read_only=True)
async def test_input_required_result_capabilities(context: ToolContext) -> str:
    """Asks what the client can answer, its model."""
    return await test_sampling(context, "Hello?")


@tool(read_only=True, input_schema=FULL_SCHEMA)
def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Has a schema with keywords of each kind."""
    return json.dumps(arguments)


@tool(
    read_only=True,
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
)
def test_header(region: str) -> str:
    """Has an argument that clients repeat in a header."""
    return region


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool(destructive=True)
def remove(name: str) -> str:
    """Removes something, once a person has said so."""
    return f"removed {name}"


class Changing:
    """A toolset whose tools change as soon as one of them is called."""

    name = "changing"

    def __init__(self) -> None:
        self._tools = [Tool.from_function(self.test_trigger_tool_change)]
        self._tell: Callable[[], None] = lambda: None

    def on_change(self, function: Callable[[], None]) -> None:
        self._tell = function

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        return self._tools

    async def test_trigger_tool_change(self) -> str:
        """Adds a tool, once."""
        self._tools = [self._tools[0], Tool.from_function(self.added)]
        self._tell()
        return "changed"

    async def added(self) -> str:
        """Was added."""
        return "added"


@hookimpl
def pegboard_register_tools(register: Callable[[Any], None]) -> None:
    for name, thing in list(globals().items()):
        if inspect.isfunction(thing) and thing.__module__ == __name__ and not name.startswith("pegboard_"):
            register(thing)


@hookimpl
def pegboard_register_toolsets(register: Callable[[Any], None]) -> None:
    register(Changing())
