"""`StrictBudget`: tools held to their schemas, as many as one request may hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
from attrs import define, field, frozen

from pegboard.request.dialects.limits import Counts, counts_of
from pegboard.request.exporter import ExportedTools
from pegboard.request.exporters.written import MOST_KEPT, Writer, Written, WrittenTools, refusal
from pegboard.request.loss import Loss
from pegboard.request.model_request import ModelRequest
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject, JsonSchema


@frozen
class StrictLimits:
    """How much of a request the provider holds to schemas (Anthropic's error reports, public); `None` is no limit.

    Attributes:
        tools: Strict tools.
        optional: Properties that aren't required, in all of them together.
        unions: Properties of several types, in all of them together.
    """

    tools: int | None = 20
    optional: int | None = 24
    unions: int | None = 16

    def __str__(self) -> str:
        """For people."""
        facts = ((self.tools, "strict tools"), (self.optional, "optional"), (self.unions, "union-typed parameters"))
        return ", ".join(f"{most} {what}" for most, what in facts if most is not None)


STRICT_LIMITS: Final = StrictLimits()


@frozen
class Followed(Written):
    """A tool with an entry of another kind right behind its own.

    Attributes:
        behind: That entry, shared and never changed, or `None`.
    """

    behind: JsonObject | None = None


@define
class _Left:
    """What a request may still hold."""

    limits: StrictLimits
    spent: dict[str, int] = field(factory=lambda: {"tools": 0, "optional": 0, "unions": 0})

    def takes(self, counts: Counts) -> bool:
        """Whether one more fits; then it is counted."""
        more = {"tools": 1, "optional": counts.optional or 0, "unions": counts.unions or 0}
        after = {what: self.spent[what] + number for what, number in more.items()}
        if any((most := getattr(self.limits, what)) is not None and number > most for what, number in after.items()):
            return False
        self.spent = after
        return True


@define(eq=False)
class StrictBudget:
    """Writes tools, strictly as long as the request may hold more of them, the rest plainly with a loss that says so.

    Attributes:
        write: Writes one tool, strictly or not.
        schema_of: The schema of an entry that is strict, `None` of another.
        entry_name: What an entry is called at the provider, `None` where it has no name.
        limits: How much a request may hold.
    """

    write: Writer
    schema_of: Callable[[JsonObject], JsonSchema | None]
    entry_name: Callable[[JsonObject], str | None]
    limits: StrictLimits
    _written: WrittenTools = field(init=False)
    _plainly: WrittenTools = field(init=False)
    _counts: dict[ToolSpec, Counts] = field(factory=dict[ToolSpec, Counts], init=False)

    def __attrs_post_init__(self) -> None:
        self._written = WrittenTools(self.write)
        self._plainly = WrittenTools(self._write_plainly)

    def one(self, spec: ToolSpec, strict: bool | None = None) -> Written:
        """One tool by itself."""
        return self._written.one(spec, strict)

    def exported(self, specs: Sequence[ToolSpec], strict: bool | None = None) -> ExportedTools:
        """The tools in their order; of two of one name, here or at the provider, the first."""
        left = _Left(self.limits)
        names: dict[str, None] = {}
        called: set[str] = set()
        entries: list[JsonObject] = []
        losses: list[Loss] = []
        for spec in specs:
            written = refusal(spec, "/name", "name", _TAKEN) if spec.name in names else self._chosen(spec, strict, left)
            name = None if written.entry is None else self.entry_name(written.entry)
            if name is not None and name in called:
                written = refusal(spec, "/name", "name", f"the provider calls another tool {name!r}, too")
            losses += _of_repeated(written.losses) if spec.name in names else written.losses
            if written.entry is not None:
                names[spec.name] = None
                called.update(() if name is None else (name,))
                entries += _entries(written.entry, written)
        return ExportedTools(tuple(entries), tuple(losses), frozenset(names))

    def name_of(self, spec: ToolSpec) -> str:
        """What the provider calls a tool: its own name for what it brings itself."""
        entry = self.one(spec).entry if spec.kind == "provider" else None
        return spec.name if entry is None else self.entry_name(entry) or spec.name

    def names_of(self, request: ModelRequest | None) -> dict[str, str]:
        """What the provider calls the tools of a request that it brings itself, by their names here."""
        specs = () if request is None else (tool.spec for tool in request.offered)
        return {spec.name: self.name_of(spec) for spec in specs if spec.kind == "provider"}

    def _chosen(self, spec: ToolSpec, strict: bool | None, left: _Left) -> Written:
        written = self._written.one(spec, strict)
        schema = None if written.entry is None else self.schema_of(written.entry)
        if schema is None or left.takes(self._counted(spec, schema)):
            return written
        return self._plainly.one(spec)

    def _counted(self, spec: ToolSpec, schema: JsonSchema) -> Counts:
        counts = self._counts.get(spec)
        if counts is None:
            if len(self._counts) >= MOST_KEPT:
                self._counts.clear()
            counts = self._counts[spec] = counts_of(schema)
        return counts

    def _write_plainly(self, spec: ToolSpec, _strict: bool | None) -> Written:
        plainly = self.write(spec, False)  # noqa: FBT003  a `Writer` has no names
        what = f"exported without: a request may hold {self.limits} in all, and the tools before it have used them up"
        return attrs.evolve(plainly, losses=(Loss(spec.name, "/strict", "strict", what), *plainly.losses))


def _entries(entry: JsonObject, written: Written) -> list[JsonObject]:
    behind = written.behind if isinstance(written, Followed) else None
    return [entry] if behind is None else [entry, behind]


_TAKEN: Final = "another tool has this name; the first is exported"


def _of_repeated(losses: Sequence[Loss]) -> list[Loss]:
    """A name that is exported is not refused: one of its tools is left out."""
    return [attrs.evolve(loss, refused=False) for loss in losses]


__all__ = ["STRICT_LIMITS", "Followed", "StrictBudget", "StrictLimits"]
