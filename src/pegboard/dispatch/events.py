"""The life of a call as events: what a host shows, stores or sends on while calls run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, cast

import attrs
from attrs import field, frozen

from pegboard.tools.content import ErrorKind, ToolResult
from pegboard.typing import JsonMapping, JsonObject

if TYPE_CHECKING:
    from pegboard.dispatch.approval.pending import PendingCall

CallState: TypeAlias = Literal[
    "pending", "running", "updated", "completed", "failed", "refused", "aborted", "skipped", "suspended"
]


@frozen
class CallEvent:
    """Something that happened to one call.

    Attributes:
        call_id: The call's id.
        name: The tool's name as the model wrote it, or as it was repaired.
        time: When, in seconds since 1970 (UTC).
        index: The call's place in its batch, from 0.
    """

    state: ClassVar[CallState]

    call_id: str
    name: str
    time: float
    index: int = 0

    def to_json(self) -> JsonObject:
        """All facts by name, `"state"` among them; what JSON can't say is written as text."""
        data: JsonObject = {"state": self.state}
        for attribute in attrs.fields(type(self)):
            data[attribute.name] = _as_json(getattr(self, attribute.name))
        return data


@frozen
class CallPending(CallEvent):
    """The call was taken in.

    Attributes:
        arguments: As the model wrote them: JSON text, or a mapping.
    """

    state: ClassVar[CallState] = "pending"
    arguments: str | Mapping[str, Any] = field(factory=dict[str, Any])


@frozen
class CallRunning(CallEvent):
    """The tool was started.

    Attributes:
        arguments: As judged, and as approved.
    """

    state: ClassVar[CallState] = "running"
    arguments: Mapping[str, Any] = field(factory=dict[str, Any])


@frozen
class CallUpdated(CallEvent):
    """The call told something of itself on the way.

    Attributes:
        progress: Done so far, in units of `total`, or `None`.
        total: The whole, or `None`.
        message: What it is doing, or `None`.
        content: A partial result, or `None`.
        title: Its new heading, or `None`.
        metadata: Facts for the user interface.
        note: What the board did: `"repaired: ..."`, `"coerced: ..."`, `"retry 1: ..."`, or `None`.
    """

    state: ClassVar[CallState] = "updated"
    progress: float | None = None
    total: float | None = None
    message: str | None = None
    content: Any = None
    title: str | None = None
    metadata: Mapping[str, Any] = field(factory=dict[str, Any])
    note: str | None = None


@frozen
class CallEnded(CallEvent):
    """The call has its one result.

    Attributes:
        result: What the model gets.
        seconds: How long the call took from when it was taken in.
    """

    result: ToolResult = field(factory=ToolResult)
    seconds: float = 0.0


@frozen
class CallCompleted(CallEnded):
    """The tool, or a callback instead of it, gave a result; also a later one that replaces a pending one."""

    state: ClassVar[CallState] = "completed"


@frozen
class CallFailed(CallEnded):
    """The tool ran, and failed."""

    state: ClassVar[CallState] = "failed"


@frozen
class CallRefused(CallEnded):
    """The tool did not run: unknown, not offered, invalid, denied, rejected, over a limit, or nothing to run."""

    state: ClassVar[CallState] = "refused"


@frozen
class CallAborted(CallEnded):
    """The tool was interrupted."""

    state: ClassVar[CallState] = "aborted"


@frozen
class CallSkipped(CallEnded):
    """The tool was not started, because the turn had ended."""

    state: ClassVar[CallState] = "skipped"


@frozen
class CallSuspended(CallEnded):
    """The call waits for an answer that comes later.

    Attributes:
        pending: What has to be kept until then.
    """

    state: ClassVar[CallState] = "suspended"
    pending: PendingCall | None = None


_REFUSALS: Final[tuple[ErrorKind, ...]] = (
    "unknown_tool",
    "not_offered",
    "invalid_arguments",
    "denied",
    "rejected",
    "not_executed",
    "cut_off",
    "limit",
)
_ENDS: Final[dict[ErrorKind | None, type[CallEnded]]] = {
    **dict.fromkeys(_REFUSALS, CallRefused),
    "aborted": CallAborted,
    "skipped": CallSkipped,
    "confirmation_required": CallSuspended,
}


def ended(result: ToolResult) -> type[CallEnded]:
    """The kind of event that this result makes."""
    return _ENDS.get(result.kind, CallFailed) if result.is_error else CallCompleted


_STATES: Final[Mapping[str, type[CallEvent]]] = {
    each.state: each
    for each in (
        CallPending,
        CallRunning,
        CallUpdated,
        CallCompleted,
        CallFailed,
        CallRefused,
        CallAborted,
        CallSkipped,
        CallSuspended,
    )
}


def event_from_json(data: JsonMapping) -> CallEvent:
    """Reads what `CallEvent.to_json` writes.

    Raises:
        ValueError: It isn't an event.
    """
    kind = _STATES.get(data["state"]) if isinstance(data.get("state"), str) else None
    if kind is None:
        raise ValueError(f"not an event of a call: its state is {data.get('state')!r:.80}")
    names = {attribute.name for attribute in attrs.fields(kind)}
    facts = {name: _from_json(name, value) for name, value in data.items() if name in names}
    try:
        return kind(**facts)
    except TypeError as error:
        raise ValueError(f"not an event of a call: {error}") from None


def _as_json(value: Any) -> Any:
    if isinstance(value, ToolResult):
        return value.to_data()
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, MappingProxyType):
        value = dict(cast("Mapping[str, Any]", value))
    from pegboard.schema.dump import to_json_data

    try:
        return to_json_data(value)
    except (TypeError, ValueError):
        return repr(value)[:1000]


def _from_json(name: str, value: Any) -> Any:
    if name == "result":
        return ToolResult.from_data(value)
    if name == "pending" and value is not None:
        from pegboard.dispatch.approval.pending import PendingCall

        return PendingCall.from_json(value)
    return value
