"""`fitted`: a tool's schema and description as a provider takes them, strictly where that is wanted and can be."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from pegboard.request.dialects.dialect import Change, Dialect
from pegboard.request.loss import Loss
from pegboard.schema.json import json_text
from pegboard.tools.definition import LONG_RUNNING
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonSchema

INPUT: str = "/inputSchema"
_MOST_EXAMPLES = 5


@frozen
class Fitted:
    """A tool's input schema in a provider's words.

    Attributes:
        schema: The schema, the caller's own.
        strict: Whether it is written by the strict dialect.
        losses: What was lost on the way; refused where the provider can't be given the tool.
    """

    schema: JsonSchema
    strict: bool
    losses: tuple[Loss, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the provider can't be given the tool."""
        return any(loss.refused for loss in self.losses)


def fitted(spec: ToolSpec, plain: Dialect, strictly: Dialect | None, strict: bool | None) -> Fitted:
    """A tool's input schema as a provider takes it.

    Args:
        spec: The tool.
        plain: What the provider takes of any tool.
        strictly: What it takes of tools that it holds calls to, or `None` where it has no such thing.
        strict: Whether that is wanted; where it can't be, the tool is written plainly, and a loss says why.
    """
    if not strict:
        return _written(spec, plain)
    if strictly is None:
        return _fallen_back(_written(spec, plain), spec, "the provider doesn't hold calls to schemas")
    rewritten = strictly.rewrite(spec.input_schema)
    if not rewritten.refused:
        return Fitted(rewritten.schema, strict=True, losses=losses_of(spec, rewritten.changes))
    faults = [change for change in rewritten.changes if change.refused]
    why = "; ".join(f"{change.path or 'the root'}: {change.keyword} {change.what}" for change in faults[:3])
    return _fallen_back(_written(spec, plain), spec, f"can't be strict: {why}")


def _written(spec: ToolSpec, plain: Dialect) -> Fitted:
    rewritten = plain.rewrite(spec.input_schema)
    return Fitted(rewritten.schema, strict=False, losses=losses_of(spec, rewritten.changes))


def _fallen_back(plainly: Fitted, spec: ToolSpec, why: str) -> Fitted:
    fall = Loss(spec.name, "/strict", "strict", f"exported without: {why}")
    return Fitted(plainly.schema, strict=False, losses=(fall, *plainly.losses))


def losses_of(spec: ToolSpec, changes: Iterable[Change], root: str = INPUT) -> tuple[Loss, ...]:
    """What a rewritten schema lost, as losses of its tool."""
    return tuple(
        Loss(spec.name, root + change.path, change.keyword, change.what, refused=change.refused) for change in changes
    )


def described(spec: ToolSpec, *, examples: bool = False, grammar: bool = False) -> str:
    """A tool's description, with what the provider has no field for.

    Args:
        spec: The tool.
        examples: Whether its examples stand in it.
        grammar: Whether its grammar stands in it.
    """
    parts = [spec.description]
    if spec.long_running and LONG_RUNNING not in spec.description:  # a raw spec's, which no definition has seen
        parts.append(LONG_RUNNING)
    if examples and spec.examples:
        parts.append("\n".join(["Examples:", *(str(json_text(each)) for each in spec.examples[:_MOST_EXAMPLES])]))
    if grammar and spec.grammar is not None:
        parts.append(f"The input must fit this {spec.grammar.syntax} grammar:\n{spec.grammar.definition}")
    return "\n\n".join(part for part in parts if part)


__all__ = ["Fitted", "described", "fitted", "losses_of"]
