"""Strands Agents: its tools in pegboard, and pegboard's tools in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from copy import deepcopy
from functools import partial
from types import ModuleType
from typing import Any, Final, NoReturn

from attrs import evolve

from pegboard import REMOVED, ReadonlyContext, ResolvedTools, Tool, ToolContext, ToolError, ToolResult
from pegboard.approval import Answer, PendingCall
from pegboard.json import json_text
from pegboard.tools import Content, json_or_text, mapped_name
from pegboard.typing import JsonObject
from pegboard_adapters.content import content_of, media_of, text_of
from pegboard_adapters.incoming import ForeignToolset, Trust
from pegboard_adapters.outgoing import answer_of, offer_each, question_digest, question_of, run_call
from pegboard_adapters.peers import check_peer

check_peer("strands")

from strands import Agent
from strands.interrupt import Interrupt, InterruptException
from strands.models import Model
from strands.tools.loader import load_tool_from_string, load_tools_from_module
from strands.types._events import (
    ToolInterruptEvent,
    ToolResultEvent,
    ToolStreamEvent,
)  # no public ones: as its own tools
from strands.types.tools import AgentTool, ToolContext as StrandsContext

# pegboard's tools in Strands ------------------------------------------------------------------------------------------


def context_of(state: Mapping[str, Any]) -> ReadonlyContext:
    """The context of an invocation: its `context`, if that is a `ReadonlyContext`; else its `user_id`, `session_id`.

    The session's state is that of the agent, if the context has none.
    """
    agent, own = state.get("agent"), state.get("context")
    if not isinstance(own, ReadonlyContext):
        user, session = (None if state.get(key) is None else str(state[key]) for key in ("user_id", "session_id"))
        own = ReadonlyContext(user=user, session=session, agent=getattr(agent, "name", None))
    return own if own.state or not isinstance(agent, Agent) else evolve(own, state=agent.state.get())


def to_strands(
    resolved: ResolvedTools, *, context: Callable[[Mapping[str, Any]], ReadonlyContext] | None = None
) -> list[AgentTool]:
    """Pegboard's tools as tools of Strands: `Agent(..., tools=to_strands(resolved))`.

    A call that asks interrupts the agent, unless the registry has an approver; the response to the interrupt is `True`,
    `"y"` or an answer's JSON (`{"answer": "reject", "feedback": "..."}`), and anything else a no. Changes of the
    session's state are made in the agent's.

    Args:
        resolved: The tools to offer, of `await registry.resolve()`.
        context: The context of an invocation, from its state; by default its `context`, or user and session.

    Raises:
        ValueError: No registry has resolved these tools.
    """
    return offer_each(resolved, lambda tool: _PegboardTool(tool, resolved, context or context_of), "Strands")


_END: Final = object()


class _PegboardTool(AgentTool):
    def __init__(
        self, tool: Tool, resolved: ResolvedTools, context: Callable[[Mapping[str, Any]], ReadonlyContext]
    ) -> None:
        super().__init__()
        spec = tool.spec
        self._resolved, self._context = resolved, context
        self._spec: Any = {
            "name": spec.name,
            "description": spec.description or spec.name,
            "inputSchema": {"json": deepcopy(dict(spec.input_schema))},  # Strands adds to it
        }

    @property
    def tool_name(self) -> str:
        return self._spec["name"]

    @property
    def tool_spec(self) -> Any:
        return self._spec

    @property
    def tool_type(self) -> str:
        return "pegboard"

    async def stream(self, tool_use: Any, invocation_state: dict[str, Any], **_: Any) -> Any:
        events: asyncio.Queue[Any] = asyncio.Queue()
        context = ToolContext(self._context(invocation_state), listener=events.put_nowait)
        arguments, call_id = tool_use.get("input"), tool_use["toolUseId"]
        if not isinstance(arguments, Mapping | str):
            arguments = json_text(json_or_text(arguments)) if arguments is not None else {}
        agent = invocation_state.get("agent")
        ask = partial(_ask, tool_use, agent, invocation_state) if isinstance(agent, Agent) else None
        call = run_call(self._resolved, self.tool_name, arguments, context, call_id=call_id, ask=ask)
        task = asyncio.create_task(call)
        task.add_done_callback(lambda _: events.put_nowait(_END))
        try:
            while (event := await events.get()) is not _END:
                yield json_or_text(event)
            result = await task
        except InterruptException as raised:
            yield ToolInterruptEvent(tool_use, [raised.interrupt])
            return
        finally:
            task.cancel()
        if isinstance(agent, Agent):
            for key, value in context.actions.state_delta.items():
                agent.state.delete(key) if value is REMOVED else agent.state.set(key, value)
        content = [_block(item) for item in result.content]
        status = "error" if result.is_error else "success"
        yield ToolResultEvent({"toolUseId": call_id, "status": status, "content": content})


def _ask(tool_use: Any, agent: Any, state: dict[str, Any], pending: PendingCall) -> Answer:
    """The response to the interrupt of this question; raises `InterruptException` if there is none yet."""
    run = StrandsContext(tool_use=tool_use, agent=agent, invocation_state=state)
    response = run.interrupt(f"pegboard:{question_digest(pending)}", question_of(pending))
    return answer_of(response.strip().lower() in ("y", "yes") if isinstance(response, str) else response)


_IMAGES: Final = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENTS: Final = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}


def _block(item: Content) -> JsonObject:
    """A content as Strands's: a text, an image or a document; of other media a note."""
    if (text := text_of(item)) is not None:
        return {"text": text}
    data, mime_type = media_of(item)
    if mime_type in _IMAGES:
        return {"image": {"format": _IMAGES[mime_type], "source": {"bytes": data}}}
    if mime_type in _DOCUMENTS:
        return {"document": {"format": _DOCUMENTS[mime_type], "name": "file", "source": {"bytes": data}}}
    return {"text": f"[{mime_type} of {len(data):,} bytes, which can't be shown here]"}


# Strands's tools in pegboard ------------------------------------------------------------------------------------------


def from_strands(tools_or_modules: object, *, name: str = "strands", trust: Trust = False) -> ForeignToolset:
    """Tools of Strands as a toolset, for `registry.register`.

    They get an agent without a model that has the session's state; their interrupts are questions.

    Args:
        tools_or_modules: What an agent's `tools` takes: tools of `@tool`, modules, and names such as
            `"strands_tools.calculator"`; one or several.
        name: The toolset's name.
        trust: Whether they run unasked where they declare no harm; or the names of tools and packages that do.
    """
    is_one = isinstance(tools_or_modules, AgentTool | ModuleType | str) or not isinstance(tools_or_modules, Iterable)
    items: Any = [tools_or_modules] if is_one else tools_or_modules
    return ForeignToolset(name, items, _tool_of, trust=trust, expand=_tools_of, function_of=_function_of)


def _function_of(tool: AgentTool) -> object:
    return getattr(tool, "_tool_func", tool)


def _tools_of(item: object) -> Iterable[AgentTool]:
    if isinstance(item, str):
        try:
            return load_tool_from_string(item)
        except AttributeError as error:  # which hides the name of a module that isn't installed
            raise error.__cause__ or error from None
    if isinstance(item, ModuleType):
        return load_tools_from_module(item, item.__name__.rpartition(".")[2])
    if isinstance(item, AgentTool):
        return [item]
    raise TypeError(f"it is no tool of Strands, but of type {type(item).__name__}")


def _tool_of(tool: AgentTool) -> Tool:
    spec = tool.tool_spec
    schema = spec["inputSchema"]
    schema = schema["json"] if isinstance(schema.get("json"), Mapping) else schema
    return Tool.from_schema(
        mapped_name(tool.tool_name),
        {"type": "object", **schema},
        partial(_run, tool),
        description=spec["description"],
        skip_patterns=True,
    )


class _NoModel(Model):
    """The model of the agent that tools get; it has no answers."""

    def update_config(self, **model_config: Any) -> NoReturn:
        raise NotImplementedError

    def get_config(self) -> JsonObject:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError

    def stream(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError


_MOST_INTERRUPTS: Final = 5  # of one call


async def _run(tool: AgentTool, arguments: JsonObject, context: ToolContext) -> ToolResult:
    before = {key: json_or_text(value) for key, value in context.state.items()}
    agent = Agent(model=_NoModel(), name=context.agent or "pegboard", state=deepcopy(before), callback_handler=None)
    tool_use = {"toolUseId": context.call_id or "call", "name": tool.tool_name, "input": {**arguments}}
    invocation = {"agent": agent, "context": context.request, "request_state": {}}
    for _ in range(_MOST_INTERRUPTS):
        event = await _stream(tool, tool_use, invocation, context)
        if isinstance(event, ToolInterruptEvent):
            for interrupt in event.interrupts:
                interrupt.response = await _response(tool.tool_name, interrupt, context)
            continue
        _add_changes(before, agent.state.get(), context)
        return _result_of(event)
    raise ToolError(f"{tool.tool_name} was not run: it interrupts again and again.")


async def _stream(tool: AgentTool, tool_use: Any, invocation: dict[str, Any], context: ToolContext) -> Any:
    """The last event of a tool, which is its result or an interrupt; the others are partial results."""
    last: Any = None
    async with aclosing(tool.stream(tool_use, invocation)) as events:
        async for event in events:
            if isinstance(event, ToolInterruptEvent | ToolResultEvent):
                return event
            if last is not None:
                context.emit(json_or_text(last))
            last = event["tool_stream_event"]["data"] if isinstance(event, ToolStreamEvent) else event
    return last


async def _response(name: str, interrupt: Interrupt, context: ToolContext) -> Any:
    """A person's response to an interrupt: what the answer has as its payload, or `"y"`."""
    sent = json_or_text(interrupt.reason)
    answer = await context.request_confirmation(f"{name} asks: {interrupt.name}", sent)
    if not answer.confirmed:
        raise ToolError(f"{name} was not run: it was not approved.")
    return "y" if answer.payload is None or answer.payload == sent else answer.payload


def _add_changes(before: JsonObject, after: JsonObject, context: ToolContext) -> None:
    for key in {**before, **after}:
        if key not in after:
            del context.state[key]
        elif key not in before or after[key] != before[key]:
            context.state[key] = after[key]


_INVALID: Final = "Validation failed for input parameters"  # as Strands's text begins


def _result_of(event: Any) -> ToolResult:
    error = getattr(event, "exception", None)
    if error is not None and str(error).startswith(_INVALID):
        raise ToolError(str(error)) from error
    if error is not None:
        raise error
    result = event.tool_result if isinstance(event, ToolResultEvent) else event
    if not isinstance(result, Mapping) or not isinstance(result.get("content"), list | tuple):
        return ToolResult(tuple(content_of([result] if result is not None else [])))
    content = tuple(content_of([_of_block(block) for block in result["content"]]))
    return ToolResult(content, is_error=result.get("status") == "error")


def _of_block(block: Any) -> Any:
    """One of Strands's contents as a block that `content_of` knows."""
    if not isinstance(block, Mapping):
        return block
    if isinstance(block.get("text"), str):
        return block["text"]
    if "json" in block:
        return json_text(json_or_text(block["json"]))
    for kind, types in (("image", _IMAGES), ("document", _DOCUMENTS)):
        media = block.get(kind)
        if isinstance(media, Mapping) and isinstance(data := dict(media.get("source") or {}).get("bytes"), bytes):
            mime_type = {form: mime for mime, form in types.items()}.get(str(media.get("format")))
            return {"type": kind, "data": data, "mime_type": mime_type, "filename": media.get("name")}
    return block
