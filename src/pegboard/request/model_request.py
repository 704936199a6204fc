"""What a model is asked (`ModelRequest`, `ModelConfig`, the choice of tools), and the models that answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

import attrs
from attrs import field, frozen

from pegboard.errors import ModelError
from pegboard.messages import Delta, Message, ModelResponse, Writable
from pegboard.tools.content import writable
from pegboard.tools.spec import HOST, Origin, ToolSpec, check_name
from pegboard.tools.tool import Tool
from pegboard.toolsets.resolve import ResolvedTools
from pegboard.typing import JsonMapping


@frozen
class NamedTool:
    """The model must call this tool.

    Attributes:
        name: The tool's name.

    Raises:
        InvalidNameError: No tool can have this name.
    """

    name: str = field(validator=lambda _self, _attribute, value: check_name(value))


_CHOICES: Final = ("auto", "none", "required")
ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool
"""`"auto"`: the model decides; `"none"`: it calls nothing; `"required"`: it calls something; or which one it calls."""

_NOTHING: Final[Mapping[str, Any]] = {}


def _as_texts(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


@frozen(kw_only=True)
class ModelConfig:
    """Settings of a model's answer; `None` leaves one to the provider.

    Attributes:
        max_output_tokens: How long the answer may be.
        temperature: How much chance there is in it.
        top_p: How much of the probable it is chosen from.
        stop: Texts at which it ends; one may be given as it is.
        seed: Where its chance starts.
        parallel_calls: Whether one answer may hold several calls.
        reasoning: How much it shall think: `"none"`, `"low"`, `"medium"`, `"high"`.
        strict: Whether the provider holds calls to their schemas, for tools that say nothing of it themselves.
        provider_options: By provider, what its API takes beside; put into the request's body as it is.
    """

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = field(default=(), converter=_as_texts)
    seed: int | None = None
    parallel_calls: bool | None = None
    reasoning: Literal["none", "low", "medium", "high"] | None = None
    strict: bool | None = None
    provider_options: JsonMapping = field(default=_NOTHING, repr=False)


_DEFAULT_CONFIG: Final = ModelConfig()


@frozen
class ProcessorProblem:
    """Something that went wrong while a request was made ready. For the operator; never sent.

    Attributes:
        processor: The name of the processor in which it happened.
        cause: What happened, in one line.
        origin: Who brought what failed.
        tool: The name of the tool, where it is about one; else `None`.
        error: What was raised, or `None`.
    """

    processor: str
    cause: str
    origin: Origin = HOST
    tool: str | None = None
    error: BaseException | None = field(default=None, eq=False, repr=False)

    @property
    def who(self) -> str:
        """What failed, and its origin, for logs."""
        what = f"request processor {self.processor!r}"
        return f"{what}, tool {self.tool!r} of {self.origin}" if self.tool else f"{what} of {self.origin}"

    def __str__(self) -> str:
        return f"{self.who}: {self.cause}"


def _as_messages(given: Any) -> tuple[Message, ...]:
    """Messages of what hosts write for short: a text is the user's."""
    if isinstance(given, str | Message):
        given = (given,)
    each_given = cast("Iterable[Message | Writable]", given)
    return tuple(each if isinstance(each, Message) else Message.user(each) for each in each_given)


def _check_choice(_self: Any, _attribute: Any, choice: object) -> None:
    if not (isinstance(choice, NamedTool) or (isinstance(choice, str) and choice in _CHOICES)):
        raise ValueError(f"tool_choice must be {', '.join(map(repr, _CHOICES))} or NamedTool(name), got {choice!r:.80}")


@frozen
class ModelRequest:
    """Request to a model: frozen, provider-neutral; processors make the next one of it.

    Attributes:
        messages: The conversation, the oldest first. A text, a message or a list of them may be given; a text is the
            user's.
        model: The model's name, or `None`: the client's own.
        instructions: What stands before the conversation, part by part (the system prompt).
        tools: The tools that are offered, with the reason for every one that is in or out; `None` where none have
            been resolved.
        tool_choice: Whether the model may, must, or must not call tools, or which one.
        config: How it shall answer.
        loads_deferred: Whether the provider searches and loads deferred tools itself, so that they are sent too.
        start_early: Whether a stream shall give partial responses, too, each with one more call that is whole.
        output: What the answer is to be the JSON of, by the provider's own response format: a name, a description, and
            the schema of an object. `None`: words.
        extra: Anything else that processors and clients hand on; never sent.
        problems: What went wrong while the request was made ready; for the operator, never sent.

    Raises:
        ValueError: A tool choice that there isn't; a tool is named by `NamedTool`.
    """

    messages: tuple[Message, ...] = field(default=(), converter=_as_messages)
    model: str | None = None
    instructions: tuple[str, ...] = field(default=(), converter=_as_texts)
    tools: ResolvedTools | None = field(default=None, repr=False)
    tool_choice: ToolChoice = field(default="auto", validator=_check_choice)
    config: ModelConfig = _DEFAULT_CONFIG
    loads_deferred: bool = False
    start_early: bool = False
    output: ToolSpec | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default=_NOTHING, repr=False)
    problems: tuple[ProcessorProblem, ...] = field(default=(), converter=tuple[ProcessorProblem, ...], repr=False)

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that a model is sent, in their order.

        Not among them, though they may be resolved: tools that are there to process requests, and deferred ones where
        the provider doesn't load them itself.
        """
        if self.tools is None:
            return ()
        deferred = self.loads_deferred
        return tuple(tool for tool in self.tools.tools if tool.offered and (deferred or not tool.spec.deferred))

    @property
    def system(self) -> str:
        """The instructions as one text, a blank line between the parts; lone surrogates in it are replaced."""
        return writable("\n\n".join(part for part in self.instructions if part))

    def evolve(self, **changes: Any) -> ModelRequest:
        """A request with some attributes changed."""
        return attrs.evolve(self, **changes)

    def with_instructions(self, *parts: str) -> ModelRequest:
        """A request with more instructions, behind those that it has; those that it has already aren't added."""
        new = tuple(part for part in dict.fromkeys(parts) if part and part not in self.instructions)
        return attrs.evolve(self, instructions=(*self.instructions, *new)) if new else self

    def with_problems(self, *problems: ProcessorProblem) -> ModelRequest:
        """A request with more problems."""
        return attrs.evolve(self, problems=(*self.problems, *problems)) if problems else self

    def keeping_problems(self, earlier: ModelRequest) -> ModelRequest:
        """The request with the problems of an earlier one, which a request that was made anew lacks."""
        known = earlier.problems
        if self.problems[: len(known)] == known:
            return self
        return attrs.evolve(self, problems=(*known, *(problem for problem in self.problems if problem not in known)))

    def with_messages(self, *messages: Message | Writable) -> ModelRequest:
        """A request whose conversation goes on."""
        return attrs.evolve(self, messages=(*self.messages, *_as_messages(messages)))


class Model(Protocol):
    """Model that answers requests: a provider's client, a router of several, a script in a test.

    Any class with these will do. Three more are used where they are there: `stream(request)` (`StreamingModel`);
    `loads_deferred`, true where the provider searches and loads deferred tools itself; and `formats(request)`, true
    where the answer will be in the format of the request's `output`.
    """

    @property
    def name(self) -> str:
        """The model's name, for predicates, logs and callbacks."""
        ...

    @property
    def provider(self) -> str:
        """The name of the exporter that writes for it, such as `"anthropic"`."""
        ...

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The answer to a request.

        Raises:
            ModelError: The model can't be asked, or the provider answered with an error.
        """
        ...


@runtime_checkable
class StreamingModel(Protocol):
    """A model whose answers can be had piece by piece."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """Pieces as they come, and last the whole `ModelResponse`; before it partial ones, by `start_early`.

        A stream that breaks off ends with a response marked so (`interrupted`, not `complete`), which holds what has
        come.

        Raises:
            ModelError: The model can't be asked, or the provider answered with an error.
        """
        ...


def made_model(name: str, make: Any, options: Mapping[str, Any]) -> Model:
    """The model of a name, made by its provider.

    Args:
        name: `"PROVIDER/MODEL"`, such as `"openai/gpt-5"`.
        make: What the provider has registered.
        options: For the client.

    Raises:
        ModelError: The name has no model, or the client can't be made.
    """
    provider, _, model = name.partition("/")
    if not model:
        raise ModelError(f"{name!r} names no model; write {provider}/MODEL", provider=provider)
    try:
        made = make(model, **options)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"no client for {name!r}: {type(error).__name__}: {error}", provider=provider) from error
    if not all(hasattr(made, part) for part in ("name", "provider", "respond")):
        raise ModelError(f"what it makes is no model, but {made!r:.100}", provider=provider)
    return cast("Model", made)
