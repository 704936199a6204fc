"""Approvals through MCP's elicitation: the client's user reads what would happen, and answers a form."""

from __future__ import annotations

import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field, frozen
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pegboard import Always, Once, ReadonlyContext, Reject, ToolContext
from pegboard.dispatch.approval.pending import PendingCalls
from pegboard.dispatch.approval.request import Answer, ApprovalRequest, Later
from pegboard.typing import JsonObject
from pegboard_mcp.serving.sessions import forget_oldest

MOST_SHOWN: Final = 100_000
"""Characters of a request that a person may read to the end."""

MOST_WAITING: Final = 10_000
"""Calls that wait for an answer of their clients' users; of more, the oldest are dropped."""

MOST_OF_ONE: Final = 100
"""The same of one session, or of one user without: no user's calls push out another's."""


@define(eq=False)
class ClientApprover:
    """Approver that asks the client's user; where the client can't ask, the call is refused.

    Up to 2025-11-25 the server sends the client a request and waits. Later revisions have no such requests: the call
    is suspended, and its answer is what has to be asked.

    Attributes:
        request: The request that the call answers.
        can_keep: Whether the client has a session, for as long as which an answer may hold.
        requests: What has to be asked before the call can go on, by id, in those later revisions.
    """

    request: ServerRequestContext[Any, Any]
    can_keep: bool
    requests: dict[str, ApprovalRequest] = field(factory=dict[str, ApprovalRequest], init=False)

    async def approve(self, request: ApprovalRequest, context: ToolContext) -> Answer | None:
        """The user's answer; `Later` where the client has to send its request once more."""
        del context  # the request holds all of it
        if not self._can_ask():
            return None
        if len(request.to_text()) > MOST_SHOWN:
            return Reject("It is too long to be approved. Do it in smaller parts.")
        if self.request.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self.requests[request.id] = request
            return Later()
        form = _form(request, can_keep=self.can_keep)
        try:
            given = await self.request.session.elicit_form(
                form["message"], form["requestedSchema"], self.request.request_id
            )
        except MCPError as error:
            logging.getLogger("pegboard.mcp").warning("the client could not ask its user: %s", error)
            return None
        return _answer(given, request, can_keep=self.can_keep)

    def _can_ask(self) -> bool:
        capabilities = self.request.session.client_capabilities
        elicitation = None if capabilities is None else capabilities.elicitation
        return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


@frozen(eq=False)
class Waiting:
    """A call that waits for its client's next request.

    Attributes:
        tool: The tool's name.
        user: The user's id, or `None`.
        session: The session's name, or `None`.
        pending: What goes on then.
        requests: What was asked, by id.
        until: When it is over, in seconds of `time.monotonic()`.
    """

    tool: str
    user: str | None
    session: str | None
    pending: PendingCalls
    requests: Mapping[str, ApprovalRequest]
    until: float

    def answers(self, responses: Mapping[str, Any]) -> dict[str, Answer]:
        """The user's answers by the pending calls' ids; a request without an answer is rejected."""
        return {
            id_: _answer(responses.get(id_), request, can_keep=self.session is not None)
            for id_, request in self.requests.items()
        }


class WaitingCalls:
    """Calls that wait for their clients' next requests, by an id that can't be guessed; each goes on once.

    Args:
        seconds: How long an answer may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._calls: OrderedDict[str, Waiting] = OrderedDict()

    def keep(
        self, tool: str, context: ReadonlyContext, pending: PendingCalls, requests: Mapping[str, ApprovalRequest]
    ) -> JsonObject:
        """Keeps a suspended call; gives the answer that asks for what is missing."""
        id_ = secrets.token_urlsafe()
        until = time.monotonic() + self._seconds
        self._calls[id_] = Waiting(tool, context.user, context.session, pending, requests, until)
        forget_oldest(self._calls, lambda call: (call.user, call.session), MOST_OF_ONE, MOST_WAITING)
        asked = {
            one: {"method": "elicitation/create", "params": _form(request, can_keep=context.session is not None)}
            for one, request in requests.items()
        }
        return {"resultType": "input_required", "inputRequests": asked, "requestState": id_}

    def take(self, id_: str, tool: str, context: ReadonlyContext) -> Waiting:
        """The call of this id, which then is used up.

        Raises:
            MCPError: There is none of this user, session and tool, or its time is over.
        """
        waiting = self._calls.get(id_)
        asked_by = (tool, context.user, context.session)
        if waiting is None or (waiting.tool, waiting.user, waiting.session) != asked_by:
            raise MCPError(INVALID_PARAMS, "Unknown request state: it was used before, or is too old. Call again.")
        del self._calls[id_]
        if time.monotonic() > waiting.until:
            raise MCPError(INVALID_PARAMS, "The time to answer is over. Call again.")
        return waiting


_REJECT: Final = "no"
_ONCE: Final = "yes"
_ALWAYS: Final = "always exactly this, in this session"
_WIDER: Final = "always all that would be allowed as shown, in this session"


def _choices(request: ApprovalRequest, *, can_keep: bool) -> dict[str, Answer]:
    """What the user may answer, by its text."""
    choices: dict[str, Answer] = {_ONCE: Once()}
    if can_keep and request.always:
        choices[_ALWAYS] = Always()
    if can_keep and request.wider:
        choices[_WIDER] = Always(request.wider)
    return choices


def _form(request: ApprovalRequest, *, can_keep: bool) -> JsonObject:
    """The form that shows a request as a whole and takes its answer."""
    answers = [*_choices(request, can_keep=can_keep), _REJECT]
    properties = {
        "answer": {"type": "string", "title": "Run it?", "enum": answers},
        "instead": {"type": "string", "title": "If not: what should be done instead?"},
    }
    schema: JsonObject = {"type": "object", "properties": properties, "required": ["answer"]}
    return {"mode": "form", "message": request.to_text(), "requestedSchema": schema}


def _answer(given: object, request: ApprovalRequest, *, can_keep: bool) -> Answer:
    """The answer that a client has brought; whatever isn't clearly a yes is a no."""
    if not isinstance(given, ElicitResult) or given.action != "accept":
        return Reject()
    content: Mapping[str, Any] = given.content or {}
    found = _choices(request, can_keep=can_keep).get(str(content.get("answer")))
    instead = content.get("instead")
    return found or Reject(instead if isinstance(instead, str) and instead else None)
