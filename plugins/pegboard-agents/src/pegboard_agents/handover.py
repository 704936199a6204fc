"""Handover between agents: the tools `transfer_to_agent` and `exit_loop`, and `run_agents`, which executes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import attrs
from attrs import frozen

from pegboard import (
    Message,
    Model,
    ModelRequest,
    ModelResponse,
    ReadonlyContext,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    Turn,
    TurnOutcome,
    tool,
)
from pegboard.json import is_object
from pegboard.messages import CallPart
from pegboard.schema.converter import JsonRecord
from pegboard.tools import EMPTY_CONTEXT
from pegboard_agents.agent import Agent, AnyAgent, check_agent, list_agents
from pegboard_agents.agent_call import tool_to_join

if TYPE_CHECKING:
    from pegboard.approval import Answers
    from pegboard.typing import JsonObject

HANDOVERS: Final = 10
may_return: Final[ContextVar[bool]] = ContextVar("pegboard_agents_may_return", default=False)
"""Whether `exit_loop` in the current turn returns the conversation to another agent."""

_VERSION: Final = 1


@tool(title="Leave the loop", idempotent=True, open_world=False, read_only=True)
def exit_loop(context: ToolContext) -> str:
    """End your part of the work. If you work in a loop, it ends; otherwise the agent that called you continues.

    Call it when your work is done, or when you can't continue. An agent that transferred to you continues, too.
    """
    context.actions.escalate = True
    context.actions.skip_summarization = True
    return "Your part of the work is finished."


def transfer_tool(agents: Mapping[str, str] | Sequence[AnyAgent], name: str = "transfer_to_agent") -> Tool:
    """A tool by which a model hands the conversation over to another agent.

    The host executes the handover, as `run_agents` does: the turn ends as `"transferred"`, and `actions.transfer_to`
    has the agent's name.

    Args:
        agents: Name -> what the agent is for; or agents.
        name: The tool's name.

    Raises:
        ValueError: There are none.
    """
    known = dict(agents) if isinstance(agents, Mapping) else {each.name: each.description for each in agents}
    if not known:
        raise ValueError("a transfer needs agents to hand over to")

    def transfer(arguments: Mapping[str, Any], context: ToolContext) -> str:
        if arguments["agent_name"] == context.agent:
            return "You already are this agent. Continue with the task."
        context.actions.transfer_to = arguments["agent_name"]
        return f"Transferred to {arguments['agent_name']}."

    lines = list_agents(known)
    who = {"type": "string", "enum": list(known), "description": "Name of the agent to transfer to."}
    arguments = {"properties": {"agent_name": who}, "required": ["agent_name"], "additionalProperties": False}
    return Tool.from_schema(
        name,
        {"type": "object", **arguments},
        transfer,
        title="Hand over to an agent",
        description=f"Transfer the conversation to another agent, which answers the user from now on. Agents:\n{lines}",
        read_only=True,
        idempotent=True,
        open_world=False,
    )


@frozen
class AgentsOutcome(JsonRecord):
    """Outcome of agents that hand over to each other.

    Attributes:
        agent: The agent that had the conversation last.
        turn: The outcome of its turn, with the whole conversation.
        callers: The agents that handed over, the first one first: `exit_loop` returns to the last.
        handovers: The number of handovers.
    """

    agent: str
    turn: TurnOutcome
    callers: tuple[str, ...] = ()
    handovers: int = 0

    def to_json(self) -> JsonObject:
        """All attributes by name, for another process; see `from_json`."""
        return {"version": _VERSION, **super().to_json()}

    @classmethod
    def from_json(cls, data: Any) -> AgentsOutcome:
        """Reads what `to_json` writes, from a source that isn't trusted.

        Raises:
            ValueError: It is invalid, with the problem.
        """
        if not is_object(data) or data.get("version") != _VERSION:
            raise ValueError(f"not the outcome of agents of version {_VERSION}: {data!r:.80}")
        return super().from_json(data)


async def run_agents(  # noqa: PLR0913  all but three by name
    agents: Sequence[AnyAgent],
    request: str | Message | Sequence[Message],
    context: ReadonlyContext = EMPTY_CONTEXT,
    *,
    registry: ToolRegistry,
    model: Model | None = None,
    resume: AgentsOutcome | None = None,
    answers: Answers = (),
    tool_results: Mapping[str, Any] | None = None,
    handovers: int = HANDOVERS,
    **options: Any,
) -> AgentsOutcome:
    """Runs agents that hand one conversation over to each other, beginning with the first.

    Each agent's turn has its instructions, its model and its tools; all see the whole conversation. A tool that sets
    `actions.transfer_to`, as `transfer_tool` does, hands over; `exit_loop` returns the conversation to the agent that
    handed over. A workflow, or an object with `run`, is run by a call in its turn, and its answer ends that.

    Args:
        agents: The agents, with distinct names.
        request: The user's message, or the conversation.
        context: Of the user and the session; each agent's turn has its `agent` set.
        registry: The registry of agents that have none.
        model: The model of agents that have none.
        resume: The outcome to resume, if a turn was suspended; then `request` is ignored.
        answers: As in `TurnOptions`.
        tool_results: As in `TurnOptions`.
        handovers: The highest number of handovers.
        options: Of each turn, as for `run_turn`.

    Returns:
        The last agent, and its turn, whose `detail` tells if the limit of handovers was reached.

    Raises:
        ValueError: No agents, two of one name, one without a model, a handover to an unknown agent, or an `output_type`
            of a workflow or an object.
        TypeError: One isn't an agent.
        Exception: As `run_turn`.
    """
    for each in agents:
        check_agent(each)
    known = {agent.name: agent for agent in agents}
    if not known or len(known) < len(agents):
        raise ValueError(f"agents must have names that differ, got {[agent.name for agent in agents]}")
    now = resume or AgentsOutcome(agents[0].name, TurnOutcome(ModelRequest(request).messages, state=context.state))
    resumed: dict[str, Any] = {}
    if resume is not None:
        resumed = {"resume": now.turn, "answers": answers, "tool_results": tool_results or {}}
    while True:
        agent = _agent_of(known, now.agent)
        turn = await _turn(agent, now.turn, registry, model, context, {**options, **resumed})
        may_return.set(bool(now.callers) and now.handovers < handovers)
        try:
            outcome, resumed = await turn.run(), {}
        finally:
            may_return.set(False)
        now = attrs.evolve(now, turn=outcome)
        if outcome.ended == "transferred":
            callers, target = (*now.callers, agent.name), str(outcome.actions.transfer_to)
        elif outcome.ended == "escalated" and now.callers:
            *callers, target = now.callers
        else:
            return now
        if now.handovers >= handovers:
            detail = f"not handed over: the conversation was handed over {now.handovers} times, which is the maximum"
            return attrs.evolve(now, turn=outcome.evolve(detail=detail))
        now = attrs.evolve(now, agent=target, callers=tuple(callers), handovers=now.handovers + 1)


def _agent_of(agents: Mapping[str, AnyAgent], name: str) -> AnyAgent:
    if name not in agents:
        raise ValueError(f"there is no agent {name!r}; there are {', '.join(agents)}")
    return agents[name]


async def _turn(  # noqa: PLR0913, PLR0917  what a turn is made of
    agent: AnyAgent,
    before: TurnOutcome,
    registry: ToolRegistry,
    model: Model | None,
    context: ReadonlyContext,
    options: Mapping[str, Any],
) -> Turn:
    context = attrs.evolve(
        context,
        agent=agent.name,
        agent_description=agent.description,
        state=before.state,
        invocation=context.invocation or before.invocation,  # one turn for the user
    )
    if not isinstance(agent, Agent):
        if options.get("output_type") is not None:
            raise ValueError(f"{agent.name!r} isn't an Agent: it answers with a text, not with an output_type")
        joining = tool_to_join(agent, model)
        how = {name: options[name] for name in ("where", "active", "on_toolset_error") if name in options}
        tools = (await registry.resolve(context, **how)).with_tools(joining)
        return Turn(_Caller(joining.name), ModelRequest(before.messages, tools=tools), registry, context, **options)
    where = agent.registry or registry
    asked = where.model(agent.model) if isinstance(agent.model, str) else agent.model or model
    if asked is None:
        raise ValueError(f"agent {agent.name!r} has no model; pass run_agents(model=...) or Agent(model=...)")
    request = ModelRequest(before.messages, instructions=agent.instructions, config=agent.config)
    own: dict[str, Any] = {"where": agent.where, "limits": agent.limits, **options}
    return Turn(asked, request, where, context, **own)


@frozen
class _Caller:
    """Model that makes one call, and answers with its result."""

    name: str
    provider: str = "pegboard"

    async def respond(self, request: ModelRequest) -> ModelResponse:
        results = [part.result.text for part in request.messages[-1].results if part.name == self.name]
        return ModelResponse(CallPart(ToolCall(self.name)) if not results else results[0])
