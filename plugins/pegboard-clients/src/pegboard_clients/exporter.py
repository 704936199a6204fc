"""Base classes of exporters: `BaseExporter`, and `BlockExporter` for formats of content blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from attrs import define, field, frozen

from pegboard import ExportedTools, Loss, ModelRequest, ModelResponse, ToolSpec
from pegboard.errors import ModelError
from pegboard.messages import Part
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_clients.blocks import AnsweredBlocks, StrictBudget, StrictLimits
from pegboard_clients.wire import (
    Entries,
    Entry,
    MadeCalls,
    check_choice,
    none_readable,
    object_in,
    objects_in,
    strict_schemas,
)


@define(eq=False)
class BaseExporter(ABC):
    """Base class of exporters: lists tools by the entries that `write` returns."""

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


class BlockLimits(Protocol):
    """Limits of a provider on strict tools, and on the characters of one call's arguments."""

    @property
    def strict(self) -> StrictLimits:
        """On strict tools in one request."""
        ...

    @property
    def argument_text(self) -> int:
        """Characters of one call's arguments."""
        ...


Answer = TypeVar("Answer", bound=AnsweredBlocks)
LimitsT = TypeVar("LimitsT", bound=BlockLimits)


@frozen
class BlockFormat(Generic[Answer]):
    """What differs between formats of content blocks.

    Attributes:
        family: The provider's name.
        entry_name: Returns the provider's name of an entry.
        schema_of: Returns the schema of a strict entry, `None` for another.
        message_in: Returns the object of an answer's body that has the blocks as `content`.
        answer: Makes the reader of an answer's blocks.
        response: Makes the response of a body, its reader, and its parts.
        error: Makes the error of a body that isn't an answer.
    """

    family: str
    entry_name: Callable[[JsonObject], str | None]
    schema_of: Callable[[JsonObject], JsonSchema | None]
    message_in: Callable[[JsonMapping], JsonMapping]
    answer: Callable[[MadeCalls], Answer]
    response: Callable[[JsonMapping, Answer, list[Part]], ModelResponse]
    error: Callable[[JsonMapping], ModelError]


@define(eq=False)
class BlockExporter(BaseExporter, Generic[LimitsT, Answer]):
    """Base class of exporters of content blocks, with a budget of strict tools.

    Attributes:
        limits: The limits of the provider.
        format: What differs between providers.
    """

    limits: LimitsT
    format: BlockFormat[Answer] = field(init=False, repr=False)
    _budget: StrictBudget = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        name, schema = self.format.entry_name, self.format.schema_of
        self._budget = StrictBudget(self.write, entry_name=name, schema_of=schema, limits=self.limits.strict)
        self._entries = self._budget

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """Parses an answer.

        Raises:
            ModelError: The body is not an answer, or is the provider's error.
        """
        body = object_in({"body": raw}, "body")  # `raw` may be any value
        message = self.format.message_in(body)
        if not isinstance(message.get("content"), list) or none_readable(message, "content"):
            raise self.format.error(body)
        answer = self.answer(request)()
        return self.format.response(body, answer, answer.parts(objects_in(message, "content")))

    def answer(self, request: ModelRequest | None) -> Callable[[], Answer]:
        """The function that makes the reader of an answer to a request."""
        names, schemas = self.own_names(request), strict_schemas(request)
        return lambda: self.format.answer(MadeCalls(self.format.family, schemas, names, self.limits.argument_text))

    def names(self, request: ModelRequest) -> dict[str, str]:
        """The provider's names of its own tools in a request, by their names here."""
        return self._budget.names_of(request)

    def own_names(self, request: ModelRequest | None) -> dict[str, str]:
        """The names here of the provider's own tools in a request, by its names."""
        return {called: name for name, called in self._budget.names_of(request).items()}

    def exported(self, request: ModelRequest) -> ExportedTools:
        """The tools of a request; those that can't be sent are logged.

        Raises:
            ExportError: The tool choice can't be met.
        """
        exported = self.tools([tool.spec for tool in request.offered], strict=request.config.strict)
        check_choice(request.tool_choice, exported.names, self.format.family)
        exported.warn(self.format.family)
        return exported
