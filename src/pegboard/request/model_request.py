"""Requests to a model (`ModelRequest`, `ModelConfig`, the tool choice), and the protocols `Model` and `Exporter`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

import attrs
from attrs import field, frozen

from pegboard.errors import tuple_of, with_name
from pegboard.messages import Delta, Message, ModelResponse, Writable
from pegboard.schema.converter import JsonRecord
from pegboard.tools.content import encodable_text
from pegboard.tools.spec import HOST, Origin, Problem, ToolSpec, check_name
from pegboard.tools.tool import Tool
from pegboard.toolsets.resolve import ResolvedTools
from pegboard.typing import JsonMapping, JsonObject


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
"""`"auto"`: the model decides; `"none"`: no call; `"required"`: at least one call; or the tool that must be called."""

_NOTHING: Final[Mapping[str, Any]] = {}


def _texts(name: str) -> Callable[[Any], tuple[str, ...]]:
    convert = tuple_of(name, str)
    return lambda given: (given,) if isinstance(given, str) else convert(given or ())


@frozen(kw_only=True)
class ModelConfig:
    """Settings of a model's answer; `None` leaves one to the provider.

    Attributes:
        max_output_tokens: The maximum length of the answer.
        temperature: The sampling temperature.
        top_p: The probability mass of nucleus sampling.
        stop: Stop sequences; a single one may be given as a string.
        seed: The random seed.
        parallel_calls: Whether one answer may hold several calls.
        reasoning: The reasoning effort: `"none"`, `"low"`, `"medium"`, `"high"`.
        strict: Whether the provider enforces the schemas of calls, for tools that don't set `strict` themselves.
        provider_options: Further options by provider, put into the request's body unchanged.
    """

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = field(default=(), converter=_texts("stop"))
    seed: int | None = None
    parallel_calls: bool | None = None
    reasoning: Literal["none", "low", "medium", "high"] | None = None
    strict: bool | None = None
    provider_options: JsonMapping = field(default=_NOTHING, repr=False)


_DEFAULT_CONFIG: Final = ModelConfig()


def processor_problem(
    processor: str, cause: str, origin: Origin = HOST, tool: str | None = None, error: BaseException | None = None
) -> Problem:
    """A problem of the request processor of this name, or of a tool in it, which `origin` brought."""
    of = f", tool {tool!r}" if tool else ""
    subject = f"request processor {processor!r}{of} of {origin}"
    return Problem.of(origin, cause, tool, subject=subject, error=error)


def _as_messages(given: Any) -> tuple[Message, ...]:
    """Converts the shorthands for messages: a text is a user's message."""
    if isinstance(given, str | Message):
        given = (given,)
    each_given = cast("Iterable[Message | Writable]", given)
    return tuple(each if isinstance(each, Message) else Message.user(each) for each in each_given)


def _check_choice(_self: Any, _attribute: Any, choice: object) -> None:
    if not (isinstance(choice, NamedTool) or (isinstance(choice, str) and choice in _CHOICES)):
        raise ValueError(f"tool_choice must be {', '.join(map(repr, _CHOICES))} or NamedTool(name), got {choice!r:.80}")


@frozen
class ModelRequest:
    """Request to a model: frozen, provider-neutral; processors return changed copies.

    Attributes:
        messages: The conversation, the oldest first. A text, a message or a list of them may be given; a text is a
            user's message.
        model: The model's name, or `None`: the client's own.
        instructions: The system prompt, in parts.
        tools: The offered tools, with the reason for each that is in or out; `None` if none have been resolved.
        tool_choice: Whether the model may, must, or must not call tools, or which one.
        config: Settings of the answer.
        loads_deferred: Whether the provider searches and loads deferred tools itself, so that they are sent too.
        start_early: Whether a stream also yields partial responses, each with one more complete call.
        output: The value that the answer must be, as JSON, by the provider's own response format: a name, a
            description, and the schema of an object. `None`: text.
        extra: Anything else that processors and clients pass on; never sent.
        problems: Failures of the processors; for the operator, never sent.

    Raises:
        ValueError: An unknown tool choice; a tool is named by `NamedTool`.
    """

    messages: tuple[Message, ...] = field(default=(), converter=with_name("messages", _as_messages))
    model: str | None = None
    instructions: tuple[str, ...] = field(default=(), converter=_texts("instructions"))
    tools: ResolvedTools | None = field(default=None, repr=False)
    tool_choice: ToolChoice = field(default="auto", validator=_check_choice)
    config: ModelConfig = _DEFAULT_CONFIG
    loads_deferred: bool = False
    start_early: bool = False
    output: ToolSpec | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default=_NOTHING, repr=False)
    problems: tuple[Problem, ...] = field(default=(), converter=tuple_of("problems", Problem), repr=False)

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that are sent to a model, in order.

        Without resolved tools that only process requests, and deferred ones that the provider doesn't load itself.
        """
        if self.tools is None:
            return ()
        deferred = self.loads_deferred
        return tuple(tool for tool in self.tools.tools if tool.offered and (deferred or not tool.spec.deferred))

    @property
    def system(self) -> str:
        """The instructions as one text, a blank line between the parts; lone surrogates are replaced."""
        return encodable_text("\n\n".join(part for part in self.instructions if part))

    def evolve(self, **changes: Any) -> ModelRequest:
        """A copy with some attributes changed."""
        return attrs.evolve(self, **changes)

    def with_instructions(self, *parts: str) -> ModelRequest:
        """A copy with more instructions at the end, without those that it already has."""
        new = tuple(part for part in dict.fromkeys(parts) if part and part not in self.instructions)
        return attrs.evolve(self, instructions=(*self.instructions, *new)) if new else self

    def with_problems(self, *problems: Problem) -> ModelRequest:
        """A copy with more problems."""
        return attrs.evolve(self, problems=(*self.problems, *problems)) if problems else self

    def keeping_problems(self, earlier: ModelRequest) -> ModelRequest:
        """The request plus the problems of an earlier one, which a processor that builds a new request loses."""
        known = earlier.problems
        if self.problems[: len(known)] == known:
            return self
        return attrs.evolve(self, problems=(*known, *(problem for problem in self.problems if problem not in known)))

    def with_messages(self, *messages: Message | Writable) -> ModelRequest:
        """A copy with more messages at the end."""
        return attrs.evolve(self, messages=(*self.messages, *_as_messages(messages)))


class Model(Protocol):
    """Model that answers requests: a provider's client, a router of several, a script in a test.

    Three optional members are used if present: `stream(request)` (`StreamingModel`); `loads_deferred`, true if the
    provider searches and loads deferred tools itself; and `formats(request)`, true if the answer will be in the format
    of the request's `output`.
    """

    @property
    def name(self) -> str:
        """The model's name, for predicates, logs and callbacks."""
        ...

    @property
    def provider(self) -> str:
        """The name of its exporter, such as `"anthropic"`."""
        ...

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The answer to a request.

        Raises:
            ModelError: The request failed, or the provider answered with an error.
        """
        ...


@runtime_checkable
class StreamingModel(Protocol):
    """A model that can stream its answers."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """Yields deltas as they arrive, and last the whole `ModelResponse`; with `start_early`, partial ones before it.

        A stream that breaks off ends with a response of what has arrived (`interrupted`, not `complete`).

        Raises:
            ModelError: The request failed, or the provider answered with an error.
        """
        ...


@frozen
class Loss(JsonRecord):
    """One thing that an export drops, changes, or can't do at all.

    Attributes:
        tool: The tool's name.
        path: Where in the spec, as a JSON pointer from the spec's JSON (`"/inputSchema/properties/count"`).
        keyword: The keyword or fact at fault (`"minimum"`, `"$ref"`, `"name"`).
        what: What the export did with it, for people (`"moved into the description"`).
        refused: Whether the tool can't be sent to the provider at all.
    """

    tool: str
    path: str
    keyword: str
    what: str
    refused: bool = False


@frozen
class ExportedTools:
    """Tools in a provider's wire format.

    Attributes:
        entries: The provider's list of tools; shared and cached, so never to be changed. Not always one entry per tool:
            Gemini has one for all functions.
        losses: What the export loses, tool by tool; a refused tool is in no entry.
        names: The names of the tools that are in the entries.
    """

    entries: tuple[JsonObject, ...] = ()
    losses: tuple[Loss, ...] = ()
    names: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def refused(self) -> frozenset[str]:
        """The names of the tools that can't be sent to the provider."""
        return frozenset(loss.tool for loss in self.losses if loss.refused)

    def warn(self, provider: str) -> None:
        """Logs the tools that can't be sent to the provider, each with its reason once per process."""
        for loss in self.losses:
            if loss.refused:
                _warn(loss.tool, provider, loss.what)


@lru_cache(1_000)
def _warn(*facts: str) -> None:
    logging.getLogger("pegboard").warning("tool %s isn't sent to %s: %s", *facts)


class ResponseReader(Protocol):
    """Parser of one streamed answer, chunk by chunk."""

    def feed(self, chunk: Mapping[str, Any]) -> Sequence[Delta]:
        """Parses one chunk (an event of the stream, as JSON data); returns its deltas.

        Never raises: an unreadable chunk is skipped, and an error marks the response.
        """
        ...

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer as received so far.

        Args:
            broken: Why the stream ended early, for the operator; the answer is then interrupted and not complete, as
                after a stream without its provider's end mark.
        """
        ...


@runtime_checkable
class Exporter(Protocol):
    """Adapter to one provider's wire format: writes requests, parses answers. Plugins register theirs by name.

    Where the provider has response formats, `response_format(request)` returns the members of the body for the
    request's `output`, or `None` if this request can't have one. Where the tools that can be sent depend on the model,
    `tools_of(request)` returns what `tools` returns for this request.
    """

    @property
    def name(self) -> str:
        """The name it is registered by, such as `"anthropic"`; the key of provider options and metadata."""
        ...

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The provider's list of these tools.

        Args:
            specs: The tools in order, each name once.
            strict: Whether the provider enforces the schemas, for tools that don't set `strict` themselves. A tool
                whose schema can't be strict is exported without, with a loss.
        """
        ...

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        ...

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of the provider's request. The caller may change it, except for the tools' entries in it.

        Tools that can't be sent to the provider are left out; `tools` lists them, and `ExportedTools.warn` logs them.

        Raises:
            ExportError: The request can't be written for this provider at all.
        """
        ...

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """Parses the body of an answer, given as JSON data.

        An unreadable call is marked invalid, never dropped; arguments that a strict schema made null are removed where
        they are optional in the tool's own schema, by `request`.

        Raises:
            ModelError: The body is not an answer, or is the provider's error.
        """
        ...

    def reader(self, request: ModelRequest | None = None) -> ResponseReader:
        """A parser for one streamed answer."""
        ...
