"""The tools that the official conformance suite asks a server for, as functions of `registry serve --functions`."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from pegboard import ToolContext, tool
from pegboard.tools.content import AudioContent, FileContent, ImageContent, TextContent, ToolResult

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
    from pegboard import ToolError

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
