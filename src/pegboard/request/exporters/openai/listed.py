"""`Listed`: a request's list of tools, and the entry of each."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from pegboard.request.exporter import ExportedTools
from pegboard.request.loss import Loss
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject


@frozen
class Listed:
    """A list of tools as one request has it.

    Attributes:
        exported: The list.
        by_name: The entry of each tool in it, by the tool's name.
    """

    exported: ExportedTools
    by_name: Mapping[str, JsonObject] = field(repr=False)

    def is_custom(self, name: str) -> bool:
        """Whether the tool of this name is listed as one that takes free text."""
        entry = self.by_name.get(name)
        return entry is not None and entry.get("type") == "custom"


def beyond(spec: ToolSpec, most: int) -> Loss:
    """What becomes of a tool that comes after as many as the provider takes."""
    return Loss(spec.name, "", "tools", f"the provider takes at most {most:,} tools in one request", refused=True)


__all__ = ["Listed", "beyond"]
