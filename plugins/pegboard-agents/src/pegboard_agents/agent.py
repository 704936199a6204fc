"""`Agent` and what else can be one; a run of an agent, its events, its result, and what it waits for, as data."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from uuid import uuid4

from attrs import Factory, field, frozen

from pegboard import (
    Confirmation,
    Message,
    Model,
    ModelConfig,
    ReadonlyContext,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    Turn,
    TurnLimits,
    TurnOutcome,
)
from pegboard.callbacks import accept_keywords
from pegboard.errors import tuple_of
from pegboard.json import canonical_json, digest_of
from pegboard.schema.converter import JsonRecord
from pegboard.tools import check_name, json_or_text

if TYPE_CHECKING:
    from pegboard.toolsets.predicates import Where

DEPTH: Final = 3
SECONDS: Final = 1_800.0
"""How long an agent may work on one request."""

_ANSWERED: Final = ("answered", "results", "stopped", "escalated", "transferred")

GIVEN: Final = ("request", "context", "call")
"""The arguments that the `run` of an object may take."""


class RunsAgent(Protocol):
    """Agent of any kind: an object with a name, a description and `run`.

    `run` takes, by name, some of `request` (the input), `context` (the agent's own `ReadonlyContext`) and `call` (the
    `ToolContext` of the call, to ask the user, emit, or call tools), is plain or async, and returns the answer: a value
    of the output type, a `ToolResult`, or `Actions` that change the state or (`escalate`) end the loop. Of an agent in
    a workflow or in the background, it can't take `call`.
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
        registry: Where its tools are. `None`: it has those that its caller was offered, and no others. In its own
            registry, the rules of its caller hold, too, and the callbacks before and after calls.
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


def check_agent(agent: Any, *, alone: bool = False) -> None:
    """Checks that this is an agent.

    Args:
        agent: The agent.
        alone: Whether it runs without a call of its own, as in a workflow.

    Raises:
        TypeError: It is none: its `run` can't be called, or takes unknown arguments.
        ValueError: Its `run` takes `call`, which it can't have.
    """
    if isinstance(agent, Agent | Workflow):
        return
    if not callable(getattr(agent, "run", None)) or not isinstance(getattr(agent, "name", None), str):
        text = "isn't an agent: give an Agent, a workflow, or an object with name, description and run"
        raise TypeError(f"{agent!r:.200} {text}")
    accept_keywords(agent.run, GIVEN)  # raises here, and not at the first call
    if alone:
        try:
            accept_keywords(agent.run, GIVEN[:2])
        except TypeError:
            text = "in a workflow or in the background there is no call: its run may take request and context"
            raise ValueError(f"agent {agent.name!r}: {text}") from None


def check_agents(given: Sequence[AnyAgent]) -> tuple[AnyAgent, ...]:
    """Agents that run without calls of their own, with distinct names.

    Raises:
        ValueError, TypeError: As `Workflow`.
    """
    agents = tuple(given)
    for each in agents:
        check_agent(each, alone=True)
    names = [each.name for each in agents]
    if not names:
        raise ValueError("there must be at least one agent")
    if len(set(names)) < len(names):
        raise ValueError(f"agents must have names that differ, got {names}")
    return agents


def list_agents(agents: Mapping[str, str]) -> str:
    """The lines of a tool's description with the names of agents, and what they are for."""
    texts = {name: " ".join(text.split()) for name, text in agents.items()}
    return "\n".join(f"- {name}: {text}" if text else f"- {name}" for name, text in texts.items())


@frozen(kw_only=True)
class Workflow:
    """Base of agents that run other agents: `SequentialAgent`, `ParallelAgent`, `LoopAgent`.

    Attributes:
        name: Its name, as a tool's.
        description: What it is for, for the models that call it.
        agents: The agents that it runs, with distinct names.

    Raises:
        ValueError: There are no agents, two of one name, or one whose `run` takes `call`.
        TypeError: One isn't an agent.
    """

    name: str = field(validator=lambda _self, _attribute, value: check_name(value))
    description: str = ""
    agents: tuple[AnyAgent, ...] = field(converter=check_agents)

    def digest(self, takes: Any = None, gives: Any = str) -> str:
        """Digest of everything that has to be unchanged when a suspended call is resumed."""
        parts = [each.digest(None, str) if isinstance(each, Agent | Workflow) else each.name for each in self.agents]
        return digest_of([type(self).__name__, self.name, parts, repr(takes), repr(gives)])

    @abstractmethod
    async def follow(self, run: AgentRun) -> AgentResult:
        """Runs its agents, or those that are left of a suspended run."""


AnyAgent: TypeAlias = Agent | Workflow | RunsAgent


@frozen
class AgentEvent(JsonRecord):
    """Something that happened in an agent's turn, as a partial result of the call.

    Attributes:
        agent: The agent's name.
        event: What happened: an event of a turn, or of a call in it; of an agent in a workflow, an `AgentEvent`.
        id: The id of an agent in the background, or `None`.
    """

    agent: str
    event: Any
    id: str | None = None


@frozen
class Suspension(JsonRecord):
    """What a suspended run of an agent waits for.

    Attributes:
        hint: The question.
        payload: JSON data with the question.
        stored: JSON data to resume the run.
        request: The id of the request by which a person was asked, or `None`.
        key: Identifies this question.
    """

    hint: str
    payload: Any = None
    stored: Mapping[str, Any] = field(factory=dict[str, Any], repr=False)
    request: str | None = None
    key: str = field(factory=lambda: uuid4().hex)


@frozen(kw_only=True)
class AgentRun:
    """One run of an agent.

    Attributes:
        agent: The agent.
        call: The call that it runs for: its services, its offered tools.
        context: The agent's own context, with the state that it starts with.
        request: The input; `None` of a run that only continues with `history`, whose last text of a user it is.
        inherited: The options of its caller's batch, as `ToolContext.inherited` gives them.
        emit: Gets its events.
        history: The conversation before the request.
        heard: The answers of other agents of its workflow since the request.
        takes: The type of its input, if it isn't a string.
        gives: The type of its answer.
        stored: The data of a suspended run to resume, or `None`.
        answer: A person's answer to what that waits for.
        in_loop: Whether `exit_loop` ends a loop around it.
        options: Further options of its turn.
        on_turn: Gets its turn before it begins.
        model: The model of agents that have none, before that of the host.
    """

    agent: AnyAgent
    call: ToolContext
    context: ReadonlyContext
    request: Any
    inherited: Mapping[str, Any]
    emit: Callable[[AgentEvent], None]
    history: tuple[Message, ...] = ()
    heard: tuple[str, ...] = ()
    takes: Any = str
    gives: Any = str
    stored: Mapping[str, Any] | None = None
    answer: Confirmation | None = None
    in_loop: bool = False
    options: Mapping[str, Any] = Factory(dict[str, Any])
    on_turn: Callable[[Turn], None] = lambda _turn: None
    model: Model | None = None

    @property
    def text(self) -> str:
        """The input as text."""
        if self.request is None:
            return next((each.text for each in reversed(self.history) if each.role == "user" and each.text), "")
        return self.request if isinstance(self.request, str) else canonical_json(json_or_text(self.request))

    @property
    def messages(self) -> tuple[Message | str, ...]:
        """The conversation that its turn begins with."""
        return (*self.history, *(() if self.request is None else (self.text,)), *self.heard)


@frozen(kw_only=True)
class AgentResult:
    """How a run of an agent ended.

    Attributes:
        agent: The agent's name.
        ended: Why, as of a turn; `"suspended"` if it waits for a person.
        answer: The answer of an agent that runs no turn.
        outcome: The outcome of its turn, if it has one.
        state: The state at its end.
        suspension: What it waits for, or `None`.
        conflicts: The keys of the state that several of its agents changed.
    """

    agent: str
    ended: str = "answered"
    answer: Any = ""
    outcome: TurnOutcome | None = None
    state: Mapping[str, Any] = field(factory=dict[str, Any], repr=False)
    suspension: Suspension | None = None
    conflicts: tuple[str, ...] = ()

    def value(self, gives: Any = str) -> Any:
        """The agent's answer, of the output type.

        Raises:
            ToolError: There is none.
        """
        if (outcome := self.outcome) is None:
            return self.answer
        name, detail = self.agent, f" ({outcome.detail})" if outcome.detail else ""
        if outcome.ended == "rejected":
            text = f"{name} stopped because the user rejected one of its calls. Ask the user how to continue."
            return ToolResult.error("rejected", text)
        if outcome.ended not in _ANSWERED:
            so_far = f"\nIts text so far: {outcome.text}" if outcome.text else ""
            why = f"{outcome.ended}{detail}"
            text = f"{name} ended without an answer: {why}. Give it a smaller task, or continue without it."
            raise ToolError(text + so_far)
        if gives is not str:
            if outcome.output is None:
                raise ToolError(f"{name} ended without an answer of the required type: {outcome.ended}{detail}.")
            return outcome.output
        results = outcome.messages[-1].results if outcome.messages else ()
        return outcome.text or "\n".join(part.result.text for part in results)

    @property
    def text(self) -> str:
        """The agent's answer as text.

        Raises:
            ToolError: There is none, or it is an error.
        """
        value = self.value()
        if isinstance(value, ToolResult):
            if value.is_error:
                raise ToolError(value.text)
            return value.text
        return value if isinstance(value, str) else canonical_json(json_or_text(value))
