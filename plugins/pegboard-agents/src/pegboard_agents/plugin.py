"""The hook that brings `ask_user`, `batch`, `write_todos`, and a tool for each agent of the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from pegboard import RegistrationError, hookimpl
from pegboard.errors import did_you_mean, suggest
from pegboard_agents.agent import Agent, agent_tool
from pegboard_agents.calls import batch
from pegboard_agents.person import ask_user, write_todos

_OF_AGENT: Final = ("description", "instructions", "model", "where")
_OF_TOOL: Final = ("session", "depth", "timeout")


@hookimpl
def pegboard_register_tools(register: Callable[[Any], None], settings: Mapping[str, Any]) -> None:
    """Brings the tools; `[plugins.agents.agents.NAME]` describes an agent."""
    for each in (ask_user, batch, write_todos):
        register(each)
    if unknown := settings.keys() - {"agents"}:
        raise RegistrationError(f"there is no setting {min(unknown)!r}; there is 'agents'")
    agents: Any = settings.get("agents", {})
    for name, facts in agents.items():
        register(_tool_of(name, facts))


def _tool_of(name: str, given: Any) -> Any:
    known = (*_OF_AGENT, *_OF_TOOL)
    if not isinstance(given, Mapping):
        raise RegistrationError(f"agents.{name} must be a table, got {given!r:.80}")
    facts = cast("Mapping[str, Any]", given)
    for key in facts:
        if key not in known:
            raise RegistrationError(f"agents.{name} has no setting {key!r}.{did_you_mean(suggest(key, known))}")
    own: dict[str, Any] = {key: facts[key] for key in _OF_AGENT if key in facts}
    own.setdefault("where", "not plugin:agents")
    agent = Agent(name=name, **own)
    return agent_tool(agent, **{key: facts[key] for key in _OF_TOOL if key in facts})
