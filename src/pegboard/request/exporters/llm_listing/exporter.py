"""`LLMListing`: tools as `llm tools list --json` lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from pegboard.request.dialects.providers import PLAIN
from pegboard.request.exporter import ExportedTools
from pegboard.request.exporters.fitted import described, fitted
from pegboard.request.exporters.listing_only import ListingOnly
from pegboard.request.exporters.written import Written, WrittenTools, refusal
from pegboard.request.loss import Loss
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool

_NOTHING: Final[Mapping[str, Any]] = {}


@define(eq=False)
class LLMListing(ListingOnly):
    """Lists tools as the key `tools` of `llm tools list --json` does (LLM 0.36, `llm/cli.py`).

    Each is `{"name", "description", "arguments", "plugin"}`.

    Attributes:
        plugins: Who brings each tool, by its name; a spec doesn't say so itself.
    """

    name = "llm"
    plugins: Mapping[str, str | None] = _NOTHING
    _written: WrittenTools = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._written = WrittenTools(self._write)

    def knowing(self, tools: Iterable[Tool]) -> LLMListing:
        """The same for tools whose plugins it shall name."""
        return LLMListing({tool.name: tool.origin.plugin for tool in tools})

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """What `tools` holds there."""
        return self._written.exported(specs, strict)

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        return self._written.one(spec, strict).losses

    def _write(self, spec: ToolSpec, strict: bool | None) -> Written:
        if spec.kind == "provider":
            return refusal(spec, "/providerId", "providerId", "a provider hosts it; no plugin's function runs it")
        schema = fitted(spec, PLAIN, None, strict)
        if schema.refused:
            return Written(None, schema.losses)
        entry = {
            "name": spec.name,
            "description": described(spec, examples=True, grammar=True),
            "arguments": schema.schema,
            "plugin": self.plugins.get(spec.name),
        }
        return Written(entry, schema.losses)


__all__ = ["LLMListing"]
