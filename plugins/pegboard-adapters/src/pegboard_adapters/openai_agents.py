"""The OpenAI Agents SDK: its function tools in pegboard, and pegboard's tools in it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from inspect import getclosurevars, isfunction
from typing import Any, Final

from pegboard import Once, ReadonlyContext, ResolvedTools, Tool, ToolContext, ToolError, ToolResult
from pegboard.approval import Answer, PendingCall
from pegboard.callbacks import maybe_await
from pegboard.json import json_text
from pegboard.tools import Content, mapped_name
from pegboard.typing import JsonObject
from pegboard_adapters.content import content_of, media_of, text_of
from pegboard_adapters.incoming import ForeignToolset, Trust, confirm
from pegboard_adapters.outgoing import offer_each, registry_of, run_call
from pegboard_adapters.peers import check_peer

check_peer("openai-agents")

from agents import (
    FunctionTool,
    RunContextWrapper,
    ToolInputGuardrailData,
    ToolOutputFileContent,
    ToolOutputGuardrailData,
    ToolOutputImage,
    ToolOutputText,
)
from agents.strict_schema import ensure_strict_json_schema
from agents.tool import default_tool_error_function
from agents.tool_context import ToolContext as AgentsContext

# pegboard's tools in the Agents SDK -----------------------------------------------------------------------------------


def context_of(run: RunContextWrapper[Any]) -> ReadonlyContext:
    """The context of a run: what the host has given as its `context`, if that is a `ReadonlyContext`; else none."""
    return run.context if isinstance(run.context, ReadonlyContext) else ReadonlyContext()


def to_openai_agents(
    resolved: ResolvedTools, *, context: Callable[[RunContextWrapper[Any]], ReadonlyContext] | None = None
) -> list[FunctionTool]:
    """Pegboard's tools as function tools: `Agent(..., tools=to_openai_agents(resolved))`.

    A call that asks interrupts the run, as `needs_approval` does, unless the registry has an approver. A tool whose
    schema the SDK refuses is left out, with an entry in the log.

    Args:
        resolved: The tools to offer, of `await registry.resolve()`.
        context: The context of a run; by default the run's own, if it is a `ReadonlyContext`.

    Raises:
        ValueError: No registry has resolved these tools.
    """
    offer = partial(_function_tool, resolved=resolved, context=context or context_of)
    return offer_each(resolved, offer, "the OpenAI Agents SDK")


def _function_tool(
    tool: Tool, resolved: ResolvedTools, context: Callable[[RunContextWrapper[Any]], ReadonlyContext]
) -> FunctionTool:
    registry = registry_of(resolved)

    async def invoke(run: AgentsContext[Any], arguments: str) -> Any:
        ask = _approval if run.is_tool_approved(tool.name, run.tool_call_id) else None
        result = await run_call(resolved, tool.name, arguments or "{}", context(run), call_id=run.tool_call_id, ask=ask)
        return _output(result)

    async def needs_approval(run: RunContextWrapper[Any], arguments: JsonObject, call_id: str) -> bool:
        del call_id
        decision = await registry.decide(tool.name, arguments, context(run), resolved=resolved)
        return decision.action == "ask"

    asks = registry.approver is None and registry.may_ask(tool)
    schema = {**tool.spec.input_schema, "properties": tool.spec.input_schema.get("properties", {})}
    return FunctionTool(
        name=tool.name,
        description=tool.spec.description or "",
        params_json_schema=schema,
        on_invoke_tool=invoke,
        strict_json_schema=_is_strict(schema),
        needs_approval=needs_approval if asks else False,
    )


def _approval(pending: PendingCall) -> Answer | None:
    """The SDK's approval, which is one of the whole call; what is asked from inside can't be."""
    return Once() if pending.subject == "call" else None


def _is_strict(schema: JsonObject) -> bool:
    """Whether OpenAI's strict mode takes a schema as it is."""
    try:
        return ensure_strict_json_schema(deepcopy(schema)) == schema
    except Exception:  # noqa: BLE001  it raises several kinds
        return False


def _output(result: ToolResult) -> Any:
    """A result as the SDK's output: its text, or several parts where it has media."""
    if all(text_of(item) is not None for item in result.content):
        return result.text
    return [_part(item) for item in result.content]


def _part(item: Content) -> Any:
    if (text := text_of(item)) is not None:
        return ToolOutputText(text=text)
    data, mime_type = media_of(item)
    url = f"data:{mime_type};base64,{base64.b64encode(data).decode()}"
    if item.type == "image":
        return ToolOutputImage(image_url=url)
    return ToolOutputFileContent(file_data=url, filename=getattr(item, "uri", "file"))


# The Agents SDK's tools in pegboard -----------------------------------------------------------------------------------


def from_openai_agents(
    tools: Iterable[object] | FunctionTool,
    *,
    name: str = "openai-agents",
    context: Callable[[ToolContext], object] | None = None,
    trust: Trust = False,
) -> ForeignToolset:
    """Function tools of the Agents SDK as a toolset, for `registry.register`.

    Hosted tools are problems, as OpenAI runs them.

    Args:
        tools: Such as those of `@function_tool`.
        name: The toolset's name.
        context: What they get as the run's context, from the call's; by default its `ReadonlyContext`.
        trust: Whether they run unasked where they declare no harm; or the names of tools and packages that do.
    """
    items = [tools] if isinstance(tools, FunctionTool) else tools
    convert = partial(_tool_of, context or (lambda call: call.request))
    return ForeignToolset(name, items, convert, trust=trust, function_of=_function_of)


def _function_of(tool: FunctionTool) -> object:
    """The function of a tool, which the SDK has only in a closure."""
    invoke = getattr(tool.on_invoke_tool, "_invoke_tool_impl", tool.on_invoke_tool)
    return getclosurevars(invoke).nonlocals.get("the_func", invoke) if isfunction(invoke) else invoke


def _tool_of(context: Callable[[ToolContext], object], tool: Any) -> Tool:
    if not isinstance(tool, FunctionTool):
        raise TypeError(f"only function tools run here, and this is a {type(tool).__name__}")

    async def run(arguments: JsonObject, call: ToolContext) -> ToolResult:
        text, call_id = json_text(arguments), call.call_id or "call"
        own = AgentsContext(context(call), tool_name=tool.name, tool_call_id=call_id, tool_arguments=text)
        if not await maybe_await(tool.is_enabled(own, None) if callable(tool.is_enabled) else tool.is_enabled):
            raise ToolError(f"{tool.name} isn't enabled for this call.")
        if callable(tool.needs_approval) and await tool.needs_approval(own, arguments, call_id):
            await confirm(call, tool.name, arguments)
        agent: Any = None  # there is none
        await _guard(tool.tool_input_guardrails, ToolInputGuardrailData(own, agent))
        output = await tool.on_invoke_tool(own, text)
        await _guard(tool.tool_output_guardrails, ToolOutputGuardrailData(own, agent, output))
        return _result_of(tool.name, output)

    asks = tool.needs_approval is True or None
    schema = tool.params_json_schema
    return Tool.from_schema(
        mapped_name(tool.name),
        schema,
        run,
        description=tool.description,
        requires_confirmation=asks,
        timeout=tool.timeout_seconds,
        skip_patterns=True,
    )


async def _guard(guardrails: Iterable[Any] | None, data: Any) -> None:
    """Runs a tool's guardrails; raises what the model reads instead as a `ToolError` if one refuses."""
    for guardrail in guardrails or ():
        behavior = (await guardrail.run(data)).behavior
        if behavior["type"] != "allow":
            raise ToolError(behavior.get("message") or "a guardrail of the tool has stopped this call.")


_FAILURE: Final = default_tool_error_function(RunContextWrapper(None), Exception("\0")).partition("\0")[0]
"""What the SDK's text of a crash begins with."""


def _result_of(name: str, output: Any) -> ToolResult:
    if isinstance(output, str) and output.startswith(_FAILURE):
        return ToolResult.error("tool_failure", f"{name} failed.", detail=output)
    parts = output if isinstance(output, list | tuple) else [output]
    blocks = [part.model_dump() if hasattr(part, "model_dump") else part for part in parts]
    return ToolResult(tuple(content_of(blocks)))
