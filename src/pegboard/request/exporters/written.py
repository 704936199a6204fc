"""`WrittenTools`: each tool written once for a provider, and kept by what the tool says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from attrs import define, field, frozen

from pegboard.request.exporter import ExportedTools
from pegboard.request.loss import Loss
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject

MOST_KEPT: Final = 20_000
"""Tools whose export one exporter keeps; beyond it, it begins anew."""


@frozen
class Written:
    """One tool in a provider's words.

    Attributes:
        entry: What the provider's list holds of it, shared and never changed; `None` where the provider can't be given
            the tool.
        losses: What it can't be told.
    """

    entry: JsonObject | None
    losses: tuple[Loss, ...] = ()


Writer: TypeAlias = Callable[[ToolSpec, bool | None], Written]
"""Writes one tool; gets what the request says of strictness, for tools that say nothing of it themselves."""


@define(eq=False)
class WrittenTools:
    """Writes tools, each once for as long as it says the same.

    Attributes:
        write: Writes one.
    """

    write: Writer
    _kept: dict[tuple[ToolSpec, bool | None], Written] = field(factory=dict[tuple[ToolSpec, "bool | None"], Written])

    def one(self, spec: ToolSpec, strict: bool | None = None) -> Written:
        """One tool, written now or before."""
        strict = strict if spec.strict is None else spec.strict
        written = self._kept.get((spec, strict))
        if written is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            written = self._kept[spec, strict] = self.write(spec, strict)
        return written

    def all(self, specs: Sequence[ToolSpec], strict: bool | None = None) -> dict[str, Written]:
        """Tools by name, in their order; of two of one name, the first."""
        by_name: dict[str, Written] = {}
        for spec in specs:
            by_name.setdefault(spec.name, self.one(spec, strict))
        return by_name

    def exported(self, specs: Sequence[ToolSpec], strict: bool | None = None) -> ExportedTools:
        """Tools as a list with one entry for each."""
        by_name = self.all(specs, strict)
        repeated = _repeated(specs) if len(by_name) < len(specs) else ()
        return ExportedTools(
            tuple(written.entry for written in by_name.values() if written.entry is not None),
            (*(loss for written in by_name.values() for loss in written.losses), *repeated),
            frozenset(name for name, written in by_name.items() if written.entry is not None),
        )


def _repeated(specs: Sequence[ToolSpec]) -> list[Loss]:
    seen: set[str] = set()
    losses: list[Loss] = []
    for spec in specs:
        if spec.name in seen:
            losses.append(Loss(spec.name, "/name", "name", "another tool has this name; the first is exported"))
        seen.add(spec.name)
    return losses


def refusal(spec: ToolSpec, path: str, keyword: str, what: str) -> Written:
    """A tool that the provider can't be given."""
    return Written(None, (Loss(spec.name, path, keyword, what, refused=True),))


__all__ = ["Writer", "Written", "WrittenTools", "refusal"]
