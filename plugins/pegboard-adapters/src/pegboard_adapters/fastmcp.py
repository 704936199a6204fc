"""FastMCP: pegboard's tools on one of its servers, and the tools of such a server in pegboard, in the same process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

from attrs import define, evolve, field

from pegboard import (
    Once,
    Progress,
    ReadonlyContext,
    Reject,
    ResolvedTools,
    Tool,
    ToolAnnotations,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    ToolsetBase,
    ToolsetResult,
)
from pegboard.approval import Answer, PendingCall
from pegboard.errors import log_failure
from pegboard.json import is_object, json_text
from pegboard.schema import validator_of
from pegboard.text import visible
from pegboard.tools import mapped_name
from pegboard.typing import JsonObject
from pegboard_adapters.incoming import KnownTools, Trust, convert_each
from pegboard_adapters.outgoing import offer_each, question_digest, run_call
from pegboard_adapters.peers import check_peer

check_peer("fastmcp")

from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.exceptions import McpError, ToolError as FastMCPToolError
from fastmcp.server.dependencies import get_access_token, get_context
from fastmcp.server.providers import Provider
from fastmcp.tools.base import (
    InputRequiredToolResult,
    Tool as FastMCPTool,
    ToolResult as FastMCPResult,
)
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult as ClientAnswer,
    InputRequiredResult,
    ToolAnnotations as McpAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import PrivateAttr

_MOST_ASKED: Final = 20_000  # characters of a question to a person, and of its form
_MOST_UPDATES: Final = 1_000  # that wait to be sent; further ones are left out
_FAILURE: Final = "Error calling tool "  # what FastMCP's text of a crash begins with
_CONFIRM: Final[JsonObject] = {
    "type": "object",
    "properties": {"value": {"type": "boolean", "title": "Run it?"}},
    "required": ["value"],
}

# pegboard's tools on a FastMCP server ---------------------------------------------------------------------------------


def context_of(context: Context) -> ReadonlyContext:
    """The context of a request: the user is the subject of its access token; the session is MCP's, where it has one."""
    token = get_access_token()
    user = None if token is None else token.claims.get("sub") or token.client_id
    request = context.request_context
    has_session = request is not None and not _is_modern(context)
    return ReadonlyContext(user=user, session=context.session_id if has_session else None)


def _is_modern(context: Context) -> bool:
    """Whether the client's revision of MCP has no sessions and no requests by the server (2026-07-28 and later)."""
    return context.request_context is not None and context.request_context.protocol_version in MODERN_PROTOCOL_VERSIONS


async def to_fastmcp(
    server: FastMCP[Any],
    registry: ToolRegistry,
    *,
    context: Callable[[Context], ReadonlyContext] | None = None,
) -> None:
    """Adds a registry's tools to a FastMCP server, as a provider: they are resolved anew for each request.

    A call that asks asks the client's user by elicitation, unless the registry has an approver; a client that can't ask
    gets a denial. Progress is sent to the client. A tool that FastMCP refuses is left out, with an entry in the log.

    Args:
        server: The server; its own tools take precedence over tools of the same name.
        registry: The registry that resolves and runs them. Its plugins are loaded now.
        context: The context of a request; by default the user of its access token, and its session.

    Raises:
        PegboardError: The registry can't resolve its tools.
    """
    await registry.resolve()
    server.add_provider(_PegboardProvider(registry, context or context_of))


class _PegboardProvider(Provider):
    def __init__(self, registry: ToolRegistry, context: Callable[[Context], ReadonlyContext]) -> None:
        super().__init__()
        self._registry, self._context = registry, context

    async def _list_tools(self) -> Sequence[FastMCPTool]:
        return await self._resolve()

    async def _get_tool(self, name: str, version: Any = None) -> FastMCPTool | None:
        tools = await self._resolve(name)
        return next((tool for tool in tools if version is None or version.matches(tool.version)), None)

    async def _resolve(self, name: str | None = None) -> list[FastMCPTool]:
        try:
            request = self._context(get_context())
        except RuntimeError:  # listed outside of a request
            request = ReadonlyContext()
        resolved = await self._registry.resolve(request)
        only = resolved if name is None else resolved.evolve(tools=[tool for tool in resolved if tool.name == name])
        return offer_each(only, lambda tool: _PegboardTool.of(tool, resolved, request), "FastMCP")


class _PegboardTool(FastMCPTool):
    _resolved: ResolvedTools = PrivateAttr()
    _request: ReadonlyContext = PrivateAttr()

    @classmethod
    def of(cls, tool: Tool, resolved: ResolvedTools, request: ReadonlyContext) -> FastMCPTool:
        spec = tool.spec
        hints = {key: hint for key, hint in spec.annotations.to_json().items() if key != "editHint"}
        made = cls(
            name=spec.name,
            title=spec.title,
            description=spec.description,
            tags=set(spec.tags),
            parameters=dict(spec.input_schema),
            output_schema=None if spec.output_schema is None else dict(spec.output_schema),
            annotations=McpAnnotations(**hints) if hints else None,
        )
        made._resolved, made._request = resolved, request
        return made

    async def run(self, arguments: JsonObject) -> FastMCPResult:
        context = get_context()
        asker = _Asker.of(context)
        try:
            async with _progress_to(context) as listen:
                own = ToolContext(request=self._request, listener=listen)
                result = await run_call(self._resolved, self.name, arguments, own, ask=asker.ask)
        except _QuestionError as question:
            return InputRequiredToolResult(*question.args)
        if result.is_error:
            raise FastMCPToolError(result.text)
        data = result.to_json()
        if not is_object(data.get("structuredContent")):
            data.pop("structuredContent", None)
        answer = CallToolResult.model_validate(data)
        return FastMCPResult(content=answer.content, structured_content=answer.structured_content)


@asynccontextmanager
async def _progress_to(context: Context) -> AsyncIterator[Callable[[object], None]]:
    """A listener that sends a call's progress to the client, all of it before the call's result."""
    updates: asyncio.Queue[Progress | None] = asyncio.Queue()

    def listen(update: object) -> None:
        if isinstance(update, Progress) and updates.qsize() < _MOST_UPDATES:
            updates.put_nowait(update)

    async def send() -> None:
        last = float("-inf")
        while (update := await updates.get()) is not None:
            if update.progress > last:  # MCP requires it to increase
                last = update.progress
                await context.report_progress(update.progress, update.total, update.message)

    sending = asyncio.create_task(send())
    try:
        yield listen
        updates.put_nowait(None)
        await asyncio.wait([sending])
        if not sending.cancelled() and (error := sending.exception()) is not None:
            log_failure("progress can't be sent to FastMCP's client", error)
    finally:
        sending.cancel()


class _QuestionError(Exception):
    """A question, as an `InputRequiredResult`, that the client's user answers in the client's next request."""


@define
class _Asker:
    """Asks the client's user by elicitation.

    Up to 2025-11-25 the server sends the client a question while the call waits. Later, the question ends the request,
    and the next one, which runs the call again, has the answer; FastMCP seals the state, so clients can't change it.
    """

    context: Context
    given: dict[str, Any] = field(factory=dict[str, Any])  # by question, the fields that the user has given

    @classmethod
    def of(cls, context: Context) -> _Asker:
        """With the answers of the client's earlier requests of this call."""
        asker = cls(context)
        if context.request_context is not None and (state := context.request_state):
            with suppress(ValueError, LookupError, TypeError):  # the state of another tool
                stored = json.loads(state)
                asked, asker.given = stored["asked"], dict(stored["given"])
                answer = (context.input_responses or {}).get(asked)
                asker.given[asked] = None
                if isinstance(answer, ClientAnswer) and answer.action == "accept":
                    asker.given[asked] = answer.content
        return asker

    async def ask(self, pending: PendingCall) -> Answer | None:
        """The user's answer; `None` if the client can't ask.

        Raises:
            _QuestionError: It comes with the next request.
        """
        key = question_digest(pending)
        form = _form_of(pending)
        if key in self.given:
            return _answer_to(form, self.given[key])
        if not self._can_ask():
            return None
        request = pending if form is None else evolve(pending, payload=None)
        asked = ElicitRequestFormParams(message=request.to_text(), requested_schema=form or _CONFIRM)
        if _is_modern(self.context):
            state = str(json_text({"given": self.given, "asked": key}))
            requests = {key: ElicitRequest(params=asked)}
            raise _QuestionError(InputRequiredResult(input_requests=requests, request_state=state))
        try:
            answer = await self.context.session.elicit(asked.message, asked.requested_schema, self.context.request_id)
        except McpError as error:
            log_failure("FastMCP's client could not ask its user", error)
            return None
        return _answer_to(form, answer.content if answer.action == "accept" else None)

    def _can_ask(self) -> bool:
        if self.context.request_context is None:
            return False
        capabilities = self.context.session.client_capabilities
        elicitation = None if capabilities is None else capabilities.elicitation
        return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _form_of(pending: PendingCall) -> JsonObject | None:
    """The form of a tool's own question, as `from_fastmcp` and MCP's toolsets ask it; else `None`."""
    form = pending.payload.get("form") if is_object(pending.payload) else None
    return form if pending.subject == "question" and is_object(form) and form.get("properties") else None


def _answer_to(form: JsonObject | None, content: Any) -> Answer:
    """The answer by the fields that a user has given; anything but a clear, valid yes is a no."""
    if not isinstance(content, Mapping):
        return Reject()
    if form is None:
        return Once() if content.get("value") is True else Reject()
    return Reject() if validator_of(str(json_text(form))).problems(content) else Once(dict(content))


# The tools of a FastMCP server in pegboard ----------------------------------------------------------------------------


def from_fastmcp(server: FastMCP[Any], *, name: str = "fastmcp", trust: Trust = False) -> ToolsetBase:
    """The tools of a FastMCP server in this process as a toolset, for `registry.register`.

    The server runs from the first call on, in each event loop, until the toolset is closed; each call is a session of
    its own. Its progress is the call's, and what it elicits is asked by the registry's approver. Sampling and roots
    aren't available.

    Args:
        server: The server; for one in another process, take pegboard-mcp.
        name: The toolset's name.
        trust: Whether they run unasked where they declare no harm; or the names of tools and packages that do.
    """
    if not isinstance(server, FastMCP):  # pyright: ignore[reportUnnecessaryIsInstance]  settings may name anything
        raise TypeError(f"it is no FastMCP server, but of type {type(server).__name__}")
    return _ForeignToolset(name, server, trust)


class _ForeignToolset(ToolsetBase):
    def __init__(self, name: str, server: FastMCP[Any], trust: Trust) -> None:
        self.name = name
        self._server, self._trust = server, trust
        self._known = KnownTools()
        self._open: dict[asyncio.AbstractEventLoop, Client[Any]] = {}  # each keeps the server's lifespan

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The tools that the server lists now."""
        del context
        listed = await self._server.list_tools()
        return self._known.same(convert_each(listed, self._tool_of, self._trust))

    async def close(self) -> None:
        """Ends the server in this event loop; in others, it ends with them."""
        if (client := self._open.pop(asyncio.get_running_loop(), None)) is not None:
            await client.close()

    def _tool_of(self, tool: Any) -> Tool:
        listed = tool.to_mcp_tool()
        hints = {} if listed.annotations is None else listed.annotations.model_dump(by_alias=True, exclude_none=True)
        output = listed.output_schema if (listed.output_schema or {}).get("type") == "object" else None
        return Tool.from_schema(
            mapped_name(listed.name),
            {"type": "object", **listed.input_schema},
            partial(self._call, listed.name),
            description=listed.description,
            title=tool.title,
            tags=tool.tags,
            annotations=ToolAnnotations.from_json(hints),
            output_schema=output,
            skip_patterns=True,
        )

    async def _call(self, name: str, arguments: JsonObject, context: ToolContext) -> ToolResult:
        await self._start()
        try:
            answer = await self._answer("legacy", name, arguments, context)
        except McpError as error:
            if InputRequiredResult.__name__ not in str(error):
                return ToolResult.error("tool_failure", f"{name} failed.", detail=str(error))
            answer = await self._answer("auto", name, arguments, context)  # it asks as revisions from 2026-07-28 on do
        result = ToolResult.from_json(answer.model_dump(mode="json", by_alias=True, exclude_none=True))
        if result.is_error and result.text.startswith(_FAILURE):
            return ToolResult.error("tool_failure", f"{name} failed.", detail=result.text)
        return result

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._open = {each: client for each, client in self._open.items() if not each.is_closed()}
        if loop not in self._open:
            client = self._open[loop] = Client(self._server)
            try:
                await client.__aenter__()
            except BaseException:
                self._open.pop(loop, None)
                raise

    async def _answer(self, mode: Any, name: str, arguments: JsonObject, context: ToolContext) -> CallToolResult:
        """The server's answer, in a session of its own, so that its questions are known to be of this call.

        Raises:
            CallError: A question is answered later; the server's call is cancelled.
        """
        stop: asyncio.Future[CallToolResult] = asyncio.get_running_loop().create_future()

        async def elicit(message: str, _: object, params: Any, *__: object) -> ElicitResult:
            try:
                return await _elicit(name, message, params, context)
            except ToolError:
                return ElicitResult(action="decline")
            except Exception as error:  # noqa: BLE001  the call ends with it
                if not stop.done():
                    stop.set_exception(error)
                return await asyncio.Future()  # unanswered, until the session is closed

        async def report(progress: float, total: float | None, message: str | None) -> None:
            context.report(progress, total, message)

        async with Client(self._server, mode=mode, elicitation_handler=elicit, progress_handler=report) as client:
            call = asyncio.ensure_future(client.call_tool_mcp(name, arguments))
            try:
                await asyncio.wait([call, stop], return_when=asyncio.FIRST_COMPLETED)
                return await (stop if stop.done() else call)
            finally:
                call.cancel()
                stop.cancel()


async def _elicit(name: str, message: str, params: Any, context: ToolContext) -> ElicitResult:
    """A person's answer to a server's question.

    Raises:
        ToolError: Nobody can be asked, or not this.
    """
    form, url = getattr(params, "requested_schema", None), getattr(params, "url", None)
    if url is not None:
        if not url.startswith(("https://", "http://")):
            raise ToolError(f"{name} asks to open an address that isn't a web page.")
        message = f"{message}\n\nOpen this address: {url}"
    schema = str(json_text(form or {}))
    if len(message) > _MOST_ASKED or len(schema) > _MOST_ASKED:
        raise ToolError(f"{name} asks a question that is too long.")
    payload = {"form": form} if form else None
    answer = await context.request_confirmation(f"{name} asks: {visible(message, newlines=True)}", payload)
    if not answer.confirmed:
        return ElicitResult(action="decline")
    if not form:
        return ElicitResult(action="accept")
    content: Any = _plain_yes(form) if answer.payload in (None, payload) else answer.payload
    if not isinstance(content, dict) or validator_of(schema).problems(content):
        raise ToolError(f"{name} asks for fields, and the answer doesn't fit them.")
    return ElicitResult(action="accept", content=content)


def _plain_yes(form: JsonObject) -> JsonObject:
    """The fields that a yes without fields means: the default values, and yes to the only question."""
    fields: Any = form.get("properties") or {}
    if len(fields) == 1 and all(each.get("type") == "boolean" for each in fields.values()):
        return dict.fromkeys(fields, True)
    return {name: each["default"] for name, each in fields.items() if "default" in each}
