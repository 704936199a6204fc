"""Tool choice: whether it can be met."""

from __future__ import annotations

from collections.abc import Collection

from pegboard.errors import ExportError, did_you_mean, suggest
from pegboard.request.tool_choice import NamedTool, ToolChoice

_MOST_OF_A_NAME = 200


def check_choice(choice: ToolChoice, names: Collection[str], exporter: str) -> None:
    """Refuses a choice that can't be met.

    Args:
        choice: The request's.
        names: The tools that can be called.
        exporter: For the error.

    Raises:
        ExportError: The tool that must be called isn't exported, or there is none and one must be called.
    """
    if isinstance(choice, NamedTool):
        check_chosen(choice.name, names, exporter)
    elif choice == "required" and not names:
        raise ExportError("a call of a tool is required, and there is no tool to call", exporter=exporter)


def check_chosen(name: str, names: Collection[str], exporter: str) -> None:
    """Refuses the choice of a tool that can't be called.

    Args:
        name: The tool that is chosen.
        names: The tools that can be called.
        exporter: For the error.

    Raises:
        ExportError: It isn't among them, with near misses.
    """
    if name not in names:
        near = did_you_mean(suggest(name[:_MOST_OF_A_NAME], names))
        text = f"the tool choice names it, and it isn't among the tools that are exported.{near}"
        raise ExportError(text, exporter=exporter, tool=name)


__all__ = ["check_choice", "check_chosen"]
