"""Tools as chat completions list them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from pegboard.request.exporter import ExportedTools
from pegboard.request.exporters.openai.definition import Definition, custom_definition, function_definition
from pegboard.request.exporters.openai.limits import Limits
from pegboard.request.exporters.openai.listed import Listed, beyond
from pegboard.request.exporters.passed import hosted_type, passed
from pegboard.request.exporters.written import Written, WrittenTools, refusal
from pegboard.request.loss import Loss
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject

FAMILY: Final = "openai"
_ELSEWHERE: Final = ("allowed_callers", "async", "defer_loading", "namespace", "output_schema")
"""Options that only responses have, under a key that both wires read."""


@frozen
class ChatWriter:
    """Writes one tool.

    Attributes:
        limits: What the provider takes.
        custom_tools: Whether it knows tools that take free text; where not, they are functions.
        keys: Under which a tool's options stand.
    """

    limits: Limits
    custom_tools: bool = True
    keys: tuple[str, ...] = (FAMILY,)

    def __call__(self, spec: ToolSpec, strict: bool | None) -> Written:
        """The tool's entry, `{"type": "function", "function"}` or `{"type": "custom", "custom"}`."""
        if spec.kind == "provider":
            return self._hosted(spec)
        if spec.kind == "freeform" and self.custom_tools:
            return self._custom(spec)
        told = function_definition(spec, strict, self.limits.description)
        function = _named(spec, told) | {"parameters": told.parameters}
        if told.strict:
            function["strict"] = True
        return self._written(spec, "function", function, told)

    def _custom(self, spec: ToolSpec) -> Written:
        told = custom_definition(spec, self.limits.description)
        custom = _named(spec, told)
        if spec.grammar is not None:
            custom["format"] = {"type": "grammar", "grammar": spec.grammar.to_json()}
        return self._written(spec, "custom", custom, told)

    def _hosted(self, spec: ToolSpec) -> Written:
        what = "another provider's tool"
        if hosted_type(spec, self.keys) is not None:
            what = "chat completions host no tools; the responses do"
        return refusal(spec, "/providerId", "providerId", what)

    def _written(self, spec: ToolSpec, kind: str, definition: JsonObject, told: Definition) -> Written:
        options = passed(spec.provider_options, self.keys)
        elsewhere = [name for name in _ELSEWHERE if options.pop(name, None) is not None]
        losses = (*told.losses, *(_left_out(spec, name) for name in elsewhere), *_unsaid(spec))
        refused = any(loss.refused for loss in losses)
        return Written(None if refused else {"type": kind, kind: {**definition, **options}}, losses)


def _named(spec: ToolSpec, told: Definition) -> JsonObject:
    return {"name": spec.name, **({"description": told.description} if told.description else {})}


def _left_out(spec: ToolSpec, name: str) -> Loss:
    return Loss(spec.name, f"/providerOptions/{FAMILY}/{name}", name, "left out: only responses have it")


def _unsaid(spec: ToolSpec) -> tuple[Loss, ...]:
    if spec.output_schema_text is None:
        return ()
    return (Loss(spec.name, "/outputSchema", "outputSchema", "not told: chat completions have no field for it"),)


def listed(written: WrittenTools, specs: Sequence[ToolSpec], strict: bool | None, most: int) -> Listed:
    """The list of these tools; what comes after as many as the provider takes is refused.

    Args:
        written: The tools, each written once.
        specs: In their order.
        strict: What the request says of strictness.
        most: Entries in a list.
    """
    taken: list[ToolSpec] = []
    by_name: dict[str, JsonObject] = {}
    losses: list[Loss] = []
    for spec in specs:
        entry = written.one(spec, strict).entry
        if entry is not None and spec.name not in by_name:
            if len(by_name) >= most:
                losses.append(beyond(spec, most))
                continue
            by_name[spec.name] = entry
        taken.append(spec)
    exported = written.exported(taken, strict)
    return Listed(ExportedTools(exported.entries, (*exported.losses, *losses), exported.names), by_name)


__all__ = ["FAMILY", "ChatWriter", "listed"]
