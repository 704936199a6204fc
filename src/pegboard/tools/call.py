"""`ToolCall`, what the model asks for; `Actions` and `Confirmation`, what a result asks for beside its content."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final, cast

import attrs
from attrs import field, frozen

from pegboard.schema.converter import json_key, read_record
from pegboard.schema.json import json_faults, problem
from pegboard.tools.content import ErrorKind, ToolResult, writable
from pegboard.typing import JsonMapping, JsonObject


@frozen
class CallFault:
    """Fault of a call: why it can't run.

    Attributes:
        kind: As the kind of the error result that the call gets.
        text: For the model: what is wrong, and what to do.
        problems: For invalid arguments: `"path: reason"` each.
    """

    kind: ErrorKind
    text: str
    problems: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        """`{"kind", "text"}`, and `"problems"` where there are any."""
        data: JsonObject = {"kind": self.kind, "text": writable(self.text)}
        if self.problems:
            data["problems"] = [writable(problem) for problem in self.problems]
        return data

    @classmethod
    def from_json(cls, data: JsonMapping) -> CallFault:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: Something is missing, or of the wrong type, named by its key.
        """
        return read_record(cls, data, "error")


class CallError(Exception):
    """Ends the way forward of one call: an error result with the reason, unless a callback recovers.

    Attributes:
        kind: Why.
        text: For the model: what happened, and what to do.
        detail: For the operator, or `None`.
        problems: For invalid arguments: `"path: reason"` each.
    """

    def __init__(
        self, kind: ErrorKind, text: str, *, detail: str | None = None, problems: tuple[str, ...] = ()
    ) -> None:
        self.kind: ErrorKind = kind
        self.text = text
        self.detail = detail
        self.problems = problems
        super().__init__(text)

    def result(self) -> ToolResult:
        """The error result that this error becomes."""
        return ToolResult.error(self.kind, self.text, detail=self.detail)


def _no_arguments() -> dict[str, Any]:
    return {}  # four times as fast as dict[str, Any]()


@frozen(slots=False)  # with slots, each attribute that is left unset would cost 35 ns a call, not 10
class ToolCall:
    """One call of a tool, as a model made it.

    Attributes:
        name: The tool's name as the model wrote it.
        arguments: The arguments as JSON text or as a mapping.
        id: What the answer refers to; `""` where no answer is expected.
        title: A short heading for people, or `None`.
        dynamic: Whether the tool came from a toolset, and so may be another one, or none, at the next request.
        error: Why the call can't run: dispatch answers with it. `None` where nothing is known against the call.
        provider_executed: Whether the model's provider has run the call itself; it is never run here.
        provider_metadata: What the provider wants to have back with the call's result. Never looked into.
    """

    name: str
    arguments: str | bytes | Mapping[str, Any] = field(factory=_no_arguments)
    id: str = ""
    title: str | None = None
    dynamic: bool = False
    error: CallFault | None = None
    provider_executed: bool = field(default=False, metadata=json_key("providerExecuted"))
    provider_metadata: Any = field(default=None, metadata=json_key("providerMetadata"))

    @property
    def invalid(self) -> bool:
        """Whether it is known that the call can't run; `error` is why."""
        return self.error is not None

    def to_json(self) -> JsonObject:
        """`{"id", "name", "arguments"}`, arguments as an object or as text, and what else is set.

        The other keys: `title`, `dynamic`, `error` (`{"kind", "text", "problems"}`), `providerExecuted`,
        `providerMetadata`. What UTF-8 can't say is escaped in arguments, so that text which was no JSON stays none;
        elsewhere it becomes U+FFFD.
        """
        data: JsonObject = {"id": writable(self.id), "name": writable(self.name), "arguments": _written(self.arguments)}
        if self.title is not None:
            data["title"] = writable(self.title)
        if self.dynamic:
            data["dynamic"] = True
        if self.error is not None:
            data["error"] = self.error.to_json()
        if self.provider_executed:
            data["providerExecuted"] = True
        if self.provider_metadata is not None:
            data["providerMetadata"] = self.provider_metadata
        return data

    @classmethod
    def from_json(cls, data: JsonMapping) -> ToolCall:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Only `name` has to be there.

        Raises:
            ValueError: Something of the wrong type, named by its key.
        """
        return read_record(cls, data, "call")


def _written(arguments: str | bytes | Mapping[str, Any]) -> Any:
    if isinstance(arguments, bytes):
        return arguments.decode(errors="backslashreplace")
    if isinstance(arguments, str):
        return arguments.encode(errors="backslashreplace").decode()
    return dict(arguments)


class _Removed(enum.Enum):
    REMOVED = "removed"

    def __repr__(self) -> str:
        return self.name


REMOVED: Final = _Removed.REMOVED
"""Stands in a state delta for a key that was removed."""


@frozen
class Actions:
    """Actions that calls ask of their host beside their results; the host carries them out, or doesn't.

    Attributes:
        state_delta: What changes in the session's state: key -> JSON value, or `REMOVED`.
        artifact_delta: The artifacts that were saved: name -> latest version.
        transfer_to: The name of the agent that shall go on, or `None`.
        escalate: Whether the agent above shall go on.
        skip_summarization: Whether the results speak for themselves, and the model needn't sum them up.
        conflicts: The keys of the state that more than one call changed, sorted; the last call's value stands.
    """

    state_delta: Mapping[str, Any] = field(factory=dict[str, Any])
    artifact_delta: Mapping[str, int] = field(factory=dict[str, int])
    transfer_to: str | None = None
    escalate: bool = False
    skip_summarization: bool = False
    conflicts: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for."""
        return attrs.evolve(self, conflicts=()) == _NO_ACTIONS

    def apply_to(self, state: MutableMapping[str, Any]) -> None:
        """Changes a session's state as the calls ask for."""
        for key, value in self.state_delta.items():
            if value is REMOVED:
                state.pop(key, None)
            else:
                state[key] = value

    def to_json(self) -> JsonObject:
        """The attributes that say something; the keys that were removed stand in `state_removed`."""
        facts = {
            "state_delta": {key: value for key, value in self.state_delta.items() if value is not REMOVED},
            "state_removed": [key for key, value in self.state_delta.items() if value is REMOVED],
            "artifact_delta": dict(self.artifact_delta),
            "transfer_to": self.transfer_to,
            "escalate": self.escalate,
            "skip_summarization": self.skip_summarization,
            "conflicts": list(self.conflicts),
        }
        return {name: fact for name, fact in facts.items() if fact}

    @classmethod
    def from_json(cls, data: JsonMapping) -> Actions:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: Something is of the wrong type; names it.
        """
        read = read_record(_WrittenActions, data, "actions")
        if faults := json_faults(read.state_delta):
            raise ValueError(f"state_delta: {'; '.join(faults)}")
        for name, version in cast("Mapping[object, object]", read.artifact_delta).items():
            if type(name) is not str or type(version) is not int:
                path = ("artifact_delta", f"{name}")
                raise ValueError(problem(path, f"must be a version number, got {version!r:.80}"))
        facts: dict[str, Any] = {each.name: getattr(read, each.name) for each in attrs.fields(cls)}
        facts["state_delta"] = {**read.state_delta, **dict.fromkeys(read.state_removed, REMOVED)}
        return cls(**facts)


_NO_ACTIONS: Final = Actions()


@frozen
class _WrittenActions(Actions):
    """As they stand in JSON, which has no `REMOVED`."""

    state_removed: tuple[str, ...] = ()


def merged(actions: Iterable[Actions]) -> Actions:
    """What several calls ask for together.

    It depends on the order in which the calls were made, never on the order in which they ended. Of a key that
    several changed, and of the agents to go on, the last call's stands; of an artifact, the latest version.

    Args:
        actions: Of each call, in call order.
    """
    parts = tuple(actions)
    state: dict[str, Any] = {}
    artifacts: dict[str, int] = {}
    transfer_to = None
    for part in parts:
        state.update(part.state_delta)
        for name, version in part.artifact_delta.items():
            artifacts[name] = max(version, artifacts.get(name, version))
        transfer_to = transfer_to if part.transfer_to is None else part.transfer_to
    changes = Counter(key for part in parts for key in part.state_delta)
    several = {key for key, times in changes.items() if times > 1}
    return Actions(
        state,
        artifacts,
        transfer_to,
        any(part.escalate for part in parts),
        any(part.skip_summarization for part in parts),
        tuple(sorted(several.union(*(part.conflicts for part in parts)))),
    )


MOST_EARLIER: Final = 32  # answers that one call can collect over several turns


@frozen
class Confirmation:
    """Confirmation by a person: the answer to a question.

    Attributes:
        hint: The question.
        confirmed: Whether the answer is yes.
        payload: JSON data: the question's own, or what the person made of it.
        feedback: The person's words beside it, or `None`.
        permission: What was asked for, where it was a permission; else `None`.
        patterns: What the permission was asked for.
        earlier: What was answered before to the same call, the latest first.
    """

    hint: str = ""
    confirmed: bool = False
    payload: Any = None
    feedback: str | None = None
    permission: str | None = None
    patterns: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    earlier: tuple[Confirmation, ...] = field(default=(), repr=False)

    def to_question(self, hint: str) -> Confirmation | None:
        """The latest answer to exactly this question, or `None`: an answer to another doesn't count."""
        return next((one for one in self._all() if one.permission is None and one.hint == hint and hint), None)

    def to_permission(self, permission: str, patterns: Sequence[str]) -> Confirmation | None:
        """The latest answer that was given for this permission and all of these patterns, or `None`."""
        wanted = frozenset(patterns)
        return next((one for one in self._all() if one.permission == permission and wanted <= {*one.patterns}), None)

    def after(self, earlier: Sequence[Confirmation]) -> Confirmation:
        """The same, knowing what was answered before; the oldest of more than 32 are dropped."""
        return attrs.evolve(self, earlier=tuple(earlier)[:MOST_EARLIER])

    def history(self) -> tuple[Confirmation, ...]:
        """This answer and those before it, each by itself, the latest first."""
        return tuple(attrs.evolve(one, earlier=()) for one in self._all())

    def to_json(self) -> JsonObject:
        """All facts by name, but what was answered before; those that say nothing are left out."""
        facts: JsonObject = {"hint": self.hint, "confirmed": self.confirmed}
        optional = {"payload": self.payload, "feedback": self.feedback, "permission": self.permission}
        facts.update({name: value for name, value in optional.items() if value is not None})
        if self.patterns:
            facts["patterns"] = list(self.patterns)
        return facts

    def to_data(self) -> JsonObject:
        """`to_json`, and the answers before it as `"earlier"`; for other processes."""
        data = self.to_json()
        if self.earlier:
            data["earlier"] = [one.to_json() for one in self.earlier]
        return data

    @classmethod
    def from_data(cls, data: JsonMapping) -> Confirmation:
        """Reads what `to_data` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: `hint` or `confirmed` is missing, or something is of the wrong type; names it.
        """
        confirmation = read_record(cls, data, "confirmation")
        for name in ("hint", "confirmed"):
            if name not in data:
                raise ValueError(f"{name}: missing")
        return confirmation

    def _all(self) -> Iterator[Confirmation]:
        yield self
        yield from self.earlier


__all__ = ["REMOVED", "Actions", "CallFault", "ToolCall", "merged", "writable"]
