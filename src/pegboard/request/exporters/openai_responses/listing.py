"""A request's list of tools: entries, namespaces, and the search for those that are deferred."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from attrs import define, field

from pegboard.request.exporter import ExportedTools
from pegboard.request.exporters.openai.listed import Listed, beyond
from pegboard.request.exporters.openai_responses.tools import InNamespace
from pegboard.request.exporters.written import Written, WrittenTools
from pegboard.request.loss import Loss
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject

SEARCH: Final = "tool_search"
_DEFERRABLE: Final = frozenset({"function", "custom", "mcp"})


def listed(
    written: WrittenTools, specs: Sequence[ToolSpec], strict: bool | None, most: int, *, deferred: bool = False
) -> Listed:
    """The list of these tools; what comes after as many as the provider takes is refused.

    Args:
        written: The tools, each written once.
        specs: In their order.
        strict: What the request says of strictness.
        most: Entries in a list, where a namespace is one.
        deferred: Whether deferred tools are left to the provider's search, which then is in the list too.
    """
    searched = deferred and any(spec.deferred for spec in specs)
    listing = _Listing(most - 1 if searched else most, searched)
    for spec in specs:
        listing.add(spec, written.one(spec, strict))
    left_out = {spec.name for spec in listing.beyond}
    return listing.listed(most, written.exported([spec for spec in specs if spec.name not in left_out], strict).losses)


@define
class _Listing:
    most: int
    searched: bool
    entries: list[JsonObject] = field(factory=list[JsonObject])
    by_name: dict[str, JsonObject] = field(factory=dict[str, JsonObject])
    namespaces: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    beyond: list[ToolSpec] = field(factory=list[ToolSpec])
    deferred: bool = False

    def add(self, spec: ToolSpec, written: Written) -> None:
        entry = written.entry
        if entry is None or spec.name in self.by_name:
            return
        if self.searched and spec.deferred and entry["type"] in _DEFERRABLE:
            self.deferred = True
            entry = {**entry, "defer_loading": True}
        into = self._namespace(written) if isinstance(written, InNamespace) else self._room()
        if into is None:
            self.beyond.append(spec)
            return
        into.append(entry)
        self.by_name[spec.name] = entry

    def _room(self) -> list[JsonObject] | None:
        return self.entries if len(self.entries) < self.most else None

    def _namespace(self, written: InNamespace) -> list[JsonObject] | None:
        found: dict[str, Any] | None = self.namespaces.get(written.namespace)
        if found is None:
            room = self._room()
            if room is None:
                return None
            made: list[JsonObject] = []
            found = {"type": "namespace", "name": written.namespace, "description": "", "tools": made}
            self.namespaces[written.namespace] = found
            room.append(found)
        found["description"] = found["description"] or written.told or ""
        tools: list[JsonObject] = found["tools"]
        return tools

    def listed(self, most: int, losses: Iterable[Loss]) -> Listed:
        for name, namespace in self.namespaces.items():
            namespace["description"] = namespace["description"] or f"Tools of {name}."  # the provider wants one
        if self.deferred and not any(entry["type"] == SEARCH for entry in self.entries):
            self.entries.append({"type": SEARCH})
        left_out = [beyond(spec, most) for spec in self.beyond]
        exported = ExportedTools(tuple(self.entries), (*losses, *left_out), frozenset(self.by_name))
        return Listed(exported, self.by_name)


__all__ = ["SEARCH", "listed"]
