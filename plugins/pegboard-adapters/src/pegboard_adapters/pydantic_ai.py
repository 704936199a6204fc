"""Pydantic AI: its toolsets in pegboard, and pegboard's tools in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from pegboard import (
    Once,
    ReadonlyContext,
    ResolvedTools,
    Tool,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    ToolsetBase,
    ToolsetResult,
)
from pegboard.approval import Answer, PendingCall
from pegboard.tools import Content, json_or_text, mapped_name
from pegboard.toolsets.predicates import Where
from pegboard.typing import JsonObject
from pegboard_adapters.content import content_of, media_of, text_of
from pegboard_adapters.incoming import KnownTools, Trust, confirm, convert_each, invalid_arguments
from pegboard_adapters.outgoing import offer_each, question_key, question_of, run_call
from pegboard_adapters.peers import check_peer

check_peer("pydantic-ai")

from pydantic import ValidationError
from pydantic_ai import ApprovalRequired, BinaryContent, CallDeferred, ModelRetry, RunContext, ToolReturn
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.usage import RunUsage
from pydantic_core import SchemaValidator, core_schema

_ANY: Final = SchemaValidator(core_schema.any_schema())  # pegboard validates
_MOST_RETRIES: Final = 3  # of a call with invalid arguments, until the run ends
_MOST_ASKED: Final = 1_000  # calls that wait for an approval

# pegboard's tools in Pydantic AI --------------------------------------------------------------------------------------


def context_of(run: RunContext[Any]) -> ReadonlyContext:
    """The context of a run: its `deps`, if they are one; else its conversation is the session, without a user."""
    if isinstance(run.deps, ReadonlyContext):
        return run.deps
    return ReadonlyContext(session=run.conversation_id, invocation=run.run_id)


def to_pydantic_ai(
    registry: ToolRegistry,
    *,
    context: Callable[[RunContext[Any]], ReadonlyContext] | None = None,
    where: Where = None,
) -> AbstractToolset[Any]:
    """Pegboard's tools as a toolset of Pydantic AI: `Agent(..., toolsets=[to_pydantic_ai(registry)])`.

    They are resolved anew at each step of a run. A call that asks raises `ApprovalRequired`, unless the registry has an
    approver: the agent needs `DeferredToolRequests` among its output types then.

    Args:
        registry: The registry that resolves and runs them.
        context: The context of a run; by default its `deps`, if they are a `ReadonlyContext`.
        where: Which tools to offer: a predicate, or its text.
    """
    return _PegboardToolset(registry, context or context_of, where)


@dataclass(kw_only=True)
class _OfferedTool(ToolsetTool[Any]):
    resolved: ResolvedTools


class _PegboardToolset(AbstractToolset[Any]):
    def __init__(
        self, registry: ToolRegistry, context: Callable[[RunContext[Any]], ReadonlyContext], where: Where
    ) -> None:
        self._registry, self._context, self._where = registry, context, where
        # The questions that each call has asked, by conversation and call: an approval answers no others.
        self._asked: dict[tuple[str | None, str], list[object]] = {}

    @property
    def id(self) -> str:
        return "pegboard"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        resolved = await self._registry.resolve(self._context(ctx), where=self._where)

        def offer(tool: Tool) -> _OfferedTool:
            definition = ToolDefinition(
                name=tool.name,
                description=tool.spec.description,
                parameters_json_schema=dict(tool.spec.input_schema),
                strict=tool.spec.strict,
            )
            return _OfferedTool(
                toolset=self,
                tool_def=definition,
                max_retries=_MOST_RETRIES,
                args_validator=_ANY,
                resolved=resolved,
            )

        return {tool.tool_def.name: tool for tool in offer_each(resolved, offer, "Pydantic AI")}

    async def call_tool(self, name: str, tool_args: JsonObject, ctx: RunContext[Any], tool: ToolsetTool[Any]) -> Any:
        assert isinstance(tool, _OfferedTool)
        context, call_id = self._context(ctx), ctx.tool_call_id or ""
        result = await run_call(tool.resolved, name, tool_args, context, call_id=call_id, ask=partial(self._ask, ctx))
        self._asked.pop((ctx.conversation_id, call_id), None)
        if result.kind == "invalid_arguments":
            raise ModelRetry(result.text)
        if result.is_error:
            raise ToolFailed(result.text)
        return ToolReturn(_return_value(result), metadata=result.to_data(detail=False))

    def _ask(self, ctx: RunContext[Any], pending: PendingCall) -> Answer:
        """A yes, if this question was asked before and the call was approved since; else raises `ApprovalRequired`."""
        key, asked = question_key(pending), self._asked.setdefault((ctx.conversation_id, ctx.tool_call_id or ""), [])
        is_first = not asked  # of a run in another process
        if ctx.tool_call_approved and (is_first or key in asked):
            if is_first:
                asked.append(key)
            return Once()
        if key not in asked:
            asked.append(key)
        while len(self._asked) > _MOST_ASKED:
            self._asked.pop(next(iter(self._asked)))
        raise ApprovalRequired(question_of(pending))


def _return_value(result: ToolResult) -> Any:
    """A result's content as Pydantic AI's: its text, or several parts where it has media."""
    parts = [_part(item) for item in result.content]
    return result.text if all(isinstance(part, str) for part in parts) else parts


def _part(item: Content) -> Any:
    if (text := text_of(item)) is not None:
        return text
    data, mime_type = media_of(item)
    return BinaryContent(data, media_type=mime_type)


# Pydantic AI's tools in pegboard --------------------------------------------------------------------------------------


def from_pydantic_ai(
    toolset: AbstractToolset[Any],
    *,
    name: str = "pydantic-ai",
    deps: object = None,
    trust: Trust = False,
) -> ToolsetBase:
    """A toolset of Pydantic AI as one of pegboard, for `registry.register`.

    Args:
        toolset: Such as a `FunctionToolset` or an `MCPToolset`; it is entered at its first use.
        name: The toolset's name.
        deps: The `deps` of its runs, or a function of the `ReadonlyContext` that returns them.
        trust: Whether they run unasked where they declare no harm; or the names of tools and packages that do.
    """
    if not isinstance(toolset, AbstractToolset):  # pyright: ignore[reportUnnecessaryIsInstance]  settings may name anything
        raise TypeError(f"it is no toolset of Pydantic AI, but of type {type(toolset).__name__}")
    return _ForeignToolset(name, toolset, deps, trust)


class _ForeignToolset(ToolsetBase):
    def __init__(self, name: str, toolset: AbstractToolset[Any], deps: Any, trust: Trust) -> None:
        self.name = name
        self._toolset, self._deps, self._trust = toolset, deps, trust
        self._entered: AsyncExitStack | None = None
        self._entering = asyncio.Lock()
        self._known = KnownTools()

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        offered = await self._resolve(self._run(context))
        return self._known.same(convert_each(offered.values(), self._tool_of, self._trust, _function_of))

    async def close(self) -> None:
        if self._entered is not None:
            await self._entered.aclose()

    async def _resolve(self, run: RunContext[Any]) -> Mapping[str, ToolsetTool[Any]]:
        async with self._entering:
            if self._entered is None:
                stack = AsyncExitStack()
                await stack.enter_async_context(self._toolset)
                self._entered = stack
        return await self._toolset.get_tools(run)

    def _run(self, context: ReadonlyContext, **facts: Any) -> RunContext[Any]:
        deps = self._deps(context) if callable(self._deps) else self._deps
        run = RunContext[Any](deps=deps, model=TestModel(), usage=RunUsage())
        return replace(run, conversation_id=context.session, run_id=context.invocation, **facts)

    def _tool_of(self, tool: ToolsetTool[Any]) -> Tool:
        definition = tool.tool_def
        return Tool.from_schema(
            mapped_name(definition.name),
            definition.parameters_json_schema,
            partial(self._call, definition.name),
            description=definition.description,
            requires_confirmation=definition.kind == "unapproved" or None,
            timeout=definition.timeout,
            skip_patterns=True,
        )

    async def _call(self, name: str, arguments: JsonObject, context: ToolContext) -> ToolResult:
        run = self._run(context.request, tool_call_id=context.call_id, tool_name=name)
        tool = (await self._resolve(run)).get(name)
        if tool is None:
            raise ToolError(f"{name} isn't offered any more.")
        run = replace(run, tool_call_approved=tool.tool_def.kind == "unapproved", max_retries=tool.max_retries)
        with _errors(name):
            given = tool.args_validator.validate_python(arguments, context=run.validation_context)
            try:
                answer = await self._toolset.call_tool(name, given, run, tool)
            except ApprovalRequired as asked:
                await confirm(context, name, asked.metadata)
                answer = await self._toolset.call_tool(name, given, replace(run, tool_call_approved=True), tool)
        return _result_of(answer)


@contextmanager
def _errors(name: str) -> Iterator[None]:
    """Raises what a tool means for the model as a `ToolError`; anything else is a crash."""
    try:
        yield
    except (ModelRetry, ToolFailed) as error:
        raise ToolError(error.message, retryable=isinstance(error, ModelRetry)) from error
    except CallDeferred as error:
        raise ToolError(
            f"{name} was not run: its result would come from outside, which isn't possible here."
        ) from error
    except ValidationError as error:
        raise invalid_arguments(name, error.errors()) from error


def _function_of(tool: Any) -> object:
    """The function of a `FunctionToolset`'s tool; of others, the toolset tells the package."""
    call = getattr(getattr(tool, "call_func", None), "__self__", None)
    return getattr(call, "function", None) or tool.toolset


def _result_of(answer: Any) -> ToolResult:
    details = None
    if isinstance(answer, ToolReturn):
        extra = content_of(_blocks(answer.content)) if answer.content is not None else []
        content, details = [*content_of(_blocks(answer.return_value)), *extra], json_or_text(answer.metadata)
    else:
        content = content_of(_blocks(answer))
    return ToolResult(tuple(content), details=details)


def _blocks(value: Any) -> Any:
    """Pydantic AI's media as blocks; anything else unchanged."""
    if isinstance(value, list | tuple):
        return [_blocks(item) for item in value] if any(isinstance(item, BinaryContent) for item in value) else [value]
    if isinstance(value, BinaryContent):
        kind = "image" if value.is_image else "audio" if value.is_audio else "file"
        return {"type": kind, "data": value.data, "mime_type": value.media_type, "id": value.identifier}
    return value if isinstance(value, str | dict) else [value]
