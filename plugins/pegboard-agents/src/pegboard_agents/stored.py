"""Agents in the background in the state of their session, from which another process resumes them."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Final, cast

from attrs import frozen

from pegboard import Message
from pegboard.errors import log_failure
from pegboard.json import is_object
from pegboard.schema.converter import JsonRecord
from pegboard_agents.agent import Suspension

MOST_STORED: Final = 20  # agents in the state of one session
PREFIX: Final = "agents:id:"
"""Prefix of the keys of agents, by id.

A value has its agent by the time when it was stored. Where two calls of one answer store one agent, both are there, as
the state merges them key by key, and the later one counts.
"""


@frozen
class StoredAgent(JsonRecord):
    """An agent in the background as JSON.

    Attributes:
        agent: The agent's name.
        session: Its own session.
        messages: Its conversation; left out while it waits, as that has it.
        inbox: Messages for it that it hasn't read.
        answer: Its last answer, or why there is none.
        failed: Whether that is an error.
        waits: What it waits for, or `None`.
        working: Whether it worked when this was written.
        used: When a call was last about it, in seconds since 1970 (UTC).
    """

    agent: str
    session: str
    messages: tuple[Message, ...] = ()
    inbox: tuple[Message, ...] = ()
    answer: str = ""
    failed: bool = False
    waits: Suspension | None = None
    working: bool = False
    used: float = 0.0


def is_stored(state: Mapping[str, Any], id_: str) -> bool:
    """Whether a session's state has an agent of this id."""
    return f"{PREFIX}{id_}" in state


def read_agent(state: Mapping[str, Any], id_: str, other: Any = None) -> StoredAgent | None:
    """The agent of this id in a session's state, or another state of it if that is later; `None` if there is none."""
    latest = max(*_versions(state.get(f"{PREFIX}{id_}")), other, None, key=_last_use)
    try:
        return StoredAgent.from_json(latest) if is_object(latest) else None
    except ValueError as error:
        log_failure(f"reading the agent {id_:.80}", error)
        return None


def store_agent(state: MutableMapping[str, Any], id_: str, agent: StoredAgent) -> None:
    """Stores an agent in a session's state, in place of those that were used longest ago if there are too many."""
    key = f"{PREFIX}{id_}"
    others = [each for each in state if each.startswith(PREFIX) and each != key]
    others.sort(key=lambda each: max(map(_last_use, _versions(state[each])), default=0.0))
    for each in others[: max(len(others) + 1 - MOST_STORED, 0)]:
        del state[each]
    try:
        state[key] = {f"{agent.used!r}": agent.to_json()}
    except ValueError as error:  # too large, or no JSON: its answer is kept
        log_failure(f"storing the conversation of {id_}", error)
        state[key] = {f"{agent.used!r}": agent.evolve(messages=(), waits=None, working=False).to_json()}


def _versions(value: Any) -> list[Any]:
    return list(cast("Mapping[str, Any]", value).values()) if is_object(value) else []


def _last_use(stored: Any) -> float:
    """When a stored agent was used last."""
    used = stored.get("used") if is_object(stored) else None
    return used if isinstance(used, int | float) else 0.0
