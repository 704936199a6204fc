"""Tools that list and read a server's resources and prompts, as untrusted as the server's own tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from pegboard import FileContent, Origin, TextContent, Tool, ToolResult
from pegboard.json import json_text
from pegboard.tools import HOST
from pegboard.typing import JsonObject
from pegboard_mcp.settings import ServerSettings

if TYPE_CHECKING:
    from mcp import Client

Ask = Callable[[str, Callable[["Client"], Awaitable[JsonObject]]], Awaitable[JsonObject]]
"""Calls an async function with the connected client, for the tool of a name."""

_TEXT: Final = {"type": "string"}
_CURSOR: Final = _TEXT | {"description": "The nextCursor of the previous result. Leave it out for the first page."}
_URI: Final = _TEXT | {"description": "The URI of the resource."}
_NAME: Final = _TEXT | {"description": "The name of the prompt."}
_ARGUMENTS: Final = {
    "type": "object",
    "additionalProperties": _TEXT,
    "description": "The arguments of the prompt, by name.",
}


def _schema(required: tuple[str, ...] = (), **properties: Any) -> JsonObject:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return schema if required else {key: value for key, value in schema.items() if key != "required"}


@frozen
class _Reader:
    """Definition of one of the tools: its name, description and schema, its request, and its result."""

    name: str
    description: str
    schema: JsonObject
    ask: Callable[[Client, Mapping[str, Any]], Awaitable[Any]]
    result: Callable[[JsonObject], ToolResult]


def _as_data(answer: JsonObject) -> ToolResult:
    data = {key: answer[key] for key in ("resources", "resourceTemplates", "prompts", "nextCursor") if key in answer}
    return ToolResult(json_text(data), structured_content=data)


def _as_files(answer: JsonObject) -> ToolResult:
    contents = ({"type": "resource", "resource": each} for each in answer["contents"])
    return ToolResult.from_json({"content": list(contents)})


def _as_messages(answer: JsonObject) -> ToolResult:
    read = ToolResult.from_json({"content": [each["content"] for each in answer["messages"]]})
    parts: list[Any] = []
    for message, content in zip(answer["messages"], read.content, strict=True):
        if isinstance(content, TextContent):
            parts.append(TextContent(f"{message['role']}: {content.text}"))
        elif isinstance(content, FileContent):
            parts += [TextContent(f"{message['role']}:"), content]
        else:
            parts.append(content)
    return ToolResult(parts)


_RESOURCES: Final = (
    _Reader(
        "list_resources",
        "List the resources of the MCP server {0}. Returns JSON with their URIs. Read one with {1}read_resource.",
        _schema(cursor=_CURSOR),
        lambda client, given: client.list_resources(cursor=given.get("cursor")),
        _as_data,
    ),
    _Reader(
        "list_resource_templates",
        "List the URI templates of the MCP server {0} as JSON. Fill one in to get a URI for {1}read_resource.",
        _schema(cursor=_CURSOR),
        lambda client, given: client.list_resource_templates(cursor=given.get("cursor")),
        _as_data,
    ),
    _Reader(
        "read_resource",
        "Read a resource of the MCP server {0}. Returns its content. Get the URI from {1}list_resources.",
        _schema(("uri",), uri=_URI),
        lambda client, given: client.read_resource(given["uri"]),
        _as_files,
    ),
)
_PROMPTS: Final = (
    _Reader(
        "list_prompts",
        "List the prompts of the MCP server {0}. Returns JSON with names and arguments. Get one with {1}get_prompt.",
        _schema(cursor=_CURSOR),
        lambda client, given: client.list_prompts(cursor=given.get("cursor")),
        _as_data,
    ),
    _Reader(
        "get_prompt",
        "Get a prompt of the MCP server {0} with its arguments filled in. Get its name from {1}list_prompts.",
        _schema(("name",), name=_NAME, arguments=_ARGUMENTS),
        lambda client, given: client.get_prompt(given["name"], given.get("arguments")),
        _as_messages,
    ),
)


def readers(server: str, settings: ServerSettings, ask: Ask) -> list[Tool]:
    """The tools that read a server's resources and prompts, if the settings enable them."""
    wanted = (*(_RESOURCES if settings.resources else ()), *(_PROMPTS if settings.prompts else ()))
    return [_tool(reader, settings.with_prefix(server, reader.name), server, settings, ask) for reader in wanted]


def _tool(reader: _Reader, name: str, server: str, settings: ServerSettings, ask: Ask) -> Tool:
    async def run(arguments: Mapping[str, Any]) -> ToolResult:
        async def read_part(client: Client) -> JsonObject:
            answer = await reader.ask(client, arguments)
            return answer.model_dump(mode="json", by_alias=True, exclude_none=True)

        try:
            return reader.result(await ask(reader.name, read_part))
        except (ValueError, LookupError, TypeError) as error:
            text = f"{reader.name} failed: the server's answer can't be read. Calling it again may not help."
            return ToolResult.error("invalid_output", text, detail=str(error))

    options: Any = {} if settings.timeout is None else {"timeout": settings.timeout}
    text = reader.description.format(server, settings.with_prefix(server, ""))
    tool = Tool.from_schema(name, reader.schema, run, description=text, read_only=True, **options)
    return tool.evolve(origin=HOST if settings.trusted else Origin(trusted=False))
