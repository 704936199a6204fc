"""Base of the exporters of chat completions and the responses API: tools, conversations, requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from attrs import Factory, define, field, frozen

from pegboard import ExportedTools, Loss, Message, ModelConfig, ModelRequest, NamedTool, ToolCall, ToolSpec
from pegboard.messages import MediaPart, Part, ResultPart, TextPart
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_clients.dialects import Dialect
from pegboard_clients.exporter import BaseExporter
from pegboard_clients.wire import (
    Entry,
    SentIds,
    check_choice,
    convert_schema,
    description_of,
    encodable_text,
    merged,
    passthrough,
    without_empty,
)
from pegboard_openai._openai import FAMILY, OPENAI, OPENAI_STRICT, REFUSED_IN_IDS, Limits, Rendered, render_result

_CUT: Final = "…"


@frozen
class Definition:
    """A tool in OpenAI's format."""

    description: str
    parameters: JsonSchema
    strict: bool = False
    losses: tuple[Loss, ...] = ()

    def named(self, spec: ToolSpec) -> JsonObject:
        """Name and description."""
        return {"name": spec.name, **without_empty({"description": self.description})}


def function_definition(spec: ToolSpec, strict: bool | None, most: int | None, dialect: Dialect = OPENAI) -> Definition:
    """A tool as a function; a freeform one has the parameter `input`, and its grammar in the description.

    Args:
        spec: The tool.
        strict: Whether to enforce the schema, if it has a strict form.
        most: Maximum length of the description, or `None`.
        dialect: The dialect of schemas that aren't strict; only OpenAI's own has a strict form.
    """
    description, cut = _fitting(spec, most, grammar=spec.kind == "freeform")
    schema = convert_schema(spec, dialect, OPENAI_STRICT if dialect is OPENAI else None, strict)
    parameters: JsonSchema = schema.schema
    if "properties" not in parameters:  # required; otherwise the whole request is refused (public)
        parameters = {**parameters, "properties": {}}
    return Definition(description, parameters, schema.strict, (*schema.losses, *cut))


def custom_definition(spec: ToolSpec, most: int | None) -> Definition:
    """A freeform tool as a custom tool; its grammar has a field of its own."""
    description, cut = _fitting(spec, most, grammar=False)
    return Definition(description, {}, losses=cut)


def _fitting(spec: ToolSpec, most: int | None, *, grammar: bool) -> tuple[str, tuple[Loss, ...]]:
    """The description with examples and grammar; if it is too long, examples are dropped first, then its end."""
    text = description_of(spec, examples=True, grammar=grammar)
    if most is None or len(text) <= most:
        return text, ()
    losses: list[Loss] = []
    if spec.examples:
        losses.append(
            Loss(spec.name, "/examples", "examples", f"left out: the description would exceed {most:,} characters")
        )
        text = description_of(spec, grammar=grammar)
    if len(text) > most:
        losses.append(Loss(spec.name, "/description", "description", f"cut to {most:,} of {len(text):,} characters"))
        text = text[: most - len(_CUT)] + _CUT
    return text, tuple(losses)


@frozen
class ToolDefinitions:
    """The list of tools of one request."""

    exported: ExportedTools
    by_name: Mapping[str, JsonObject] = field(repr=False)

    def is_custom(self, name: str) -> bool:
        """Whether the tool is listed as a custom tool, which takes free text."""
        entry = self.by_name.get(name)
        return entry is not None and entry.get("type") == "custom"


@frozen
class InNamespace(Entry):
    """The entry of a tool in a namespace.

    Attributes:
        namespace: The name of the namespace.
        purpose: Its description, or `None` if another tool has it.
    """

    namespace: str = ""
    purpose: str | None = None


SEARCH: Final = "tool_search"
_DEFERRABLE: Final = frozenset({"function", "custom", "mcp"})


@define
class _Listing:
    """The list of one request, as written so far."""

    most: int
    searched: bool
    entries: list[JsonObject] = field(factory=list[JsonObject])
    by_name: dict[str, JsonObject] = field(factory=dict[str, JsonObject])
    namespaces: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    beyond: list[ToolSpec] = field(factory=list[ToolSpec])
    deferred: bool = False

    def add(self, spec: ToolSpec, written: Entry) -> None:
        entry = written.entry
        if entry is None or spec.name in self.by_name:
            return
        if self.searched and spec.deferred and entry["type"] in _DEFERRABLE:
            self.deferred = True
            entry = {**entry, "defer_loading": True}
        into = self._namespace(written) if isinstance(written, InNamespace) else self._budget()
        if into is None:
            self.beyond.append(spec)
            return
        into.append(entry)
        self.by_name[spec.name] = entry

    def _budget(self) -> list[JsonObject] | None:
        return self.entries if len(self.entries) < self.most else None

    def _namespace(self, written: InNamespace) -> list[JsonObject] | None:
        found: dict[str, Any] | None = self.namespaces.get(written.namespace)
        if found is None:
            budget = self._budget()
            if budget is None:
                return None
            made: list[JsonObject] = []
            found = {"type": "namespace", "name": written.namespace, "description": "", "tools": made}
            self.namespaces[written.namespace] = found
            budget.append(found)
        found["description"] = found["description"] or written.purpose or ""
        tools: list[JsonObject] = found["tools"]
        return tools

    def build(self, most: int, losses: Iterable[Loss]) -> ToolDefinitions:
        for name, namespace in self.namespaces.items():
            namespace["description"] = namespace["description"] or f"Tools of {name}."  # the provider wants one
        if self.deferred and not any(entry["type"] == SEARCH for entry in self.entries):
            self.entries.append({"type": SEARCH})
        what = f"the provider takes at most {most:,} tools in one request"
        left_out = [Loss(spec.name, "", "tools", what, refused=True) for spec in self.beyond]
        exported = ExportedTools(tuple(self.entries), (*losses, *left_out), frozenset(self.by_name))
        return ToolDefinitions(exported, self.by_name)


NOTHING: Final[JsonMapping] = {}


@define
class Conversation(ABC):
    """Writer of the messages or items of a conversation."""

    listed: ToolDefinitions
    key: str
    limits: Limits
    written: list[JsonObject] = field(factory=list[JsonObject], init=False)
    _ids: SentIds = field(
        default=Factory(lambda self: SentIds(REFUSED_IN_IDS, self.limits.call_id), takes_self=True), init=False
    )
    _hosted: set[str] = field(factory=set[str], init=False)

    def write(self, messages: Iterable[Message]) -> list[JsonObject]:
        """Writes messages; returns all that has been written."""
        for message in messages:
            self.add(message)
        return self.written

    @abstractmethod
    def add(self, message: Message) -> None:
        """Writes one message."""

    def append(self, role: str, content: str | list[JsonObject]) -> None:
        """Writes a content, unless it is empty."""
        if content:
            self.written.append({"role": role, "content": content})

    def users_content(self, parts: Iterable[Part]) -> str | list[JsonObject]:
        """The texts and media of a user's message; a single text as a string."""
        sent: list[JsonObject] = []
        for part in parts:
            if isinstance(part, MediaPart):
                sent.append(self.media(part))
            elif isinstance(part, TextPart) and part.text:
                sent.append(self.content(Rendered("text", part.text)))
        return sent[0]["text"] if len(sent) == 1 and "text" in sent[0] else sent

    def call(self, call: ToolCall) -> str | None:
        """The provider's id of a call; `None` if a provider has run it: then it and its result aren't sent."""
        if call.provider_executed:
            self._hosted.add(call.id)
            return None
        self._hosted.discard(call.id)
        return self._ids.call(call.id)

    def result(self, part: ResultPart) -> None:
        """Writes a result."""
        if part.call_id in self._hosted:
            return
        contents = render_result(part.result, self.limits)
        call_id = self._ids.result(part.call_id)
        if call_id is not None:
            self.answer(call_id, part, contents)
            return
        heading = Rendered("text", encodable_text(f"A later result of {part.name}:"))
        self.late([self.content(each) for each in (heading, *contents)])

    @abstractmethod
    def answer(self, call_id: str, part: ResultPart, contents: list[Rendered]) -> None:
        """Writes the result of a call."""

    @abstractmethod
    def late(self, contents: list[JsonObject]) -> None:
        """Writes the content of a later result of an answered call, or of one without a call."""

    @abstractmethod
    def media(self, part: MediaPart) -> JsonObject:
        """A medium of the user's."""

    @abstractmethod
    def content(self, content: Rendered, options: JsonMapping = NOTHING) -> JsonObject:
        """One content, with the options of its part."""


ANOTHERS: Final = "another provider's tool"


@define(eq=False, kw_only=True)
class OpenAIExporter(BaseExporter):
    """Base class of the exporters of chat completions and of the responses API.

    Attributes:
        limits: The limits of the provider.
        custom_tools: Whether it supports custom tools, which take free text; otherwise they become functions.
        dialect: The dialect of schemas.
    """

    searches: ClassVar[bool] = False  # whether the provider's search finds deferred tools

    limits: Limits
    custom_tools: bool = True
    dialect: Dialect = OPENAI

    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys in options."""
        return FAMILY, self.name

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of these tools."""
        return self.definitions(specs, strict).exported

    def definitions(self, specs: Sequence[ToolSpec], strict: bool | None, *, deferred: bool = False) -> ToolDefinitions:
        """The list of these tools; those beyond the maximum number are refused.

        Args:
            specs: The tools, in order.
            strict: The request's `strict`.
            deferred: Whether the provider's search, which is added to the list, finds deferred tools.
        """
        most, searched = self.limits.tools, deferred and any(spec.deferred for spec in specs)
        listing = _Listing(most - 1 if searched else most, searched)
        for spec in specs:
            listing.add(spec, self._entries.one(spec, strict))
        left_out = {spec.name for spec in listing.beyond}
        kept = [spec for spec in specs if spec.name not in left_out]
        return listing.build(most, self._entries.exported(kept, strict).losses)

    def request(self, request: ModelRequest) -> JsonObject:
        """The body, without `stream`.

        Raises:
            ExportError: The tool choice names a tool that isn't in the list, or wants a call where there is none.
        """
        specs, config = [tool.spec for tool in request.offered], request.config
        listed = self.definitions(specs, config.strict, deferred=self.searches and request.loads_deferred)
        options = passthrough(config.provider_options, self.keys)
        check_choice(request.tool_choice, listed.by_name, self.name)
        listed.exported.warn(self.name)
        tools = self._tool_facts(request, listed) if listed.exported.entries else {}
        facts = {**tools, **self.settings(config), **(self.response_format(request) or {})}
        return merged({**self.body(request, listed, options), **facts}, options)

    def _tool_facts(self, request: ModelRequest, listed: ToolDefinitions) -> JsonObject:
        tools, parallel, choice = list(listed.exported.entries), request.config.parallel_calls, request.tool_choice
        chosen = self.choice(choice.name, listed.by_name[choice.name]) if isinstance(choice, NamedTool) else choice
        chosen = None if chosen == "auto" else chosen
        return without_empty({"tools": tools, "tool_choice": chosen, "parallel_tool_calls": parallel})

    @abstractmethod
    def body(self, request: ModelRequest, listed: ToolDefinitions, options: JsonMapping) -> JsonObject:
        """The model and the conversation."""

    @abstractmethod
    def settings(self, config: ModelConfig) -> JsonObject:
        """The members for a configuration."""

    @abstractmethod
    def choice(self, name: str, entry: JsonObject) -> JsonObject:
        """The choice of one tool."""

    @abstractmethod
    def response_format(self, request: ModelRequest) -> JsonObject | None:
        """The member for the request's `output`; `None` if there is none."""

    def write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry."""
        most = self.limits.description
        if spec.kind == "provider":
            return self.hosted(spec)
        if spec.kind == "freeform" and self.custom_tools:
            return self.entry(spec, "custom", custom_definition(spec, most))
        return self.entry(spec, "function", function_definition(spec, strict, most, self.dialect))

    @abstractmethod
    def hosted(self, spec: ToolSpec) -> Entry:
        """The entry of a tool that a provider hosts."""

    @abstractmethod
    def entry(self, spec: ToolSpec, kind: str, written: Definition) -> Entry:
        """The entry of a function or a custom tool."""
