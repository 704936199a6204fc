"""`agent_tool`: an agent as a tool. A call of it that waits for an approval can be resumed later."""

from __future__ import annotations

import types
from collections.abc import Iterable
from itertools import takewhile
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from attrs import define, evolve, field

from pegboard import Actions, Message, Model, Tool, ToolContext, ToolError, TypedTool
from pegboard.json import is_object
from pegboard_agents.agent import DEPTH, SECONDS, AgentRun, AnyAgent, Workflow, check_agent
from pegboard_agents.run import context_for, diff_states, inside, new_session, run_agent, session_of

Session: TypeAlias = Literal["fresh", "kept"]
_TASK: Final = Annotated[str, "The complete task, with everything the agent needs: it doesn't see this conversation."]
MOST_KEPT: Final = 200
"""Messages of a conversation that are stored between calls."""


def agent_tool(
    agent: AnyAgent,
    *,
    takes: Any = _TASK,
    gives: Any = str,
    session: Session = "fresh",
    depth: int = DEPTH,
    **options: Any,
) -> Tool:
    """A tool that runs an agent, and returns its answer.

    The agent has its own session, with a copy of its caller's state, except keys that begin with `_`, `temp:`,
    `pegboard:` or `agents:`; its changes stay there. Its calls need approval as its caller's do; where an answer comes
    later, the call of the agent is suspended, and resumed with the answer.

    Args:
        agent: An `Agent`, a workflow, or any object with `run`.
        takes: The type of its input: the fields of a class (attrs, dataclass, TypedDict) are the tool's arguments;
            anything else is the one argument `request`; by default a string.
        gives: The type of its answer, from which the tool's output schema is derived; a string by default. A workflow
            gives a string.
        session: `"fresh"`: each call begins a conversation; `"kept"`: the next call in its caller's session continues
            it. Its last 200 messages are stored in that session's state. A workflow's is fresh.
        depth: How deep agents may call agents, this one included.
        options: As `@tool` takes them; `timeout` is half an hour by default.

    Raises:
        DefinitionError: An option is unknown, or a type can't be expressed.
        ValueError: The depth is below 1, the session is unknown, or a workflow is given what it can't have.
        TypeError: The object's `run` can't be called, or takes unknown arguments.
    """
    if depth < 1 or session not in ("fresh", "kept"):
        raise ValueError(f"depth must be at least 1 and session 'fresh' or 'kept', got {depth!r} and {session!r}")
    check_agent(agent)
    if isinstance(agent, Workflow) and (gives is not str or session != "fresh"):
        raise ValueError(f"the workflow {agent.name!r} gives a string, and its session is fresh")
    runner = _Runner(agent, takes, gives, session, depth)

    async def call(_self: Any, context: ToolContext, request: Any) -> Any:
        return await runner.call(context, request)

    body = {"call": call, "name": options.pop("name", None) or agent.name}
    body["input_schema"] = options.pop("input_schema", None)
    kind: type[TypedTool[Any, Any]] = types.new_class(
        agent.name, (cast("Any", TypedTool)[takes, gives],), {}, lambda namespace: namespace.update(body)
    )
    facts: dict[str, Any] = {"description": agent.description, "timeout": SECONDS, "open_world": True, **options}
    return kind().as_tool(**facts)


def tool_to_join(agent: AnyAgent, model: Model | None) -> Tool:
    """A tool by which an agent joins the turn that calls it, with its conversation and its state.

    Args:
        agent: The agent.
        model: The model of agents that have none.
    """
    runner = _Runner(agent, str, str, "joined", DEPTH, model)

    async def call(_arguments: Any, context: ToolContext) -> Any:
        return await runner.call(context, None)

    schema: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    name, description = f"run_{agent.name}"[:64], agent.description
    return Tool.from_schema(name, schema, call, description=description, read_only=True, timeout=SECONDS)


@define(eq=False)
class _Runner:
    """Handler of one agent's tool."""

    agent: AnyAgent
    takes: Any
    gives: Any
    session: Session | Literal["joined"]
    depth: int
    model: Model | None = None
    _running: set[tuple[str | None, str]] = field(factory=set[tuple[str | None, str]], init=False)

    async def call(self, context: ToolContext, request: Any) -> Any:
        """The agent's answer.

        Raises:
            ToolError: There is none, with the reason.
            FatalToolError: One of its tools ended the turn.
        """
        name, enclosing = self.agent.name, inside.get()
        check_depth(name, enclosing, self.depth)
        place = context.user, context.session or ""
        keeps = self.session == "kept"
        if keeps and place in self._running:
            raise ToolError(
                f"{name} was not run: it is still working on an earlier call. Call it again when that call is done."
            )
        if keeps:
            self._running.add(place)
        inside.set(enclosing + 1)
        try:
            return await self._answer(context, request)
        finally:
            inside.set(enclosing)  # a token couldn't be reset if the coroutine is closed in another context
            if keeps:
                self._running.discard(place)

    async def _answer(self, context: ToolContext, request: Any) -> Any:
        answer, stored = context.confirmation, None
        if answer is not None and is_object(answer.stored) and answer.stored.get("agent") == self.agent.name:
            stored = answer.stored
        session, history = self._conversation(context)
        session = session_of(stored) or session
        joins = self.session == "joined"
        outer = evolve(context.request, agent=None) if joins else context.request
        own = context_for(self.agent, outer, session, context.request.state)
        result = await run_agent(
            AgentRun(
                agent=self.agent,
                call=context,
                context=own,
                request=request,
                inherited=context.inherited(),
                emit=context.emit,
                history=tuple(history),
                takes=self.takes,
                gives=self.gives,
                stored=stored,
                answer=answer,
                model=self.model,
            )
        )
        if (waits := result.suspension) is not None:
            context.suspend(waits.hint, waits.payload, stored=dict(waits.stored), request=waits.request)
        if (outcome := result.outcome) is not None:
            if self.session == "kept":
                self._keep(context, session, outcome.messages)
            facts = {"rounds": outcome.rounds, "calls": outcome.calls, "usage": outcome.usage.to_json()}
            context.metadata(f"{self.agent.name}: {outcome.ended}", **facts)
        elif isinstance(self.agent, Workflow):
            context.metadata(f"{self.agent.name}: {result.ended}", conflicts=list(result.conflicts))
        if not joins:
            return result.value(self.gives)
        Actions(diff_states(own.state, result.state)).apply_to(context.state)
        context.actions.escalate = result.ended == "escalated"
        return result.text

    def _conversation(self, context: ToolContext) -> tuple[str, Iterable[Message]]:
        """The session of the agent, and its messages so far."""
        if self.session == "joined":
            before = takewhile(lambda each: context.call_id not in {call.id for call in each.calls}, context.messages)
            return new_session(self.agent, context.session), before
        key = f"agents:{self.agent.name}"
        stored: Any = (context.values.get(key) or context.state.get(key)) if self.session == "kept" else None
        try:
            return str(stored["session"]), [Message.from_json(each) for each in stored["messages"]]
        except (TypeError, KeyError, ValueError, AttributeError):  # there is none, or a host has changed it
            return new_session(self.agent, context.session), ()

    def _keep(self, context: ToolContext, session: str, messages: tuple[Message, ...]) -> None:
        stored = {"session": session, "messages": [message.to_json() for message in last_messages(messages)]}
        key = f"agents:{self.agent.name}"
        context.state[key] = context.values[key] = stored


def last_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages of a conversation to store: the last 200, from a message of the user on."""
    last = messages[-MOST_KEPT:]
    start = next((place for place, message in enumerate(last) if message.role == "user"), len(last))
    return last[start:]


def check_depth(name: str, enclosing: int, depth: int) -> None:
    """Checks that one more agent may run inside so many.

    Raises:
        ToolError: It may not.
    """
    if enclosing >= depth:
        text = f"{name} was not run: agents can be nested only {depth} deep. Do the task without another agent."
        raise ToolError(text)
