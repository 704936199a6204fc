"""`agent_tool`: an agent as a tool. A call of it that waits for an approval can be resumed later."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypeAlias, cast
from uuid import uuid4

import attrs
from attrs import Factory, define, field, frozen

from pegboard import (
    Message,
    Model,
    ModelConfig,
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
    TurnLimits,
    TurnOutcome,
    TypedTool,
)
from pegboard.approval import PendingCall
from pegboard.callbacks import accept_keywords, may_block, maybe_await
from pegboard.errors import FatalToolError, MissingServiceError, PegboardError, PendingError, TurnAbortedError, tuple_of
from pegboard.json import canonical_json, digest_of, is_object
from pegboard.schema.converter import JsonRecord
from pegboard.threads import run_in_thread
from pegboard.tools import check_name, json_or_text

if TYPE_CHECKING:
    from pegboard.toolsets.predicates import Where

Session: TypeAlias = Literal["fresh", "kept"]
DEPTH: Final = 3
SECONDS: Final = 1_800.0
"""How long one call of an agent may take; waiting for approvals isn't counted."""

PRIVATE: Final = ("_", "temp:", "pegboard:", "agents:")
"""Prefixes of the keys of a session's state that other agents don't get."""

_GIVEN: Final = ("request", "context", "call")  # the arguments that `run` may take
_TASK: Final = Annotated[str, "The complete task, with everything the agent needs: it doesn't see this conversation."]
MOST_KEPT: Final = 200  # messages of a conversation that is stored between calls
_ANSWERED: Final = ("answered", "results", "stopped", "escalated", "transferred")
_inside: Final[ContextVar[int]] = ContextVar("pegboard_agents_inside", default=0)
"""How many agents enclose the current call."""


class RunsAgent(Protocol):
    """Agent of any kind: an object with a name, a description and `run`.

    `run` takes, by name, some of `request` (the input), `context` (the agent's own `ReadonlyContext`) and `call` (the
    `ToolContext` of the call, to ask the user, emit, or call tools), is plain or async, and returns the answer: a value
    of the output type, or a `ToolResult`.
    """

    @property
    def name(self) -> str:
        """The agent's name."""
        ...

    @property
    def description(self) -> str:
        """What it is for."""
        ...

    @property
    def run(self) -> Callable[..., Any]:
        """Runs it."""
        ...


def _texts(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple_of("instructions", str)(given or ())


@frozen(kw_only=True)
class Agent:
    """Configuration of an agent that runs turns of a model.

    Attributes:
        name: Its name, as a tool's.
        description: What it is for, for the models that call it.
        instructions: Instructions before its conversation.
        model: A model, or `PROVIDER/MODEL`; `None`: the one that the host provides (`registry.provide(Model, ...)`).
        registry: Where its tools are. `None`: it has those that its caller was offered, and no others. With its own
            registry, what the rules of either registry forbid is forbidden.
        where: A predicate on its tools.
        limits: How much one turn of it may use.
        config: The configuration of its model.
    """

    name: str = field(validator=lambda _self, _attribute, value: check_name(value))
    description: str = ""
    instructions: tuple[str, ...] = field(default=(), converter=_texts)
    model: Model | str | None = None
    registry: ToolRegistry | None = None
    where: Where = None
    limits: TurnLimits = field(factory=TurnLimits)
    config: ModelConfig = field(factory=ModelConfig)

    def digest(self, takes: Any, gives: Any) -> str:
        """Digest of everything that has to be unchanged when a suspended call is resumed."""
        model = self.model if isinstance(self.model, str) else self.model and [self.model.provider, self.model.name]
        return digest_of([self.name, list(self.instructions), model, str(self.where), repr(takes), repr(gives)])


AnyAgent: TypeAlias = Agent | RunsAgent


@frozen
class AgentEvent(JsonRecord):
    """Something that happened in an agent's turn, as a partial result of the call.

    Attributes:
        agent: The agent's name.
        event: What happened: an event of a turn, or of a call in it.
    """

    agent: str
    event: Any


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
        agent: An `Agent`, or any object with `run`.
        takes: The type of its input: the fields of a class (attrs, dataclass, TypedDict) are the tool's arguments;
            anything else is the one argument `request`; by default a string.
        gives: The type of its answer, from which the tool's output schema is derived; a string by default.
        session: `"fresh"`: each call begins a conversation; `"kept"`: the next call in its caller's session continues
            it. Its last 200 messages are stored in that session's state.
        depth: How deep agents may call agents, this one included.
        options: As `@tool` takes them; `timeout` is half an hour by default.

    Raises:
        DefinitionError: An option is unknown, or a type can't be expressed.
        ValueError: The depth is below 1, or the session is unknown.
        TypeError: The object's `run` can't be called, or takes unknown arguments.
    """
    if depth < 1 or session not in ("fresh", "kept"):
        raise ValueError(f"depth must be at least 1 and session 'fresh' or 'kept', got {depth!r} and {session!r}")
    if not isinstance(agent, Agent):
        if not callable(getattr(agent, "run", None)):
            raise TypeError(
                f"{agent!r:.200} isn't an agent: give an Agent, or an object with name, description and run"
            )
        accept_keywords(agent.run, _GIVEN)  # raises here, and not at the first call
    runner = _Runner(agent, takes, gives, session, depth)

    async def call(_self: Any, context: ToolContext, request: Any) -> Any:
        return await runner.call(context, request)

    body = {"call": call, "name": options.pop("name", None) or agent.name}
    body["input_schema"] = options.pop("input_schema", None)
    made: type[TypedTool[Any, Any]] = types.new_class(
        agent.name, (cast("Any", TypedTool)[takes, gives],), {}, lambda namespace: namespace.update(body)
    )
    given: dict[str, Any] = {"description": agent.description, "timeout": SECONDS, "open_world": True, **options}
    return made().as_tool(**given)


@define(eq=False)
class _Runner:
    """Handler of one agent's tool."""

    agent: AnyAgent
    takes: Any
    gives: Any
    session: Session
    depth: int
    _running: set[tuple[str | None, str]] = field(factory=set[tuple[str | None, str]], init=False)

    async def call(self, context: ToolContext, request: Any) -> Any:
        """The agent's answer.

        Raises:
            ToolError: There is none, with the reason.
            FatalToolError: One of its tools ended the turn.
        """
        name, enclosing = self.agent.name, _inside.get()
        if enclosing >= self.depth:
            text = (
                f"{name} was not run: agents can be nested only {self.depth} deep. Do the task without another agent."
            )
            raise ToolError(text)
        place = context.user, context.session or ""
        keeps = self.session == "kept"
        if keeps and place in self._running:
            raise ToolError(
                f"{name} was not run: it is still working on an earlier call. Call it again when that call is done."
            )
        if keeps:
            self._running.add(place)
        _inside.set(enclosing + 1)
        try:
            if isinstance(self.agent, Agent):
                return await self._answer(self.agent, context, request)
            return await self._run(self.agent, context, request)
        finally:
            _inside.set(enclosing)  # a token couldn't be reset if the coroutine is closed in another context
            if keeps:
                self._running.discard(place)

    async def _run(self, agent: RunsAgent, context: ToolContext, request: Any) -> Any:
        inner = self._context(context.request, self._new_session(context))
        run = accept_keywords(agent.run, _GIVEN)
        given = (
            await run_in_thread(run, request, inner, context) if may_block(agent.run) else run(request, inner, context)
        )
        return await maybe_await(given)

    def _new_session(self, context: ToolContext) -> str:
        return "/".join(filter(None, (context.session, self.agent.name, uuid4().hex[:12])))

    def _context(self, outer: ReadonlyContext, session: str) -> ReadonlyContext:
        """The agent's own context."""
        agent, above = self.agent, outer.branch or outer.agent
        return ReadonlyContext(
            user=outer.user,
            agent=agent.name,
            agent_description=agent.description,
            session=session,
            state={key: value for key, value in outer.state.items() if not key.startswith(PRIVATE)},
            extra=outer.extra,
            branch=f"{above}.{agent.name}" if above else agent.name,
            work_dir=outer.work_dir,
        )

    # Agents that run turns ---------------------------------------------------------------------------------------

    async def _answer(self, agent: Agent, context: ToolContext, request: Any) -> Any:
        suspended = self._suspended(agent, context)
        conversation = self._conversation(context) if suspended is None else suspended.conversation
        registry = agent.registry or context.service(ToolRegistry)
        inner = self._context(context.request, conversation.session)
        model = await _model_of(agent, registry, context)
        try:
            turn = self._turn(agent, model, registry, inner, context, conversation, suspended, request)
            outcome = await turn.run()
        except FatalToolError:
            raise
        except (PegboardError, TurnAbortedError) as error:
            retryable = getattr(error, "retryable", None) is True
            text = f"{agent.name} failed ({type(error).__name__}). Try again, or continue without it."
            raise ToolError(text, retryable=retryable) from error
        finally:
            if isinstance(agent.model, str) and (close := getattr(model, "aclose", None)) is not None:
                await close()
        if outcome.ended in ("suspended", "pending"):
            self._suspend(agent, context, outcome, inner)
        if self.session == "kept":
            self._keep(context, conversation.session, outcome.messages)
        usage = outcome.usage.to_json()
        context.metadata(f"{agent.name}: {outcome.ended}", rounds=outcome.rounds, calls=outcome.calls, usage=usage)
        return self._value(outcome)

    def _turn(  # noqa: PLR0913, PLR0917  what a turn is made of
        self,
        agent: Agent,
        model: Model,
        registry: ToolRegistry,
        inner: ReadonlyContext,
        context: ToolContext,
        conversation: _Conversation,
        suspended: _Suspended | None,
        request: Any,
    ) -> Turn:
        options: dict[str, Any] = {**context.inherited(), "where": agent.where, "limits": agent.limits}
        options["listener"] = partial(_forward, agent.name, context)
        if agent.registry is None:
            options["active"] = [tool.name for tool in context.offered]
        elif (bound := _bound(agent.registry, context, options.get("permissions"))) is not None:
            options["permissions"] = bound
        if self.gives is not str:
            options["output_type"] = self.gives
        asked = ModelRequest((), instructions=agent.instructions, config=agent.config)
        if suspended is None:
            words = request if isinstance(request, str) else canonical_json(json_or_text(request))
            asked = asked.with_messages(*conversation.messages, words)
        else:
            options |= {
                "resume": suspended.outcome,
                "answers": suspended.answers,
                "tool_results": suspended.tool_results,
            }
        return Turn(model, asked, registry, inner, **options)

    def _value(self, outcome: TurnOutcome) -> Any:
        """The agent's answer, of the output type.

        Raises:
            ToolError: There is none.
        """
        name, detail = self.agent.name, f" ({outcome.detail})" if outcome.detail else ""
        if outcome.ended == "rejected":
            text = f"{name} stopped because the user rejected one of its calls. Ask the user how to continue."
            return ToolResult.error("rejected", text)
        if outcome.ended not in _ANSWERED:
            so_far = f"\nIts text so far: {outcome.text}" if outcome.text else ""
            why = f"{outcome.ended}{detail}"
            text = f"{name} ended without an answer: {why}. Give it a smaller task, or continue without it."
            raise ToolError(text + so_far)
        if self.gives is not str:
            if outcome.output is None:
                raise ToolError(f"{name} ended without an answer of the required type: {outcome.ended}{detail}.")
            return outcome.output
        results = outcome.messages[-1].results if outcome.messages else ()
        return outcome.text or "\n".join(part.result.text for part in results)

    # Stored conversations ------------------------------------------------------------------------------------------

    def _conversation(self, context: ToolContext) -> _Conversation:
        key = f"agents:{self.agent.name}"
        stored: Any = (context.values.get(key) or context.state.get(key)) if self.session == "kept" else None
        try:
            return _Conversation(str(stored["session"]), [Message.from_json(each) for each in stored["messages"]])
        except (TypeError, KeyError, ValueError, AttributeError):  # there is none, or a host has changed it
            return _Conversation(self._new_session(context))

    def _keep(self, context: ToolContext, session: str, messages: tuple[Message, ...]) -> None:
        last = messages[-MOST_KEPT:]
        start = next((place for place, message in enumerate(last) if message.role == "user"), len(last))
        stored = {"session": session, "messages": [message.to_json() for message in last[start:]]}
        key = f"agents:{self.agent.name}"
        context.state[key] = context.values[key] = stored

    # Calls that wait for an approval -------------------------------------------------------------------------------

    def _suspend(self, agent: Agent, context: ToolContext, outcome: TurnOutcome, inner: ReadonlyContext) -> None:
        """Suspends the call until the first of the agent's pending calls is answered."""
        changed = {key: value for key, value in outcome.state.items() if inner.state.get(key) != value}
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
            "digest": agent.digest(self.takes, self.gives),
            "asked": asked,
            "session": inner.session,
            "outcome": outcome.to_json(),
            "payload": payload,
        }
        context.suspend(hint, payload, stored=stored, request=request)

    def _suspended(self, agent: Agent, context: ToolContext) -> _Suspended | None:
        """The suspended turn that the call resumes, with the answer; `None` for a new call.

        Raises:
            ToolError: The agent has changed, or the stored turn can't be read.
        """
        answer = context.confirmation
        if answer is None or not is_object(answer.stored) or answer.stored.get("agent") != agent.name:
            return None
        stored = answer.stored
        if stored.get("digest") != agent.digest(self.takes, self.gives):
            raise ToolError(f"{agent.name} can't resume: it was changed after its call was suspended. Call it again.")
        try:
            outcome, asked = TurnOutcome.from_json(stored.get("outcome")), str(stored.get("asked"))
        except PendingError as error:
            raise ToolError(f"{agent.name} can't resume: its stored state can't be read. Call it again.") from error
        session = str(stored.get("session"))
        given = None if answer.payload == stored.get("payload") else answer.payload
        if any(call.id == asked for call in outcome.for_host):
            no = ToolResult.error("rejected", f"The user gave no result: {answer.feedback or 'no reason given'}.")
            return _Suspended(outcome, session, tool_results={asked: given if answer.confirmed else no})
        reply = Once(given) if answer.confirmed else Reject(answer.feedback)
        return _Suspended(outcome, session, answers={asked: reply})


@frozen
class _Conversation:
    """The session of an agent, and its messages so far."""

    session: str
    messages: list[Message] = Factory(list[Message])


@frozen
class _Suspended:
    """Suspended turn of an agent, with the answer to resume it."""

    outcome: TurnOutcome
    session: str
    answers: Mapping[str, Any] = Factory(dict[str, Any])
    tool_results: Mapping[str, Any] = Factory(dict[str, Any])

    @property
    def conversation(self) -> _Conversation:
        """Its session; the messages are those of the outcome."""
        return _Conversation(self.session)


def _question(agent: str, pending: PendingCall) -> tuple[str, Any]:
    """The question and the payload of the request for approval of an agent's call."""
    if pending.subject == "question":
        return f"{agent} asks: {pending.hint}", pending.payload
    facts = pending.to_json()
    shown = ("call", "permission", "patterns", "reason", "preview")
    hint = f"{agent} asks for permission {pending.permission}, to call {pending.call.name}"
    return hint, {name: facts[name] for name in shown if facts.get(name)}


def _forward(agent: str, context: ToolContext, event: Any) -> None:
    context.emit(AgentEvent(agent, event))


def _bound(own: ToolRegistry, context: ToolContext, given: Permissions | None) -> Permissions | None:
    """The rules for an agent's calls in its own registry, with everything forbidden that its caller is forbidden.

    They are based on those of its caller's batch, or else its registry's; `None`: no others are needed.
    """
    caller = context.service(ToolRegistry).permissions if context.provides(ToolRegistry) else None
    base, other = (given, own.permissions) if given is not None else (own.permissions or Permissions(), caller)
    forbids = () if other is None else tuple(rule for rule in other.rules.rules if rule.forbid)
    return base.with_rules(*forbids) if forbids else given


async def _model_of(agent: Agent, registry: ToolRegistry, context: ToolContext) -> Model:
    if isinstance(agent.model, str):
        return await run_in_thread(registry.model, agent.model)
    if agent.model is not None:
        return agent.model
    try:
        return await context.use(Model)
    except MissingServiceError as error:
        text = f"{agent.name} was not run: it has no model (Agent(model=...)). Continue without it."
        raise ToolError(text) from error
