"""`Actions`: what calls ask of their host beside their results."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Final, cast

from attrs import field, frozen

from pegboard.schema.json import json_faults
from pegboard.schema.problems import problem
from pegboard.typing import JsonMapping, JsonObject


class _Removed(enum.Enum):
    REMOVED = "removed"

    def __repr__(self) -> str:
        return self.name


REMOVED: Final = _Removed.REMOVED
"""Stands in a state delta for a key that was removed."""


def _nothing() -> dict[str, Any]:
    return {}


@frozen
class Actions:
    """What calls ask of their host beside their results; the host carries it out, or doesn't.

    Attributes:
        state_delta: What changes in the session's state: key -> JSON value, or `REMOVED`.
        artifact_delta: The artifacts that were saved: name -> latest version.
        transfer_to: The name of the agent that shall go on, or `None`.
        escalate: Whether the agent above shall go on.
        skip_summarization: Whether the results speak for themselves, and the model needn't sum them up.
        conflicts: The keys of the state that more than one call changed, sorted; the last call's value stands.
    """

    state_delta: Mapping[str, Any] = field(factory=_nothing)
    artifact_delta: Mapping[str, int] = field(factory=_nothing)
    transfer_to: str | None = None
    escalate: bool = False
    skip_summarization: bool = False
    conflicts: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for."""
        return not (
            self.state_delta
            or self.artifact_delta
            or self.transfer_to is not None
            or self.escalate
            or self.skip_summarization
        )

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
        delta = _of_type(data, "state_delta", dict, {})
        _refuse_faults(delta)
        removed = _names(data, "state_removed")
        return cls(
            {**delta, **dict.fromkeys(removed, REMOVED)},
            _versions(data),
            _of_type(data, "transfer_to", str, None),
            _of_type(data, "escalate", bool, default=False),
            _of_type(data, "skip_summarization", bool, default=False),
            _names(data, "conflicts"),
        )


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
    return Actions(
        state,
        artifacts,
        transfer_to,
        any(part.escalate for part in parts),
        any(part.skip_summarization for part in parts),
        _conflicts(parts),
    )


def _conflicts(parts: tuple[Actions, ...]) -> tuple[str, ...]:
    changes = Counter(key for part in parts for key in part.state_delta)
    several = {key for key, times in changes.items() if times > 1}
    return tuple(sorted(several.union(*(part.conflicts for part in parts))))


def _of_type(data: JsonMapping, name: str, kind: type, default: Any) -> Any:
    value = data.get(name)
    if value is None:
        return default
    if type(value) is not kind:
        raise ValueError(f"{name}: must be of type {kind.__name__}, got {value!r:.80}")
    return value


def _names(data: JsonMapping, name: str) -> tuple[str, ...]:
    values = cast("list[object]", _of_type(data, name, list, []))
    if not all(isinstance(each, str) for each in values):
        raise ValueError(f"{name}: must be a list of texts, got {values!r:.80}")
    return cast("tuple[str, ...]", tuple(values))


def _versions(data: JsonMapping) -> dict[str, int]:
    versions = cast("dict[object, object]", _of_type(data, "artifact_delta", dict, {}))
    for name, version in versions.items():
        if type(name) is not str or type(version) is not int:
            raise ValueError(problem(("artifact_delta", f"{name}"), f"must be a version number, got {version!r:.80}"))
    return cast("dict[str, int]", dict(versions))


def _refuse_faults(delta: object) -> None:
    faults = json_faults(delta)
    if faults:
        raise ValueError(f"state_delta: {'; '.join(faults)}")


__all__ = ["REMOVED", "Actions", "merged"]
