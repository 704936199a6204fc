"""Options of a turn, and what serves them: messages that come meanwhile (`Inbox`), a value as its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from attrs import Attribute, define, field, frozen

from pegboard.callbacks import settle
from pegboard.dialects.values import without_added_nulls
from pegboard.dispatch.arguments import parse_arguments
from pegboard.dispatch.batch import BatchOptions, CallOptions, check_options
from pegboard.errors import ModelError
from pegboard.messages import Message
from pegboard.request.model_request import NamedTool
from pegboard.schema.json import StructureError, is_object, problem
from pegboard.tools.call import CallError
from pegboard.tools.context import ToolContext
from pegboard.tools.spec import DEFAULT_LIMITS
from pegboard.tools.tool import Tool
from pegboard.turn.events import TurnOutcome

if TYPE_CHECKING:
    from pegboard.catalogue import Where
    from pegboard.request.model_request import Model, ModelRequest, ToolChoice
    from pegboard.tools.call import ToolCall
    from pegboard.toolsets.resolve import OnToolsetError
    from pegboard.turn.events import TurnEvent


def _positive(_self: Any, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not (type(value) in (int, float) and isfinite(value) and value > 0):
        raise ValueError(f"{attribute.name} must be a number above 0, or None for no limit; got {value!r}")


def _count(_self: Any, attribute: Attribute[Any], value: int) -> None:
    if type(value) is not int or value < 0:
        raise ValueError(f"{attribute.name} must be a whole number, 0 or above; got {value!r}")


@frozen(kw_only=True)
class TurnLimits:
    """Limits of one turn; `None` is no limit. A limit ends a turn once every call has its result.

    Attributes:
        rounds: How often the model is asked.
        final_answer: Whether it is asked once more at that limit, without tools, so that the turn ends with words.
        calls: How many calls run; those beyond get a result with the reason.
        tokens: What all answers together may use, requests included. It is known only behind an answer.
        seconds: How long the turn takes; a model that is still answering then is cancelled, and so are calls.
        continuations: How often `on_stop` may have a turn go on.
        retries: How often a request is sent again that failed for a while (a 429, a 503, a lost connection).
        longest_pause: Seconds that a retry may wait at most; a provider that asks for more fails the request.

    Raises:
        ValueError: A limit that isn't above 0.
    """

    rounds: int | None = field(default=50, validator=_positive)
    final_answer: bool = field(default=False, kw_only=True)
    calls: int | None = field(default=500, validator=_positive)
    tokens: int | None = field(default=None, validator=_positive)
    seconds: float | None = field(default=None, validator=_positive)
    continuations: int = field(default=3, validator=_count)
    retries: int = field(default=2, validator=_count)
    longest_pause: float = field(default=60.0, validator=_positive)


DEFAULT_TURN_LIMITS: Final = TurnLimits()
StopCondition: TypeAlias = Callable[[TurnOutcome], "bool | str | Awaitable[bool | str | None] | None"]
"""Gets the turn as it stands. Anything true stops it; a text is the reason. A plain one must not wait."""


def called(*names: str) -> StopCondition:
    """Stops once one of these tools was called, and answered without an error."""

    def was_called(turn: TurnOutcome) -> str | None:
        last = turn.messages[-1].results if turn.messages else ()
        found = next((part.name for part in last if part.name in names and not part.result.is_error), None)
        return None if found is None else f"{found} was called"

    return was_called


_Spoken: TypeAlias = "Sequence[Message | str] | Message | str | None"
Steering: TypeAlias = Callable[[], "_Spoken | Awaitable[_Spoken]"]
"""Gives what the user has written since it was last asked, or nothing. Plain or async; a plain one must not wait."""


StartEarly: TypeAlias = "bool | Callable[[ToolCall, Tool], bool]"
"""Whether calls start while the answer that they stand in is still streaming, or which do."""


class TurnOptions(CallOptions, total=False):
    """Options of a turn; everything may be left out.

    Those of its calls are as in `BatchOptions`: `approver`, `permissions`, `max_concurrency`, `sequential`,
    `on_steering`, `timeout`, `results`.

    Attributes:
        limits: How much it may use.
        where: What the turn asks of tools, as `registry.resolve` takes it.
        active: The names of the tools that may be offered, in order.
        on_toolset_error: `"skip"`: a toolset that fails costs the turn its own tools; `"fail"`: it fails the turn.
        first_choice: The `tool_choice` of the first round; later ones have the request's.
        output_type: The type of the answer, or the JSON Schema of an object: the model gives it in its provider's
            response format, else by a tool, and it is `TurnOutcome.output`.
        start_early: Whether calls that only read start as soon as they have come whole, though the answer is still
            streaming; a function says which do, of any that their tools are there for.
        stop_when: Conditions that stop it, asked behind every round with calls; one or several.
        steering: Gives what the user wrote meanwhile; asked between calls and between rounds.
        listener: Gets each event; plain, called on the event loop.
    """

    limits: TurnLimits
    where: Where
    active: Sequence[str] | None
    on_toolset_error: OnToolsetError
    first_choice: ToolChoice | None
    output_type: Any
    start_early: StartEarly
    stop_when: StopCondition | Sequence[StopCondition]
    steering: Steering | None
    listener: Callable[[TurnEvent], None] | None


_OF_TURNS: Final = frozenset(TurnOptions.__annotations__) - CallOptions.__annotations__.keys()
"""All others are handed on to each round's batch of calls."""


def split_options(options: TurnOptions) -> tuple[dict[str, Any], BatchOptions]:
    """The options of the turn itself and those of its batches, all checked.

    Raises:
        TypeError: An option that there isn't; with near misses.
        ValueError: A value that isn't allowed.
    """
    check_options(options, TurnOptions.__annotations__)
    own: dict[str, Any] = {name: value for name, value in options.items() if name in _OF_TURNS}
    handed: dict[str, Any] = {name: value for name, value in options.items() if name not in _OF_TURNS}
    stop_when = own.get("stop_when", ())
    own["stop_when"] = (stop_when,) if callable(stop_when) else tuple(stop_when)
    return own, handed  # pyright: ignore[reportReturnType]  its keys are some of that type's


@define(eq=False)
class Inbox:
    """Messages that the model hasn't read yet.

    Attributes:
        steering: Gives what the user has written since the last time; `None`: nothing but what was put in.
    """

    steering: Steering | None = None
    messages: list[Message] = field(factory=list[Message], init=False)

    def put(self, given: object, source: str) -> None:
        """Adds a message, a text, several, or nothing (`None`).

        Raises:
            TypeError: Something that is no message; names the source.
        """
        items: Any = [] if given is None else given
        if isinstance(items, str | Message) or not isinstance(items, Iterable):
            items = [items]
        for each in cast("list[Any]", items):
            if not isinstance(each, str | Message):
                raise TypeError(f"{source} gives messages or texts, not {type(each).__name__}")
            self.messages.append(each if isinstance(each, Message) else Message.user(each))

    async def listen(self) -> bool:
        """Whether there is something that the model hasn't read."""
        if self.steering is not None:
            self.put(await settle(self.steering()), "steering")
        return bool(self.messages)


@define(eq=False)
class TurnOutput:
    """Structured output of a turn: the tool by which the model gives it, and what it has given.

    Attributes:
        kind: The type of what is wanted, or the JSON Schema of an object.
        tool: Offered beside the others; the turn ends once it was called with valid arguments. Where the provider has a
            response format for it, the answer has its arguments instead.
        by_format: Whether the answer that is awaited has.
        given: What was given, in a list; empty before.
        misses: How often the model has answered something else.
    """

    kind: Any
    tool: Tool = field(init=False)
    by_format: bool = field(default=False, init=False)
    _take: Callable[..., Awaitable[str]] = field(init=False)
    given: list[Any] = field(factory=list[Any], init=False)
    misses: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        async def final_result(result: Any) -> str:
            """Give the final answer, once nothing else is left to do."""
            self.given.append(result)
            return "This is the answer."

        self._take = final_result
        if is_object(self.kind):
            self.tool = Tool.from_schema("final_result", dict(self.kind), final_result, read_only=True)
        else:
            final_result.__annotations__["result"] = self.kind
            self.tool = Tool.from_function(final_result, flatten=False, read_only=True, idempotent=True)

    def asked_by(self, request: ModelRequest, model: Model, *, is_last: bool) -> ModelRequest:
        """The request with what asks for the value: a response format, or the tool, which has to be called at last."""
        formats = getattr(model, "formats", None)
        wanted = request.evolve(output=self.tool.spec)
        self.by_format = formats is not None and request.tool_choice in ("auto", "none") and formats(wanted) is True
        assert request.tools is not None
        if self.by_format:
            return wanted
        choice = NamedTool(self.tool.name) if is_last else request.tool_choice
        return request.evolve(tools=request.tools.with_tools(self.tool), tool_choice=choice)

    async def read(self, text: str) -> str:
        """Takes an answer in the response format; gives what is wrong with it, or `""`."""
        if not self.by_format:
            return f"Give your answer by calling {self.tool.name}."
        most, schema = DEFAULT_LIMITS.argument_bytes, self.tool.spec.input_schema
        try:
            arguments = without_added_nulls(parse_arguments(text, most_bytes=most), schema)
            problems = self.tool.validator.problems(arguments)
            if not problems:
                args, named = self.tool.bind(ToolContext(), arguments)
                await self._take(*args, **named)
                return ""
        except CallError as error:
            problems = error.problems or (str(error),)
        except StructureError as error:
            problems = (problem(error.path, error.reason),)
        return "\n- ".join(("Your answer isn't what is wanted:", *problems)) + "\nGive it again, as JSON, in full."

    def miss(self, model: Model) -> None:
        """Notes an answer that isn't one.

        Raises:
            ModelError: It isn't the first.
        """
        self.misses += 1
        if self.misses > 1:
            raise ModelError(f"model {model.name!r} gave no answer of the type that is wanted", provider=model.provider)
