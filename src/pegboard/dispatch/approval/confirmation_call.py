"""Confirmation as a message: a virtual call for clients that know nothing but calls and their results.

The model's own call is suspended. In its place the client sees a call of `pegboard_request_confirmation`, shows it to a
person as it would any other, and sends `{"confirmed": true}` or `{"confirmed": false}` as its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from pegboard.dispatch.approval.answer import Answer, Once, Reject
from pegboard.dispatch.approval.pending import PendingCall
from pegboard.errors import PendingError
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ToolResult
from pegboard.typing import JsonMapping

CONFIRMATION_CALL: Final = "pegboard_request_confirmation"
MOST_BYTES: Final = 1024 * 1024


def confirmation_call(pending: PendingCall) -> ToolCall:
    """The virtual call for a pending one; its id is the pending call's, so that the result leads back to it.

    Its arguments: `{"originalCall": {"id", "name", "arguments"}, "hint", "payload", "digest"}`.
    """
    call = pending.call
    original = {"id": call.id, "name": call.name, "arguments": pending.arguments}
    hint = pending.hint or f"Please approve or reject the call of {call.name}."
    facts = {"originalCall": original, "hint": hint, "payload": pending.payload, "digest": pending.digest}
    return ToolCall(CONFIRMATION_CALL, facts, pending.id)


def original_call_from(call: ToolCall | JsonMapping) -> ToolCall:
    """The model's own call, read out of a virtual one.

    Args:
        call: A virtual call; or the same as JSON (`{"id", "name", "arguments"}`); or only its arguments. Arguments may
            be JSON text.

    Raises:
        PendingError: It isn't a virtual call, or holds no call.
    """
    if isinstance(call, ToolCall):
        call = {"name": call.name, "arguments": call.arguments}
    if not isinstance(call, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
        raise PendingError(f"not a call: {type(call).__name__}")
    arguments: Any = call
    if "name" in call:
        if call["name"] != CONFIRMATION_CALL:
            raise PendingError(f"a call of {call['name']!r:.80}, not of {CONFIRMATION_CALL}")
        arguments = _object(call.get("arguments"), "arguments")
    original = _object(arguments.get("originalCall"), "originalCall")
    try:
        return ToolCall.from_json(original)
    except ValueError as error:
        raise PendingError(f"originalCall: {error}") from None


def answer_from_result(result: ToolResult | JsonMapping | str | bytes) -> Answer:
    """What a client answered, as the result of a virtual call.

    Args:
        result: `{"confirmed": true or false, "payload"?, "feedback"?}`: as a mapping, as JSON text, or in a
            `ToolResult`, as its structured content or its text.

    Returns:
        `Once` with the payload, or `Reject` with the feedback.

    Raises:
        PendingError: It isn't an answer; `confirmed` must be a boolean.
    """
    from pegboard.dispatch.approval.structured import structured

    given: Any = result
    if isinstance(result, ToolResult):
        if result.is_error:
            raise PendingError("the client gave an error in place of an answer")
        given = result.text if result.structured_content is None else result.structured_content
    said = structured(_Said, _object(given, "answer"), "an answer")
    try:
        return Once(said.payload) if said.confirmed else Reject(said.feedback)
    except ValueError as error:
        raise PendingError(f"not an answer: {error}") from None


@frozen
class _Said:
    """An answer as clients send it."""

    confirmed: bool
    payload: Any = None
    feedback: str | None = None


def _object(value: Any, what: str) -> dict[str, Any]:
    """An object, or its JSON text."""
    if isinstance(value, str | bytes):
        from pegboard.dispatch.approval.structured import parsed

        value = parsed(value, MOST_BYTES, f"an object ({what})")
    if not isinstance(value, Mapping):
        raise PendingError(f"{what}: must be an object, not {type(value).__name__}")
    return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
