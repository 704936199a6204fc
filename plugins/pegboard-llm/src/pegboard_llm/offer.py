"""pegboard's tools as tools of llm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from inspect import Parameter, Signature
from keyword import iskeyword
from typing import Any, Final, cast

import click
import llm

from pegboard import (
    AudioContent,
    FileContent,
    ImageContent,
    LinkContent,
    Permissions,
    ReadonlyContext,
    ResolvedTools,
    Tool,
    ToolCall,
    ToolRegistry,
    ToolResult,
    load,
    load_config,
    read_permissions,
)
from pegboard.approval import ask_later
from pegboard.errors import check_keys
from pegboard.json import json_text
from pegboard.text import visible
from pegboard.tools import EMPTY_CONTEXT

_CALL: Final = "llm_tool_call"  # the parameter in which llm passes the whole call


class ToolCallError(Exception):
    """An error result: llm flags it, and gives its text to the model."""


def llm_tools(
    registry: ToolRegistry,
    resolved: ResolvedTools,
    *,
    context: ReadonlyContext = EMPTY_CONTEXT,
    approver: Any = ask_later,
    permissions: Permissions | None = None,
) -> list[llm.Tool]:
    """The tools of a request as tools of llm, for `model.chain(prompt, tools=...)`.

    A call raises `ToolCallError` for an error result, and `llm.PauseChain` if it waits for an answer: its `request` is
    the `PendingCall`. Run the chain again from its messages, with an approver that has the answer.

    Args:
        registry: Runs the calls.
        resolved: The tools, as the registry has resolved them.
        context: Of the user and the session.
        approver: Answers requests for approval; by default each pauses the chain.
        permissions: Used instead of the registry's.
    """
    options: Any = {"approver": approver, **({} if permissions is None else {"permissions": permissions})}

    def run(tool: Tool) -> Callable[..., Any]:
        async def implementation(llm_tool_call: llm.ToolCall, **_: Any) -> str | llm.ToolOutput:
            made: Any = llm_tool_call
            call = ToolCall(tool.name, made.arguments, id=made.tool_call_id or "")
            outcome = await registry.dispatch([call], resolved, context, **options)
            for pending in outcome.pending:
                pause = llm.PauseChain(pending.to_text())
                pause.request = pending  # pyright: ignore[reportAttributeAccessIssue]  for the program that resumes
                raise pause
            return _output(outcome.results[0])

        # What `llm tools list` shows.
        names = [key for key in (*_properties(tool), _CALL) if key.isidentifier() and not iskeyword(key)]
        parameters = [Parameter(key, Parameter.KEYWORD_ONLY) for key in names]
        implementation.__signature__ = Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
        return implementation

    return [_tool(each, run(each)) for each in resolved if _CALL not in _properties(each)]


def _properties(tool: Tool) -> Mapping[str, Any]:
    properties: Any = tool.spec.input_schema.get("properties")
    return cast("Mapping[str, Any]", properties) if isinstance(properties, Mapping) else {}


def _tool(tool: Tool, implementation: Callable[..., Any]) -> llm.Tool:
    schema: dict[str, Any] = json.loads(json_text(tool.spec.input_schema))
    return llm.Tool(tool.name, tool.spec.description, {"properties": {}, **schema}, implementation)


def _output(result: ToolResult) -> str | llm.ToolOutput:
    """A result for llm: its text, with images, sounds and files as attachments."""
    attachments = [*_attachments(result)]
    texts = [item.data for item in result.content if isinstance(item, FileContent) and isinstance(item.data, str)]
    texts += [item.uri for item in result.content if isinstance(item, LinkContent)]
    text = "\n".join(filter(None, [result.text, *texts]))
    if not text and result.structured_content is not None:
        text = str(json_text(result.structured_content))
    if result.is_error:
        raise ToolCallError(text or "the tool failed")
    return llm.ToolOutput(text, attachments) if attachments else text


def _attachments(result: ToolResult) -> Iterator[llm.Attachment]:
    for item in result.content:
        if isinstance(item, ImageContent | AudioContent):
            yield llm.Attachment(type=item.mime_type, content=item.data)
        elif isinstance(item, FileContent) and isinstance(item.data, bytes):
            yield llm.Attachment(type=item.mime_type or "application/octet-stream", content=item.data)


def register_installed(register: Callable[[llm.Tool], None]) -> None:
    """Registers the tools of pegboard's installed plugins, but for those of llm's, with llm.

    Args:
        register: Registers a tool.
    """
    try:
        config = load_config(project="search")
        settings: Any = config.settings("llm", "pegboard-llm").get("offer", {})
        check_keys(settings, ("where", "permissions"), "plugins.llm.offer")
        file = settings.get("permissions")
        permissions = None if file is None else read_permissions(file)
        registry = load(config=config, block=["llm"], where=settings.get("where"))
        with ThreadPoolExecutor(1) as thread:  # a loop may run in this one
            resolved = thread.submit(asyncio.run, registry.resolve()).result()
        for tool in llm_tools(registry, resolved, permissions=permissions):
            register(tool)
    except Exception as error:  # noqa: BLE001  raised here, it would end llm
        click.echo(f"pegboard's tools can't be offered to llm: {visible(str(error))}", err=True)  # llm shows no logs
