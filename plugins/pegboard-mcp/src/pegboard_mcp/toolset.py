"""Toolset with the tools of one MCP server."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, field, frozen

from pegboard import (
    AudioContent,
    Config,
    ImageContent,
    LinkContent,
    Problem,
    ReadonlyContext,
    TextContent,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    ToolsetBase,
    ToolsetFunction,
    ToolsetResult,
)
from pegboard.config import trust_file
from pegboard.errors import operator_log
from pegboard.json import is_object, json_text
from pegboard.text import visible
from pegboard.threads import run_in_thread
from pegboard.typing import JsonObject
from pegboard_mcp.definitions import Accepted, Changes, Definition, Definitions, tools_of
from pegboard_mcp.lock import digest_in_lock, pins_in_lock
from pegboard_mcp.resources import readers
from pegboard_mcp.settings import ServerError, ServerSettings, check_server_name, config_file, read_server, servers_from

if TYPE_CHECKING:
    from mcp import Client

    from pegboard_mcp.connection import Connection
    from pegboard_mcp.host import Running

_SLOW_SECONDS: Final = 0.2
_MOST_ERROR: Final = 2_000
_MOST_PROBLEMS: Final = 20
_MEDIA: Final = (ImageContent, AudioContent, LinkContent)  # they say nothing of the data beside them
_DATA_URL: Final = re.compile(r"\s*data:[^,]{0,200},")
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO, "warning": logging.WARNING}


@frozen(eq=False)
class _Known:
    """Snapshot of a server's tools.

    Attributes:
        offered: The tools that may be offered.
        changes: The differences of the server's list from the accepted one.
    """

    offered: Definitions
    changes: Changes = field(factory=Changes)


class McpToolset(ToolsetBase):
    """Toolset with the tools of one MCP server, which is started on first use.

    The server's first list is accepted. If it is stored in a file, the tools are known without the server, which is
    only started by a call. Later changes are held back until they are accepted.

    Args:
        name: The name of the server, and of the toolset.
        settings: The server's settings.
        accepted: The file of the accepted definitions; `None` keeps them in memory.
        config: The configuration that says where a lock is; `None`: no lock applies.

    Attributes:
        show_login: Called with the address to log in at; `None`: only an earlier login is used.
    """

    def __init__(
        self, name: str, settings: ServerSettings, accepted: Accepted | None = None, config: Config | None = None
    ) -> None:
        check_server_name(name)
        self.name = name
        self.settings = settings
        self.publishes = [accepted.path] if accepted is not None and settings.accept == "first" else None
        self.show_login: Callable[[str], None] | None = None
        self.identity = settings.reached_by
        self._log = operator_log().getChild(f"mcp.{name}")
        self._file = accepted
        self._config = config
        self._pins: Mapping[str, str] | None = None  # what a trusted lock has of it
        self._accepted: Definitions | None = None
        self._listed: Definitions | None = None
        self._known: _Known | None = None
        self._is_another = False  # whether its name for itself has changed since it was accepted
        self._is_late = False  # whether `tools` failed because there was no list yet
        self._is_slow = False  # whether the time limit of a resolution passed before it started
        self._tools: dict[str, Tool] = {}  # by digest of the definition, so that an unchanged tool stays the same
        self._offer: tuple[_Known, ToolsetResult] | None = None
        self._changed: list[Callable[[], None]] = []
        self._running: dict[Running, None] = {}  # the latest last
        self._made: Connection | None = None
        self._readers = readers(name, settings, self._ask)
        self._making = threading.Lock()

    @property
    def name_prefix(self) -> str:
        """The prefix of its tools' names if they aren't known without starting the server; else `""`."""
        known = self._known or self._accepted or (self._file is not None and Path(self._file.path).exists())
        return "" if known else self.settings.with_prefix(self.name, "")

    def on_change(self, function: Callable[[], None]) -> None:
        """Subscribes a function to changes of the tools."""
        self._changed.append(function)

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The accepted tools; the server is only asked if there is no accepted list."""
        del context
        if self._config is not None:
            await self._follow(await run_in_thread(pins_in_lock, self._config, self))
        if self._known is None and self.settings.accept == "first" and self._pins is None:
            await self._read()
            if self._accepted is not None and self._known is None:
                self._known = _Known(self._accepted)
        if self._known is None:
            try:
                await self._start_in_time()
            except BaseException as error:
                self._is_late = True  # it may go on starting after the time limit of a resolution
                if self.publishes is not None:
                    error.add_note(f"'registry mcp accept {self.name}' waits until it has started")
                raise
        return await run_in_thread(self._current_result)

    async def all_tools(self, context: ReadonlyContext) -> ToolsetResult:
        """What the server lists now, whether it is accepted or not.

        Raises:
            ServerError: It can't be reached.
        """
        del context
        await self.start()
        tools, problems = tools_of(self.name, self.settings, self.listed.tools.values(), self._call)
        return ToolsetResult([*tools, *self._readers], problems)

    async def _follow(self, pins: Mapping[str, str] | None) -> None:
        """Takes what a lock lists as what is accepted; asks the server if none of its known lists has all of that."""
        if pins == self._pins:
            return
        await self._read()
        self._pins = pins
        listed = self._listed or self._accepted
        if pins is not None and listed is not None:
            self._accept_pinned(listed)
            accepted = self._accepted or listed
            self._known = _Known(accepted, accepted.changes_to(listed))
            if not {*pins.values()} <= {digest_in_lock(tool) for tool in (*self.accepted_tools(), *self._readers)}:
                with suppress(ServerError):  # what is known is offered, and the lock names what is missing
                    await self._start_in_time()

    def _accept_pinned(self, listed: Definitions) -> None:
        """Accepts those definitions of a list that are as the lock has them."""
        before, pins = self._accepted, self._pins or {}
        tools, _ = tools_of(self.name, self.settings, listed.tools.values(), self._call)
        same = {_own_name(tool) for tool in tools if pins.get(tool.name) == digest_in_lock(tool)}
        instructions = "" if before is None else before.instructions  # the lock has none, so none are accepted
        own = {name: each for name, each in listed.tools.items() if name in same}
        accepted = Definitions(own, instructions=instructions, server=listed.server)
        if before is None or _digests(_Known(before)) != _digests(_Known(accepted)):
            self._try_to_store(accepted)
        else:
            self._accepted = accepted

    def accepted_tools(self) -> list[Tool]:
        """The tools of the accepted definitions, and those that read what else the server has."""
        definitions = () if self._accepted is None else self._accepted.tools.values()
        tools, _ = tools_of(self.name, self.settings, definitions, self._call)
        return [*tools, *self._readers]

    async def _start_in_time(self) -> None:
        """Starts the server; one that was slow before is hardly waited for, as all other tools wait with it."""
        connection = await self.connection()
        try:
            async with asyncio.timeout(_SLOW_SECONDS if self._is_slow else None):
                await connection.start()
        except asyncio.CancelledError:  # the limit of a resolution has passed
            self._is_slow = True
            raise
        except TimeoutError:
            hint = f"; 'registry mcp test {self.name}' waits for it"
            raise ServerError(f"the server {self.name!r} is still starting{hint}") from None
        except ServerError:
            self._is_slow = False
            raise
        self._is_slow = False

    async def close(self) -> None:
        """Ends the connection, and a server that it started."""
        if self._made is not None:
            await self._made.close()

    async def connection(self) -> Connection:
        """The connection to the server; the first use loads the SDK, which takes long."""
        return self._made or await run_in_thread(self._make)

    def _make(self) -> Connection:
        from pegboard_mcp.connection import Callbacks, Connection
        from pegboard_mcp.host import Host

        host, settings = Host(self.name, self._call_of_one_user), self.settings
        callbacks = Callbacks(
            self._take_list,
            self._take_log,
            host.elicit if settings.elicitation else None,
            host.sample if settings.sampling else None,
            self._login() if settings.oauth else None,
        )
        with self._making:
            if self._made is None:
                self._made = Connection(self.name, settings, callbacks)
            return self._made

    def _login(self) -> Callable[[], Any]:
        """Factory of an OAuth provider for each connection."""
        from pegboard_mcp.oauth import provider

        settings = self.settings
        path = (self._file or Accepted.of(self.name, settings)).path.removesuffix(".json") + ".tokens.json"
        return lambda: provider(self.name, settings, path, self.show_login)

    @property
    def instructions(self) -> Callable[[ReadonlyContext], Awaitable[str]] | None:
        """The server's accepted instructions for the model; `None` if the settings don't enable them."""
        return self._instructions if self.settings.instructions else None

    async def _instructions(self, context: ReadonlyContext) -> str:
        await self.tools(context)
        text = visible(self._known.offered.instructions, newlines=True) if self._known is not None else ""
        return f"The MCP server {self.name!r} gives these instructions for its tools:\n{text}" if text else ""

    # Accepted definitions --------------------------------------------------------------------------------------------

    async def pending(self) -> tuple[Definitions, Definitions]:
        """Starts the server; gives the accepted definitions and its current list, without accepting that."""
        await self._read()
        before = self._accepted = self._accepted or Definitions()
        await (await self.connection()).start()
        return before, self.listed

    async def start(self) -> None:
        """Starts the server, unless it is running; its list is accepted if none was before.

        Raises:
            ServerError: It can't be reached.
        """
        await self._read()
        await (await self.connection()).start()

    async def _read(self) -> None:
        """Reads the accepted definitions from the file."""
        if self._file is not None and self._accepted is None:
            self._accepted = await run_in_thread(self._file.read)

    @property
    def listed(self) -> Definitions:
        """The server's latest list."""
        return self._listed or Definitions()

    def accept(self, definitions: Definitions) -> None:
        """Accepts these definitions, and no others.

        Raises:
            OSError: The file can't be written.
        """
        definitions.is_unseen = False
        self._store(definitions)
        self._compare(self.listed)

    def _store(self, definitions: Definitions) -> None:
        self._accepted = evolve(definitions, problems=[])  # as they are those of this list
        if self._file is not None:
            self._file.write(self.name, definitions)

    def _try_to_store(self, definitions: Definitions) -> None:
        """As `_store`, but only in memory where the file can't be written."""
        try:
            self._store(definitions)
        except OSError as error:
            self._log.warning("the accepted tools can't be stored: %s", error)

    def _take_list(self, listed: list[Any], instructions: str, server: str) -> None:
        """Handles a list of the server; called in the connection's thread."""
        definitions = self._listed = Definitions.of(listed, self.settings.most_tools, instructions, server)
        for name, cause in definitions.problems[:_MOST_PROBLEMS]:
            self._log.warning("%s", cause if name is None else f"tool {visible(name)[:80]!r}: {cause}")
        if self._pins is not None:
            self._accept_pinned(definitions)
        elif self._accepted is None or self.settings.accept == "always":
            definitions.is_unseen = True  # also with "always": the user has reviewed neither
            self._try_to_store(definitions)
        self._compare(definitions)

    def _compare(self, listed: Definitions) -> None:
        """Computes the tools that may be offered: accepted, and unchanged since."""
        accepted = self._accepted or listed
        changes = accepted.changes_to(listed)
        if not self.settings.instructions:  # the model doesn't get them
            changes = evolve(changes, instructions=False)
        held = {*accepted.tools} if changes.server else {*changes.removed, *changes.changed}
        unchanged = {name: each for name, each in accepted.tools.items() if name not in held}
        problems = listed.problems if accepted is listed else [*accepted.problems, *listed.problems]
        before, known = self._known, _Known(Definitions(unchanged, problems, accepted.instructions), changes)
        self._known = known
        self._is_another = changes.server is not None
        if self._is_late if before is None else _digests(before) != _digests(known):
            for function in tuple(self._changed):
                function()

    def _current_result(self) -> ToolsetResult:
        known = self._known
        assert known is not None
        if self._offer is None or self._offer[0] is not known:
            self._offer = known, self._list_tools(known)
        return self._offer[1]

    def _list_tools(self, known: _Known) -> ToolsetResult:
        new = [each for each in known.offered.tools.values() if each.digest not in self._tools]
        tools, problems = tools_of(self.name, self.settings, new, self._call)
        fresh = {_own_name(tool): tool for tool in tools}
        made = {
            definition.digest: tool
            for name, definition in known.offered.tools.items()
            if (tool := fresh.get(name) or self._tools.get(definition.digest)) is not None
        }
        self._tools = made
        by_name: dict[str, list[Tool]] = {}
        for tool in (*made.values(), *self._readers):
            by_name.setdefault(tool.name, []).append(tool)
        for name, same in by_name.items():
            if len(same) > 1:
                words = " and ".join(repr(visible(tool.spec.original_name or tool.name)[:80]) for tool in same)
                text = f"{words} are held back: both would be called {name!r} (rename or exclude one of them)"
                problems.append(Problem(text, name))
        hint = f": run 'registry mcp accept {self.name}'"
        unread = [] if self._accepted is None else self._accepted.problems
        for name, cause in known.offered.problems:
            text = cause if name is None else f"tool {visible(name)[:80]!r}: {cause}"
            problems.append(Problem(f"{text}{hint}" if (name, cause) in unread else text, name))
        problems += [Problem(f"{cause}{hint}", name) for name, cause in known.changes.causes()]
        if len(problems) > _MOST_PROBLEMS:
            rest = f"{len(problems) - _MOST_PROBLEMS + 1:,} more problems{hint}"
            problems[_MOST_PROBLEMS - 1 :] = [Problem(rest)]
        return ToolsetResult([same[0] for same in by_name.values() if len(same) == 1], problems)

    # Calls -----------------------------------------------------------------------------------------------------------

    async def _call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Runs the server's tool of this name."""
        connection = await self.connection()
        from pegboard_mcp.host import Running
        from pegboard_mcp.tracing import headers_of, one_span

        running, seconds = Running(context), self.settings.timeout
        limit = asyncio.timeout(None if self.settings.most_timeout is None else seconds)

        def extend() -> None:
            if running in self._running and not limit.expired() and seconds is not None:
                limit.reschedule(asyncio.get_running_loop().time() + seconds)

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if running in self._running:
                running.tell(context.report, progress, total, message)
                if self.settings.most_timeout is not None:
                    running.tell(extend)

        async def call(client: Client) -> Any:
            meta: Any = headers_of(context.trace) or None
            with one_span(context.trace, client.protocol_version):
                return await client.call_tool(name, dict(arguments), progress_callback=on_progress, meta=meta)

        try:
            definition = self._definition(name)
            await self._start_unchanged(connection, name, definition)
            self._running[running] = None
            async with limit:
                answer = await self._answer(connection, name, definition, call)
        except ServerError as error:
            return _error_result(name, error)
        except TimeoutError:
            if not limit.expired():
                raise
            return ToolResult.error("timeout", f"{name} reported no progress within {seconds:g} s. It was cancelled.")
        finally:
            self._running.pop(running, None)
        return result_of(name, answer.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def _start_unchanged(self, connection: Connection, name: str, before: Definition | None) -> None:
        """Starts the server, unless it is running, and checks that its tool is still the one that was offered."""
        await connection.start()
        self._check_unchanged(name, before)

    async def _answer(
        self, connection: Connection, name: str, before: Definition | None, call: Callable[[Client], Awaitable[Any]]
    ) -> Any:
        """The server's answer; where nothing reached the process, as it has just ended, that of a new one."""
        try:
            return await connection.ask(call)
        except ServerError as error:
            if error.kind != "unsent":
                raise
        await self._start_unchanged(connection, name, before)
        return await connection.ask(call)

    async def _ask(self, name: str, work: Callable[[Client], Awaitable[JsonObject]]) -> JsonObject:
        """Calls a function with the connected client, for one of the `readers`."""
        try:
            return await (await self.connection()).ask(work)
        except ServerError as error:
            raise ToolError(f"{name} failed: {_clause(error)}.", retry_after=error.retry_after) from error

    def _definition(self, name: str) -> Definition | None:
        return None if self._accepted is None else self._accepted.tools.get(name)

    def _check_unchanged(self, name: str, before: Definition | None) -> None:
        """Checks that the server's tool is still the one that was offered.

        Raises:
            ToolError: It was changed or removed.
        """
        now = None if self._listed is None else self._listed.tools.get(name)
        if now is None:
            raise ToolError(f"{name} was not run: the server {self.name!r} no longer has it.")
        accepted = self._definition(name)
        is_changed = accepted is None or accepted.digest != now.digest or (before or now).digest != now.digest
        if is_changed or self._is_another:
            what = (
                "isn't the one that was accepted"
                if self._is_another
                else "has changed its definition since it was accepted"
            )
            raise ToolError(
                f"{name} was not run: the server {self.name!r} {what}. "
                f"Ask the user to review it with 'registry mcp accept {self.name}'."
            )

    def _take_log(self, level: str, logger: str, data: Any) -> None:
        """Forwards the server's log to ours, and to running calls; called in the connection's thread."""
        text = visible(data if isinstance(data, str) else repr(data))[:_MOST_ERROR]
        source = f"{visible(logger)}: " if logger else ""
        self._log.log(_LEVELS.get(level, logging.ERROR), "%s%s", source, text)
        if self._call_of_one_user() is not None:
            for running in tuple(self._running):
                running.tell(running.context.metadata, log=text)

    def _call_of_one_user(self) -> Running | None:
        """The latest call, if all running ones are of the same user and session.

        Otherwise `None`: a server that several users share doesn't say for which call it asks or logs, and the
        question or log of one user's call must not reach another.
        """
        running = tuple(self._running)
        owners = {(each.context.user, each.context.session) for each in running}
        return running[-1] if len(owners) == 1 else None


def _own_name(tool: Tool) -> str:
    """The server's name for a tool."""
    return tool.spec.original_name or tool.spec.name


def _digests(known: _Known) -> dict[str, str]:
    return {name: each.digest for name, each in known.offered.tools.items()}


def _error_result(name: str, error: ServerError) -> ToolResult:
    """The result of a call that the server didn't answer.

    Raises:
        ToolError: It wasn't run, or the server answered an error.
    """
    words = _clause(error)
    if error.kind in ("unreachable", "unsent"):
        text = f"{name} was not run: {words}."
        raise ToolError(text, retryable=True, retry_after=error.retry_after) from error
    if error.kind == "answered":
        raise ToolError(f"{name} failed at the server: {words}.") from error
    if error.kind == "lost":
        text = f"The outcome of {name} is unknown: {words}. Check whether it took effect before you call it again."
        return ToolResult.error("unknown_outcome", text)
    return _unreadable(name, words)


def _clause(error: ServerError) -> str:
    """The text of an error, for the end of a sentence."""
    return visible(str(error))[:_MOST_ERROR].removesuffix(".")


def _unreadable(name: str, detail: str) -> ToolResult:
    text = f"{name} was sent to the server, but its answer can't be read. It may have taken effect."
    return ToolResult.error("invalid_output", text, detail=detail)


def result_of(name: str, data: dict[str, Any]) -> ToolResult:
    """A server's result from MCP's JSON; where no content says anything to the model, its data or a sentence does.

    Some servers write base64 in lines, or as a data URL. A part that can't be read is named in its place.
    """
    items: list[Any] = data["content"] if isinstance(data.get("content"), list) else []
    for item in filter(is_object, items):
        for holder, key in ((item, "data"), (item.get("resource"), "blob")):
            if is_object(holder) and isinstance(text := holder.get(key), str):
                holder[key] = "".join(_DATA_URL.sub("", text, count=1).split())
    try:
        result = ToolResult.from_json(data)
    except ValueError as error:
        try:
            result = ToolResult.from_json({**data, "content": _name_unreadable(items)})
        except ValueError:
            return _unreadable(name, str(error))
    structured = result.structured_content
    shown = [item for item in result.content if not isinstance(item, TextContent) or item.text.strip()]
    if structured is not None and all(isinstance(item, _MEDIA) for item in shown):
        text = json_text(structured)
        return evolve(result, content=[*shown, TextContent(text)] if shown else text)
    if shown:
        return result
    return evolve(result, content=f"{name} failed; the server gave no reason.") if result.is_error else result


def _name_unreadable(content: list[Any]) -> list[Any]:
    """The parts of a server's answer, with a sentence in place of each that can't be read.

    Raises:
        ValueError: None can be read.
    """
    parts, found = list[Any](), ""
    for number, part in enumerate(content, 1):
        try:
            ToolResult.from_json({"content": [part]})
            parts.append(part)
        except ValueError as error:
            found = f"{error}"
            parts.append({"type": "text", "text": f"[part {number} of the answer can't be read]"})
    if all(part is not given for part, given in zip(parts, content, strict=True)):
        raise ValueError(found)
    return parts


def mcp_toolset(name: str, *, accepted: str | None = None, **settings: Any) -> McpToolset:
    """The tools of an MCP server, for `registry.register`.

    Args:
        name: Its name: `toolset:NAME` in predicates, and the prefix `NAME__` of its tools' names.
        accepted: A file for the accepted definitions of its tools; without one, they are kept in memory.
        settings: As in `ServerSettings`: `command=` and `args=`, or `url=`; and more.

    Raises:
        ValueError: A setting is wrong, or there is no such setting.
    """
    read = read_server(name, settings)
    return McpToolset(name, read, None if accepted is None else Accepted(accepted, read.reached_by))


def _problems(faults: Sequence[str], file: Path | None) -> ToolsetBase:
    """A toolset without tools that reports the faults of the configuration, and publishes its file."""
    offer = ToolsetResult((), [*map(Problem, faults)])
    files = [] if file is None else [str(file.absolute()), str(trust_file())]
    return ToolsetFunction("mcp", lambda: offer, publishes=files)


def toolsets_from(settings: Mapping[str, Any], config: Config | None = None) -> list[ToolsetBase]:
    """The toolsets of the servers in the plugin's settings; a lock is looked for by the configuration."""
    try:
        servers, file = servers_from(settings), config_file(settings)
    except ValueError as error:  # raised here, it would disable the plugin's commands, which report it
        return [_problems([str(error)], None)]
    made = [McpToolset(name, each, Accepted.of(name, each), config) for name, each in servers.settings.items()]
    if not servers.faults and file is None:
        return [*made]
    return [*made, _problems(servers.faults, file)]
