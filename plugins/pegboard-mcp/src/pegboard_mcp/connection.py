"""Connections to MCP servers, started on first use and shared, in an event loop of their own thread.

A host may use a toolset from several event loops, one after the other or at the same time, and each server runs only
once.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast

from attrs import define, field
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    Implementation,
    ListRootsResult,
    LoggingMessageNotificationParams,
    Root,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pegboard.errors import cause_of, hide, operator_log
from pegboard.threads import renew_after_fork
from pegboard_mcp.inbox import Inbox
from pegboard_mcp.settings import ServerError, ServerSettings
from pegboard_mcp.transport import expand, transport_to

T = TypeVar("T")

FIRST_WAIT: Final = 0.5
"""Seconds to wait after a failed start; doubled after each further failure."""

LONGEST_WAIT: Final = 30.0
READ_SECONDS: Final = 30.0
"""How long a server may take for each page when its tools are listed again."""

MOST_PAGES: Final = 1_000
_CLOSE_SECONDS: Final = 5.0
_Mode = Literal["auto", "legacy"]
_WAYS: Final[Mapping[str, tuple[tuple[bool, _Mode], ...]]] = {
    "command": ((False, "auto"), (False, "legacy")),  # some servers exit on an unknown first message
    "auto": ((False, "auto"), (True, "legacy")),
    "http": ((False, "auto"),),
    "sse": ((True, "legacy"),),
}
"""Whether to use SSE, and the mode of the handshake, in the order of trying."""
_CLOSED: Final = "Connection closed"  # the SDK's text for an unknown cause
_TERMINATED: Final = "Session terminated"  # the SDK's text for a session that an HTTP server has forgotten


class _Loop:
    """An event loop in its own thread, created on first use. A forked process gets its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._of_parents: list[Any] = []  # kept: a forked process must not close what it shares with its parent
        renew_after_fork(self)

    def renew(self) -> None:
        """In a forked process: forgets the parent's loop, and its connections."""
        self._of_parents.append(self._loop)
        self._lock, self._loop = threading.Lock(), None
        _connected.clear()

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the loop; it is cancelled with the caller."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._start()))

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="mcp-servers", daemon=True).start()
            return self._loop

    def end(self) -> None:
        """Closes open connections at exit; the servers that don't end are killed with their process trees."""
        if self._loop is not None:
            with suppress(Exception):
                asyncio.run_coroutine_threadsafe(_end_all(), self._loop).result(_CLOSE_SECONDS)


for _sdks in ("mcp", "client"):  # the SDK's loggers; failures are in our own log, and in results
    logging.getLogger(_sdks).addHandler(logging.NullHandler())
_loop: Final = _Loop()
_connected: Final[set[Connection]] = set()
atexit.register(_loop.end)


async def _end_all() -> None:
    await asyncio.gather(*(each.end() for each in tuple(_connected)), return_exceptions=True)


@define(eq=False)
class Callbacks:
    """Callbacks of a connection, called in its own thread.

    Attributes:
        listed: Called with each list of the server's tool definitions, its instructions, and its name for itself.
        log: Called with level, logger and data of each message that the server logs.
        elicit: Answers the server's questions to the user, or `None`.
        sample: Answers the server's requests to a model, or `None`.
        auth: Creates the OAuth provider, or `None`.
    """

    listed: Callable[[list[Any], str, str], None]
    log: Callable[[str, str, Any], None]
    elicit: Callable[[Any], Awaitable[Any]] | None = None
    sample: Callable[[Any], Awaitable[Any]] | None = None
    auth: Callable[[], Any] | None = None


@define(eq=False)
class _Session:
    """An open connection."""

    client: Client
    inbox: Inbox
    closing: asyncio.Event = field(factory=asyncio.Event)
    relist: asyncio.Event = field(factory=asyncio.Event)
    is_noted: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it is closed, or about to be."""
        return self.closing.is_set() or self.inbox.ended.is_set()


class Connection:
    """Connection to one server, opened on first use, and again after it was lost; one task owns it.

    Args:
        name: The server's name.
        settings: Its settings.
        callbacks: Called on its lists, logs and requests.
    """

    def __init__(self, name: str, settings: ServerSettings, callbacks: Callbacks) -> None:
        self.name = name
        self._settings = settings
        self._callbacks = callbacks
        self._log = operator_log().getChild(f"mcp.{name}")
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[_Session] | None = None
        self._session: _Session | None = None
        self._failures = 0
        self._not_before = 0.0
        self._cause = ""
        self._of_parents: list[Any] = []  # as the loop's
        renew_after_fork(self)

    def renew(self) -> None:
        """In a forked process: forgets the parent's session, so that the next use starts the server anew."""
        self._of_parents.append((self._owner, self._ready, self._session))
        self._owner = self._ready = self._session = None

    async def start(self) -> None:
        """Connects and lists the server's tools, unless it is connected.

        Raises:
            ServerError: It can't be reached.
        """
        await _loop.run(self._connect())

    async def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Calls an async function with the connected client, in the connection's thread.

        Raises:
            ServerError: The server can't be reached, ended before it answered, or answered an error.
        """
        return await _loop.run(self._ask(work))

    async def close(self) -> None:
        """Ends the connection, and a server that it started; a later use connects again."""
        if self._owner is not None:
            await _loop.run(self.end())

    async def end(self) -> None:
        """`close`, in the connection's thread."""
        owner, session = self._owner, self._session
        if owner is None:
            return
        if session is None:
            owner.cancel()
        else:
            session.closing.set()
        await asyncio.wait([owner], timeout=_CLOSE_SECONDS)
        owner.cancel()  # no effect if it is done
        self._owner = None

    async def _ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        session = await self._connect()
        written = session.inbox.written
        asked = asyncio.ensure_future(work(session.client))
        ended = asyncio.ensure_future(session.inbox.ended.wait())
        try:
            await asyncio.wait([asked, ended], return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():  # the SDK fails pending requests once it sees the end
                await asyncio.wait([asked], timeout=1.0)
            if not asked.done():
                raise self._loss_error(session, written)
            return await asked
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                cause = None if str(error) == _CLOSED else str(error)
                raise self._loss_error(session, written, cause) from error
            if str(error) == _TERMINATED:
                session.closing.set()
                raise ServerError(
                    f"the server {self.name!r} no longer knows the session; call the tool again"
                ) from error
            raise ServerError(str(error), "unreadable" if error.code == PARSE_ERROR else "answered") from error
        except (ValueError, RuntimeError) as error:  # pydantic's is a ValueError
            raise ServerError(cause_of(error), "unreadable") from error
        finally:
            ended.cancel()
            asked.cancel()

    def _loss_error(self, session: _Session, written: int, cause: str | None = None) -> ServerError:
        """The error for a lost connection, with what is known of the cause.

        Args:
            session: It.
            written: How many messages had been written to the server's process before the request.
            cause: The SDK's text, if it says more than that the connection is closed.
        """
        last = [self._redact(line) for line in session.inbox.last_words]
        words = f"; its last output: {last[-1]}" if last else ""
        why = session.inbox.broken or cause
        text = f"the server {self.name!r} ended the connection{f': {why}' if why else ''}{words}"
        if self._settings.command is None or session.inbox.written != written:
            return ServerError(text, "lost")
        session.closing.set()
        return ServerError(text, "unsent")

    def _redact(self, text: str) -> str:
        """A server's text without the secrets of its settings."""
        return hide(text, [*self._settings.env.values(), *self._settings.headers.values()])

    async def _connect(self) -> _Session:
        """The open session, or a new one."""
        if self._owner is not None and self._session is not None and self._session.is_over:
            await asyncio.wait([self._owner])  # it is being closed
        if self._owner is None or self._owner.done():
            wait = self._not_before - time.monotonic()
            if wait > 0:
                text = f"the server {self.name!r} can't be reached; it is tried again in {wait:.1f} s: {self._cause}"
                raise ServerError(text, retry_after=wait)
            ready = self._ready = asyncio.get_running_loop().create_future()
            ready.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieves the exception
            self._owner = asyncio.create_task(self._own(ready))
            self._owner.add_done_callback(lambda _: self._release(ready))
            _connected.add(self)
        assert self._ready is not None
        return await asyncio.shield(self._ready)

    async def _own(self, ready: asyncio.Future[_Session]) -> None:
        """Connects, and holds the connection until it is closed or lost."""
        inbox = Inbox()
        try:
            async with AsyncExitStack() as stack:
                session = self._session = await self._open(stack, inbox)
                ready.set_result(session)
                await self._hold(session)
                self._note_end(session, inbox.broken)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  an error of a transport ends only this connection
            latest = [*dict.fromkeys(reversed(inbox.last_words))][:3]  # each attempt writes the same lines
            words = self._redact("; ".join(reversed(latest)))
            cause = inbox.broken or _cause_of(error, self._settings) + (f" (it said: {words})" if words else "")
            self._note_end(self._session, cause)
            if not ready.done():
                ready.set_exception(ServerError(f"the server {self.name!r} can't be reached: {cause}"))
        finally:
            inbox.ended.set()
            self._session = None

    def _release(self, ready: asyncio.Future[_Session]) -> None:
        """Fails whoever still waits for the session, once the owning task is done: it may not even have started."""
        if self._owner is None or self._owner.done():
            _connected.discard(self)
        if not ready.done():
            ready.set_exception(ServerError(f"the connection to the server {self.name!r} was closed"))

    def _note_end(self, session: _Session | None, cause: str | None) -> None:
        """Records when to allow the next attempt: at once if the server had started."""
        if session is not None and (session.closing.is_set() or session.is_noted):
            return
        wait = 0.0
        if session is None:
            wait = min(FIRST_WAIT * 2**self._failures, LONGEST_WAIT)
            self._failures += 1
        else:
            session.is_noted = True
            self._failures = 0
        self._not_before, self._cause = time.monotonic() + wait, cause or "it ended the connection"
        self._log.warning("the connection ended: %s", self._cause)

    async def _open(self, stack: AsyncExitStack, inbox: Inbox) -> _Session:
        """Connects by the first transport that works, and lists the tools."""
        settings, failure = self._settings, None
        try:
            async with asyncio.timeout(settings.start_timeout):
                for sse, mode in _WAYS["command" if settings.url is None else settings.transport]:
                    try:
                        async with AsyncExitStack() as trying:
                            session = await self._try(trying, inbox, mode, sse=sse)
                            stack.push_async_exit(trying.pop_all())
                            return session
                    except OSError:
                        raise  # no such program: there is no second attempt
                    except Exception as error:  # noqa: BLE001  the first failure is reported
                        failure = failure or error
        except TimeoutError:
            raise TimeoutError(f"it didn't start within {settings.start_timeout:g} s (start_timeout)") from failure
        assert failure is not None
        raise failure

    async def _try(self, stack: AsyncExitStack, inbox: Inbox, mode: _Mode, *, sse: bool) -> _Session:
        settings, callbacks = self._settings, self._callbacks
        inbox.ended.clear()
        inbox.broken = None
        auth = None if callbacks.auth is None else callbacks.auth()
        relist = asyncio.Event()

        async def on_message(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                relist.set()

        async def on_log(params: LoggingMessageNotificationParams) -> None:
            callbacks.log(params.level, params.logger or "", params.data)

        client = Client(
            transport_to(self.name, settings, inbox, auth, sse=sse),
            read_timeout_seconds=None,
            client_info=Implementation(name="pegboard", version=version("pegboard-mcp")),
            message_handler=on_message,
            logging_callback=on_log,
            log_level="info",
            list_roots_callback=None if settings.roots == () else self._roots,
            elicitation_callback=_callback_for(callbacks.elicit),
            sampling_callback=_callback_for(callbacks.sample),
            cache=None,
            mode=mode,
        )
        await stack.enter_async_context(client)
        session = _Session(client, inbox, relist=relist)
        await self._list(session)
        inbox.is_ready = True
        return session

    async def _list(self, session: _Session, seconds: float | None = None) -> None:
        """Lists the server's tools, all pages, each within the given seconds."""
        inbox, cursor, seen = session.inbox, None, set[str]()
        inbox.definitions = []
        if session.client.server_capabilities.tools is not None:
            for _ in range(MOST_PAGES):
                page = await asyncio.wait_for(session.client.list_tools(cursor=cursor), seconds)
                cursor = page.next_cursor
                if cursor is None or cursor in seen or len(inbox.definitions) > self._settings.most_tools:
                    break
                seen.add(cursor)
        definitions, inbox.definitions = inbox.definitions, []
        about = session.client.server_info
        self._callbacks.listed(definitions, session.client.instructions or "", "" if about is None else about.name)

    async def _hold(self, session: _Session) -> None:
        """Waits until the connection is closed or lost; lists the tools again when they change."""
        listening = asyncio.create_task(self._listen(session))
        waiting = [asyncio.create_task(each.wait()) for each in (session.closing, session.inbox.ended)]
        changed = asyncio.create_task(session.relist.wait())
        try:
            while not (session.closing.is_set() or session.inbox.ended.is_set()):
                await asyncio.wait([*waiting, changed], return_when=asyncio.FIRST_COMPLETED)
                if session.relist.is_set():
                    session.relist.clear()
                    await self._list_again(session)
                    changed = asyncio.create_task(session.relist.wait())
        finally:
            for task in (listening, changed, *waiting):
                task.cancel()

    async def _list_again(self, session: _Session) -> None:
        try:
            await self._list(session, READ_SECONDS)
        except (MCPError, ValueError, TimeoutError) as error:
            self._log.warning("the tools have changed, and can't be listed: %s", error)

    async def _listen(self, session: _Session) -> None:
        """Subscribes to changes of the tools, in revisions that require it."""
        client = session.client
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None or not tools.list_changed:
            return
        wait = FIRST_WAIT
        while True:
            with suppress(SubscriptionLost):
                try:
                    async with client.listen(tools_list_changed=True) as subscription:
                        session.relist.set()  # they may have changed before
                        async for _ in subscription:
                            session.relist.set()
                except (MCPError, TimeoutError) as error:
                    self._log.info("it can't notify of changes of its tools: %s", error)
                    return
            wait = min(2 * wait, LONGEST_WAIT)
            await asyncio.sleep(wait)

    async def _roots(self, context: ClientRequestContext) -> ListRootsResult:
        del context
        folders = self._settings.roots or (self._settings.cwd or ".",)
        paths = [Path(expand(each)) for each in folders]
        return ListRootsResult(roots=[Root.model_validate({"uri": path.as_uri(), "name": path.name}) for path in paths])


def _callback_for(function: Callable[[Any], Awaitable[Any]] | None) -> Any:
    """A callback for the SDK that answers a server's request by a function of its parameters."""
    if function is None:
        return None

    async def answer(context: ClientRequestContext, params: Any) -> Any:
        del context
        return await function(params)

    return answer


def _cause_of(error: BaseException, settings: ServerSettings) -> str:
    """The first error of a group, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseException", error.exceptions[0])
    if isinstance(error, FileNotFoundError) and settings.command is not None:
        place = "" if settings.cwd is None else f", or no folder {settings.cwd!r}"
        words = settings.command.split()
        hint = f' (put arguments into args: command = "{words[0]}", args = {json.dumps(words[1:])})'
        return f"there is no program {settings.command!r}{place}{hint if len(words) > 1 else ''}"
    if isinstance(error, MCPError) and str(error) == _CLOSED:
        return "it ended the connection"
    if isinstance(error, MCPError) and error.code == PARSE_ERROR:  # the SDK's text quotes pydantic's
        return "its answer can't be read" + (", it is nested too deeply" if "recursion" in str(error) else "")
    return cause_of(error, [*settings.env.values(), *settings.headers.values()])
