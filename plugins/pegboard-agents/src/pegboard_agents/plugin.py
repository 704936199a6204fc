"""The hook that registers `ask_user`, `batch`, `write_todos`, and the tools for the agents of the settings."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
from attrs import Factory, frozen

from pegboard import hookimpl
from pegboard.errors import PegboardError, did_you_mean, suggest
from pegboard.schema.converter import read_table
from pegboard_agents.agent import DEPTH, SECONDS, Agent, AnyAgent
from pegboard_agents.agent_call import Session, agent_tool
from pegboard_agents.calls import batch
from pegboard_agents.handover import exit_loop
from pegboard_agents.person import ask_user, write_todos
from pegboard_agents.spawn import MOST_AGENTS, background_tools
from pegboard_agents.workflow import LoopAgent, ParallelAgent, SequentialAgent

_PLACE = "plugins.agents"


@frozen(kw_only=True)
class AgentSettings:
    """The settings of `[plugins.agents.agents.NAME]`: see `Agent` and `agent_tool`."""

    description: str = ""
    instructions: Any = ()
    model: str | None = None
    where: Any = "not plugin:agents or name:exit_loop"
    session: Session = "fresh"
    depth: int = DEPTH
    timeout: float = SECONDS


@frozen(kw_only=True)
class WorkflowSettings:
    """The settings of `[plugins.agents.workflows.NAME]`: one of `sequence`, `parallel` and `loop` has agents."""

    description: str = ""
    sequence: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    loop: tuple[str, ...] = ()
    max_rounds: int | None = None
    depth: int = DEPTH
    timeout: float = SECONDS

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its agents."""
        return (*self.sequence, *self.parallel, *self.loop)


@frozen(kw_only=True)
class BackgroundSettings:
    """The settings of `[plugins.agents.background]`: see `background_tools`; without `agents`, all of the settings."""

    agents: tuple[str, ...] = ()
    keep: bool = False
    most: int = MOST_AGENTS
    depth: int = DEPTH
    timeout: float = SECONDS


@frozen(kw_only=True)
class AgentsSettings:
    """The settings of `[plugins.agents]`: agents and workflows by name, and which of them run in the background."""

    agents: Mapping[str, Any] = Factory(dict[str, Any])
    workflows: Mapping[str, Any] = Factory(dict[str, Any])
    background: BackgroundSettings | None = None


@hookimpl
def pegboard_register_tools(register: Callable[[Any], None], settings: Mapping[str, Any]) -> None:
    """Registers the tools; the settings describe agents, workflows, and which of them run in the background."""
    for each in (ask_user, batch, write_todos):
        register(each)
    read, known = read_table(AgentsSettings, settings, _PLACE), dict[str, AnyAgent]()
    for name, table in read.agents.items():
        with _errors_of(f"{_PLACE}.agents.{name}") as place:
            facts = attrs.asdict(read_table(AgentSettings, table, place), recurse=False)
            of_tool = {key: facts.pop(key) for key in ("session", "depth", "timeout")}
            known[name] = Agent(name=name, **facts)
            register(agent_tool(known[name], **of_tool))
    _register_workflows(register, read.workflows, known)
    if any(isinstance(agent, LoopAgent) for agent in known.values()):
        register(exit_loop)
    if read.background is not None:
        with _errors_of(f"{_PLACE}.background") as place:
            facts = attrs.asdict(read.background, recurse=False)
            names = facts.pop("agents") or tuple(known)
            if not names:
                raise ValueError("there are no agents or workflows in the settings to run")
            for each in background_tools([_find(each, known) for each in names], **facts):
                register(each)


def _register_workflows(register: Callable[[Any], None], tables: Mapping[str, Any], known: dict[str, AnyAgent]) -> None:
    """Registers the workflows, which may be in any order, and adds them to what is known."""
    place = f"{_PLACE}.workflows"
    left = {name: read_table(WorkflowSettings, table, f"{place}.{name}") for name, table in tables.items()}
    if taken := [name for name in left if name in known]:
        raise ValueError(f"{place}.{taken[0]}: needs another name: an agent has this one")
    while left:
        name = next((each for each, own in left.items() if left.keys().isdisjoint(own.names)), None)
        if name is None:
            raise ValueError(f"{place}: these would run themselves: {', '.join(left)}")
        with _errors_of(f"{place}.{name}"):
            own = left.pop(name)
            known[name] = _workflow(name, own, known)
            register(agent_tool(known[name], depth=own.depth, timeout=own.timeout))


def _workflow(name: str, read: WorkflowSettings, known: Mapping[str, AnyAgent]) -> AnyAgent:
    kinds = [kind for kind in ("sequence", "parallel", "loop") if getattr(read, kind)]
    if len(kinds) != 1:
        raise ValueError("needs one of sequence, parallel and loop")
    if ("loop" in kinds) != (read.max_rounds is not None):
        raise ValueError("max_rounds is required for a loop, and not allowed for others")
    agents = [_find(each, known) for each in read.names]
    facts: Any = {"name": name, "description": read.description, "agents": agents}
    if read.max_rounds is not None:
        return LoopAgent(max_rounds=read.max_rounds, **facts)
    return ParallelAgent(**facts) if read.parallel else SequentialAgent(**facts)


def _find(name: str, known: Mapping[str, AnyAgent]) -> AnyAgent:
    if name not in known:
        raise ValueError(f"there is no agent {name!r} in the settings.{did_you_mean(suggest(name, known))}")
    return known[name]


@contextmanager
def _errors_of(place: str) -> Generator[str]:
    """Adds the place of a table to its errors."""
    try:
        yield place
    except (ValueError, TypeError, PegboardError) as error:
        text = f"{error}"
        raise ValueError(text if text.startswith(place) else f"{place}: {text}") from error
