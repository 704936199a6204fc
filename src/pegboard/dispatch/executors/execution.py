"""Requests to executors, their responses, and what a call emits on the way; all of it JSON data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, ClassVar, Final, TypeAlias, cast, get_args

import attrs
from attrs import field, frozen

from pegboard.callbacks import Flavour
from pegboard.dispatch.results import error_result, read_out, result_of
from pegboard.dispatch.run import drain, drain_async
from pegboard.schema.converter import read_by, read_record, tagged
from pegboard.schema.json import json_faults
from pegboard.tools.call import Confirmation
from pegboard.tools.content import CONTENT_TYPES, Content, ErrorKind, SayableRecord, TextContent, ToolResult
from pegboard.tools.context import DisplayUpdate, Progress, ReadonlyContext, ToolContext
from pegboard.tools.handler import Handler
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject


def _json_part(members: Mapping[str, Any]) -> JsonObject:
    """The members that are JSON; other objects of the host's stay where they are."""
    return {name: value for name, value in members.items() if not json_faults({name: value})} if members else {}


@frozen
class _Partial(SayableRecord):
    """Other data that a call emits."""

    type: ClassVar = "partial"
    data: Any = None


_EMITTED: Final = (Progress, DisplayUpdate, *CONTENT_TYPES)
_Emitted: TypeAlias = Progress | DisplayUpdate | Content | _Partial
read_by(_Emitted, tagged(*get_args(_Emitted)))


def event_to_json(emitted: object) -> JsonObject:
    """What a call emits on the way, as it is sent to its host; other data than JSON is written as text."""
    return (emitted if isinstance(emitted, _EMITTED) else _Partial(emitted)).to_json()


def emitted_from_json(event: JsonObject) -> object:
    """Reads what `event_to_json` writes, from a source that isn't trusted; raises `ValueError` for what is none."""
    emitted = read_record(cast("Any", _Emitted), event, "event")
    return emitted.data if isinstance(emitted, _Partial) else emitted


# Request and response ----------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class ExecutionRequest(SayableRecord):
    """One call of a tool, with what an executor needs to run it somewhere else. All of it is JSON data.

    Attributes:
        tool: The tool's name.
        arguments: The validated arguments.
        call_id: The call's id.
        session: The conversation's id.
        work_dir: The folder that relative paths start from; the executor's own where it is `None`.
        user: The user that the call runs for.
        timeout: Seconds that the call may take; `None` is no limit.
        memory_limit: Bytes of memory that the call may use, where the executor can hold it to that; or `None`.
        expose_errors: Whether the text of unexpected exceptions may reach the model.
        agent: The agent's name.
        agent_description: What the agent is for.
        model: The model's name.
        provider: The model's provider.
        invocation: The id of the turn.
        message: The id of the model's message that holds the call.
        branch: Which agent called which.
        state: What the session knows, as far as it is JSON.
        extra: Anything else from the host, as far as it is JSON.
        values: What callbacks left for the tool, as far as it is JSON.
        confirmation: What a person answered before the call was run again, or `None`.
        approvals: What was allowed, as `PermissionRequired.approval` named it.
        depth: How many calls this one is nested in.
    """

    tool: str
    arguments: Mapping[str, Any] = field(factory=dict[str, Any])
    call_id: str = ""
    session: str | None = None
    work_dir: str | None = None
    user: str | None = None
    timeout: float | None = None
    memory_limit: int | None = None
    expose_errors: bool = False
    agent: str | None = None
    agent_description: str | None = None
    model: str | None = None
    provider: str | None = None
    invocation: str | None = None
    message: str | None = None
    branch: str | None = None
    state: Mapping[str, Any] = field(factory=dict[str, Any], repr=False)
    extra: Mapping[str, Any] = field(factory=dict[str, Any], repr=False)
    values: Mapping[str, Any] = field(factory=dict[str, Any], repr=False)
    confirmation: Mapping[str, Any] | None = None
    approvals: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    depth: int = 0

    @classmethod
    def of_call(cls, tool: str, arguments: Mapping[str, Any], context: ToolContext, **facts: Any) -> ExecutionRequest:
        """The request for one call of this tool in this context.

        Args:
            tool: The tool's name.
            arguments: The validated arguments.
            context: The call's.
            facts: The other attributes: `timeout`, `memory_limit`, `expose_errors`, `approvals`.
        """
        request, confirmation = context.request, context.confirmation
        return cls(
            tool=tool,
            arguments=arguments if isinstance(arguments, dict) else dict(arguments),
            call_id=context.call_id,
            state=_json_part(request.state),
            extra=_json_part(request.extra),
            values=_json_part(context.values),
            confirmation=None if confirmation is None else confirmation.to_data(),
            depth=context.depth,
            **{name: getattr(request, name) for name in _TEXTS},
            **facts,
        )

    def context(self, emit: Callable[[JsonObject], None] | None = None, **facts: Any) -> ToolContext:
        """The context of the call, at the other end.

        Args:
            emit: Gets what the tool emits on the way, as `ExecutorCall.emit` takes it: content, or an object of the
                type `progress` (`progress`, `total`, `message`), `display` (`title`, `facts`) or `partial` (`data`).
            facts: What else it has: `listener`, `host`, `services`, `deadline`.

        Raises:
            ValueError: The confirmation is none.
        """
        if emit is not None:

            def listener(emitted: object) -> None:
                emit(event_to_json(emitted))

            facts["listener"] = listener
        return ToolContext(
            ReadonlyContext(**{name: getattr(self, name) for name in (*_TEXTS, "state", "extra")}),
            self.call_id,
            self.tool,
            values=dict(self.values),
            confirmation=None if self.confirmation is None else Confirmation.from_data(self.confirmation),
            depth=self.depth,
            **facts,
        )


_TEXTS: Final = tuple(each.name for each in attrs.fields(ReadonlyContext) if each.type == "str | None")
"""The attributes that a request shares with the context that it is made of."""


@frozen
class PermissionRequired(SayableRecord):
    """Executor's answer that something has to be allowed before the call can run.

    Attributes:
        permission: The permission's name, such as `"edit"`.
        patterns: What it is asked for, such as paths.
        description: What the tool wants to do, for people.
        metadata: For the person who decides, such as a diff.
        approval: What is added to the request's `approvals` when it is sent again, once this was allowed: it stands
            for exactly this permission of this tool with these arguments. `None`: the permission's name is added.
    """

    permission: str
    patterns: tuple[str, ...] = field(default=("*",), converter=tuple[str, ...])
    description: str = ""
    metadata: Mapping[str, Any] = field(factory=dict[str, Any])
    approval: str | None = None


@frozen(kw_only=True)
class ExecutionResponse(SayableRecord):
    """Response of an executor to one request.

    Attributes:
        output: The tool's text.
        content: All of the result's content, where it is more than `output`; else empty.
        structured_content: The same as JSON data, or `None`.
        title: A short heading for people, or `None`.
        display: Text for people, where it differs from what the model gets.
        error: What went wrong, for the model; `None` where nothing did.
        is_error: Whether the call failed.
        kind: Why, where it failed. With a kind the call itself failed, and `on_error` callbacks see it; an error
            without one is what the tool has answered.
        metadata: Facts for the user interface. `{"retryable": True}` beside the kind `tool_failure` means that the
            same call may succeed later.
        attachments: Files for the user interface: their bytes, type and name.
        details: Any data for the user interface.
        detail: For the operator (message, stack, what was printed last); never for the model.
        permission_required: What has to be allowed first; the tool did not run.
        not_executed: Whether there is nothing here to run the tool with.
        actions: What the call asks of its host (`Actions.to_json()`), or `None`.
    """

    output: str = ""
    content: tuple[Content, ...] = field(default=(), converter=tuple[Content, ...])
    structured_content: Any = None
    title: str | None = None
    display: str | None = None
    error: str | None = None
    is_error: bool = False
    kind: ErrorKind | None = None
    metadata: Mapping[str, Any] = field(factory=dict[str, Any])
    attachments: tuple[Content, ...] = field(default=(), converter=tuple[Content, ...])
    details: Any = None
    detail: str | None = None
    permission_required: PermissionRequired | None = None
    not_executed: bool = False
    actions: Mapping[str, Any] | None = None

    @classmethod
    def failed(cls, kind: ErrorKind, text: str, *, detail: str | None = None) -> ExecutionResponse:
        """The response where the call itself failed: `text` for the model, `detail` for the operator."""
        return cls(error=text, is_error=True, kind=kind, detail=detail, not_executed=kind == "not_executed")

    @classmethod
    def of_result(cls, result: ToolResult, context: ToolContext | None = None) -> ExecutionResponse:
        """The response for a result, with what its tool has set in `context` (title, facts, actions), if given."""
        content, text = result.content, result.text
        is_text = bool(text) and len(content) == 1 and isinstance(content[0], TextContent)
        response = cls(
            output=text,
            content=() if is_text else content,
            error=text if result.is_error else None,
            not_executed=result.kind == "not_executed",
            **{name: getattr(result, name) for name in _SAME},
        )
        pending = None if context is None else context.internals.pending_actions
        if pending is None:
            return response
        return response.evolve(
            title=pending.title if response.title is None else response.title,
            metadata={**pending.facts, **response.metadata},
            actions=None if pending.actions.is_empty else pending.actions.to_json(),
        )

    @classmethod
    def of_function(
        cls,
        tool: Tool,
        context: ToolContext,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        run_async: Callable[[Callable[[], Awaitable[Any]]], Any],
    ) -> ExecutionResponse:
        """The response of a tool's function, called in this thread; for the other end of an executor.

        Args:
            tool: With its handler.
            context: Of the call; gets the items of a generator.
            args: Of the function.
            kwargs: Of the function.
            run_async: Runs what an async function gives in an event loop, and gives its value.

        Raises:
            BaseException: What the function raised, or `invalid_output`; `of_error` is the response for it.
        """
        handler = tool.handler
        assert isinstance(handler, Handler)
        if handler.flavour is Flavour.ASYNC_GENERATOR:
            value = run_async(lambda: drain_async(handler.function(*args, **kwargs), context))
        elif handler.flavour is Flavour.ASYNC:
            value = run_async(lambda: handler.function(*args, **kwargs))
        else:
            value = handler.function(*args, **kwargs)
            if handler.flavour is Flavour.GENERATOR:
                value = drain(value, context)
            elif isawaitable(value):
                awaited = value
                value = run_async(lambda: awaited)
        return cls.of_result(result_of(tool, read_out(tool, value)), context)

    @classmethod
    def of_error(cls, tool: Tool, context: ToolContext, error: BaseException, *, expose: bool) -> ExecutionResponse:
        """The response for what a tool's function raised, worded as a registry words it.

        Args:
            tool: What was called.
            context: Of the call.
            error: What was raised.
            expose: Whether the model may read the text of an unexpected exception.
        """
        return cls.of_result(error_result(context.tool or tool.name, error, expose=expose), context)

    def to_result(self) -> ToolResult:
        """The result of the response.

        What needs a permission first is an error of the kind `confirmation_required`; where there is nothing to run
        the tool with, of the kind `not_executed`.
        """
        required = self.permission_required
        if required is not None:
            text = f"This needs the permission {required.permission} ({', '.join(required.patterns)})."
            return ToolResult.error("confirmation_required", text)
        is_error = self.is_error or self.error is not None or self.not_executed
        text = self.output or self.error or ("There is nothing to run it with." if self.not_executed else "")
        kind = self.kind or ("not_executed" if self.not_executed else "tool_failure")
        facts = {name: getattr(self, name) for name in _SAME}
        facts.update(is_error=is_error, kind=kind if is_error else None)
        return ToolResult(self.content or ((TextContent(text),) if text else ()), **facts)

    @classmethod
    def from_json(cls, data: Any) -> ExecutionResponse:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are ignored.

        Raises:
            ValueError: Something is of the wrong type, or isn't JSON; names it.
        """
        response = super().from_json(data)
        for name, value in (("structuredContent", response.structured_content), ("details", response.details)):
            if faults := json_faults({name: value}):
                raise ValueError("; ".join(faults))
        return response


_SAME: Final = tuple(each.name for each in attrs.fields(ToolResult) if each.name != "content")
"""The attributes that a response and a result share."""
