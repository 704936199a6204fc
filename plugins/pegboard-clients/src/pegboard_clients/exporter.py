"""Base classes of exporters: `BaseExporter`, and `BlockExporter` for formats of content blocks."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from attrs import define, field

from pegboard import ExportedTools, Loss, ModelRequest, ModelResponse, ToolSpec
from pegboard.errors import ModelError
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_clients.blocks import AnsweredBlocks, BlockReader
from pegboard_clients.dialects import Dialect
from pegboard_clients.strict import BlockLimits, StrictBudget
from pegboard_clients.wire import (
    Entries,
    Entry,
    MadeCalls,
    as_object,
    called_before,
    check_choice,
    convert_schema,
    description_of,
    hosted_type,
    none_readable,
    objects_in,
    passthrough,
    refusal,
    strict_schemas,
    without_empty,
)


@define(eq=False)
class BaseExporter(ABC):
    """Base class of exporters: lists tools by the entries that `write` returns.

    Attributes:
        name: Its name, set by a subclass.
    """

    name: str = field(init=False)
    _entries: Entries = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._entries = Entries(self.write)

    @abstractmethod
    def write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The entry of one tool."""

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of these tools, without what a request adds."""
        return self._entries.exported(specs, strict)

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        return self._entries.one(spec, strict).losses

    def exported(self, request: ModelRequest) -> ExportedTools:
        """The tools of a request; those that can't be sent are logged.

        Raises:
            ExportError: The tool choice can't be met.
        """
        exported = self.tools([tool.spec for tool in request.offered], strict=request.config.strict)
        check_choice(request.tool_choice, exported.names, self.name)
        exported.warn(self.name)
        return exported


LimitsT = TypeVar("LimitsT", bound=BlockLimits)


@define(eq=False)
class BlockExporter(BaseExporter, Generic[LimitsT]):
    """Base class of exporters of content blocks, with a budget of strict tools.

    Attributes:
        limits: The limits of the provider.
    """

    vendor: ClassVar[str]  # its name in losses
    dialects: ClassVar[tuple[Dialect, Dialect]]  # of tools that aren't strict, and of those that are
    answers: ClassVar[type[AnsweredBlocks]]
    readers: ClassVar[type[BlockReader[Any]]]
    error: ClassVar[Callable[[JsonMapping], ModelError]]  # makes the error of a body that isn't an answer

    limits: LimitsT
    _budget: StrictBudget = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        name, schema = self.entry_name, self.schema_of
        self._budget = StrictBudget(self.write, entry_name=name, schema_of=schema, limits=self.limits.strict)
        self._entries = self._budget

    def write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry."""
        options = passthrough(spec.provider_options, (self.name,))
        behind = self.behind(options)
        if spec.kind == "provider":
            kind = hosted_type(spec, (self.name,))
            entry = None if kind is None else self.hosted(kind, {**spec.provider_arguments, **options})
            what = f"{spec.provider_id!r} is not one of {self.vendor}'s tools"
            return refusal(spec, "/providerId", "providerId", what) if entry is None else Entry(entry, behind=behind)
        if re.fullmatch(self.limits.name, spec.name, re.ASCII) is None:
            return refusal(spec, "/name", "name", f"must match {self.limits.name}")
        schema = convert_schema(spec, *self.dialects, strict)
        if schema.refused:
            return Entry(None, schema.losses)
        examples, losses = self.examples(spec, schema.schema)
        description = description_of(spec, examples=examples is None, grammar=True)
        facts = without_empty({"description": description.strip() and description, "strict": schema.strict or None})
        entry = self.declaration(spec.name, schema.schema, {**facts, **(examples or {}), **options})
        return Entry(entry, (*schema.losses, *losses), behind)

    @abstractmethod
    def declaration(self, name: str, schema: JsonSchema, facts: JsonObject) -> JsonObject:
        """The entry of a function; the facts are its further members, such as `description` and `strict`."""

    @abstractmethod
    def hosted(self, kind: str, facts: JsonObject) -> JsonObject | None:
        """The entry of one of the provider's own tools, by its type; `None` if there is none of this type."""

    def examples(self, spec: ToolSpec, schema: JsonSchema) -> tuple[JsonObject | None, tuple[Loss, ...]]:  # noqa: ARG002  for subclasses
        """The member for a tool's examples, and losses; `None` if they go into the description, as by default."""
        return None, ()

    def behind(self, options: JsonObject) -> JsonObject | None:  # noqa: ARG002
        """The entry that follows a tool's, made of its options; by default none."""
        return None

    @abstractmethod
    def entry_name(self, entry: JsonObject) -> str | None:
        """The provider's name of an entry."""

    @abstractmethod
    def schema_of(self, entry: JsonObject) -> JsonSchema | None:
        """The schema of a strict entry, `None` for another."""

    def gone(self, request: ModelRequest, names: Mapping[str, str]) -> list[JsonObject]:
        """Placeholders for the tools called before: a conversation with calls is refused without tools (public)."""
        facts: JsonObject = {"description": "No longer available."}
        called = (names.get(name, name) for name in called_before(request.messages))
        return [self.declaration(name, {"type": "object", "properties": {}}, facts) for name in called]

    def message_in(self, body: JsonMapping) -> JsonMapping:
        """The object of an answer's body that has the blocks as `content`; by default the body itself."""
        return body

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """Parses an answer.

        Raises:
            ModelError: The body is not an answer, or is the provider's error.
        """
        body = as_object(raw)  # of any type
        message = self.message_in(body)
        if not isinstance(message.get("content"), list) or none_readable(message, "content"):
            raise self.error(body)
        answer = self.answer(request)()
        return answer.response(body, answer.parts(objects_in(message, "content")))

    def reader(self, request: ModelRequest | None = None) -> BlockReader[Any]:
        """A parser for the events of a stream."""
        return self.readers(self.answer(request), self.limits, self.own_names(request))

    def answer(self, request: ModelRequest | None) -> Callable[[], AnsweredBlocks]:
        """The function that makes the reader of an answer to a request."""
        names, schemas = self.own_names(request), strict_schemas(request)
        return lambda: self.answers(MadeCalls(self.name, schemas, names, self.limits.argument_text))

    def names(self, request: ModelRequest | None) -> dict[str, str]:
        """The provider's names of its own tools in a request, by their names here."""
        return self._budget.names_of(request)

    def own_names(self, request: ModelRequest | None) -> dict[str, str]:
        """The names here of the provider's own tools in a request, by its names."""
        return {called: name for name, called in self.names(request).items()}
