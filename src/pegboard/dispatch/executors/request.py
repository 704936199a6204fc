"""`ExecutionRequest`: one call, as it travels to where it is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
from attrs import field, frozen

from pegboard.dispatch.executors.confirming import confirmation_from_json, confirmation_to_json
from pegboard.dispatch.executors.reading import FLAG, LIST, NOTHING, NUMBER, OBJECT, TEXT, WHOLE, Types, read
from pegboard.schema.json import json_faults
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.typing import JsonMapping, JsonObject


def _no_facts() -> dict[str, Any]:
    return {}


@frozen(kw_only=True)
class ExecutionRequest:
    """One call of a tool, with what an executor needs to run it somewhere else. All of it is JSON data.

    Attributes:
        tool: The tool's name.
        arguments: The judged arguments.
        call_id: The call's id.
        session: The conversation's id.
        work_dir: The folder that relative paths start from; the executor's own where it is `None`.
        user: Who asks.
        timeout: Seconds that the call may take; `None` is no limit.
        memory_limit: Bytes of memory that the call may use, where the executor can hold it to that; or `None`.
        expose_errors: Whether the text of unexpected exceptions may reach the model.
        agent: The agent's name.
        agent_description: What the agent is for.
        model: The model's name.
        provider: The model's provider.
        invocation: The id of the turn.
        message: The id of the model's message that holds the call.
        branch: Which agent called which.
        state: What the session knows, as far as JSON can say it.
        extra: Anything else from the host, as far as JSON can say it.
        values: What callbacks left for the tool, as far as JSON can say it.
        confirmation: What a person answered before the call was run again as JSON data, or `None`.
        approvals: What was allowed, as `PermissionRequired.approval` named it.
        depth: How many calls stand round this one.
    """

    tool: str
    arguments: Mapping[str, Any] = field(factory=_no_facts)
    call_id: str = ""
    session: str | None = None
    work_dir: str | None = None
    user: str | None = None
    timeout: float | None = None
    memory_limit: int | None = None
    expose_errors: bool = False
    agent: str | None = None
    agent_description: str | None = None
    model: str | None = None
    provider: str | None = None
    invocation: str | None = None
    message: str | None = None
    branch: str | None = None
    state: Mapping[str, Any] = field(factory=_no_facts, repr=False)
    extra: Mapping[str, Any] = field(factory=_no_facts, repr=False)
    values: Mapping[str, Any] = field(factory=_no_facts, repr=False)
    confirmation: Mapping[str, Any] | None = None
    approvals: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    depth: int = 0

    def evolve(self, **changes: Any) -> ExecutionRequest:
        """A request with some facts changed."""
        return attrs.evolve(self, **changes)

    def to_json(self) -> JsonObject:
        """The facts that say something, by their names here."""
        data: JsonObject = {"tool": self.tool}
        for name in _EMPTY_BY_DEFAULT:
            if fact := getattr(self, name):
                data[name] = fact
        for name in _UNKNOWN_BY_DEFAULT:
            if (fact := getattr(self, name)) is not None:
                data[name] = fact
        if self.approvals:
            data["approvals"] = list(self.approvals)
        return data

    @classmethod
    def from_json(cls, data: JsonMapping) -> ExecutionRequest:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: `tool` is missing, or something is of the wrong type; names it.
        """
        facts = read(data, _TYPES, "tool")
        if not all(isinstance(approval, str) for approval in facts.get("approvals", ())):
            raise ValueError("approvals: expected a list of texts")
        return cls(**facts)

    def context(self, **facts: Any) -> ToolContext:
        """The context of the call, as far as the request tells it.

        Args:
            facts: What else it has: `listener`, `host`, `services`, `deadline`.

        Raises:
            ValueError: The confirmation is none.
        """
        request = ReadonlyContext(**{name: getattr(self, name) for name in _OF_THE_REQUEST})
        asked = self.confirmation
        return ToolContext(
            request,
            self.call_id,
            self.tool,
            values=dict(self.values),
            confirmation=None if asked is None else confirmation_from_json(asked),
            depth=self.depth,
            **facts,
        )


def request_for(tool: str, arguments: Mapping[str, Any], context: ToolContext, **facts: Any) -> ExecutionRequest:
    """The request for one call.

    Args:
        tool: The tool's name.
        arguments: The judged arguments.
        context: The call's.
        facts: The other facts of the request: `timeout`, `memory_limit`, `expose_errors`, `approvals`.
    """
    known = {name: getattr(context.request, name) for name in _OF_THE_REQUEST if name not in _SAID_IN_PART}
    asked = context.confirmation
    return ExecutionRequest(
        tool=tool,
        arguments=arguments if isinstance(arguments, dict) else dict(arguments),
        call_id=context.call_id,
        state=sayable(context.request.state),
        extra=sayable(context.extra),
        values=sayable(context.values),
        confirmation=None if asked is None else confirmation_to_json(asked),
        depth=context.depth,
        **known,
        **facts,
    )


def sayable(facts: Mapping[str, Any]) -> JsonObject:
    """The facts that are JSON; a host keeps other things beside them, which stay where they are."""
    return {name: fact for name, fact in facts.items() if not json_faults({name: fact})} if facts else {}


_SAID_IN_PART: Final = ("state", "extra")
_OF_THE_REQUEST: Final = (
    "user",
    "agent",
    "model",
    "provider",
    "session",
    "state",
    "extra",
    "agent_description",
    "invocation",
    "message",
    "branch",
    "work_dir",
)
_TEXTS: Final = (
    "session",
    "work_dir",
    "user",
    "agent",
    "agent_description",
    "model",
    "provider",
    "invocation",
    "message",
    "branch",
)
_TYPES: Final[Mapping[str, Types]] = {
    "tool": TEXT,
    "arguments": OBJECT,
    "call_id": TEXT,
    **dict.fromkeys(_TEXTS, TEXT + NOTHING),
    "timeout": NUMBER + NOTHING,
    "memory_limit": WHOLE + NOTHING,
    "expose_errors": FLAG,
    "state": OBJECT,
    "extra": OBJECT,
    "values": OBJECT,
    "confirmation": OBJECT + NOTHING,
    "approvals": LIST,
    "depth": WHOLE,
}
_EMPTY_BY_DEFAULT: Final = ("arguments", "call_id", "expose_errors", "state", "extra", "values", "depth")
_UNKNOWN_BY_DEFAULT: Final = tuple(name for name, types in _TYPES.items() if types[-1:] == NOTHING)
