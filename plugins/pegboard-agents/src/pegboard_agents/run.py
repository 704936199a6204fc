"""One run of an agent, `run_agent`: its turn, its answer, and how it waits for a person and is resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, Final
from uuid import uuid4
from weakref import WeakSet

import attrs
from attrs import frozen

from pegboard import (
    REMOVED,
    Abort,
    Actions,
    Ask,
    ChangeArguments,
    Confirmation,
    Deny,
    Model,
    ModelRequest,
    Once,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
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
from pegboard.errors import (
    FatalToolError,
    MissingServiceError,
    PegboardError,
    PendingError,
    TurnAbortedError,
    log_failure,
)
from pegboard.json import canonical_json, is_object
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


def diff_states(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
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
    if not isinstance(answer, Actions):
        return AgentResult(agent=run.agent.name, answer=answer, state=run.context.state)
    answer.apply_to(state := dict(run.context.state))
    return AgentResult(agent=run.agent.name, ended="escalated" if answer.escalate else "answered", state=state)


async def run_safely(run: AgentRun) -> AgentResult:
    """`run_agent` for an agent without a call of its own: whatever it raises costs only its answer.

    Raises:
        ToolError: It failed in whatever way.
        FatalToolError: One of its tools ended the turn.
        asyncio.CancelledError: The caller was cancelled.
    """
    name, task = run.agent.name, asyncio.current_task()
    try:
        return await run_agent(run)
    except (ToolError, FatalToolError):
        raise
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise
        raise ToolError(f"{name} cancelled itself. Try again, or continue without it.") from error
    except Exception as error:
        log_failure(f"the agent {name}", error)
        raise ToolError(f"{name} failed ({type(error).__name__}). Try again, or continue without it.") from error


async def _run_object(agent: RunsAgent, run: AgentRun) -> Any:
    function = accept_keywords(agent.run, GIVEN)
    request = "\n\n".join((run.text, *run.heard)) if run.heard or run.request is None else run.request
    try:
        return await _call(function, may_block(agent.run), request, run.context, run.call)
    except SystemExit as error:  # in a task it would end the program
        raise ToolError(f"{agent.name} failed (SystemExit). Try again, or continue without it.") from error


async def _run_turn(agent: Agent, run: AgentRun) -> AgentResult:
    resume: dict[str, Any] = {} if run.stored is None else _resume_options(agent, run)
    registry = agent.registry or run.call.service(ToolRegistry)
    model, binding = await _model_of(agent, registry, run), _binding.get()
    try:
        turn = _turn_of(agent, model, registry, run, resume)
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


async def _call(function: Callable[..., Any], blocking: bool, *arguments: Any) -> Any:
    """The result of a plain or async function; one that may block runs in a thread."""
    return await maybe_await(await run_in_thread(function, *arguments) if blocking else function(*arguments))


def _forward(run: AgentRun, agent: str, event: Any) -> None:
    run.emit(AgentEvent(agent, event))


def _turn_of(agent: Agent, model: Model, registry: ToolRegistry, run: AgentRun, resume: dict[str, Any]) -> Turn:
    options: dict[str, Any] = {**run.inherited, "where": agent.where, "limits": agent.limits, **run.options, **resume}
    options["listener"] = partial(_forward, run, agent.name)
    if agent.registry is None:
        options["active"] = [tool.name for tool in run.call.offered]
    else:
        options |= _bind(agent.registry, run.call, options.get("permissions"))
    if run.gives is not str:
        options["output_type"] = run.gives
    asked = ModelRequest((), instructions=agent.instructions, config=agent.config)
    if not resume:
        asked = asked.with_messages(*run.messages)
    return Turn(model, asked, registry, run.context, **options)


# Runs that wait for a person ---------------------------------------------------------------------------------------


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


def read_error(agent: AnyAgent) -> ToolError:
    """The error of a suspended run whose data can't be read."""
    return ToolError(f"{agent.name} can't resume: its stored state can't be read. Call it again.")


def _resume_options(agent: Agent, run: AgentRun) -> dict[str, Any]:
    """The options of a turn that resumes a suspended one with the answer.

    Raises:
        ToolError: The agent has changed, or the stored turn can't be read.
    """
    stored, answer = check_stored(agent, run), run.answer or Confirmation()
    try:
        outcome, asked = TurnOutcome.from_json(stored.get("outcome")), str(stored.get("asked"))
    except PendingError as error:
        raise read_error(agent) from error
    given = None if answer.payload == stored.get("payload") else answer.payload
    if any(call.id == asked for call in outcome.for_host):
        no = ToolResult.error("rejected", f"The user gave no result: {answer.feedback or 'no reason given'}.")
        return {"resume": outcome, "tool_results": {asked: given if answer.confirmed else no}}
    return {"resume": outcome, "answers": {asked: Once(given) if answer.confirmed else Reject(answer.feedback)}}


def session_of(stored: Any) -> str | None:
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


@frozen
class _Binding:
    """What binds the calls of an agent in a registry of its own, besides the rules of its turn."""

    callers: tuple[ToolRegistry, ...] = ()  # whose callbacks are called before and after its calls
    others: tuple[ToolRegistry, ...] = ()  # whose rules hold, too: what they deny or ask about is denied or asked


_UNBOUND: Final = _Binding()
_binding: Final[ContextVar[_Binding]] = ContextVar("pegboard_agents_binding", default=_UNBOUND)
_bound: Final[WeakSet[ToolRegistry]] = WeakSet()
_PERMISSION: Final = "rules_of_caller"
"""The permission that an agent's call asks for if only its caller's rules ask."""


def calling_registries() -> tuple[ToolRegistry, ...]:
    """The registries of the callers of the current agent, if it has its own; the outermost first."""
    return _binding.get().callers


def _bind(own: ToolRegistry, context: ToolContext, given: Permissions | None) -> dict[str, Any]:
    """Binds an agent's calls in its own registry by its caller's rules and callbacks; returns options of its turn.

    Its calls are decided by the rules of its caller's batch, or else of its own registry. The other rules are applied
    before each call; forbid rules among them are added, as running tools may ask for what they forbid.
    """
    caller = context.service(ToolRegistry) if context.provides(ToolRegistry) else None
    other = caller if given is None else own
    if caller is own or other is None:
        return {}
    if own not in _bound:
        _bound.add(own)
        own.add_callback("before_tool", _call_before)
        own.add_callback("after_tool", _call_after)
    binding, rules = _binding.get(), other.permissions.rules.rules if other.permissions else ()
    callers = binding.callers if caller is None else (*binding.callers, caller)
    _binding.set(_Binding(callers, (*binding.others, other)))
    added = [rule for rule in rules if rule.forbid]
    if any(rule.action == "ask" for rule in rules):
        added.append(Rule(_PERMISSION, "*", "ask"))
    return {"permissions": (given or own.permissions or Permissions()).with_rules(*added)} if added else {}


async def _call_before(
    context: ToolContext, tool: Tool, arguments: Mapping[str, Any]
) -> ToolResult | ChangeArguments | Ask | Deny | Abort | None:
    """Calls the callers' callbacks before a call, then applies the further rules to it."""
    final = arguments
    for link in await _links("before_tool", context, tool):
        answer = await _call(link.function, link.blocking, context, tool, final)
        if isinstance(answer, ToolResult | Deny | Abort):
            return answer
        if isinstance(answer, Ask):
            await context.ask(answer.permission, answer.patterns, answer.always, answer.metadata)
        if answer is not None and answer.arguments is not None:
            final = answer.arguments
    given, asks = dict(final), False
    for other in _binding.get().others:
        rules = other.permissions or Permissions()
        decision = await run_in_thread(partial(rules.decide, tool, given, context=context.request))
        if decision.action == "deny":
            return Deny("the rules of the agent's caller don't allow it.")
        asks = asks or (decision.action == "ask" and decision.rule is not None)
    if asks:
        return Ask(_PERMISSION, f"{tool.name} {canonical_json(given)}", arguments=given)
    return None if final is arguments else ChangeArguments(given)


async def _call_after(
    context: ToolContext, tool: Tool | None, arguments: Mapping[str, Any], result: ToolResult
) -> ToolResult | Abort | None:
    """Calls the callers' callbacks after a call."""
    for link in await _links("after_tool", context, tool):
        answer = await _call(link.function, link.blocking, context, tool, arguments, result)
        if isinstance(answer, Abort):
            return answer
        result = answer or result
    return result


async def _links(stage: str, context: ToolContext, tool: Tool | None) -> list[Any]:
    """The callbacks of the callers' registries that apply to a call, without those by which they are bound."""
    return [
        link
        for caller in _binding.get().callers
        for link in await caller.chain(stage)
        if link.function not in (_call_before, _call_after)
        and (link.where is None or (tool is not None and link.where(tool, context.request)))
    ]


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
