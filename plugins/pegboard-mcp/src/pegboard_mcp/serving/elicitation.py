"""Approvals through MCP's elicitation: the client's user reads the request, and answers a form."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve, frozen
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult
from pydantic import ValidationError

from pegboard import Always, ApprovalRequest, Once, Reject, ToolContext
from pegboard.approval import Answer, RefusedError
from pegboard.json import is_object, json_text
from pegboard.schema import validator_of
from pegboard.typing import JsonObject
from pegboard_mcp.serving.asking import Asker

MOST_SHOWN: Final = 100_000
"""Characters of a request that a user can be expected to read."""


@frozen(eq=False)
class ClientApprover:
    """Approver that asks the client's user; if the client can't ask, the call is refused.

    Attributes:
        asker: Sends requests to the client.
        can_keep: Whether the client has a session, for which an answer may hold.
    """

    asker: Asker
    can_keep: bool

    async def approve(self, request: ApprovalRequest, context: ToolContext) -> Answer:
        """The user's answer.

        Raises:
            RefusedError: The client can't ask.
        """
        del context  # the request holds all of it
        if not self._can_ask():
            raise _no_answer(request)
        form = _Form.of(request, can_keep=self.can_keep)
        if len(form.message) > MOST_SHOWN:
            return Reject("The request is too long to be approved. Do it in smaller parts.")
        params = ElicitRequestFormParams(message=form.message, requested_schema=form.schema)
        try:
            given = await self.asker.ask(ElicitRequest(params=params), ElicitResult)
        except MCPError as error:
            logging.getLogger("pegboard.mcp").warning("the client could not ask its user: %s", error)
            raise _no_answer(request) from error
        except ValidationError:
            return Reject()
        return form.answer(given)

    def _can_ask(self) -> bool:
        capabilities = self.asker.request.session.client_capabilities
        elicitation = None if capabilities is None else capabilities.elicitation
        return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _no_answer(request: ApprovalRequest) -> RefusedError:
    text = (
        f"{request.call.name} needs approval, and this client can't ask its user. It was denied. Continue without it."
    )
    return RefusedError("denied", text)


_REJECT: Final = "no"
_ONCE: Final = "yes"
_ALWAYS: Final = "yes, and in this session always what is shown after 'always allows'"
_WIDER: Final = "yes, and in this session all that is shown after 'more would be allowed by'"


@frozen(eq=False)
class _Form:
    """The elicitation form of an approval request.

    Attributes:
        message: The text of the request.
        schema: The schema of the fields: those of a question, else the decision on the call.
        choices: The possible answers by their texts; `None` for a question with fields.
    """

    message: str
    schema: JsonObject
    choices: Mapping[str, Answer] | None = None

    @classmethod
    def of(cls, request: ApprovalRequest, *, can_keep: bool) -> _Form:
        """The form of a request; with `can_keep`, an answer may hold for the session."""
        if (fields := _fields_of(request.payload)) is not None:
            return cls(evolve(request, payload=None).to_text(), fields)
        choices: dict[str, Answer] = {_ONCE: Once()}
        if can_keep and request.always:
            choices[_ALWAYS] = Always()
        if can_keep and request.wider:
            choices[_WIDER] = Always(request.wider)
        properties = {
            "answer": {"type": "string", "title": "Run it?", "enum": [*choices, _REJECT]},
            "instead": {"type": "string", "title": "If not: what should be done instead?"},
        }
        schema: JsonObject = {"type": "object", "properties": properties, "required": ["answer"]}
        return cls(request.to_text(), schema, choices)

    def answer(self, given: ElicitResult) -> Answer:
        """The client's answer; anything but a clear, valid yes is a rejection."""
        content: Mapping[str, Any] = given.content or {}
        if given.action != "accept":
            return Reject()
        if self.choices is None:
            wrong = validator_of(str(json_text(self.schema))).problems(content)
            return Reject() if wrong else Once(dict(content))
        found = self.choices.get(str(content.get("answer")))
        instead = content.get("instead")
        return found or Reject(instead if isinstance(instead, str) and instead else None)


def _fields_of(payload: Any) -> JsonObject | None:
    """The schema of a question's fields, if elicitation supports them; else `None`."""
    form = payload.get("form") if is_object(payload) and len(payload) == 1 else None
    if not is_object(form) or not is_object(fields := form.get("properties")):
        return None
    is_flat = all(is_object(each) and each.get("type") in _TYPES for each in fields.values())
    return form if fields and is_flat else None


_TYPES: Final = ("string", "number", "integer", "boolean", "array")  # an array is a choice of several
