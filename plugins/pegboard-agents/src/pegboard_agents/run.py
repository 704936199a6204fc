"""One run of an agent, `run_agent`: its turn, its answer, and how it waits for a person and is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, Final
from uuid import uuid4
from weakref import WeakSet

import attrs
from attrs import Factory, frozen

from pegboard import (
    REMOVED,
    Confirmation,
    Deny,
    Model,
    ModelRequest,
    Once,
    Permissions,
    ReadonlyContext,
    Reject,
    Tool,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    Turn,
    TurnOutcome,
)
from pegboard.approval import PendingCall
from pegboard.callbacks import accept_keywords, may_block, maybe_await
from pegboard.errors import FatalToolError, MissingServiceError, PegboardError, PendingError, TurnAbortedError
from pegboard.json import is_object
from pegboard.threads import run_in_thread
from pegboard_agents.agent import (
    GIVEN,
    Agent,
    AgentEvent,
    AgentResult,
    AgentRun,
    AnyAgent,
    RunsAgent,
    Suspension,
    Workflow,
)

PRIVATE: Final = ("_", "temp:", "pegboard:", "agents:")
"""Prefixes of the keys of a session's state that other agents don't get."""

inside: Final[ContextVar[int]] = ContextVar("pegboard_agents_inside", default=0)
"""How many agents enclose the current call."""

_binding: Final[ContextVar[tuple[ToolRegistry, ...]]] = ContextVar("pegboard_agents_binding", default=())
"""The registries whose rules bind the current calls besides those of their own."""

_guarded: Final[WeakSet[ToolRegistry]] = WeakSet()


def context_for(agent: AnyAgent, outer: ReadonlyContext, session: str, state: Mapping[str, Any]) -> ReadonlyContext:
    """The own context of an agent that is called in another one."""
    above = outer.branch or outer.agent
    return ReadonlyContext(
        user=outer.user,
        agent=agent.name,
        agent_description=agent.description,
        session=session,
        state={key: value for key, value in state.items() if not key.startswith(PRIVATE)},
        extra=outer.extra,
        branch=f"{above}.{agent.name}" if above else agent.name,
        work_dir=outer.work_dir,
        root=outer.root or outer,
    )


def new_session(agent: AnyAgent, outer: str | None) -> str:
    """The id of a new session of an agent, below its caller's."""
    return "/".join(filter(None, (outer, agent.name, uuid4().hex[:12])))


def changed_state(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The changes from one state to another: key -> value, or `REMOVED`."""
    changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
    return changed | dict.fromkeys((key for key in before if key not in after), REMOVED)


async def run_agent(run: AgentRun) -> AgentResult:
    """Runs an agent to its end, or until it waits for a person.

    Raises:
        ToolError: It failed, with the reason.
        FatalToolError: One of its tools ended the turn.
    """
    if isinstance(run.agent, Workflow):
        return await run.agent.follow(run)
    if isinstance(run.agent, Agent):
        return await _run_turn(run.agent, run)
    answer = await _run_object(run.agent, run)
    return AgentResult(agent=run.agent.name, answer=answer, state=run.context.state)


async def _run_object(agent: RunsAgent, run: AgentRun) -> Any:
    function = accept_keywords(agent.run, GIVEN)
    request = "\n\n".join((run.text, *run.heard)) if run.heard or run.request is None else run.request
    given = request, run.context, run.call
    try:
        answer = await run_in_thread(function, *given) if may_block(agent.run) else function(*given)
        return await maybe_await(answer)
    except SystemExit as error:  # in a task it would end the program
        raise ToolError(f"{agent.name} failed (SystemExit). Try again, or continue without it.") from error


async def _run_turn(agent: Agent, run: AgentRun) -> AgentResult:
    suspended = None if run.stored is None else _read(agent, run)
    registry = agent.registry or run.call.service(ToolRegistry)
    model, binding = await _model_of(agent, registry, run), _binding.get()
    try:
        turn = _turn_of(agent, model, registry, run, suspended)
        run.on_turn(turn)
        outcome = await turn.run()
    except FatalToolError:
        raise
    except (PegboardError, TurnAbortedError) as error:
        retryable = getattr(error, "retryable", None) is True
        text = f"{agent.name} failed ({type(error).__name__}). Try again, or continue without it."
        raise ToolError(text, retryable=retryable) from error
    finally:
        _binding.set(binding)
        if isinstance(agent.model, str) and (close := getattr(model, "aclose", None)) is not None:
            await close()
    waits = outcome.ended in ("suspended", "pending")
    suspension = _suspension(agent, run, outcome) if waits else None
    return AgentResult(
        agent=agent.name, ended=outcome.ended, outcome=outcome, state=outcome.state, suspension=suspension
    )


def _forward(run: AgentRun, agent: str, event: Any) -> None:
    run.emit(AgentEvent(agent, event))


def _turn_of(agent: Agent, model: Model, registry: ToolRegistry, run: AgentRun, suspended: _Suspended | None) -> Turn:
    options: dict[str, Any] = {**run.inherited, "where": agent.where, "limits": agent.limits, **run.options}
    options["listener"] = partial(_forward, run, agent.name)
    if agent.registry is None:
        options["active"] = [tool.name for tool in run.call.offered]
    else:
        options |= _bind(agent.registry, run.call, options.get("permissions"))
    if run.gives is not str:
        options["output_type"] = run.gives
    asked = ModelRequest((), instructions=agent.instructions, config=agent.config)
    if suspended is None:
        asked = asked.with_messages(*run.messages)
    else:
        options |= {"resume": suspended.outcome, "answers": suspended.answers, "tool_results": suspended.tool_results}
    return Turn(model, asked, registry, run.context, **options)


# Runs that wait for a person ---------------------------------------------------------------------------------------


@frozen
class _Suspended:
    """Suspended turn of an agent, with the answer to resume it."""

    outcome: TurnOutcome
    answers: Mapping[str, Any] = Factory(dict[str, Any])
    tool_results: Mapping[str, Any] = Factory(dict[str, Any])


def _suspension(agent: Agent, run: AgentRun, outcome: TurnOutcome) -> Suspension:
    """What the turn waits for: an answer to the first of its pending calls."""
    changed = {key: value for key, value in outcome.state.items() if run.context.state.get(key) != value}
    if outcome.pending:
        first, *others = outcome.pending
        mine = attrs.evolve(first, id=uuid4().hex)  # the call has the id of the request for approval
        pending = attrs.evolve(outcome.pending, calls=(mine, *others))
        outcome, asked, request = outcome.evolve(pending=pending, state=changed), mine.id, first.id
        hint, payload = _question(agent.name, first)
    else:
        call = outcome.for_host[0]
        outcome, asked, request = outcome.evolve(state=changed), call.id, None
        hint, payload = (
            f"{agent.name} waits for the result of {call.name}: answer with the result",
            {"call": call.to_json()},
        )
    stored = {
        "agent": agent.name,
        "digest": agent.digest(run.takes, run.gives),
        "asked": asked,
        "session": run.context.session,
        "outcome": outcome.to_json(),
        "payload": payload,
    }
    return Suspension(hint, payload, stored, request)


def check_stored(agent: Agent | Workflow, run: AgentRun) -> Mapping[str, Any]:
    """The stored data of a suspended run, unless the agent has changed.

    Raises:
        ToolError: It has, or the data is of another agent.
    """
    stored = run.stored or {}
    if stored.get("agent") != agent.name or stored.get("digest") != agent.digest(run.takes, run.gives):
        raise ToolError(f"{agent.name} can't resume: it was changed after its call was suspended. Call it again.")
    return stored


def unreadable(agent: AnyAgent) -> ToolError:
    """The error of a suspended run whose data can't be read."""
    return ToolError(f"{agent.name} can't resume: its stored state can't be read. Call it again.")


def _read(agent: Agent, run: AgentRun) -> _Suspended:
    """The suspended turn that a run resumes, with the answer.

    Raises:
        ToolError: The agent has changed, or the stored turn can't be read.
    """
    stored, answer = check_stored(agent, run), run.answer or Confirmation()
    try:
        outcome, asked = TurnOutcome.from_json(stored.get("outcome")), str(stored.get("asked"))
    except PendingError as error:
        raise unreadable(agent) from error
    given = None if answer.payload == stored.get("payload") else answer.payload
    if any(call.id == asked for call in outcome.for_host):
        no = ToolResult.error("rejected", f"The user gave no result: {answer.feedback or 'no reason given'}.")
        return _Suspended(outcome, tool_results={asked: given if answer.confirmed else no})
    return _Suspended(outcome, {asked: Once(given) if answer.confirmed else Reject(answer.feedback)})


def stored_session(stored: Any) -> str | None:
    """The session of a suspended run, by its stored data."""
    session = stored.get("session") if is_object(stored) else None
    return session if isinstance(session, str) else None


def _question(agent: str, pending: PendingCall) -> tuple[str, Any]:
    """The question and the payload of the request for approval of an agent's call."""
    if pending.subject == "question":
        return f"{agent} asks: {pending.hint}", pending.payload
    facts = pending.to_json()
    shown = ("call", "permission", "patterns", "reason", "preview")
    hint = f"{agent} asks for permission {pending.permission}, to call {pending.call.name}"
    return hint, {name: facts[name] for name in shown if facts.get(name)}


# What it has of its caller -----------------------------------------------------------------------------------------


def _bind(own: ToolRegistry, context: ToolContext, given: Permissions | None) -> dict[str, Any]:
    """Binds an agent's calls in its own registry by the rules of its caller, too; returns options of its turn.

    Its calls are decided by the rules of its caller's batch, or else of its own registry. What the other ones forbid is
    added; a call that they deny is denied before it starts.
    """
    caller = context.service(ToolRegistry) if context.provides(ToolRegistry) else None
    base, other = (given, own) if given is not None else (own.permissions or Permissions(), caller)
    if other is None or caller is own:
        return {}
    if own not in _guarded:
        _guarded.add(own)
        own.add_callback("before_tool", _deny_as_caller)
    _binding.set((*_binding.get(), other))
    forbids = [rule for rule in (other.permissions or Permissions()).rules.rules if rule.forbid]
    return {"permissions": base.with_rules(*forbids)} if forbids else {}


async def _deny_as_caller(context: ToolContext, tool: Tool, arguments: Mapping[str, Any]) -> Deny | None:
    """Denies a call that the rules of a caller deny, or would ask about in a mode that never asks."""
    for registry in _binding.get():
        rules = registry.permissions or Permissions()
        decide = partial(rules.decide, tool, dict(arguments), context=context.request)
        if (await run_in_thread(decide)).action == "deny":
            return Deny("the rules of the agent's caller don't allow it.")
    return None


async def _model_of(agent: Agent, registry: ToolRegistry, run: AgentRun) -> Model:
    if isinstance(agent.model, str):
        return await run_in_thread(registry.model, agent.model)
    if (model := agent.model or run.model) is not None:
        return model
    try:
        return await run.call.use(Model)
    except MissingServiceError as error:
        text = f"{agent.name} was not run: it has no model (Agent(model=...)). Continue without it."
        raise ToolError(text) from error
