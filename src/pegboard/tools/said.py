"""`Said`: what a running call has said so far, to its host and to people."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field
from attrs.validators import instance_of, optional

from pegboard.tools.actions import REMOVED, Actions
from pegboard.tools.state import State


def _state_of(base: Mapping[str, Any]) -> State:
    return State(base)


def _nothing() -> dict[str, Any]:
    return {}


_TEXT: Final = optional(instance_of(str))


@define(eq=False)
class Said:
    """What a running call has said so far; its tool and its callbacks add to it.

    Attributes:
        state: The session's state as the call sees it. Made of the session's own.
        artifact_delta: The artifacts that were saved: name -> latest version.
        transfer_to: The name of the agent that shall go on, or `None`.
        escalate: Whether the agent above shall go on.
        skip_summarization: Whether the result speaks for itself, and the model needn't sum it up.
        title: A short heading for people, or `None`.
        facts: For the user interface; never sent to the model.
    """

    state: State = field(converter=_state_of)
    artifact_delta: dict[str, int] = field(factory=_nothing)
    transfer_to: str | None = field(default=None, validator=_TEXT)
    escalate: bool = field(default=False, validator=instance_of(bool))
    skip_summarization: bool = field(default=False, validator=instance_of(bool))
    title: str | None = field(default=None, validator=_TEXT)
    facts: dict[str, Any] = field(factory=_nothing)

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

    def tell(self, title: str | None, facts: Mapping[str, Any]) -> None:
        """Notes a heading, where there is one, and facts; later ones win."""
        if title is not None:
            self.title = title
        self.facts.update(facts)
