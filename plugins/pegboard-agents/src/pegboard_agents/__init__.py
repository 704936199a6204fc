"""pegboard-agents: tools by which a model calls agents, hands over, asks its user and batches calls; workflows."""

from __future__ import annotations

from pegboard_agents.agent import Agent, AgentEvent, RunsAgent
from pegboard_agents.agent_call import agent_tool
from pegboard_agents.calls import answer_invalid, batch
from pegboard_agents.handover import AgentsOutcome, exit_loop, run_agents, transfer_tool
from pegboard_agents.person import ask_user, write_todos
from pegboard_agents.spawn import background_tools
from pegboard_agents.workflow import LoopAgent, ParallelAgent, SequentialAgent

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentsOutcome",
    "LoopAgent",
    "ParallelAgent",
    "RunsAgent",
    "SequentialAgent",
    "agent_tool",
    "answer_invalid",
    "ask_user",
    "background_tools",
    "batch",
    "exit_loop",
    "run_agents",
    "transfer_tool",
    "write_todos",
]
