"""Strict tools of Anthropic's models, at Anthropic and on Bedrock: schemas, limits, and a budget of a request."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
from attrs import define, field, frozen

from pegboard import Loss, ModelRequest, ToolSpec
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_clients.dialects import CLOSED, Counts, Step, Within, property_names
from pegboard_clients.dialects.keywords import counts_of
from pegboard_clients.wire import Entries, Entry
from pegboard_clients.wire.entries import MOST_CACHED


@frozen
class StrictLimits:
    """Provider's limits on strict tools in one request; `None` is no limit.

    Attributes:
        tools: Strict tools.
        optional: Properties that aren't required, in all of them together.
        unions: Properties of several types, in all of them together.
    """

    tools: int | None = None
    optional: int | None = None
    unions: int | None = None

    def __str__(self) -> str:
        """For people."""
        facts = ((self.tools, "strict tools"), (self.optional, "optional"), (self.unions, "union-typed parameters"))
        return ", ".join(f"{most} {what}" for most, what in facts if most is not None)


STRICT_LIMITS: Final = StrictLimits(tools=20, optional=24, unions=16)
"""Anthropic's limits on strict tools in one request, also on Bedrock (its error reports)."""

PROPERTY_NAME: Final = r"[A-Za-z0-9_.-]{1,64}"
"""The property names that Anthropic's models accept."""

STRICT: Final[tuple[Step, ...]] = (
    *CLOSED,
    property_names(PROPERTY_NAME),
    Within(Counts(optional=24, unions=16)),
)
"""The steps for strict tools of Anthropic's models: closed objects without bounds or recursion."""


@frozen(kw_only=True)
class BlockLimits:
    """Limits of a provider of content blocks.

    Attributes:
        name: The pattern of tool names, as a regular expression.
        strict: Limits on strict tools in one request.
        reasoning: The members of a request's body for each value of `ModelConfig.reasoning`.
        call_id: Maximum length of a call's id.
        argument_text: Characters of one call's arguments in a stream; a call with more is invalid.
        answer_text: Characters of a streamed answer in total; an answer with more isn't complete.
    """

    name: str = "[A-Za-z0-9_-]{1,64}"
    strict: StrictLimits = STRICT_LIMITS
    reasoning: Mapping[str, JsonMapping] = field(factory=dict[str, JsonMapping], repr=False)
    call_id: int = 64
    argument_text: int = 1 << 20
    answer_text: int = 16 << 20


@define(eq=False)
class StrictBudget(Entries):
    """Cache of exported tools that makes tools strict within the limits of a request, and others not, with a loss.

    Attributes:
        schema_of: Returns the schema of a strict entry, `None` for another.
        limits: The limits of a request.
    """

    schema_of: Callable[[JsonObject], JsonSchema | None] = field(kw_only=True)
    limits: StrictLimits = field(kw_only=True)
    _counts: dict[ToolSpec, Counts] = field(factory=dict[ToolSpec, Counts], init=False)

    def chooser(self, specs: Sequence[ToolSpec], strict: bool | None) -> Callable[[ToolSpec], Entry]:
        """Tools that set `strict` themselves come before those that are strict by default."""
        limits = (self.limits.tools, self.limits.optional, self.limits.unions)
        left = [math.inf if most is None else most for most in limits]
        first = {spec.name: spec for spec in reversed(specs)}
        wanted = {spec: self._choose(spec, strict, left) for spec in specs if spec.strict and first[spec.name] is spec}
        return lambda spec: wanted.get(spec) or self._choose(spec, strict, left)

    def name_of(self, spec: ToolSpec) -> str:
        """The provider's name of a tool; for its own tools, that may differ."""
        entry = self.one(spec).entry if spec.kind == "provider" else None
        return spec.name if entry is None else self.entry_name(entry) or spec.name

    def names_of(self, request: ModelRequest | None) -> dict[str, str]:
        """The provider's names of its own tools in a request, by their names here."""
        specs = () if request is None else (tool.spec for tool in request.offered)
        return {spec.name: self.name_of(spec) for spec in specs if spec.kind == "provider"}

    def _choose(self, spec: ToolSpec, strict: bool | None, left: list[float]) -> Entry:
        written = self.one(spec, strict)
        schema = None if written.entry is None else self.schema_of(written.entry)
        if schema is None:
            return written
        counts = self._count(spec, schema)
        after = [left[0] - 1, left[1] - (counts.optional or 0), left[2] - (counts.unions or 0)]
        if min(after) >= 0:
            left[:] = after
            return written
        plainly = self.entry(spec, strict=False)
        what = f"exported as not strict: a request may have {self.limits}, which other tools have used up"
        return attrs.evolve(plainly, losses=(Loss(spec.name, "/strict", "strict", what), *plainly.losses))

    def _count(self, spec: ToolSpec, schema: JsonSchema) -> Counts:
        counts = self._counts.get(spec)
        if counts is None:
            if len(self._counts) >= MOST_CACHED:
                self._counts.clear()
            counts = self._counts[spec] = counts_of(schema)
        return counts
