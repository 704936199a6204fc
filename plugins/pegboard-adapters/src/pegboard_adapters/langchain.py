"""LangChain and LangGraph: their tools in pegboard, and pegboard's in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, get_args, get_origin, get_type_hints

from attrs import frozen

from pegboard import ReadonlyContext, ResolvedTools, Tool, ToolContext, ToolError, ToolResult
from pegboard.approval import Answer, PendingCall
from pegboard.tools import json_or_text, mapped_name
from pegboard.typing import JsonObject
from pegboard_adapters.content import blocks_of, content_of
from pegboard_adapters.incoming import ForeignToolset, Trust, invalid_arguments
from pegboard_adapters.outgoing import answer_of, offer_each, question_of, run_call, run_call_sync, without_references
from pegboard_adapters.peers import check_peer

check_peer("langchain")

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from pydantic import PrivateAttr, ValidationError

_call_id: Final[ContextVar[str | None]] = ContextVar("pegboard_adapters.langchain.call_id", default=None)

# pegboard's tools in LangChain ----------------------------------------------------------------------------------------


def context_of(config: RunnableConfig) -> ReadonlyContext:
    """The context of a LangChain run: its `thread_id` is the session, its `user_id` the user."""
    values = config.get("configurable") or {}
    user, session = (values.get(key) for key in ("user_id", "thread_id"))
    return ReadonlyContext(user=_text(user), session=_text(session))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def to_langchain(
    resolved: ResolvedTools, *, context: Callable[[RunnableConfig], ReadonlyContext] | None = None
) -> list[BaseTool]:
    """Pegboard's tools as LangChain tools, for `create_agent`, `bind_tools` and LangGraph's `ToolNode`.

    A call that asks interrupts the graph, if it has a checkpointer; resume it with `True`, `False` or an answer's JSON
    (`{"answer": "reject", "feedback": "..."}`). Without one it is denied, unless the registry has an approver. A tool
    that LangChain refuses is left out, with an entry in the log.

    Args:
        resolved: The tools to offer, of `await registry.resolve()`.
        context: The context of a run; by default its `thread_id` is the session, its `user_id` the user.

    Raises:
        ValueError: No registry has resolved these tools.
    """
    return offer_each(resolved, lambda tool: _PegboardTool.of(tool, resolved, context or context_of), "LangChain")


class _PegboardTool(BaseTool):
    """A tool of pegboard; LangChain's callbacks see its calls."""

    handle_tool_error: Any = None
    _resolved: ResolvedTools = PrivateAttr()
    _context: Callable[[RunnableConfig], ReadonlyContext] = PrivateAttr()

    @classmethod
    def of(cls, tool: Tool, resolved: ResolvedTools, context: Callable[[RunnableConfig], ReadonlyContext]) -> BaseTool:
        spec = tool.spec
        schema = without_references(spec.input_schema)
        schema = {**schema, "properties": schema.get("properties", {})}  # which OpenAI requires
        made = cls(name=spec.name, description=spec.description or spec.name, args_schema=schema)
        made._resolved, made._context = resolved, context
        return made

    def run(self, tool_input: Any, *args: Any, tool_call_id: str | None = None, **options: Any) -> Any:
        token = _call_id.set(tool_call_id)
        try:
            return super().run(tool_input, *args, tool_call_id=tool_call_id, **options)
        finally:
            _call_id.reset(token)

    async def arun(self, tool_input: Any, *args: Any, tool_call_id: str | None = None, **options: Any) -> Any:
        token = _call_id.set(tool_call_id)
        try:
            return await super().arun(tool_input, *args, tool_call_id=tool_call_id, **options)
        finally:
            _call_id.reset(token)

    def _run(self, /, *, _run_config: RunnableConfig, **arguments: Any) -> Any:
        return self._message(run_call_sync(*self._call(arguments, _run_config), **self._options(_run_config)))

    async def _arun(self, /, *, _run_config: RunnableConfig, **arguments: Any) -> Any:
        return self._message(await run_call(*self._call(arguments, _run_config), **self._options(_run_config)))

    def _call(self, arguments: JsonObject, config: RunnableConfig) -> tuple[Any, ...]:
        return self._resolved, self.name, arguments, self._context(config)

    def _options(self, config: RunnableConfig) -> dict[str, Any]:
        can_pause = bool((config.get("configurable") or {}).get("__pregel_checkpointer"))
        return {"call_id": _call_id.get() or "", "ask": _interrupt if can_pause else None}

    def _message(self, result: ToolResult) -> Any:
        """The message of a call by a model; else the text, or an exception for an error."""
        content, call_id = _blocks(result), _call_id.get()
        if call_id is None:
            if result.is_error:
                raise ToolException(result.text)
            return content
        status = "error" if result.is_error else "success"
        artifact = result.to_data(detail=False)
        return ToolMessage(content, tool_call_id=call_id, name=self.name, status=status, artifact=artifact)


def _interrupt(pending: PendingCall) -> Answer:
    from langgraph.types import interrupt

    return answer_of(interrupt(question_of(pending)))


def _blocks(result: ToolResult) -> str | list[str | JsonObject]:
    """A result's content as LangChain's: one string, where it is only text."""
    blocks = blocks_of(result.content)
    return result.text if all(block["type"] == "text" for block in blocks) else [*blocks]


# LangChain's tools in pegboard ----------------------------------------------------------------------------------------


def from_langchain(
    tools: Iterable[BaseTool] | BaseTool, *, name: str = "langchain", trust: Trust = False
) -> ForeignToolset:
    """LangChain tools as a toolset, for `registry.register`.

    `InjectedState`, `InjectedStore`, `InjectedToolCallId` and `runtime` are injected: the state is the session's, the
    store a service of LangGraph's `BaseStore`, if the host provides one.

    Args:
        tools: One or several, such as those of `@tool`, of a toolkit's `get_tools()`, or of an MCP client.
        name: The toolset's name.
        trust: Whether they run unasked where they declare no harm; or the names of tools and packages that do.
    """
    items = [tools] if isinstance(tools, BaseTool) else tools  # which pydantic would iterate by its fields
    return ForeignToolset(name, items, _tool_of, trust=trust)


def _tool_of(tool: Any) -> Tool:
    if not isinstance(tool, BaseTool):
        raise TypeError(f"it is no LangChain tool, but of type {type(tool).__name__}")
    schema = tool.tool_call_schema
    schema = dict(schema) if isinstance(schema, Mapping) else schema.model_json_schema()
    schema.setdefault("type", "object")
    schema.pop("description", None)
    call = _Call(tool, _Injected.of(tool))
    is_async = type(tool)._arun is not BaseTool._arun  # noqa: SLF001  frameworks override it
    is_async = is_async and getattr(tool, "coroutine", True) is not None
    handler = call.run_async if is_async else call.run
    return Tool.from_schema(
        mapped_name(tool.name), schema, handler, description=tool.description, tags=tool.tags, skip_patterns=True
    )


@frozen
class _Call:
    """Runs the calls of one LangChain tool."""

    tool: BaseTool
    injected: _Injected

    def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        with _errors(self.tool):
            answer = self.tool.invoke(*self._input(arguments, context))
        return _result_of(answer, context)

    async def run_async(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        with _errors(self.tool):
            answer = await self.tool.ainvoke(*self._input(arguments, context))
        return _result_of(answer, context)

    def _input(self, arguments: JsonObject, context: ToolContext) -> tuple[Any, RunnableConfig]:
        config: RunnableConfig = {"configurable": {"thread_id": context.session, "user_id": context.user}}
        call_id = context.call_id or "call"
        given = {**arguments, **self.injected.values(context, call_id, config)}
        return {"type": "tool_call", "id": call_id, "name": self.tool.name, "args": given}, config


@contextmanager
def _errors(tool: BaseTool) -> Iterator[None]:
    """Raises what a LangChain tool means for the model as a `ToolError`; anything else is a crash."""
    try:
        yield
    except ToolException as error:
        raise ToolError(str(error) or f"{tool.name} failed.") from error
    except ValidationError as error:
        if error.title != getattr(tool.get_input_schema(), "__name__", ""):
            raise
        raise invalid_arguments(tool.name, error.errors()) from error


def _result_of(answer: Any, context: ToolContext) -> ToolResult:
    """The result of what a LangChain tool returned: a message, a `Command` that changes the state, or several."""
    parts = answer if isinstance(answer, list) else [answer]
    results = [part for each in parts for part in _messages(each, context)]
    content = tuple(item for message in results for item in content_of(message.content))
    is_error = any(message.status == "error" for message in results)
    artifacts = [message.artifact for message in results if message.artifact is not None]
    return ToolResult(content, is_error=is_error, details=json_or_text(artifacts[0]) if artifacts else None)


def _messages(answer: Any, context: ToolContext) -> Iterator[ToolMessage]:
    if isinstance(answer, ToolMessage):
        yield answer
        return
    update, goto = getattr(answer, "update", None), getattr(answer, "goto", None)  # a Command of LangGraph
    for key, value in dict(update or {}).items():
        if key == "messages":
            yield from (each for each in value if isinstance(each, ToolMessage))
        else:
            context.state[key] = json_or_text(value)
    if isinstance(goto, str) and goto:
        context.actions.transfer_to = goto


@frozen
class _Injected:
    """The arguments of a LangChain tool that the model neither sees nor gives."""

    states: Mapping[str, str | None]  # argument -> the key in the state; `None` for all of it
    stores: tuple[str, ...]
    runtimes: tuple[str, ...]

    @classmethod
    def of(cls, tool: BaseTool) -> _Injected:
        """Finds them by their annotations, as LangGraph does.

        Raises:
            TypeError: One has an annotation of its own, which only its program can fill.
        """
        states: dict[str, str | None] = {}
        stores: list[str] = []
        runtimes: list[str] = []
        for name, parts in _annotations(tool).items():
            kinds = {(part if isinstance(part, type) else type(part)).__name__: part for part in parts}
            if "InjectedState" in kinds:
                states[name] = getattr(kinds["InjectedState"], "field", None)
            elif "InjectedStore" in kinds:
                stores.append(name)
            elif "ToolRuntime" in kinds:
                runtimes.append(name)
            elif "InjectedToolCallId" in kinds:
                continue  # LangChain gives it
            elif "InjectedToolArg" in {base.__name__ for part in parts for base in _bases(part)}:
                raise TypeError(f"its argument {name!r} is injected by its own program, which isn't here")
        return cls(states, tuple(stores), tuple(runtimes))

    def values(self, context: ToolContext, call_id: str, config: RunnableConfig) -> JsonObject:
        """The values of a call."""
        state = dict(context.state)
        values: JsonObject = {name: state if key is None else state.get(key) for name, key in self.states.items()}
        store = self._store(context) if self.stores or self.runtimes else None
        if self.runtimes:
            from langgraph.prebuilt import ToolRuntime

            runtime = ToolRuntime(
                state=state,
                context=None,
                config=config,
                stream_writer=context.emit,
                tool_call_id=call_id,
                store=store,
            )
            values.update(dict.fromkeys(self.runtimes, runtime))
        return {**values, **dict.fromkeys(self.stores, store)}

    @staticmethod
    def _store(context: ToolContext) -> Any:
        from langgraph.store.base import BaseStore

        return context.service(BaseStore) if context.provides(BaseStore) else None


def _annotations(tool: BaseTool) -> dict[str, tuple[object, ...]]:
    """The parts of the annotations of a tool's arguments, by its function and its schema."""
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    try:
        hints = get_type_hints(function, include_extras=True) if function else {}
    except NameError:  # of names that only its own module knows: its schema has them
        hints = {}
    found = {name: (hint, get_origin(hint), *get_args(hint)) for name, hint in hints.items()}
    fields = {} if isinstance(tool.args_schema, dict) else getattr(tool.get_input_schema(), "model_fields", {})
    schema = {name: (each.annotation, get_origin(each.annotation), *each.metadata) for name, each in fields.items()}
    return {**found, **schema}


def _bases(part: object) -> tuple[type, ...]:
    return (part if isinstance(part, type) else type(part)).__mro__
