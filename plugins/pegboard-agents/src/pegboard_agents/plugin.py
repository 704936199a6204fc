"""The hook that registers `ask_user`, `batch`, `write_todos`, and the tools for the agents of the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from attrs import frozen

from pegboard import hookimpl
from pegboard.errors import check_keys, did_you_mean, suggest
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


@frozen(kw_only=True)
class BackgroundSettings:
    """The settings of `[plugins.agents.background]`: see `background_tools`; without `agents`, all of the settings."""

    agents: tuple[str, ...] = ()
    keep: bool = False
    most: int = MOST_AGENTS
    depth: int = DEPTH
    timeout: float = SECONDS


@hookimpl
def pegboard_register_tools(register: Callable[[Any], None], settings: Mapping[str, Any]) -> None:
    """Registers the tools; the settings describe agents, workflows, and which of them run in the background."""
    for each in (ask_user, batch, write_todos):
        register(each)
    check_keys(settings, ["agents", "workflows", "background"], _PLACE)
    known: dict[str, AnyAgent] = {}
    for name, table in settings.get("agents", {}).items():
        read = read_table(AgentSettings, table, f"{_PLACE}.agents.{name}")
        of_agent = attrs.asdict(read, recurse=False)
        of_tool = {key: of_agent.pop(key) for key in ("session", "depth", "timeout")}
        known[name] = agent = Agent(name=name, **of_agent)
        register(agent_tool(agent, **of_tool))
    for name, table in settings.get("workflows", {}).items():
        place = f"{_PLACE}.workflows.{name}"
        read = read_table(WorkflowSettings, table, place)
        agent = _workflow(name, read, known, place)
        register(agent_tool(agent, depth=read.depth, timeout=read.timeout))
        known[name] = agent
    if any(isinstance(agent, LoopAgent) for agent in known.values()):
        register(exit_loop)
    if "background" in settings:
        place = f"{_PLACE}.background"
        given = attrs.asdict(read_table(BackgroundSettings, settings["background"], place), recurse=False)
        names = given.pop("agents") or tuple(known)
        for each in background_tools([_named(each, known, f"{place}.agents") for each in names], **given):
            register(each)


def _workflow(name: str, read: WorkflowSettings, known: Mapping[str, AnyAgent], place: str) -> AnyAgent:
    given = {kind: names for kind in ("sequence", "parallel", "loop") if (names := getattr(read, kind))}
    if name in known or len(given) != 1:
        wanted = "another name: an agent has this one" if name in known else "one of sequence, parallel and loop"
        raise ValueError(f"{place}: needs {wanted}")
    if ("loop" in given) != (read.max_rounds is not None):
        raise ValueError(f"{place}.max_rounds: is required for a loop, and not allowed for others")
    ((kind, names),) = given.items()
    agents = tuple(_named(each, known, f"{place}.{kind}") for each in names)
    facts: Any = {"name": name, "description": read.description, "agents": agents}
    if kind == "loop":
        return LoopAgent(max_rounds=read.max_rounds or 0, **facts)
    return ParallelAgent(**facts) if kind == "parallel" else SequentialAgent(**facts)


def _named(name: str, known: Mapping[str, AnyAgent], place: str) -> AnyAgent:
    if name not in known:
        raise ValueError(f"{place}: there is no agent {name!r} in the settings.{did_you_mean(suggest(name, known))}")
    return known[name]
