"""Runs the declared examples of read-only tools, on a loop that is watched."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.errors import FatalToolError, PluginError
from pegboard.testing.board import plugin_registry
from pegboard.testing.heartbeat import BLOCKED, Heartbeat
from pegboard.testing.notebook import Notebook
from pegboard.testing.subject import Subject
from pegboard.tools.content import ToolResult

if TYPE_CHECKING:
    from pegboard.registry import ToolRegistry
    from pegboard.tools.tool import Tool

_BREAKS: Final = ("invalid_output", "timeout", "crashed", "callback_failure", "aborted")
"""Kinds of error that no call with valid arguments may end in."""


def check_examples(subject: Subject, settings: Mapping[str, Any], notebook: Notebook) -> None:
    """Runs each example of each tool that says it only reads.

    Args:
        subject: The plugin, which has loaded whole.
        settings: Its settings.
        notebook: Gets the findings.
    """
    try:
        registry = plugin_registry(settings={subject.name: settings}, **{subject.name: subject.thing})
    except PluginError as error:
        notebook.finding(f"it can't be hung on a registry for its examples: {error.cause}")
        return
    registry.permissions = Permissions(mode="bypass")  # the examples are the author's own, and nobody is there to ask
    asyncio.run(_run_all(registry, notebook))


async def _run_all(registry: ToolRegistry, notebook: Notebook) -> None:
    async with registry:
        for tool in registry.tools():
            if tool.spec.annotations.read_only_hint and tool.handler is not None:
                if not tool.spec.examples:
                    notebook.note(f"tool {tool.name!r} declares no examples (examples=[...]), so it wasn't run")
                for place, example in enumerate(tool.spec.examples):
                    await _run(registry, tool, f"tool {tool.name!r}, example {place + 1}", example, notebook)
            elif tool.spec.examples:
                notebook.note(f"tool {tool.name!r} isn't marked read-only, so its examples weren't run")


async def _run(registry: ToolRegistry, tool: Tool, called: str, example: Mapping[str, Any], notebook: Notebook) -> None:
    notebook.ran += 1
    try:
        result, heartbeat = await _watched(registry, tool, example)
        if heartbeat.blocked > BLOCKED:  # measured again: the first call may load what later ones have
            _, heartbeat = await _watched(registry, tool, example)
    except FatalToolError as error:
        notebook.finding(f"{called}: it ends the turn: {error}")
        return
    if heartbeat.blocked > BLOCKED:
        where = f" ({heartbeat.place})" if heartbeat.place else ""
        notebook.finding(
            f"{called}: it blocks the event loop for {heartbeat.blocked:.1f} s{where}, and nobody else's call goes on "
            "meanwhile; await what it waits for, or make it a plain function, which runs in a thread"
        )
    _judge(result, called, notebook)


async def _watched(registry: ToolRegistry, tool: Tool, example: Mapping[str, Any]) -> tuple[ToolResult, Heartbeat]:
    async with Heartbeat() as heartbeat:
        result = await registry.call(tool.name, example)
    return result, heartbeat


def _judge(result: ToolResult, called: str, notebook: Notebook) -> None:
    if not result.is_error:
        return
    if result.kind in _BREAKS or (result.kind == "tool_failure" and "retryable" not in result.metadata):
        detail = (result.detail or "").strip().rpartition("\n")[2]
        notebook.finding(
            f"{called}: its result is an error of kind {result.kind}: {result.text}{f' ({detail})' if detail else ''}; "
            "raise ToolError for what a model shall read, and correct the rest"
        )
    else:
        notebook.note(f"{called}: it answered with an error ({result.kind}): {result.text[:200]}")
