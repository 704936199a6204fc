"""Tools as responses list them: functions, custom tools, and those that OpenAI hosts."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from pegboard.request.exporters.openai.definition import Definition, custom_definition, function_definition
from pegboard.request.exporters.openai.limits import Limits
from pegboard.request.exporters.passed import hosted_type, passed
from pegboard.request.exporters.untrusted import known_text, object_or_none
from pegboard.request.exporters.written import Written, refusal
from pegboard.request.loss import Loss
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject

FAMILY: Final = "openai"
KEYS: Final = (FAMILY, "openai-responses")


@frozen
class InNamespace(Written):
    """One tool that stands in a namespace.

    Attributes:
        namespace: Its name.
        told: What it is for, or `None` where this tool doesn't say.
    """

    namespace: str = ""
    told: str | None = None


@frozen
class ResponsesWriter:
    """Writes one tool.

    Attributes:
        limits: What the provider takes.
        custom_tools: Whether the models know tools that take free text; where not, they are functions.
        keys: Under which a tool's options stand, and what may stand before the dot of the tools that are hosted.
    """

    limits: Limits
    custom_tools: bool = True
    keys: tuple[str, ...] = KEYS

    def __call__(self, spec: ToolSpec, strict: bool | None) -> Written:
        """The tool's entry; its option `namespace`, a name or `{"name", "description"}`, puts it into one."""
        if spec.kind == "provider":
            return self._hosted(spec)
        if spec.kind == "freeform" and self.custom_tools:
            return self._custom(spec)
        told = function_definition(spec, strict, self.limits.description)
        # Left out or null, `strict` would have the provider rewrite the schema by its own lights.
        entry = _named("function", spec, told) | {"parameters": told.parameters, "strict": told.strict}
        if spec.output_schema_text is not None:
            entry["output_schema"] = spec.output_schema
        return self._written(spec, entry, told)

    def _custom(self, spec: ToolSpec) -> Written:
        told = custom_definition(spec, self.limits.description)
        entry = _named("custom", spec, told)
        if spec.grammar is not None:
            entry["format"] = {"type": "grammar", **spec.grammar.to_json()}
        return self._written(spec, entry, told)

    def _hosted(self, spec: ToolSpec) -> Written:
        kind = hosted_type(spec, self.keys)
        if kind is None:
            return refusal(spec, "/providerId", "providerId", "another provider's tool")
        options = passed(spec.provider_options, self.keys)
        options.pop("namespace", None)
        return Written({**spec.provider_arguments, **options, "type": kind})

    def _written(self, spec: ToolSpec, entry: JsonObject, told: Definition) -> Written:
        if any(loss.refused for loss in told.losses):
            return Written(None, told.losses)
        options = passed(spec.provider_options, self.keys)
        given = options.pop("namespace", None)
        entry = {**entry, **options}
        return Written(entry, told.losses) if given is None else _placed(spec, entry, told.losses, given)


def _named(kind: str, spec: ToolSpec, told: Definition) -> JsonObject:
    return {"type": kind, "name": spec.name, **({"description": told.description} if told.description else {})}


def _placed(spec: ToolSpec, entry: JsonObject, losses: tuple[Loss, ...], given: object) -> Written:
    said = object_or_none(given) or {"name": given}
    name, description = known_text(said, "name"), known_text(said, "description")
    if name is None:
        what = "left out: a namespace is a name, or an object with name and description"
        return Written(entry, (*losses, Loss(spec.name, f"/providerOptions/{FAMILY}/namespace", "namespace", what)))
    return InNamespace(entry, losses, name, description)


__all__ = ["FAMILY", "KEYS", "InNamespace", "ResponsesWriter"]
