"""Tool choice: whether, and which of the tools in the list, the model shall call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast

from pegboard.errors import ExportError
from pegboard.request.exporters.body import known
from pegboard.request.exporters.choices import check_choice, check_chosen
from pegboard.request.exporters.openai.listed import Listed
from pegboard.request.model_request import ModelRequest
from pegboard.request.tool_choice import NamedTool, ToolChoice
from pegboard.typing import JsonObject

ALLOWED: str = "allowed_tools"
"""The provider option that names the tools among which the model may choose, while all stay in the list: what the
provider has cached of the list stays good."""

Reference: TypeAlias = Callable[[str, JsonObject], JsonObject]
"""What points to a tool, from its name and its entry."""


class Choosing(Protocol):
    """How a wire says it."""

    def one(self, name: str, entry: JsonObject) -> JsonObject:
        """That the model must call this tool."""
        ...

    def some(self, mode: Literal["auto", "required"], tools: Sequence[tuple[str, JsonObject]]) -> JsonObject:
        """That it may, or must, call one of these."""
        ...


def tool_facts(request: ModelRequest, listed: Listed, allowed: object, exporter: str, wire: Choosing) -> JsonObject:
    """What a request's body says of tools and choice; empty where there are none.

    Args:
        request: The request.
        listed: The tools in its list.
        allowed: The names among which the model may choose, or `None` for all.
        exporter: For errors.
        wire: How it is said.

    Raises:
        ExportError: It names a tool that isn't in the list, or wants a call where there is nothing to call.
    """
    check_choice(request.tool_choice, listed.by_name, exporter)
    if not listed.exported.entries:
        return {}
    facts = {
        "tools": list(listed.exported.entries),
        "tool_choice": _choice(request.tool_choice, listed.by_name, allowed, exporter, wire),
        "parallel_tool_calls": request.config.parallel_calls,
    }
    return known(facts)


def _choice(
    choice: ToolChoice, listed: Mapping[str, JsonObject], allowed: object, exporter: str, wire: Choosing
) -> str | JsonObject | None:
    """What is said of choice; `None` where nothing need be."""
    if isinstance(choice, NamedTool):
        return wire.one(choice.name, listed[choice.name])
    if choice == "none" or allowed is None:
        return None if choice == "auto" else choice
    names = _names(allowed, exporter)
    for name in names:
        check_chosen(name, listed, exporter)
    return wire.some(choice, [(name, listed[name]) for name in names])


def _names(allowed: object, exporter: str) -> list[str]:
    names = cast("Sequence[Any]", allowed) if isinstance(allowed, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ExportError(
            f"the option {ALLOWED} must be a list of tools' names, got {allowed!r:.80}", exporter=exporter
        )
    return list(names)


__all__ = ["ALLOWED", "Choosing", "tool_facts"]
