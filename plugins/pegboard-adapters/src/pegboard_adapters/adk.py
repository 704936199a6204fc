"""Google's Agent Development Kit (ADK): its tools in pegboard, and pegboard's tools in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from secrets import token_hex
from typing import Any, Final, cast

from pegboard import (
    REMOVED,
    Actions,
    Problem,
    ReadonlyContext,
    Reject,
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
from pegboard.json import json_text
from pegboard.threads import run_in_thread
from pegboard.tools import Content, json_or_text, mapped_name
from pegboard.toolsets.predicates import Where
from pegboard.typing import JsonObject, JsonSchema
from pegboard_adapters.content import content_of, media_of, text_of
from pegboard_adapters.incoming import KnownTools, Trust, convert_each, item_problem
from pegboard_adapters.outgoing import answer_of, offer_each, question_digest, question_of, run_call
from pegboard_adapters.peers import check_peer

check_peer("adk")

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext as AdkReadonlyContext
from google.adk.artifacts import BaseArtifactService
from google.adk.memory import BaseMemoryService
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import BaseTool, FunctionTool, ToolContext as AdkToolContext
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

# pegboard's tools in ADK ----------------------------------------------------------------------------------------------


def context_of(run: AdkReadonlyContext) -> ReadonlyContext:
    """The context of a run of ADK: its user, its session with the state, its agent and its invocation."""
    return ReadonlyContext(
        user=run.user_id,
        session=run.session.id,
        state=run.session.state,
        agent=run.agent_name,
        invocation=run.invocation_id,
    )


def to_adk(
    registry: ToolRegistry,
    *,
    where: Where = None,
    context: Callable[[AdkReadonlyContext], ReadonlyContext] | None = None,
) -> BaseToolset:
    """Pegboard's tools as a toolset of ADK: `Agent(..., tools=[to_adk(registry)])`.

    They are resolved anew at each step of a run. A call that asks requests a confirmation, unless the registry has an
    approver. Changes of the state, `transfer_to`, `escalate` and `skip_summarization` become ADK's.

    Args:
        registry: The registry that resolves and runs them.
        where: Which tools to offer: a predicate, or its text.
        context: The context of a run; by default its user, session, state and agent.
    """
    return _PegboardToolset(registry, where, context or context_of)


class _PegboardToolset(BaseToolset):
    def __init__(
        self, registry: ToolRegistry, where: Where, context: Callable[[AdkReadonlyContext], ReadonlyContext]
    ) -> None:
        super().__init__()
        self._use_invocation_cache = False  # for the tools may change between two steps
        self._registry, self._where, self._context = registry, where, context

    async def get_tools(self, readonly_context: AdkReadonlyContext | None = None) -> list[BaseTool]:
        context = ReadonlyContext() if readonly_context is None else self._context(readonly_context)
        resolved = await self._registry.resolve(context, where=self._where)
        return offer_each(resolved, lambda tool: _PegboardTool(tool, resolved, self._context), "ADK")


class _AskedError(Exception):
    """A question that waits for ADK's confirmation."""


class _PegboardTool(BaseTool):
    def __init__(
        self, tool: Tool, resolved: ResolvedTools, context: Callable[[AdkReadonlyContext], ReadonlyContext]
    ) -> None:
        spec = tool.spec
        super().__init__(name=spec.name, description=spec.description or "", is_long_running=spec.long_running)
        self._spec, self._resolved, self._context = spec, resolved, context

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = dict(self._spec.input_schema)
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: AdkToolContext) -> Any:
        name, call_id = self._spec.name, tool_context.function_call_id or ""  # `self.name` may have a prefix of ADK's
        context, ask = ToolContext(self._context(tool_context)), partial(_ask, tool_context)
        try:
            result = await run_call(self._resolved, name, args, context, call_id=call_id, ask=ask)
        except _AskedError:
            tool_context.actions.skip_summarization = True  # the model is called once there is an answer
            return {"error": f"{name} wasn't run yet, as a person has to approve it."}
        _apply(context.actions.actions, tool_context)
        return _response(result)


def _ask(run: AdkToolContext, pending: PendingCall) -> Answer | None:
    """A person's answer to this question. ADK asks once for a call: a further question isn't answered."""
    key = question_digest(pending)
    if run.tool_confirmation is None:
        run.request_confirmation(hint=pending.to_text(), payload={**question_of(pending), "key": key})
        raise _AskedError
    return _answer(run.tool_confirmation) if key in _request_keys(run) else None


def _request_keys(run: AdkToolContext) -> set[object]:
    """The keys of the questions that this call has asked, as the session's events have them."""
    requests = (event.actions.requested_tool_confirmations for event in run.session.events)
    found = [each[run.function_call_id] for each in requests if run.function_call_id in each]
    return {each.payload.get("key") for each in found if isinstance(each.payload, Mapping)}


def _answer(confirmation: ToolConfirmation) -> Answer:
    """Yes or no, or an answer's JSON in the payload."""
    payload = confirmation.payload
    is_answer = isinstance(payload, Mapping) and "answer" in payload
    answer = answer_of(payload if is_answer else confirmation.confirmed)
    return answer if confirmation.confirmed or isinstance(answer, Reject) else Reject()


def _apply(actions: Actions, run: AdkToolContext) -> None:
    """Applies what a call has requested of its host; ADK has no removed keys, so they are `None`."""
    for key, value in {**actions.state_delta, **actions.temporary}.items():
        run.state[key] = None if value is REMOVED else value
    run.actions.transfer_to_agent = actions.transfer_to or run.actions.transfer_to_agent
    run.actions.escalate = actions.escalate or run.actions.escalate
    run.actions.skip_summarization = actions.skip_summarization or run.actions.skip_summarization


def _response(result: ToolResult) -> JsonObject:
    """A result as ADK's: its data or its text, an error's text, and its media as parts, which ADK takes out."""
    texts = [text_of(item) for item in result.content]
    media = [_part(item) for item, text in zip(result.content, texts, strict=True) if text is None]
    text, data = "\n".join(text for text in texts if text is not None), result.structured_content
    if result.is_error:
        response: JsonObject = {"error": text}
    elif isinstance(data, dict):
        response = {**cast("JsonObject", data)}
    else:
        response = {"result": text} if text or not media else {}
    return {**response, "_media": media} if media else response  # the key is of none of its data


def _part(item: Content) -> types.Part:
    data, mime_type = media_of(item)
    return types.Part.from_bytes(data=data, mime_type=mime_type)


# ADK's tools in pegboard ----------------------------------------------------------------------------------------------


def from_adk(
    tools_or_toolset: BaseToolset | Iterable[object],
    *,
    name: str = "adk",
    trust: Trust = False,
) -> ToolsetBase:
    """Tools of ADK as a toolset, for `registry.register`.

    They get a session with the call's user, id and state; artifacts and memory are services of ADK's
    `BaseArtifactService` and `BaseMemoryService`, if the host provides them. Tools that Gemini runs are problems.

    Args:
        tools_or_toolset: A toolset, or what an agent's `tools` takes: tools, toolsets and functions.
        name: The toolset's name.
        trust: Whether they run unasked where they declare no harm; or the names of tools and packages that do.
    """
    if isinstance(tools_or_toolset, BaseToolset | BaseTool) or callable(tools_or_toolset):
        tools_or_toolset = [tools_or_toolset]
    return _ForeignToolset(name, tools_or_toolset, trust)


class _ForeignToolset(ToolsetBase):
    def __init__(self, name: str, items: Iterable[object], trust: Trust) -> None:
        self.name = name
        self._items, self._trust = tuple(items), trust
        self._known = KnownTools()

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        run = AdkReadonlyContext(_invocation(context))
        items: list[object] = []
        problems: list[Problem] = []
        for item in self._items:
            try:
                items += await item.get_tools_with_prefix(run) if isinstance(item, BaseToolset) else [_tool_item(item)]
            except Exception as error:  # noqa: BLE001  one toolset doesn't affect the others
                problems.append(item_problem(item, error))
        result = convert_each(items, _tool_of, self._trust)
        return self._known.same(ToolsetResult([*result], [*result.problems, *problems]))

    async def close(self) -> None:
        for item in self._items:
            if isinstance(item, BaseToolset):
                await item.close()


def _tool_item(item: object) -> object:
    return FunctionTool(cast("Callable[..., Any]", item)) if callable(item) and not isinstance(item, type) else item


def _tool_of(tool: Any) -> Tool:
    if not isinstance(tool, BaseTool):
        raise TypeError(f"it is no tool of ADK, but of type {type(tool).__name__}")
    declaration = tool._get_declaration()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  what tools override
    if declaration is None:
        raise TypeError("it has no declaration: Gemini runs it, or it only changes requests")
    asks = getattr(tool, "_require_confirmation", None) is True
    return Tool.from_schema(
        mapped_name(tool.name),
        _schema_of(declaration),
        partial(_run, _in_thread(tool), asks),
        description=declaration.description,
        requires_confirmation=asks or None,
        long_running=tool.is_long_running,
        skip_patterns=True,
    )


def _schema_of(declaration: types.FunctionDeclaration) -> JsonSchema:
    schema: Any = declaration.parameters_json_schema
    if schema is None and declaration.parameters is not None:
        schema = declaration.parameters.json_schema.model_dump(mode="json", exclude_none=True, by_alias=True)
    return {"type": "object", "properties": {}, **(schema or {})}


def _in_thread(tool: BaseTool) -> BaseTool:
    """The tool, with its plain function in a thread; ADK calls it in the event loop.

    Raises:
        TypeError: It is a generator, which runs only in ADK's own workflow.
    """
    function: Any = getattr(tool, "func", None) if isinstance(tool, FunctionTool) else None
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        raise TypeError("it is a generator, which only ADK's own runner can run")
    call = getattr(function, "__call__", None)  # noqa: B004  of an object with an async method
    if function is None or iscoroutinefunction(function) or iscoroutinefunction(call):
        return tool

    @wraps(function)
    async def run(*args: Any, **arguments: Any) -> Any:
        return await run_in_thread(partial(function, *args, **arguments))

    tool = copy(tool)
    vars(tool)["func"] = run
    return tool


_MOST_REQUESTS: Final = 5  # confirmations of one call


async def _run(tool: BaseTool, asks: bool, arguments: JsonObject, context: ToolContext) -> ToolResult:
    """The result of a call: ADK's tools request a confirmation, and are called again with it.

    `asks`: the tool always needs one, so that pegboard has asked before the call.
    """
    name, call_id = tool.name, context.call_id or "call"
    confirmation = ToolConfirmation(confirmed=True) if asks else None
    for _ in range(_MOST_REQUESTS):
        run = AdkToolContext(_invocation(context), function_call_id=call_id, tool_confirmation=confirmation)
        needs_yes = await tool.check_require_confirmation(arguments, run) is True
        if needs_yes and confirmation is not None and not confirmation.confirmed:
            raise ToolError(f"{name} was not run: it was not approved.")
        if needs_yes and confirmation is None:
            answer = None
            run.request_confirmation(hint="")
        else:
            answer = await tool.run_async(args={**arguments}, tool_context=run)
        request = run.actions.requested_tool_confirmations.get(call_id)
        if request is None:
            return _result_of(name, answer, run, context)
        hint, payload = request.hint or f"{name} needs an approval", json_or_text(request.payload)
        given = await context.request_confirmation(hint, payload)
        confirmation = ToolConfirmation(hint=request.hint, confirmed=given.confirmed, payload=given.payload)
    raise ToolError(f"{name} was not run: it requests one confirmation after the other.")


def _invocation(context: ReadonlyContext | ToolContext) -> InvocationContext:
    """What ADK's tools get: a session of their own with the state, and the services that the host provides."""
    agent = context.agent if context.agent and context.agent.isidentifier() and context.agent != "user" else "pegboard"
    session = Session(
        id=context.session or "session", app_name="pegboard", user_id=context.user or "user", state=dict(context.state)
    )
    services: dict[str, Any] = {}
    if isinstance(context, ToolContext):
        kinds: dict[str, type] = {"artifact_service": BaseArtifactService, "memory_service": BaseMemoryService}
        services = {name: context.service(kind) for name, kind in kinds.items() if context.provides(kind)}
    return InvocationContext(
        session_service=InMemorySessionService(),
        invocation_id=context.invocation or token_hex(8),  # toolsets offer the same tools during an invocation
        agent=BaseAgent(name=agent),
        session=session,
        **services,
    )


def _result_of(name: str, answer: Any, run: AdkToolContext, context: ToolContext) -> ToolResult:
    """The result of what a tool of ADK returned; what it has changed and requested goes to the call's actions."""
    if run.actions.requested_auth_configs:
        raise ToolError(f"{name} was not run: it needs credentials, which can't be requested here.")
    run.state.has_delta()  # which adds the changes inside lists and dicts
    for key, value in run.actions.state_delta.items():
        context.state[key] = json_or_text(value)
    context.actions.transfer_to = run.actions.transfer_to_agent or context.actions.transfer_to
    context.actions.escalate = bool(run.actions.escalate) or context.actions.escalate
    context.actions.skip_summarization = bool(run.actions.skip_summarization) or context.actions.skip_summarization
    media: list[JsonObject] = []
    rest = _without_media(answer, media)
    if isinstance(rest, dict) and [*rest] == ["error"]:
        return ToolResult.error("tool_failure", _text(rest["error"]))
    is_empty = rest is None or (media and not rest)
    return ToolResult(tuple(content_of([*([] if is_empty else [_text(rest)]), *media])))


def _text(value: object) -> str:
    data = json_or_text(value)
    return data if isinstance(data, str) else json_text(data)


def _without_media(value: Any, media: list[JsonObject], levels: int = 2) -> Any:
    """A value without the parts in it, which are added to the media as blocks; as deep as ADK looks for them."""
    if isinstance(value, types.Part):
        media.append(_block(value))
        return None
    if levels and isinstance(value, dict):
        entries = cast("dict[Any, Any]", value).items()
        rest = {key: _without_media(item, media, levels - 1) for key, item in entries}
        return {key: rest[key] for key, item in entries if not isinstance(item, types.Part)}
    if levels and isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        rest = [_without_media(item, media, levels - 1) for item in items]
        return [kept for item, kept in zip(items, rest, strict=True) if not isinstance(item, types.Part)]
    return value


def _block(part: types.Part) -> JsonObject:
    if (blob := part.inline_data) is not None:
        kind = (blob.mime_type or "").partition("/")[0]
        return {"type": kind if kind in ("image", "audio") else "file", "data": blob.data, "mime_type": blob.mime_type}
    if (file := part.file_data) is not None:
        return {"type": "file", "url": file.file_uri, "mime_type": file.mime_type}
    return {"type": "text", "text": part.text or ""}
