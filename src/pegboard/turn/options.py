"""Options of a turn; the queue of messages for the model (`Inbox`), and structured output (`TurnOutput`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from attrs import Attribute, define, field, frozen

from pegboard.callbacks import maybe_await
from pegboard.dispatch.arguments import parse_arguments
from pegboard.dispatch.batch import CallOptions
from pegboard.errors import ModelError, at_least
from pegboard.json import is_object
from pegboard.messages import Message
from pegboard.request.model_request import NamedTool
from pegboard.schema.messages import without_added_nulls
from pegboard.tools.call import CallError
from pegboard.tools.context import ToolContext
from pegboard.tools.limits import DEFAULT_LIMITS
from pegboard.tools.tool import Tool
from pegboard.turn.events import TurnOutcome

if TYPE_CHECKING:
    from pegboard.dispatch.approval.pending import Answers
    from pegboard.request.model_request import Model, ModelRequest, ToolChoice
    from pegboard.tools.call import ToolCall
    from pegboard.toolsets.predicates import Where
    from pegboard.toolsets.resolve import OnToolsetError
    from pegboard.turn.events import TurnEvent


def _check_positive(_self: Any, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not (type(value) in (int, float) and isfinite(value) and value > 0):
        raise ValueError(f"{attribute.name} must be a number above 0, or None for no limit; got {value!r}")


@frozen(kw_only=True)
class TurnLimits:
    """Limits of one turn; `None` is no limit. A limit ends a turn once every call has its result.

    Attributes:
        rounds: Requests to the model.
        final_answer: Whether to ask once more at that limit, without tools, so that the turn ends with text.
        calls: Calls that are run; further ones get a result with the reason.
        tokens: Tokens of all requests and answers together; checked after each answer.
        seconds: Duration; then a model that is still answering is cancelled, and so are calls.
        continuations: Times that `on_stop` may continue the turn.
        retries: Retries of a request that failed temporarily (a 429, a 503, a lost connection).
        longest_pause: Seconds of a pause before a retry; a provider that asks for more fails the request.

    Raises:
        ValueError: A limit that isn't above 0.
    """

    rounds: int | None = field(default=50, validator=_check_positive)
    final_answer: bool = field(default=False, kw_only=True)
    calls: int | None = field(default=500, validator=_check_positive)
    tokens: int | None = field(default=None, validator=_check_positive)
    seconds: float | None = field(default=None, validator=_check_positive)
    continuations: int = field(default=3, validator=at_least(0))
    retries: int = field(default=2, validator=at_least(0))
    longest_pause: float | None = field(default=60.0, validator=_check_positive)


DEFAULT_TURN_LIMITS: Final = TurnLimits()
StopCondition: TypeAlias = Callable[[TurnOutcome], "bool | str | Awaitable[bool | str | None] | None"]
"""Called with the outcome so far. A truthy answer stops the turn; a text is the reason. A plain one must not block."""


_Spoken: TypeAlias = "Sequence[Message | str] | Message | str | None"
Steering: TypeAlias = Callable[[], "_Spoken | Awaitable[_Spoken]"]
"""Returns the user's messages since the last call, or nothing. Plain or async; a plain one must not block."""

StartEarly: TypeAlias = "bool | Callable[[ToolCall, Tool], bool]"
"""Whether calls start while their answer is still streaming, or a function that decides it for each call."""


class TurnOptions(CallOptions, total=False):
    """Options of a turn, all optional.

    Those of its calls are as in `BatchOptions`: `approver`, `ask_until`, `permissions`, `max_concurrency`,
    `sequential`, `on_steering`, `timeout`, `results`.

    Attributes:
        limits: The limits of the turn.
        where: The predicate that selects tools, as for `registry.resolve`.
        active: The names of the tools that may be offered, in order.
        on_toolset_error: `"skip"`: the tools of a failing toolset are missing; `"fail"`: it fails the turn.
        first_choice: The `tool_choice` of the first round; later ones have the request's.
        output_type: The type of the answer, or the JSON Schema of an object: the model gives it in its provider's
            response format, else with a tool, and it is `TurnOutcome.output`.
        start_early: Whether read-only calls start as soon as they are complete, while the answer is still streaming; a
            function decides it for each call.
        stop_when: One or several stop conditions, checked after every round with calls: functions, or names of tools,
            one of which was called without an error.
        steering: Returns new messages of the user; called between calls and between rounds.
        listener: Called with each event; plain, on the event loop.
        resume: The outcome of a turn whose calls waited for an approval or for the host, or its JSON, also from another
            process: this turn continues it. Registry, user and session must be the original ones.
        answers: By the pending call's id, as for `registry.resume`. Some may be missing: while any call waits, the turn
            is suspended again.
        tool_results: By call id, what the tool would have returned, a `ToolResult` or an exception: for the calls in
            `for_host`, and later results of calls of long-running tools, or of tools that aren't offered any more.
    """

    limits: TurnLimits
    where: Where
    active: Sequence[str] | None
    on_toolset_error: OnToolsetError
    first_choice: ToolChoice | None
    output_type: Any
    start_early: StartEarly
    stop_when: StopCondition | str | Sequence[StopCondition | str]
    steering: Steering | None
    listener: Callable[[TurnEvent], None] | None
    resume: TurnOutcome | Mapping[str, Any] | None
    answers: Answers
    tool_results: Mapping[str, Any]


def read_conditions(options: TurnOptions) -> list[StopCondition]:
    """The stop conditions among these options; the name of a tool becomes one."""
    given = options.get("stop_when", ())
    conditions = [given] if isinstance(given, str) or callable(given) else given
    return [partial(_find_call, each) if isinstance(each, str) else each for each in conditions]


def _find_call(name: str, turn: TurnOutcome) -> str | None:
    last = turn.messages[-1].results if turn.messages else ()
    return f"{name} was called" if any(part.name == name and not part.result.is_error for part in last) else None


def read_resumed(options: TurnOptions) -> TurnOutcome | None:
    """The outcome to resume among these options, or `None`.

    Raises `PendingError` if it isn't a turn's, and `TypeError` or `ValueError` if the options don't go together.
    """
    given, results = options.get("resume"), options.get("tool_results")
    if given is None:
        if results or options.get("answers"):
            raise TypeError("answers and tool_results are for a turn to resume; pass its outcome as resume, too")
        return None
    before = given if isinstance(given, TurnOutcome) else TurnOutcome.from_json(given)
    if not (len(before.pending) or before.for_host or results):
        raise ValueError(f"no call waits in this outcome, which ended by {before.ended!r}; continue without resume")
    return before


@define(eq=False)
class Inbox:
    """Queue of messages for the next request."""

    steering: Steering | None = None  # returns new messages of the user
    messages: list[Message] = field(factory=list[Message], init=False)

    def put(self, given: object, source: str) -> None:
        """Adds a message, a text, several, or nothing (`None`); a `TypeError` for anything else names the source."""
        items: Any = [] if given is None else given
        if isinstance(items, str | Message) or not isinstance(items, Iterable):
            items = [items]
        for each in cast("list[Any]", items):
            if not isinstance(each, str | Message):
                raise TypeError(f"{source} must give messages or texts, got {type(each).__name__}")
            self.messages.append(each if isinstance(each, Message) else Message.user(each))

    async def listen(self) -> bool:
        """Calls `steering`, and returns whether there are messages."""
        if self.steering is not None:
            self.put(await maybe_await(self.steering()), "steering")
        return bool(self.messages)


@define(eq=False)
class TurnOutput:
    """Structured output of a turn, with the tool that takes it."""

    kind: Any  # a type, or the JSON Schema of an object
    tool: Tool = field(init=False)  # a call of it ends the turn; in a response format, the text is its arguments
    by_format: bool = field(default=False, init=False)  # whether the response format is used
    given: list[Any] = field(factory=list[Any], init=False)
    misses: int = field(default=0, init=False)  # answers without a valid output

    def __attrs_post_init__(self) -> None:
        async def final_result(result: Any) -> str:
            """Give the final answer. Call it once, when the task is done."""
            self.given.append(result)
            return "This is the answer."

        if is_object(self.kind):
            self.tool = Tool.from_schema("final_result", dict(self.kind), final_result, read_only=True)
        else:
            final_result.__annotations__["result"] = self.kind
            self.tool = Tool.from_function(final_result, flatten=False, read_only=True, idempotent=True)

    @property
    def value(self) -> Any:
        """The value that was given last; `None` if there is none."""
        return self.given[-1] if self.given else None

    def add_to(self, request: ModelRequest, model: Model, *, is_last: bool) -> ModelRequest:
        """The request with a response format or the tool for the output; in the last round the tool must be called."""
        formats = getattr(model, "formats", None)
        wanted = request.evolve(output=self.tool.spec)
        self.by_format = formats is not None and request.tool_choice in ("auto", "none") and formats(wanted) is True
        assert request.tools is not None
        if self.by_format:
            return wanted
        choice = NamedTool(self.tool.name) if is_last else request.tool_choice
        return request.evolve(tools=request.tools.with_tools(self.tool), tool_choice=choice)

    def read(self, text: str) -> str:
        """Reads an answer in the response format; returns a message with its faults, or `""`."""
        if not self.by_format:
            return f"Call {self.tool.name} with your answer."
        most, schema = DEFAULT_LIMITS.argument_bytes, self.tool.spec.input_schema_text
        try:
            arguments = without_added_nulls(parse_arguments(text, most_bytes=most), schema)
            problems = self.tool.check(arguments)
            if not problems:
                args, named = self.tool.bind(ToolContext(), arguments)
                self.given += (*args, *named.values())
                return ""
        except CallError as error:
            problems = error.problems or (str(error),)
        return "\n- ".join(("Your answer doesn't match the schema:", *problems)) + "\nSend the complete JSON again."

    def count_miss(self, model: Model) -> None:
        """Counts an answer without a valid output; raises `ModelError` for the second."""
        self.misses += 1
        if self.misses > 1:
            raise ModelError(f"model {model.name!r} gave no valid output in two answers", provider=model.provider)
