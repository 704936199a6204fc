"""Requests to executors, their responses, and the events of a call; all of it JSON data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from inspect import isawaitable
from typing import Any, ClassVar, Final, TypeAlias, cast, get_args

import attrs
from attrs import field, frozen

from pegboard.callbacks import CallableKind
from pegboard.dispatch.results import drain, drain_async, error_result, read_iterator, result_of
from pegboard.errors import tuple_of
from pegboard.json import digest_of, json_problems
from pegboard.schema.converter import read_by, read_record, tagged
from pegboard.tools.call import Confirmation
from pegboard.tools.content import CONTENT_TYPES, Content, ErrorKind, SayableRecord, TextContent, ToolResult
from pegboard.tools.context import DisplayUpdate, Progress, ReadonlyContext, ToolContext
from pegboard.tools.handler import Handler
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject


def _json_part(part: str, members: Mapping[str, Any], sends: Collection[str] | None) -> JsonObject:
    """The members that are sent (`None`: all) and are JSON; other objects aren't sent."""
    if sends is not None and part not in sends:
        members = {name: value for name, value in members.items() if f"{part}.{name}" in sends}
    return {name: value for name, value in members.items() if not json_problems({name: value})} if members else {}


@frozen
class _Partial(SayableRecord):
    """Event for any other data that a call emits."""

    type: ClassVar = "partial"
    data: Any = None


_EMITTED: Final = (Progress, DisplayUpdate, *CONTENT_TYPES)
_Emitted: TypeAlias = Progress | DisplayUpdate | Content | _Partial
read_by(_Emitted, tagged(*get_args(_Emitted)))


def event_to_json(emitted: object) -> JsonObject:
    """Serializes what a call emits, as sent to its host; data that isn't JSON is written as text."""
    return (emitted if isinstance(emitted, _EMITTED) else _Partial(emitted)).to_json()


def event_from_json(event: JsonObject) -> object:
    """Parses an event of `event_to_json` from an untrusted source; raises `ValueError` if it is invalid."""
    emitted = read_record(cast("Any", _Emitted), event, "event")
    return emitted.data if isinstance(emitted, _Partial) else emitted


@frozen(kw_only=True)
class ExecutionRequest(SayableRecord):
    """Request to an executor to run one call of a tool. All of it is JSON data.

    Attributes:
        tool: The tool's name.
        arguments: The validated arguments.
        call_id: The call's id.
        session: The conversation's id.
        work_dir: The folder that relative paths start from; `None` is the executor's own.
        user: The user that the call runs for.
        queue: The queue of the executor that the call goes to; `None` is its default.
        timeout: Seconds that the call may take; `None` is no limit.
        memory_limit: Bytes of memory that the call may use, if the executor can enforce that; `None` is no limit.
        expose_errors: Whether the text of unexpected exceptions may reach the model.
        agent: The agent's name.
        agent_description: What the agent is for.
        model: The model's name.
        provider: The model's provider.
        invocation: The id of the turn.
        message: The id of the model's message that holds the call.
        branch: Which agent called which.
        state: The session's state; only its members that are JSON, and that the tool's `sends` has.
        extra: Other data of the host; likewise.
        values: Values that callbacks set for the tool; likewise.
        confirmation: The user's answer to an earlier run of the call, or `None`.
        approvals: The approvals that were granted, each a `PermissionRequired.approval`.
        depth: How many calls this one is nested in.
        trace: The trace context of the call: `traceparent`, `tracestate`, `baggage`.
        fencing_token: The number of the call's locks, as `ToolContext.fencing_token`.
        key: The call's identity: equal when another process sends the same call again, other for each attempt, and for
            each run after an answer of the user. `None` if nothing identifies the call: it has no id, or one like
            `call_0` and no message.
        attempt: Which attempt of the call this is, from 1.
        digest: Of the tool's definition (`ToolSpec.digest`): where another one is installed, the call isn't executed.
            `None` allows any.
        distribution: The distribution that the tool comes from, as `"NAME==VERSION"`; `None` for the host's own.
    """

    tool: str
    arguments: Mapping[str, Any] = field(factory=dict[str, Any])
    call_id: str = ""
    session: str | None = None
    work_dir: str | None = None
    user: str | None = None
    queue: str | None = None
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
    approvals: tuple[str, ...] = field(default=(), converter=tuple_of("approvals", str))
    depth: int = 0
    trace: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    fencing_token: int | None = None
    key: str | None = None
    attempt: int = 1
    digest: str | None = None
    distribution: str | None = None

    @property
    def call_digest(self) -> str:
        """The digest of the tool and the arguments."""
        return digest_of([self.tool, self.arguments])

    @classmethod
    def of_call(
        cls,
        tool: str,
        arguments: Mapping[str, Any],
        context: ToolContext,
        sends: Collection[str] | None = None,
        **facts: Any,
    ) -> ExecutionRequest:
        """The request for one call of this tool in this context.

        Args:
            tool: The tool's name.
            arguments: The validated arguments.
            context: The call's context.
            sends: What of its `state`, `extra` and `values` is sent, as `Policy.sends`; `None` is all.
            facts: The other attributes: `queue`, `timeout`, `memory_limit`, `expose_errors`, `approvals`, `key`,
                `attempt`, `digest`, `distribution`.
        """
        request, confirmation = context.request, context.confirmation
        return cls(
            tool=tool,
            arguments=arguments if isinstance(arguments, dict) else dict(arguments),
            call_id=context.call_id,
            state=_json_part("state", request.state, sends),
            extra=_json_part("extra", request.extra, sends),
            values=_json_part("values", context.values, sends),
            confirmation=None if confirmation is None else confirmation.to_data(),
            depth=context.depth,
            trace=dict(context.trace),
            fencing_token=context.fencing_token,
            **{name: getattr(request, name) for name in _TEXTS},
            **facts,
        )

    def context(self, emit: Callable[[JsonObject], None] | None = None, **facts: Any) -> ToolContext:
        """The context of the call, for the process that runs it.

        Args:
            emit: Receives the tool's events, as `ExecutorCall.emit` takes them: content, or an object of the type
                `progress` (`progress`, `total`, `message`), `display` (`title`, `facts`) or `partial` (`data`).
            facts: Further attributes of the context: `listener`, `host`, `services`, `deadline`.

        Raises:
            ValueError: The confirmation is invalid.
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
            trace=dict(self.trace),
            fencing_token=self.fencing_token,
            **facts,
        )


_TEXTS: Final = tuple(each.name for each in attrs.fields(ReadonlyContext) if each.type == "str | None")
"""The text attributes that a request and its context share."""


@frozen
class PermissionRequired(SayableRecord):
    """Executor's answer that a permission must be granted before the call can run.

    Attributes:
        permission: The permission's name, such as `"edit"`.
        patterns: What it is requested for, such as paths.
        description: What the tool wants to do, for the user.
        metadata: Data for the user's decision, such as a diff.
        approval: Token that is added to the request's `approvals` when it is sent again, once this was granted; valid
            only for this permission of this tool with these arguments. `None`: the permission's name is added.
    """

    permission: str
    patterns: tuple[str, ...] = field(default=("*",), converter=tuple_of("patterns", str))
    description: str = ""
    metadata: Mapping[str, Any] = field(factory=dict[str, Any])
    approval: str | None = None

    @property
    def question(self) -> JsonObject:
        """What `ExecutorCall.answer("ask", ...)` takes to ask for it."""
        about = {"description": self.description} if self.description else {}
        return {
            "permission": self.permission,
            "patterns": list(self.patterns),
            "metadata": {**self.metadata, **about},
        }


@frozen(kw_only=True)
class ExecutionResponse(SayableRecord):
    """Response of an executor to one request.

    Attributes:
        output: The tool's text.
        content: All of the result's content, where it is more than `output`; else empty.
        structured_content: The same as JSON data, or `None`.
        title: A short heading for the user, or `None`.
        display: Text for the user, where it differs from what the model gets.
        error: The error's text for the model, or `None`.
        is_error: Whether the call failed.
        kind: The kind of error, or `None`. Without one, and with `tool_failure`, an error is the tool's own result;
            with any other the call itself failed. `on_tool_error` callbacks run in both cases.
        metadata: Data for the user interface. `{"retryable": True}` with the kind `tool_failure` means that the same
            call may succeed later.
        attachments: Files for the user interface: their bytes, type and name.
        details: Any data for the user interface.
        detail: For the operator (message, stack, last output); never for the model.
        permission_required: The permission that must be granted first; the tool did not run, or only until it asked
            for it.
        not_executed: Whether the executor has nothing to run the tool with.
        actions: The actions that the call requests of its host (`Actions.to_json()`), or `None`.
        call_digest: `ExecutionRequest.call_digest` of the request that it answers; the caller takes none for another
            call. `None` if the executor can't mix them up.
    """

    output: str = ""
    content: tuple[Content, ...] = field(default=(), converter=tuple_of("content", *CONTENT_TYPES))
    structured_content: Any = None
    title: str | None = None
    display: str | None = None
    error: str | None = None
    is_error: bool = False
    kind: ErrorKind | None = None
    metadata: Mapping[str, Any] = field(factory=dict[str, Any])
    attachments: tuple[Content, ...] = field(default=(), converter=tuple_of("attachments", *CONTENT_TYPES))
    details: Any = None
    detail: str | None = None
    permission_required: PermissionRequired | None = None
    not_executed: bool = False
    actions: Mapping[str, Any] | None = None
    call_digest: str | None = None

    @classmethod
    def failed(cls, kind: ErrorKind, text: str, *, detail: str | None = None) -> ExecutionResponse:
        """The response where the call itself failed: `text` for the model, `detail` for the operator."""
        return cls(error=text, is_error=True, kind=kind, detail=detail, not_executed=kind == "not_executed")

    @classmethod
    def other_definition(cls, request: ExecutionRequest, detail: str) -> ExecutionResponse:
        """The response where the tool of a request is defined in another way; `detail` for the operator."""
        text = f"{request.tool} was not run: it is defined in another way where it would run. Continue without it."
        own = f" The caller has it from {request.distribution}." if request.distribution else ""
        return cls.failed("not_executed", text, detail=f"{detail}{own}")

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
            **{name: getattr(result, name) for name in _SHARED},
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
        """Calls a tool's function in this thread and returns its response; for the process that runs tools.

        Args:
            tool: The tool, with its handler.
            context: The call's context; receives the items of a generator.
            args: The function's positional arguments.
            kwargs: The function's keyword arguments.
            run_async: Calls an async function in an event loop and returns its result.

        Raises:
            BaseException: What the function raised, or `invalid_output`; `of_error` turns it into a response.
        """
        handler = tool.handler
        assert isinstance(handler, Handler)
        if handler.flavour is CallableKind.ASYNC_GENERATOR:
            value = run_async(lambda: drain_async(handler.function(*args, **kwargs), context))
        elif handler.flavour is CallableKind.ASYNC:
            value = run_async(lambda: handler.function(*args, **kwargs))
        else:
            value = handler.function(*args, **kwargs)
            if handler.flavour is CallableKind.GENERATOR:
                value = drain(value, context)
            elif isawaitable(value):
                awaited = value
                value = run_async(lambda: awaited)
        return cls.of_result(result_of(tool, read_iterator(tool, value)), context)

    @classmethod
    def of_error(cls, tool: Tool, context: ToolContext, error: BaseException, *, expose: bool) -> ExecutionResponse:
        """The response for an exception of a tool's function, worded as a registry would.

        Args:
            tool: The tool.
            context: The call's context.
            error: The exception.
            expose: Whether the model may read the text of an unexpected exception.
        """
        return cls.of_result(error_result(context.tool or tool.name, error, expose=expose), context)

    def to_result(self) -> ToolResult:
        """The result of the response.

        A required permission becomes an error of the kind `confirmation_required`; a tool that couldn't be run
        becomes one of the kind `not_executed`.
        """
        required = self.permission_required
        if required is not None:
            text = f"This needs the permission {required.permission} ({', '.join(required.patterns)})."
            return ToolResult.error("confirmation_required", text)
        is_error = self.is_error or self.error is not None or self.not_executed or self.kind is not None
        text = self.output or self.error or ("There is nothing to run it with." if self.not_executed else "")
        kind = self.kind or ("not_executed" if self.not_executed else "tool_failure")
        facts = {name: getattr(self, name) for name in _SHARED}
        facts.update(is_error=is_error, kind=kind if is_error else None)
        return ToolResult(self.content or ((TextContent(text),) if text else ()), **facts)

    @classmethod
    def from_json(cls, data: Any) -> ExecutionResponse:
        """Parses the output of `to_json` from an untrusted source; unknown keys are ignored.

        Raises:
            ValueError: A value is of the wrong type, or isn't JSON; the text names it.
        """
        response = super().from_json(data)
        for name, value in (("structuredContent", response.structured_content), ("details", response.details)):
            if faults := json_problems({name: value}):
                raise ValueError("; ".join(faults))
        return response


_SHARED: Final = tuple(each.name for each in attrs.fields(ToolResult) if each.name not in ("content", "pending"))
"""The attributes that a response and a result share."""
