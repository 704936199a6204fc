"""`Offered`: the tools of one request, and which of them may or must be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from pegboard.request.exporter import ExportedTools
from pegboard.request.exporters.alternating.strict_budget import StrictBudget
from pegboard.request.exporters.anthropic.limits import FAMILY
from pegboard.request.exporters.anthropic.server_tools import SEARCH, is_search
from pegboard.request.exporters.calls.said_names import called_before
from pegboard.request.exporters.choices import check_choice
from pegboard.request.model_request import ModelRequest
from pegboard.request.tool_choice import NamedTool
from pegboard.typing import JsonObject

_WORDS: Final = {"auto": "auto", "required": "any", "none": "none"}
_DEFERRED: Final = "defer_loading"


@frozen
class Offered:
    """The tools of one request.

    Attributes:
        exported: Their list, without what the request adds to it.
        names: What the provider calls them, where that differs.
    """

    exported: ExportedTools
    names: Mapping[str, str]

    @classmethod
    def of(cls, request: ModelRequest, tools: StrictBudget) -> Offered:
        """Those of a request."""
        specs = [tool.spec for tool in request.offered]
        return cls(tools.exported(specs, request.config.strict), tools.names_of(request))

    def said(self, request: ModelRequest) -> JsonObject:
        """`tools` and `tool_choice`, as far as they have to be said.

        A conversation that holds calls is refused without tools (public), so that then those it called are listed
        once more, and none may be called.

        Raises:
            ExportError: The choice can't be met.
        """
        check_choice(request.tool_choice, self.exported.names, FAMILY)
        if not self.exported.entries:
            gone = [_gone(self.names.get(name, name)) for name in called_before(request.messages)]
            return {"tools": gone, "tool_choice": {"type": "none"}} if gone else {}
        choice = self._choice(request)
        return {"tools": self._entries(request), **({} if choice is None else {"tool_choice": choice})}

    def _entries(self, request: ModelRequest) -> list[JsonObject]:
        entries = list(self.exported.entries)
        if request.loads_deferred:
            deferred = self._deferred(request)
            entries = [_deferred(entry) if entry.get("name") in deferred else entry for entry in entries]
        if any(entry.get(_DEFERRED) for entry in entries) and not any(is_search(each.get("type")) for each in entries):
            entries.insert(0, dict(SEARCH))
        return entries

    def _deferred(self, request: ModelRequest) -> frozenset[str]:
        """The provider's names of the tools that are loaded once found; one that must be called is loaded at once."""
        choice = request.tool_choice
        forced = choice.name if isinstance(choice, NamedTool) else None
        specs = (tool.spec for tool in request.offered)
        return frozenset(
            self.names.get(spec.name, spec.name) for spec in specs if spec.deferred and spec.name != forced
        )

    def _choice(self, request: ModelRequest) -> JsonObject | None:
        choice, alone = request.tool_choice, request.config.parallel_calls is False
        if choice == "auto" and not alone:
            return None
        if isinstance(choice, NamedTool):
            said: JsonObject = {"type": "tool", "name": self.names.get(choice.name, choice.name)}
        else:
            said = {"type": _WORDS[choice]}
        return {**said, "disable_parallel_tool_use": True} if alone and choice != "none" else said


def _deferred(entry: JsonObject) -> JsonObject:
    """An entry that is loaded once it is found; it can't end what is cached, too (public)."""
    return {**{key: value for key, value in entry.items() if key != "cache_control"}, _DEFERRED: True}


def _gone(name: str) -> JsonObject:
    return {"name": name, "description": "No longer available.", "input_schema": {"type": "object", "properties": {}}}


__all__ = ["Offered"]
