"""The hook that registers `ask_user`, `batch`, `write_todos`, and a tool for each agent of the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from attrs import frozen

from pegboard import hookimpl
from pegboard.errors import check_keys
from pegboard.schema.converter import read_table
from pegboard_agents.agent import DEPTH, SECONDS, Agent, Session, agent_tool
from pegboard_agents.calls import batch
from pegboard_agents.person import ask_user, write_todos


@frozen(kw_only=True)
class AgentSettings:
    """The settings of `[plugins.agents.agents.NAME]`: see `Agent` and `agent_tool`."""

    description: str = ""
    instructions: Any = ()
    model: str | None = None
    where: Any = "not plugin:agents"
    session: Session = "fresh"
    depth: int = DEPTH
    timeout: float = SECONDS


@hookimpl
def pegboard_register_tools(register: Callable[[Any], None], settings: Mapping[str, Any]) -> None:
    """Registers the tools; `[plugins.agents.agents.NAME]` describes an agent."""
    for each in (ask_user, batch, write_todos):
        register(each)
    check_keys(settings, ["agents"], "plugins.agents")
    agents: Any = settings.get("agents", {})
    for name, table in agents.items():
        read = read_table(AgentSettings, table, f"plugins.agents.agents.{name}")
        of_agent = attrs.asdict(read, recurse=False)
        of_tool = {key: of_agent.pop(key) for key in ("session", "depth", "timeout")}
        register(agent_tool(Agent(name=name, **of_agent), **of_tool))
