"""MCP server that offers a registry's tools."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from itertools import count
from typing import Any, Final, get_args
from weakref import WeakSet

import attrs
from attrs import define, field
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import X_MCP_HEADER_KEY, validate_mcp_param_headers
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    EmptyResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    NotificationParams,
    PaginatedRequestParams,
    SetLevelRequestParams,
    SubscriptionsListenRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pegboard import (
    Batch,
    BatchOptions,
    Outcome,
    ReadonlyContext,
    ResolvedTools,
    Tool,
    ToolCall,
    ToolRegistry,
    found_names,
)
from pegboard.approval import AnyApprover
from pegboard.errors import did_you_mean, suggest
from pegboard.events import CallEvent, CallUpdated
from pegboard.request import DEFERRED
from pegboard.tools import EMPTY_CONTEXT, is_valid_name
from pegboard.toolsets import SEARCHES, ToolMapper
from pegboard.toolsets.predicates import Matches, Where, any_of
from pegboard.typing import JsonObject
from pegboard_mcp.serving.asking import Asker, RunningCall, WaitingCalls
from pegboard_mcp.serving.client_tools import ANSWER, CAPABILITY, OFFER, AnswerParams, ClientTools, OfferParams
from pegboard_mcp.serving.content import entry_of, result_json
from pegboard_mcp.serving.elicitation import ClientApprover
from pegboard_mcp.serving.sessions import CLIENT, Request, Session, Sessions, connection_of
from pegboard_mcp.serving.tasks import EXTENSION, RESULT_TOOL, TaskParams, Tasks, takes_tasks

NEEDS_TURN: Final = "needs-turn"
NEEDS_TOOL: Final = "needs-tool:"

MOST_LISTED: Final = 1_000
"""Tools on one page of `tools/list`."""

MOST_UPDATES: Final = 100
"""Updates of one call queued for a slow client; of more, the oldest are dropped."""

MOST_SUBSCRIPTIONS: Final = 10_000
"""Clients that may subscribe to changes at once."""

_ANNOUNCE_SECONDS: Final = 10.0
"""How long the notification of one client may take."""

_NOT_CACHED: Final = {"ttlMs": 0, "cacheScope": "private"}
"""Lists depend on the user and on the predicates; the SDK drops these for revisions without caching."""

_LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
_LOG_LEVEL: Final = "log_level"


class ToolServer:
    """MCP server that offers a registry's tools.

    Tools are resolved for each request, so that each client is offered what its user may use now. A call asks the
    client's user for approvals, and sends its progress and its log to the client.

    Attributes:
        server: The SDK's server, for its transports.
        takes_calls: Whether new calls are run; a transport refuses them during its shutdown.

    Args:
        registry: The registry with the tools.
        where: A predicate that all tools have to match, in addition to the registry's own.
        context: The context of requests without a user.
        approver: Asks for approvals instead of the client.
        timeout: Maximum seconds of a call, also for tools that declare more.
        most_listed: The number of tools on a page of the list.
        left_out: Whether to leave out tools that make no sense alone: those with the tag `needs-turn` need a turn of a
            host, and those with `needs-tool:NAME` need one of these tools, which isn't offered.
        search: Whether clients list only a search tool and what it has found for them: for clients that support few
            tools. It is the registry's own, or that of `pegboard-search`.

    Raises:
        ImportError: There is no search tool, and `pegboard-search` isn't installed.
    """

    def __init__(  # noqa: PLR0913  options, by keyword
        self,
        registry: ToolRegistry,
        *,
        where: Where = None,
        context: ReadonlyContext = EMPTY_CONTEXT,
        approver: AnyApprover | None = None,
        timeout: float | None = None,
        most_listed: int = MOST_LISTED,
        left_out: bool = False,
        search: bool = False,
    ) -> None:
        self.server: Final[Server[Any]] = _Server(
            "pegboard",
            version=version("pegboard-mcp"),
            lifespan=self._lifespan,
            # `_check_headers` validates the headers: the SDK would list all tools first
            get_tool_input_schema=lambda _name: None,
        )
        self.server.add_request_handler("tools/list", PaginatedRequestParams, self._list_tools)
        self.server.add_request_handler("tools/call", CallToolRequestParams, self._call_tool)
        self.server.add_request_handler("logging/setLevel", SetLevelRequestParams, _set_level)
        self._changes = InMemorySubscriptionBus()
        self._listeners = ListenHandler(self._changes, max_subscriptions=MOST_SUBSCRIPTIONS)
        self.server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listeners)
        self._tasks = Tasks(registry)
        self.server.extensions[EXTENSION] = {}
        for method, work in (
            ("get", self._tasks.get),
            ("cancel", self._tasks.cancel),
            ("update", self._tasks.update),
        ):
            self.server.add_request_handler(f"tasks/{method}", TaskParams, self._of_task(work))
        self._client_tools = ClientTools(self._announce_to)
        self.server.add_request_handler(OFFER, OfferParams, self._offer_tools)
        self.server.add_request_handler(ANSWER, AnswerParams, self._take_answer)
        self.server.add_notification_handler("notifications/initialized", NotificationParams, self._note_client)
        self._registry = registry
        self._where = where
        self._deferring = ToolMapper(lambda spec: spec.with_spec(deferred=True)) if search else None
        if search:
            self._where = _with_search(registry, where)
        self._leaves_out = left_out
        self._sessions = Sessions(context)
        self._approver = approver
        self._timeout = timeout
        self._most_listed = most_listed
        self._name = uuid.uuid4().hex  # prefix of the calls' numbers: a random id for each would cost system calls
        self._numbers = count(1)
        self._waiting = WaitingCalls(registry.limits.approval_timeout)
        self._running: dict[Batch, asyncio.Task[Outcome]] = {}
        self._kept: tuple[tuple[object, object], ResolvedTools] | None = None
        self._clients: WeakSet[Connection] = WeakSet()
        self._changed = False
        self._announcing: asyncio.Task[None] | None = None
        self.takes_calls = True

    def end(self) -> None:
        """Ends the subscriptions, the calls that wait for a client's next request, and the clients' offers."""
        self._listeners.close()
        self._waiting.end()
        self._client_tools.end()

    def interrupt(self) -> None:
        """Interrupts running calls; each is still answered."""
        for batch in self._running:
            batch.interrupt("interrupted", "abort")

    @asynccontextmanager
    async def _lifespan(self, _server: Server[Any]) -> AsyncGenerator[dict[str, Any]]:
        """Announces changes of the tools while a transport serves; yields the state for a single client."""
        loop = asyncio.get_running_loop()

        def note_change() -> None:  # in any thread
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(self._announce_soon)

        handle = self._registry.contributions.on_change(note_change)
        try:
            yield {}
        finally:
            handle.dispose()

    def _announce_soon(self) -> None:
        """Schedules an announcement; several changes at once are announced as one."""
        self._changed = True
        if self._announcing is None or self._announcing.done():
            self._announcing = asyncio.create_task(self._announce())

    async def _announce(self) -> None:
        while self._changed:
            self._changed = False
            await self._changes.publish(ToolsListChanged())
            telling = [asyncio.create_task(client.send_tool_list_changed()) for client in self._clients]
            if telling:
                _, slow = await asyncio.wait(telling, timeout=_ANNOUNCE_SECONDS)
                for task in slow:
                    task.cancel()

    async def _note_client(self, request: Request, _params: NotificationParams) -> None:
        """Registers a client with a session, which is notified of changes without a subscription."""
        self._clients.add(connection_of(request))

    def _of_task(self, work: Callable[[Session, str], Awaitable[JsonObject]]) -> Callable[[Request, TaskParams], Any]:
        """The request handler of a method of tasks, with the request's session."""

        async def handle(request: Request, params: TaskParams) -> JsonObject:
            session, _ = self._sessions.of(request)
            return await work(session, params.taskId)

        return handle

    async def _announce_to(self, request: Request) -> None:
        """Announces a change of the tools to one client, or without a session to all subscribers."""
        connection = connection_of(request)
        if connection in self._clients:
            await connection.send_tool_list_changed()
        else:
            await self._changes.publish(ToolsListChanged())

    async def _offer_tools(self, request: Request, params: OfferParams) -> EmptyResult:
        session, _ = self._sessions.of(request)
        return await self._client_tools.offer(session, request, params)

    async def _take_answer(self, request: Request, params: AnswerParams) -> EmptyResult:
        session, _ = self._sessions.of(request)
        return self._client_tools.answer(session, params)

    async def _list_tools(self, request: Request, params: PaginatedRequestParams) -> JsonObject:
        """One page of the tools, sorted by name; the cursor is the last name of the previous page."""
        after = params.cursor
        if after is not None and not is_valid_name(after):
            raise MCPError(INVALID_PARAMS, "Invalid cursor")
        session, context = self._sessions.of(request)
        resolved = await self._resolve(request, session, context)
        tools = sorted(resolved.tools, key=lambda tool: tool.name)
        entries = [entry for tool in tools if (after is None or tool.name > after) and (entry := entry_of(tool))]
        page = entries[: self._most_listed]
        more = {"nextCursor": page[-1]["name"]} if len(entries) > len(page) else {}
        return {"resultType": "complete", **_NOT_CACHED, "tools": page, **more}

    async def _call_tool(self, request: Request, params: CallToolRequestParams) -> JsonObject:
        """Runs one call and answers its result, or a question to the client's user."""
        if not self.takes_calls:
            raise MCPError(INTERNAL_ERROR, "The server is shutting down: call again later")
        session, context = self._sessions.of(request)
        resolved = await self._resolve(request, session, context)
        tool = resolved.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, _unknown(params.name, resolved))
        _check_headers(request, tool, params)
        if params.request_state is None:
            call = await self._begin(request, params, resolved, context)
        else:
            call = self._waiting.take(params.request_state, params.name, context)
            call.asker.go_on(request, params.input_responses or {})
        if await call.until_asked():
            return self._waiting.keep(call)
        outcome = call.running.result()
        if session.note(outcome.actions):
            await self._announce_to(request)
        result = outcome.results[0]
        answer = result_json(result, any_structure=_is_modern(request))
        if result.metadata.get("pending"):
            operation = str(result.metadata["operation"])
            task = self._tasks.begin(session, outcome.calls[0].id, operation)
            if takes_tasks(request) and _is_modern(request):
                return task
            text = f"Call {RESULT_TOOL} with operation={operation!r} later to get the result."
            answer["content"].append({"type": "text", "text": text})
        return answer

    async def _begin(
        self, request: Request, params: CallToolRequestParams, resolved: ResolvedTools, context: ReadonlyContext
    ) -> RunningCall:
        """Starts a call."""
        asker = Asker(request)
        updates = _Updates(asker)
        approver = self._approver or ClientApprover(asker, can_keep=context.session is not None)
        options: BatchOptions = {"approver": approver, "listener": updates.listen}
        if self._timeout is not None:
            options["timeout"] = self._timeout
        id_ = f"{self._name}-{next(self._numbers)}"
        extra = {**context.extra, CLIENT: asker}  # with what a batch would add by another copy
        context = attrs.evolve(context, extra=extra, values={}, message=f"batch_{id_}")
        call = ToolCall(params.name, params.arguments or {}, id=id_)
        batch = await self._registry.batch([call], resolved, context, **options)
        running = self._running[batch] = asyncio.create_task(batch.run())
        running.add_done_callback(lambda _: self._running.pop(batch))
        return RunningCall(params.name, context.user, context.session, asker, batch, updates.end, running)

    async def _resolve(self, request: Request, session: Session, context: ReadonlyContext) -> ResolvedTools:
        """The offered tools, without deferred ones that no search has found yet, and with the client's own."""
        offered = await self._resolve_own(context)
        if not takes_tasks(request):
            offered = self._tasks.with_result_tool(session, offered)
        own = self._client_tools.of(session)
        return offered.with_tools(*own) if own else offered

    async def _resolve_own(self, context: ReadonlyContext) -> ResolvedTools:
        """The registry's tools, kept until something changes if they are the same for every context."""
        facts = self._facts()
        if self._kept is not None and self._kept[0] == facts:
            return self._kept[1]
        resolved = await self._registry.resolve(context, where=self._where)
        is_fixed = self._deferring is None and not resolved.depends_on_context
        offered = self._select(resolved, context)
        if is_fixed and self._facts() == facts:
            self._kept = facts, offered
        return offered

    def _facts(self) -> tuple[object, object]:
        """What decides which tools are offered, besides the context."""
        return self._registry.contributions.catalogue, self._registry.permissions

    def _select(self, resolved: ResolvedTools, context: ReadonlyContext) -> ResolvedTools:
        if self._leaves_out:
            resolved = resolved.without("serve", senseless_alone(resolved.tools))
        deferred = [tool for tool in resolved if tool.spec.deferred]
        if self._deferring is not None:
            found = {*found_names(context.state), *(tool.name for tool in resolved if SEARCHES in tool.spec.meta)}
            self._deferring.trim(resolved.tools)
            deferred = [self._deferring.one(tool) for tool in resolved if tool.name not in found]
        if not deferred:
            searches = [tool.name for tool in resolved if SEARCHES in tool.spec.meta]
            return resolved.without("search", dict.fromkeys(searches, "there is nothing for it to find"))
        return resolved.without("search", {tool.name: DEFERRED for tool in deferred}).finding(deferred)


def senseless_alone(tools: Iterable[Tool]) -> dict[str, str]:
    """The names of the tools that make no sense without a host's turn or without another tool, each with the reason."""
    offered = tuple(tools)
    names, reasons = {tool.name for tool in offered}, dict[str, str]()
    for tool in offered:
        needed = [tag.removeprefix(NEEDS_TOOL) for tag in tool.spec.tags if tag.startswith(NEEDS_TOOL)]
        if NEEDS_TURN in tool.spec.tags:
            reasons[tool.name] = "it needs a turn of a host"
        elif needed and names.isdisjoint(needed):
            reasons[tool.name] = f"it needs the tool {' or '.join(needed)}"
    return reasons


def _with_search(registry: ToolRegistry, where: Where) -> Where:
    """The predicate extended to match the search tools too; registers one if there is none."""
    names = [tool.name for tool in registry.tools() if SEARCHES in tool.spec.meta]
    if not names:
        from pegboard_search import search_tool

        (tool,) = registry.register(search_tool()).tools
        names = [tool.name]
    if where is None:
        return None
    named = (Matches("name", name) for name in names)
    return any_of(registry.contributions.catalogue.predicate(where), *named)


def _check_headers(request: Request, tool: Tool, params: CallToolRequestParams) -> None:
    """Checks that the `Mcp-Param-*` headers of a call equal its arguments (2026-07-28).

    Raises:
        MCPError: One doesn't.
    """
    if request.request is None or X_MCP_HEADER_KEY not in tool.spec.input_schema_text or not _is_modern(request):
        return
    wrong = validate_mcp_param_headers(tool.spec.input_schema, params.arguments or {}, request.request.headers)
    if wrong is not None:
        raise MCPError(wrong.code, wrong.message)


def _unknown(name: str, resolved: ResolvedTools) -> str:
    """Error text for an unknown tool; the same if it exists for another user."""
    if any(tool.name == name for tool in resolved.findable):
        searches = " or ".join(tool.name for tool in resolved if SEARCHES in tool.spec.meta)
        return f"Tool {name} is hidden until a search finds it. Call {searches or 'a search tool'} first."
    return f"Unknown tool: {name}.{did_you_mean(suggest(name, resolved.names))}"


class _Server(Server[Any]):
    """The SDK's server, with the capability that its tools may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *_: Any, **_options: Any
    ) -> InitializationOptions:
        """The answer to a client's handshake."""
        changes = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(changes, dict(CAPABILITY))


@define(eq=False)
class _Updates:
    """Queue of a running call's updates, sent to the client in order, without delaying the call.

    Attributes:
        asker: Has the call's current request.
    """

    asker: Asker
    _waiting: deque[CallUpdated] = field(factory=lambda: deque[CallUpdated](maxlen=MOST_UPDATES), init=False)
    _sending: asyncio.Task[None] | None = field(default=None, init=False)
    _progress: float = field(default=float("-inf"), init=False)

    def listen(self, event: CallEvent) -> None:
        """Queues an event of the call."""
        if isinstance(event, CallUpdated):
            self._waiting.append(event)
            if self._sending is None or self._sending.done():
                self._sending = asyncio.create_task(self._send())

    async def end(self) -> None:
        """Waits until all updates are sent: none may follow the answer."""
        if self._sending is not None:
            await self._sending

    async def _send(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            try:
                if self.asker.is_open:
                    await self._send_one(event)
            except Exception:
                logging.getLogger("pegboard.mcp").debug("an update of %s could not be sent", event.name, exc_info=True)

    async def _send_one(self, event: CallUpdated) -> None:
        if event.progress is not None and event.progress > self._progress:  # the protocol requires it to increase
            self._progress = event.progress
            await self.asker.request.session.report_progress(event.progress, event.total, event.message)
        if event.note is not None:
            await self._log("notice", event.note, event.name)
        if event.title is not None or event.metadata:
            data = {**({} if event.title is None else {"title": event.title}), **event.metadata}
            await self._log("info", data, event.name)

    async def _log(self, level: LoggingLevel, data: Any, name: str) -> None:
        request = self.asker.request
        least = connection_of(request).state.get(_LOG_LEVEL, "info")
        if level not in allowed_log_levels(request.protocol_version, request.meta):
            return
        if not _is_modern(request) and _LEVELS.index(level) < _LEVELS.index(least):
            return
        params = LoggingMessageNotificationParams(level=level, data=data, logger=name)
        await request.session.send_notification(LoggingMessageNotification(params=params), request.request_id)


async def _set_level(request: Request, params: SetLevelRequestParams) -> EmptyResult:
    """Sets the lowest log level for a client; later revisions send it in each request."""
    connection_of(request).state[_LOG_LEVEL] = params.level
    return EmptyResult()


def _is_modern(request: Request) -> bool:
    """Whether the revision has no sessions and no requests from the server (2026-07-28 and later)."""
    return request.protocol_version in MODERN_PROTOCOL_VERSIONS
