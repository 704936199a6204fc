"""pegboard-agents: tools by which a model calls agents, hands over, asks its user and batches calls."""

from __future__ import annotations

from pegboard_agents.agent import Agent, AgentEvent, RunsAgent, agent_tool
from pegboard_agents.calls import answer_invalid, batch
from pegboard_agents.handover import AgentsOutcome, exit_loop, run_agents, transfer_tool
from pegboard_agents.person import ask_user, write_todos

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentsOutcome",
    "RunsAgent",
    "agent_tool",
    "answer_invalid",
    "ask_user",
    "batch",
    "exit_loop",
    "run_agents",
    "transfer_tool",
    "write_todos",
]
