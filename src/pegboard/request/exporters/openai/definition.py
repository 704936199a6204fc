"""`Definition`: what OpenAI is told of a tool that runs here, before either wire puts it in its own form."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from pegboard.request.dialects.providers import OPENAI, OPENAI_STRICT
from pegboard.request.exporters.fitted import described, fitted
from pegboard.request.loss import Loss
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonSchema

_CUT: Final = "…"


@frozen
class Definition:
    """A tool in OpenAI's words.

    Attributes:
        description: `""` where there is none.
        parameters: Its schema; empty for a custom tool.
        strict: Whether calls shall be held to the schema.
        losses: What was lost; refused where the tool can't be told.
    """

    description: str
    parameters: JsonSchema
    strict: bool = False
    losses: tuple[Loss, ...] = ()


def function_definition(spec: ToolSpec, strict: bool | None, most: int | None) -> Definition:
    """A tool as a function; a freeform one takes its text as `input`, and its grammar stands in the description.

    Args:
        spec: The tool.
        strict: Whether calls shall be held to the schema, where it can be said strictly.
        most: Characters of a description, or `None`.
    """
    description, cut = _fitting(spec, most, grammar=spec.kind == "freeform")
    told = fitted(spec, OPENAI, OPENAI_STRICT, strict)
    return Definition(description, told.schema, told.strict, (*told.losses, *cut))


def custom_definition(spec: ToolSpec, most: int | None) -> Definition:
    """A freeform tool as a custom tool; its grammar has a field of its own."""
    description, cut = _fitting(spec, most, grammar=False)
    return Definition(description, {}, losses=cut)


def _fitting(spec: ToolSpec, most: int | None, *, grammar: bool) -> tuple[str, tuple[Loss, ...]]:
    """The description with what there is no field for; examples go first where it is too long, then its end."""
    text = described(spec, examples=True, grammar=grammar)
    if most is None or len(text) <= most:
        return text, ()
    losses: list[Loss] = []
    if spec.examples:
        losses.append(Loss(spec.name, "/examples", "examples", f"left out: with them it has over {most:,} characters"))
        text = described(spec, grammar=grammar)
    if len(text) > most:
        losses.append(Loss(spec.name, "/description", "description", f"cut to {most:,} of {len(text):,} characters"))
        text = text[: most - len(_CUT)] + _CUT
    return text, tuple(losses)


__all__ = ["Definition", "custom_definition", "function_definition"]
