"""Requests to a client during its call, and calls that wait for their client's next request."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from attrs import define, field, frozen
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import INVALID_PARAMS, CreateMessageRequest, ElicitRequest, Result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pegboard import Batch, Outcome, ReadonlyContext
from pegboard.typing import JsonObject
from pegboard_mcp.serving.sessions import Request, forget_oldest

R = TypeVar("R", bound=Result)

MOST_WAITING: Final = 10_000
"""Calls that wait for their clients' next requests; of more, the oldest are aborted."""

MOST_OF_ONE: Final = 100
"""The same of one session, or of one user without a session, so that users can't displace each other's calls."""


@define(eq=False)
class Asker:
    """Sends requests to the client that makes a call, while the call runs.

    Up to 2025-11-25 the server sends the client a request and waits. Later revisions have no such requests: the
    client's request is answered with the questions, the call runs on, and the client's next request has the answers.

    Attributes:
        request: The client's latest request of the call.
        is_open: Whether that isn't answered yet; between two requests, nothing can be sent.
    """

    request: Request
    is_open: bool = field(default=True, init=False)
    _asked: dict[str, tuple[ElicitRequest | CreateMessageRequest, asyncio.Future[Any]]] = field(
        factory=dict[str, tuple[ElicitRequest | CreateMessageRequest, "asyncio.Future[Any]"]], init=False
    )
    _changed: asyncio.Future[None] | None = field(default=None, init=False)

    async def ask(self, asked: ElicitRequest | CreateMessageRequest, kind: type[R]) -> R:
        """Sends a request; gives the client's answer.

        Raises:
            MCPError: It answers an error, or not at all.
            ValidationError: Its answer is invalid.
        """
        request = self.request
        if request.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            metadata = ServerMessageMetadata(related_request_id=request.request_id)
            return await request.session.send_request(asked, kind, metadata=metadata)
        id_, answer = secrets.token_hex(8), asyncio.get_running_loop().create_future()
        self._asked[id_] = asked, answer
        self._wake()
        try:
            given = await answer
        finally:
            self._asked.pop(id_, None)
        if given is None:
            raise MCPError(INVALID_PARAMS, "The client's next request didn't answer the question")
        return kind.model_validate(given.model_dump(by_alias=True), by_name=False)

    async def until_asked(self, running: asyncio.Task[Outcome]) -> bool:
        """Waits until there is a question for the client (`True`), or the call is over."""
        running.add_done_callback(self._wake)
        while not (running.done() or self._asked):
            self._changed = asyncio.get_running_loop().create_future()
            await self._changed
        return not running.done()

    def input_required(self, state: str) -> JsonObject:
        """The answer to the client's request with the questions; its next request has to send the state back."""
        self.is_open = False
        requests = {
            id_: asked.model_dump(mode="json", by_alias=True, exclude_none=True)
            for id_, (asked, _) in self._asked.items()
        }
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}

    def go_on(self, request: Request, answers: Mapping[str, Any]) -> None:
        """Continues with the client's next request; a question without an answer in it fails."""
        self.request, self.is_open = request, True
        asked, self._asked = self._asked, {}
        for id_, (_, answer) in asked.items():
            if not answer.done():
                answer.set_result(answers.get(id_))

    def _wake(self, _: object = None) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


@frozen(eq=False)
class RunningCall:
    """A running call.

    Attributes:
        tool: The tool's name.
        user: The user's id, or `None`.
        session: The session's name, or `None`.
        asker: Sends requests to the client.
        batch: The call's batch.
        sent: Waits until all updates of the call are sent.
        running: The call's own task: if the request is cancelled, it still has the grace period of cancelled calls.
    """

    tool: str
    user: str | None
    session: str | None
    asker: Asker
    batch: Batch
    sent: Callable[[], Awaitable[None]]
    running: asyncio.Task[Outcome]

    async def until_asked(self) -> bool:
        """Waits until it has a question for its client (`True`), or is over."""
        try:
            asks = await self.asker.until_asked(self.running)
        except asyncio.CancelledError:
            self.batch.interrupt("cancelled", "abort")
            raise
        await self.sent()  # no update may follow the answer
        return asks


class WaitingCalls:
    """Calls that wait for their clients' next requests, by a secret id that is used once.

    Args:
        seconds: How long the next request may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._calls: OrderedDict[str, RunningCall] = OrderedDict()

    def keep(self, call: RunningCall) -> JsonObject:
        """Stores a call; gives the answer with its questions."""
        id_ = secrets.token_urlsafe()
        self._calls[id_] = call
        for dropped in forget_oldest(self._calls, lambda each: (each.user, each.session), MOST_OF_ONE, MOST_WAITING):
            dropped.batch.interrupt("cancelled", "abort")
        # its questions to the user time out then, too; one to a model ends with the call's own time limit
        asyncio.get_running_loop().call_later(self._seconds, self._calls.pop, id_, None)
        return call.asker.input_required(id_)

    def take(self, id_: str, tool: str, context: ReadonlyContext) -> RunningCall:
        """Removes the call of this id, and gives it.

        Raises:
            MCPError: There is none of this user, session and tool, or it has timed out.
        """
        call = self._calls.get(id_)
        if call is None or (call.tool, call.user, call.session) != (tool, context.user, context.session):
            raise MCPError(INVALID_PARAMS, "Unknown request state: it was used before, or is too old. Call again.")
        return self._calls.pop(id_)

    def end(self) -> None:
        """Aborts the waiting calls: there are no further requests."""
        for call in self._calls.values():
            call.batch.interrupt("interrupted", "abort")
        self._calls.clear()
