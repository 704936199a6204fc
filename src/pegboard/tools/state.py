"""Session state, and what a tool has set for its result: `State`, `PendingActions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, Final, Protocol, cast

from attrs import define, field
from attrs.validators import instance_of, optional

from pegboard.schema.json import json_faults
from pegboard.tools.call import REMOVED, Actions

TEMPORARY: Final = "temp:"
"""What a key begins with whose value ends with the call: it is never part of the delta."""

_ABSENT: Final = object()


class State(MutableMapping[str, Any]):
    """What the session knows, and what this call has made of it.

    It reads and writes as a deep copy of the session's state would, and the session's own stays as it was: what was
    changed is the `delta`. A list or dict that was read may be changed in place; it is copied when it is read, and
    compared when the delta is asked for. Parallel calls don't see each other's changes.

    Values are JSON. What the session's state holds beside that (an object of the host's) is handed out as it is.

    Args:
        base: The session's state; only read.
    """

    __slots__ = ("_base", "_original", "_read", "_written")

    def __init__(self, base: Mapping[str, Any]) -> None:
        self._base = base
        self._read: dict[str, Any] = {}
        self._original: dict[str, Any] = {}  # what was read, as it was: the host may change its own meanwhile
        self._written: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        value = self._written.get(key, _ABSENT)
        if value is REMOVED:
            raise KeyError(key)
        if value is _ABSENT:
            value = self._read.get(key, _ABSENT)
        return self._from_base(key) if value is _ABSENT else value

    def _from_base(self, key: str) -> Any:
        value = self._base[key]
        if isinstance(value, _CONTAINERS):
            self._original[key] = _copied(value)
            value = self._read[key] = _copied(value)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        """Keeps the value.

        Raises:
            ValueError: It isn't JSON, or the key isn't a text; names the place.
        """
        faults = _faults(key, value)
        if faults:
            raise ValueError("; ".join(faults))
        self._written[key] = value

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._written[key] = REMOVED

    def __contains__(self, key: object) -> bool:
        value = self._written.get(cast("str", key), _ABSENT)
        return key in self._base if value is _ABSENT else value is not REMOVED

    def __iter__(self) -> Iterator[str]:
        for key in self._base:
            if self._written.get(key) is not REMOVED:
                yield key
        for key, value in self._written.items():
            if value is not REMOVED and key not in self._base:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"State({dict(self)})"

    @property
    def delta(self) -> dict[str, Any]:
        """What has changed up to now: key -> a copy of the value, or `REMOVED`.

        A key that was set is in it even if its value is what it was. What was changed in place into something that
        isn't JSON is left out (see `faults`), and so is every key that begins with `temp:`.
        """
        changes = self._changes()
        return {key: _as_json(value) for key, value in changes.items() if value is REMOVED or not _faults(key, value)}

    @property
    def faults(self) -> tuple[str, ...]:
        """What was changed in place into something that isn't JSON, as `"path: reason"`."""
        changes = self._changes().items()
        return tuple(fault for key, value in changes if value is not REMOVED for fault in _faults(key, value))

    def _changes(self) -> dict[str, Any]:
        read = {key: value for key, value in self._read.items() if not _is_same(value, self._original[key])}
        return {key: value for key, value in {**read, **self._written}.items() if not key.startswith(TEMPORARY)}


_CONTAINERS: Final = (dict, list, tuple, set)


def _copied(value: Any) -> Any:
    """A copy, as deep as containers go."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_copied(item) for item in cast("list[Any]", value)]
    if isinstance(value, tuple):
        return tuple(_copied(item) for item in cast("tuple[Any, ...]", value))
    return set(cast("set[Any]", value)) if isinstance(value, set) else value


def _is_same(value: Any, other: Any) -> bool:
    """Whether a copy still says what it was copied from; `1`, `1.0` and `True` say different things."""
    if isinstance(value, dict):
        return _is_same_object(cast("dict[Any, Any]", value), other)
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return (
            isinstance(other, list | tuple)
            and len(items) == len(cast("list[Any]", other))
            and all(map(_is_same, items, cast("list[Any]", other)))
        )
    return value is other or (type(value) is type(other) and value == other)


def _is_same_object(value: dict[Any, Any], other: Any) -> bool:
    if not isinstance(other, dict) or len(value) != len(cast("dict[Any, Any]", other)):
        return False
    return all(_is_same(item, cast("dict[Any, Any]", other).get(key, _ABSENT)) for key, item in value.items())


def _faults(key: Any, value: Any) -> tuple[str, ...]:
    return json_faults({"state": {key: value}})


def _as_json(value: Any) -> Any:
    """A copy of what is known to be JSON, with lists for tuples."""
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in cast("list[Any]", value)]
    return value


_TEXT: Final = optional(instance_of(str))


class CallContext(Protocol):
    """What services and stores need of the context of a call; a `ToolContext` is one."""

    @property
    def tool(self) -> str:
        """The tool's name."""
        ...

    @property
    def user(self) -> str | None:
        """The user, or `None`."""
        ...

    @property
    def agent(self) -> str | None:
        """The agent's name, or `None`."""
        ...

    @property
    def session(self) -> str | None:
        """The conversation's id, or `None`."""
        ...

    @property
    def actions(self) -> PendingActions:
        """What the call asks for beside its result."""
        ...

    @property
    def remaining(self) -> float | None:
        """Seconds until the call's time limit, or `None`."""
        ...

    def provides(self, kind: Any) -> bool:
        """Whether a service of this type is provided."""
        ...

    def service(self, kind: Any) -> Any:
        """The service of this type, which needs no waiting."""
        ...

    async def use(self, kind: Any) -> Any:
        """The service of this type, opened if need be."""
        ...

    async def use_or(self, kind: Any, make: Any) -> Any:
        """The same, or what `make()` gives where none is provided."""
        ...

    def opened_services(self) -> Any:
        """Where the services of this call are kept while they are open."""
        ...


@define(eq=False)
class PendingActions:
    """What a running call has asked for so far; its tool and its callbacks add to it.

    Attributes:
        state: The session's state as the call sees it. Made of the session's own.
        artifact_delta: The artifacts that were saved: name -> latest version.
        transfer_to: The name of the agent that shall go on, or `None`.
        escalate: Whether the agent above shall go on.
        skip_summarization: Whether the result speaks for itself, and the model needn't sum it up.
        title: A short heading for people, or `None`.
        facts: For the user interface; never sent to the model.
    """

    state: State = field(converter=State)
    artifact_delta: dict[str, int] = field(factory=dict[str, int])
    transfer_to: str | None = field(default=None, validator=_TEXT)
    escalate: bool = field(default=False, validator=instance_of(bool))
    skip_summarization: bool = field(default=False, validator=instance_of(bool))
    title: str | None = field(default=None, validator=_TEXT)
    facts: dict[str, Any] = field(factory=dict[str, Any])

    @property
    def state_delta(self) -> Mapping[str, Any]:
        """What has changed in `state`: key -> JSON value, or `REMOVED`. Changes are made in `state`."""
        return MappingProxyType(self.state.delta)

    @property
    def actions(self) -> Actions:
        """What the host is asked for up to now, as a value that later changes don't reach."""
        return Actions(
            self.state.delta, dict(self.artifact_delta), self.transfer_to, self.escalate, self.skip_summarization
        )

    def add(self, actions: Actions) -> None:
        """Takes over what a call inside this one, or this one in another process, has asked for."""
        for key, value in actions.state_delta.items():
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
        """Notes an artifact's version."""
        self.artifact_delta[name] = max(version, self.artifact_delta.get(name, version))

    def show(self, title: str | None, facts: Mapping[str, Any]) -> None:
        """Notes a heading, where there is one, and facts; later ones win."""
        if title is not None:
            self.title = title
        self.facts.update(facts)
