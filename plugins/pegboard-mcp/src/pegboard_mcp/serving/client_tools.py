"""Tools of the client: offered in its session as long as its request is open, and called by notifications.

The protocol has no such feature, so these are our own methods, listed in the server's experimental capabilities.
A client sends the request `pegboard/tools/offer` with definitions as in `tools/list`. That request stays open; its
stream carries notifications: `notifications/pegboard/tools/offered` first, then a `notifications/pegboard/tools/call`
for each call. The client answers each with a request `pegboard/tools/answer`. Servers can't send requests in every
revision of the protocol, and an open stream shows that the client is connected.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio
from attrs import define, field
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, EmptyResult, Notification, NotificationParams, RequestParams
from pydantic import ConfigDict

from pegboard import Tool, ToolContext, ToolResult
from pegboard.errors import SchemaError, ToolError
from pegboard.tools import visible_spec
from pegboard.toolsets import check_tool_schemas
from pegboard.typing import JsonObject
from pegboard_mcp.serving.sessions import Request, Session

OFFER: Final = "pegboard/tools/offer"
ANSWER: Final = "pegboard/tools/answer"
PREFIX: Final = "client_"
"""The prefix of their names: a client can't take the name of another tool, nor find out which there are."""

MOST_TOOLS: Final = 64
MOST_OFFERS: Final = 4
"""Offers of one session at once."""

MOST_CALLS: Final = 100
"""Calls of one offer at once."""

CAPABILITY: Final[Mapping[str, JsonObject]] = {
    "pegboard/clientTools": {"mostTools": MOST_TOOLS, "mostOffers": MOST_OFFERS, "mostCalls": MOST_CALLS}
}
_TELL_SECONDS: Final = 1.0


class OfferParams(RequestParams):
    """Parameters of an offer: tools as in `tools/list`."""

    tools: list[dict[str, Any]]


class AnswerParams(RequestParams):
    """The answer to a call, as of `tools/call`."""

    callId: str  # noqa: N815  as on the wire
    result: dict[str, Any]


class _Facts(NotificationParams):
    """Parameters of a notification, with any names."""

    model_config = ConfigDict(extra="allow")


class _Notification(Notification[_Facts, str]):
    method: str
    params: _Facts


@define(eq=False)
class Offer:
    """Tools that a client offers.

    Attributes:
        request: The open request.
        tools: The offered tools.
        names: Their names here, by the client's names.
        refused: Why other tools were refused.
    """

    request: Request
    tools: list[Tool] = field(factory=list[Tool], init=False)
    names: dict[str, str] = field(factory=dict[str, str], init=False)
    refused: list[str] = field(factory=list[str], init=False)
    _calls: dict[str, asyncio.Future[ToolResult]] = field(factory=dict[str, "asyncio.Future[ToolResult]"], init=False)
    _ended: asyncio.Event = field(factory=asyncio.Event, init=False)

    def read(self, listed: list[dict[str, Any]]) -> None:
        """Reads definitions like those of an untrusted server; an invalid one is refused by itself."""
        from pegboard_mcp.definitions import Definitions, tools_of  # few clients offer any
        from pegboard_mcp.settings import ServerSettings

        settings = ServerSettings(command="client", prefix=PREFIX)
        definitions = Definitions.of(listed, MOST_TOOLS)
        self.refused += [f"{name or 'a tool'}: {text}" for name, text in definitions.problems]
        tools, problems = tools_of("client", settings, definitions.tools.values(), self._call)
        self.refused += [problem.cause for problem in problems]
        for tool in tools:
            own = tool.spec.original_name or tool.name.removeprefix(PREFIX)
            try:
                shown = tool.evolve(spec=visible_spec(tool.spec))
                check_tool_schemas(shown)
            except SchemaError as error:
                self.refused.append(f"{own}: {error}")
            else:
                self.tools.append(shown)
                self.names[own] = shown.name

    async def serve(self) -> EmptyResult:
        """Notifies the client of the offered tools, and waits until the client or `end` ends the offer."""
        try:
            await self._notify("offered", names=self.names, refused=self.refused)
            await self._ended.wait()
        finally:
            for answer in self._calls.values():
                if not answer.done():
                    answer.set_result(_disconnect_result())
        return EmptyResult()

    def end(self) -> None:
        """Ends the offer."""
        self._ended.set()

    def answer(self, call_id: str, result: dict[str, Any]) -> bool:
        """Completes a call of this offer; gives whether there is such a call."""
        waiting = self._calls.get(call_id)
        if waiting is None or waiting.done():
            return False
        try:
            waiting.set_result(ToolResult.from_json(result))
        except ValueError as error:
            text = "The client's answer can't be read."
            waiting.set_result(ToolResult.error("invalid_output", text, detail=str(error)))
        return True

    async def _call(self, name: str, arguments: Mapping[str, Any], _: ToolContext) -> ToolResult:
        if len(self._calls) >= MOST_CALLS:
            raise ToolError(f"The client already has {MOST_CALLS} unanswered calls. Call again later.", retryable=True)
        id_, answer = uuid.uuid4().hex, asyncio.get_running_loop().create_future()
        self._calls[id_] = answer
        try:
            await self._notify("call", callId=id_, name=name, arguments={**arguments})
            return await answer
        except asyncio.CancelledError:
            await self._notify("cancelled", callId=id_)
            raise
        finally:
            del self._calls[id_]

    async def _notify(self, event: str, **facts: Any) -> None:
        """Sends a notification on the stream of the offer."""
        notification: Any = _Notification(
            method=f"notifications/pegboard/tools/{event}", params=_Facts.model_validate(facts)
        )
        await self.request.session.send_notification(notification, self.request.request_id)


def _disconnect_result() -> ToolResult:
    text = "The client that offers this tool has disconnected; whether the call took effect isn't known."
    return ToolResult.error("unknown_outcome", text)


class ClientTools:
    """The offers of a server's clients.

    Args:
        changed: Called with the request when the tools of its session change.
    """

    def __init__(self, changed: Callable[[Request], Awaitable[None]]) -> None:
        self._changed = changed
        self._offers: WeakKeyDictionary[Session, list[Offer]] = WeakKeyDictionary()

    def of(self, session: Session) -> list[Tool]:
        """The tools that a session's client offers."""
        return [tool for offer in self._offers.get(session, ()) for tool in offer.tools]

    async def offer(self, session: Session, request: Request, params: OfferParams) -> EmptyResult:
        """Offers a client's tools for as long as its request lasts.

        Raises:
            MCPError: There is no session or user that they belong to, or there are too many offers.
        """
        if session.name is None and session.user is None:
            text = "Offering tools needs a session or a token: without either, every client would get them."
            raise MCPError(INVALID_PARAMS, text)
        offers = self._offers.setdefault(session, [])
        if len(offers) >= MOST_OFFERS:
            raise MCPError(INVALID_PARAMS, f"At most {MOST_OFFERS} offers at once: end another")
        offer = Offer(request)
        offer.read(params.tools)
        offers.append(offer)
        try:
            await self._changed(request)
            return await offer.serve()
        finally:
            offers.remove(offer)
            with anyio.CancelScope(shield=True), anyio.move_on_after(_TELL_SECONDS):
                await self._changed(request)

    def answer(self, session: Session, params: AnswerParams) -> EmptyResult:
        """Completes a call by the client's answer.

        Raises:
            MCPError: This session has no such unanswered call.
        """
        if not any(offer.answer(params.callId, params.result) for offer in self._offers.get(session, ())):
            raise MCPError(INVALID_PARAMS, "Unknown call: it was answered, or is over")
        return EmptyResult()

    def end(self) -> None:
        """Ends all offers."""
        for offers in self._offers.values():
            for offer in offers:
                offer.end()
