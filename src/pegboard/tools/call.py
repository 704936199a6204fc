"""`ToolCall`; session state with a call's changes; `Actions` for the host; `Confirmation` by a person."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, cast

import attrs
from attrs import field

from pegboard.errors import instance_of, tuple_of
from pegboard.json import MAX_DEPTH, MAX_VALUES, is_object, json_problems, plain_copy, problem, strict_json
from pegboard.schema.converter import ALWAYS, JsonRecord, json_key, read_record
from pegboard.tools.content import ErrorKind, ToolResult, encodable_text
from pegboard.typing import JsonObject, define, frozen


@frozen
class CallFault(JsonRecord):
    """The reason why a call can't run.

    Attributes:
        kind: The kind of the error result that the call gets.
        text: For the model: what is wrong, and what to do.
        problems: For invalid arguments: `"path: reason"` each.
    """

    kind: ErrorKind
    text: str
    problems: tuple[str, ...] = ()


class CallError(Exception):
    """Aborts a call: it gets an error result with the reason, unless a callback recovers.

    Attributes:
        kind: The kind of the error result.
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


@frozen(slots=False)  # with slots, each unset attribute would cost 35 ns a call instead of 10
class ToolCall(JsonRecord):
    """One call of a tool, as a model made it.

    Attributes:
        name: The tool's name as the model wrote it.
        arguments: The arguments as JSON text or as a mapping.
        id: The id that the answer refers to; `""` if no answer is expected.
        title: A short heading for people, or `None`.
        dynamic: Whether the tool came from a toolset, and so may be different or gone at the next request.
        error: Why the call can't run: dispatch returns it as the result. `None` if no reason is known.
        provider_executed: Whether the model's provider has run the call itself; it is never run here.
        provider_metadata: Opaque data that is sent back to the provider with the call's result.
    """

    name: str
    arguments: str | bytes | Mapping[str, Any] = field(factory=cast("type[dict[str, Any]]", dict))
    id: str = ""
    title: str | None = None
    dynamic: bool = False
    error: CallFault | None = None
    provider_executed: bool = False
    provider_metadata: Any = None

    @property
    def invalid(self) -> bool:
        """Whether the call is known not to run; `error` has the reason."""
        return self.error is not None

    def to_json(self) -> JsonObject:
        """`{"id", "name", "arguments"}`, arguments as an object or as text, and other keys that are set.

        Those are `title`, `dynamic`, `error` (`{"kind", "text", "problems"}`), `providerExecuted` and
        `providerMetadata`. Characters that UTF-8 can't encode are escaped in arguments, so that invalid JSON stays
        invalid; elsewhere they become U+FFFD.
        """
        given = self.arguments
        if isinstance(given, str):
            given = given.encode(errors="backslashreplace")
        arguments = dict(given) if isinstance(given, Mapping) else given.decode(errors="backslashreplace")
        return {"id": encodable_text(self.id), **super().to_json(), "arguments": arguments}


_INVALID: Final = "INVALID_JSON"  # the key of arguments that weren't a JSON object
_MOST_INVALID: Final = 2_000  # characters of invalid arguments that are sent: enough for the model to see the fault


def arguments_object(call: ToolCall) -> JsonObject:
    """A call's arguments as a JSON object, also if encoded twice; invalid ones as text under `INVALID_JSON`.

    Never raises.
    """
    given = call.arguments
    if isinstance(given, Mapping):
        with suppress(Exception):  # a host's mapping may raise anything
            copy = dict(given)
            if not json_problems(copy):
                return copy
        return {_INVALID: "arguments that aren't JSON"}
    text = given.decode(errors="backslashreplace") if isinstance(given, bytes) else encodable_text(given)
    parsed = parsed_object(text)
    if parsed is None and text.lstrip().startswith('"'):  # encoded twice: with `coerce`, the call ran with the object
        with suppress(ValueError):
            inner: Any = strict_json(text.encode())
            parsed = parsed_object(inner) if inner.lstrip().startswith("{") else None
    cut = text if len(text) <= _MOST_INVALID else f"{text[:_MOST_INVALID]} … ({len(text):,} characters)"
    return {_INVALID: cut} if parsed is None else parsed


def parsed_object(text: str) -> JsonObject | None:
    """Parses a JSON object; an empty one for blank text and `null`, `None` for anything else. Never raises.

    As strict as the validation of calls: no duplicate keys, NaN or infinities.
    """
    try:
        value: Any = strict_json(text.encode()) if text.strip() else None
    except ValueError:
        return None
    if value is None:
        return {}
    return value if is_object(value) and not json_problems(value) else None


class _Removed(enum.Enum):
    REMOVED = "removed"

    def __repr__(self) -> str:
        return self.name


REMOVED: Final = _Removed.REMOVED
"""Marks a removed key in a state delta."""

TEMPORARY: Final = "temp:"  # prefix of the keys that last for the turn only, and are never part of the delta
_ABSENT: Final = object()
_CONTAINERS: Final = (dict, list, tuple, set)


@frozen
class Actions(JsonRecord):
    """Actions that calls request from their host besides their results; the host decides whether to apply them.

    Attributes:
        state_delta: The changes of the session's state: key -> JSON value, or `REMOVED`.
        artifact_delta: The saved artifacts: name -> latest version.
        transfer_to: The name of the agent to continue with, or `None`.
        escalate: Whether the parent agent continues.
        skip_summarization: Whether the results are shown as they are, without a summary by the model.
        conflicts: The parts of the state that more than one call changed (`"plan"`, `"plan.owner"`), sorted; the last
            call's value is used.
        temporary: As `state_delta`, for the keys that begin with `temp:`; for the turn, never for the host.
    """

    state_delta: Mapping[str, Any] = field(factory=dict[str, Any])
    artifact_delta: Mapping[str, int] = field(factory=dict[str, int])
    transfer_to: str | None = None
    escalate: bool = False
    skip_summarization: bool = False
    conflicts: tuple[str, ...] = ()
    temporary: Mapping[str, Any] = field(factory=dict[str, Any], eq=False, repr=False, metadata=json_key(""))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is requested."""
        return attrs.evolve(self, conflicts=()) == Actions()

    def apply_to(self, state: MutableMapping[str, Any]) -> None:
        """Applies the changes to a session's state."""
        for key, value in self.state_delta.items():
            if value is REMOVED:
                state.pop(key, None)
            else:
                state[key] = value

    def to_json(self) -> JsonObject:
        """The attributes that aren't empty; removed keys are listed in `stateRemoved`."""
        changed = {key: value for key, value in self.state_delta.items() if value is not REMOVED}
        removed = [key for key, value in self.state_delta.items() if value is REMOVED]
        data = JsonRecord.to_json(attrs.evolve(self, state_delta=changed))
        return {**data, "stateRemoved": removed} if removed else data

    @classmethod
    def from_json(cls, data: Any) -> Actions:
        """Reads what `to_json` writes, from an untrusted source; other keys are ignored.

        Raises:
            ValueError: Something is of the wrong type; the message has its path.
        """
        read = read_record(_WrittenActions, data, "actions")
        if faults := json_problems(read.state_delta):
            raise ValueError(f"stateDelta: {'; '.join(faults)}")
        for name, version in cast("Mapping[object, object]", read.artifact_delta).items():
            if type(name) is not str or type(version) is not int:
                path = ("artifactDelta", f"{name}")
                raise ValueError(problem(path, f"must be a version number, got {version!r:.80}"))
        facts: dict[str, Any] = {each.name: getattr(read, each.name) for each in attrs.fields(cls)}
        facts["state_delta"] = {**read.state_delta, **dict.fromkeys(read.state_removed, REMOVED)}
        return cls(**facts)


@frozen
class _WrittenActions(Actions):
    """Actions in their JSON form, which has no `REMOVED`."""

    state_removed: tuple[str, ...] = ()


def merge_actions(actions: Iterable[Actions], base: Mapping[str, Any] | None = None) -> Actions:
    """The combined actions of several calls.

    The result depends on the order in which the calls were made, not on the order in which they ended. Changes of the
    same dict are merged key by key; of other values that several changed, and of the agents to continue with, the last
    call's is used; of an artifact, the latest version.

    Args:
        actions: Of each call, in call order.
        base: The state at the start of the calls, if known: equal values then don't count as changes.
    """
    parts = tuple(actions)
    state: dict[str, Any] = {}
    conflicts = {path for part in parts for path in part.conflicts}
    artifacts: dict[str, int] = {}
    for part in parts:
        for key, value in {**part.state_delta, **part.temporary}.items():
            before = _ABSENT if base is None else base.get(key, REMOVED)
            state[key] = _merge(before, state[key], value, key, conflicts) if key in state else value
        for name, version in part.artifact_delta.items():
            artifacts[name] = max(version, artifacts.get(name, version))
    return Actions(
        {key: value for key, value in state.items() if not key.startswith(TEMPORARY)},
        artifacts,
        next((part.transfer_to for part in reversed(parts) if part.transfer_to is not None), None),
        any(part.escalate for part in parts),
        any(part.skip_summarization for part in parts),
        tuple(sorted(conflicts)),
        {key: value for key, value in state.items() if key.startswith(TEMPORARY)},
    )


def _merge(base: Any, one: Any, other: Any, path: str, conflicts: set[str]) -> Any:
    """The merged value of two calls' changes, `other` the later; `REMOVED`: no value, `_ABSENT`: an unknown base."""
    if _is_same(one, base) or _is_same(other, base):
        return other if _is_same(one, base) else one
    if not (is_object(one) and is_object(other)):
        conflicts.add(path)
        return other
    both: JsonObject = {}
    for key in {**one, **other}:
        before = base.get(key, REMOVED) if is_object(base) else REMOVED
        both[key] = _merge(before, one.get(key, REMOVED), other.get(key, REMOVED), f"{path}.{key}", conflicts)
    return {key: value for key, value in both.items() if value is not REMOVED}


class State(MutableMapping[str, Any]):
    """Session state with the changes of this call: a copy-on-read overlay.

    It behaves as a deep copy of the session's state, which itself isn't changed: the changes are in `delta`. A list or
    dict may be changed in place; it is copied when it is read, and compared for the delta. Parallel calls don't see
    each other's changes.

    Values are JSON. Other values in the session's state (objects of the host) are returned as they are.

    Args:
        base: The session's state; only read.
    """

    __slots__ = ("_base", "_original", "_values", "_written")

    def __init__(self, base: Mapping[str, Any]) -> None:
        self._base = base
        self._original: dict[str, Any] = {}  # copies to compare with: the host may change its own values
        self._values: dict[str, Any] = {}  # what was written, and copies of the containers that were read
        self._written: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        if key not in self._values:
            value = self._base[key]
            if not isinstance(value, _CONTAINERS):
                return value
            self._original[key], self._values[key] = _copy(value), _copy(value)
        if (value := self._values[key]) is REMOVED:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        """Stores the value; raises `ValueError` if it isn't JSON, or the key isn't a string."""
        if faults := _faults(key, value):
            raise ValueError("; ".join(faults))
        self._values[key] = value
        self._written.add(key)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._values[key] = REMOVED
        self._written.add(key)

    def __contains__(self, key: object) -> bool:
        return self._values.get(cast("str", key)) is not REMOVED and (key in self._values or key in self._base)

    def __iter__(self) -> Iterator[str]:
        return (key for key in {**dict.fromkeys(self._base), **self._values} if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"State({dict(self)})"

    @property
    def delta(self) -> dict[str, Any]:
        """The changes so far: key -> a copy of the value, or `REMOVED`.

        Includes a key that was set to an equal value. Excludes values that aren't JSON after a change in place (see
        `faults`), and keys that begin with `temp:`.
        """
        return self._json_changes(temporary=False)

    @property
    def temporary(self) -> dict[str, Any]:
        """The changes of keys that begin with `temp:`, which last for the turn."""
        return self._json_changes(temporary=True)

    @property
    def faults(self) -> tuple[str, ...]:
        """The values that aren't JSON after a change in place, as `"path: reason"`."""
        changes = self._changes().items()
        return tuple(fault for key, value in changes if value is not REMOVED for fault in _faults(key, value))

    def _changes(self) -> dict[str, Any]:
        values, written, original = self._values, self._written, self._original
        return {key: value for key, value in values.items() if key in written or not _is_same(value, original[key])}

    def _json_changes(self, *, temporary: bool) -> dict[str, Any]:
        return {
            key: value if value is REMOVED else plain_copy(value, MAX_DEPTH, [MAX_VALUES])
            for key, value in self._changes().items()
            if key.startswith(TEMPORARY) is temporary and (value is REMOVED or not _faults(key, value))
        }


def _copy(value: Any) -> Any:
    if is_object(value):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_copy(item) for item in cast("list[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    return set(cast("set[Any]", value)) if isinstance(value, set) else value


def _is_same(value: Any, other: Any) -> bool:
    """Strict equality: `1`, `1.0` and `True` differ."""
    if is_object(value):
        is_alike = is_object(other) and value.keys() == other.keys()
        return is_alike and all(_is_same(value[key], other[key]) for key in value)
    if isinstance(value, list | tuple):
        items, others = cast("list[Any]", value), cast("list[Any]", other)
        return isinstance(other, list | tuple) and len(items) == len(others) and all(map(_is_same, items, others))
    return value is other or (type(value) is type(other) and value == other)


def _faults(key: Any, value: Any) -> tuple[str, ...]:
    return json_problems({"state": {key: value}})


class StateView(Mapping[str, Any]):
    """Read-only live view of a session's state; lists and dicts are returned as copies."""

    __slots__ = ("_state",)

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._state: Mapping[str, Any] = state._state if isinstance(state, StateView) else state  # noqa: SLF001  of this class

    def __getitem__(self, key: str) -> Any:
        return _copy(self._state[key])

    def __contains__(self, key: object) -> bool:
        return key in self._state

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)

    def __repr__(self) -> str:
        return repr(self._state)


_TEXT: Final = instance_of(str, type(None))


@define(eq=False)
class PendingActions:
    """Actions that a running call has requested so far; its tool and its callbacks add to it.

    Attributes that aren't listed are those of `Actions`.
    """

    state: State = field(converter=State)  # made from the session's state; has the call's changes
    artifact_delta: dict[str, int] = field(factory=dict[str, int])
    transfer_to: str | None = field(default=None, validator=_TEXT)
    escalate: bool = field(default=False, validator=instance_of(bool))
    skip_summarization: bool = field(default=False, validator=instance_of(bool))
    title: str | None = field(default=None, validator=_TEXT)  # a short heading for people, or `None`
    facts: dict[str, Any] = field(factory=dict[str, Any])  # for the user interface; never sent to the model

    @property
    def state_delta(self) -> Mapping[str, Any]:
        """The changes of `state`: key -> JSON value, or `REMOVED`. Read-only: change `state` itself."""
        return MappingProxyType(self.state.delta)

    @property
    def actions(self) -> Actions:
        """The actions so far, as a snapshot."""
        others = (dict(self.artifact_delta), self.transfer_to, self.escalate, self.skip_summarization)
        return Actions(self.state.delta, *others, temporary=self.state.temporary)

    def add(self, actions: Actions, state: State | None = None) -> None:
        """Adds the actions of a nested call, or of this call in another process.

        `state` is that call's state: its changes of a dict are merged with those made here since that call read it.
        """
        read = {} if state is None else state._original  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        for key, changed in {**actions.state_delta, **actions.temporary}.items():
            value = _merge(read[key], self.state.get(key, REMOVED), changed, key, set()) if key in read else changed
            if value is not REMOVED:
                self.state[key] = value
            elif key in self.state:
                del self.state[key]
        for name, version in actions.artifact_delta.items():
            self.saved(name, version)
        if actions.transfer_to is not None:
            self.transfer_to = actions.transfer_to
        self.escalate = self.escalate or actions.escalate
        self.skip_summarization = self.skip_summarization or actions.skip_summarization

    def saved(self, name: str, version: int) -> None:
        """Records an artifact's version."""
        self.artifact_delta[name] = max(version, self.artifact_delta.get(name, version))

    def show(self, title: str | None, facts: Mapping[str, Any]) -> None:
        """Sets the heading, if given, and updates the facts."""
        if title is not None:
            self.title = title
        self.facts.update(facts)


_MOST_EARLIER: Final = 32  # answers that one call can collect over several turns


@frozen
class Confirmation(JsonRecord):
    """Confirmation by a person: the answer to a question.

    Attributes:
        hint: The question.
        confirmed: Whether the answer is yes.
        payload: JSON data: the question's own, perhaps edited by the person.
        feedback: The person's comment, or `None`.
        permission: The requested permission, or `None` for another question.
        patterns: The patterns that the permission was requested for.
        earlier: Earlier answers to the same call, the latest first.
        stored: The data that the call stored for this run when it was suspended.
    """

    hint: str = ""
    confirmed: bool = field(default=False, metadata=ALWAYS)
    payload: Any = None
    feedback: str | None = None
    permission: str | None = None
    patterns: tuple[str, ...] = field(default=(), converter=tuple_of("patterns", str))
    earlier: tuple[Confirmation, ...] = field(default=(), repr=False)
    stored: Any = field(default=None, repr=False, metadata=json_key("kept"))

    def to_question(self, hint: str) -> Confirmation | None:
        """The latest answer to exactly this question, or `None`."""
        return next((one for one in self._all() if one.permission is None and one.hint == hint and hint), None)

    def to_permission(self, permission: str, patterns: Sequence[str]) -> Confirmation | None:
        """The latest answer for this permission and all of these patterns, or `None`."""
        wanted = frozenset(patterns)
        return next((one for one in self._all() if one.permission == permission and wanted <= {*one.patterns}), None)

    def after(self, earlier: Sequence[Confirmation]) -> Confirmation:
        """The same with earlier answers, of which the latest 32 are used."""
        return attrs.evolve(self, earlier=tuple(earlier)[:_MOST_EARLIER])

    def history(self) -> tuple[Confirmation, ...]:
        """This answer and those before it, each by itself, the latest first."""
        return tuple(attrs.evolve(one, earlier=(), stored=None) for one in self._all())

    def to_json(self) -> JsonObject:
        """The attributes that aren't empty, except `stored` and `earlier`."""
        return attrs.evolve(self, earlier=(), stored=None).to_data()

    def to_data(self) -> JsonObject:
        """`to_json` with `stored`, as `kept`, and `earlier`; for other processes."""
        return super().to_json()

    @classmethod
    def from_data(cls, data: Any) -> Confirmation:
        """Reads what `to_data` writes, from an untrusted source; other keys are ignored.

        Raises:
            ValueError: `hint` or `confirmed` is missing, or something is of the wrong type; the message has its path.
        """
        confirmation = cls.from_json(data)
        for name in ("hint", "confirmed"):
            if name not in data:
                raise ValueError(f"{name}: missing")
        return confirmation

    def _all(self) -> Iterator[Confirmation]:
        yield self
        yield from self.earlier
