"""What the model reads of the tools that were found: names, descriptions, arguments; all of it bounded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from pegboard.tools.spec import ToolSpec

MOST_DESCRIPTION: Final = 400
"""How many characters of a description are told."""

MOST_ARGUMENTS: Final = 20
"""How many of a tool's arguments are told."""

_MOST_WORD: Final = 80


def found_text(query: str, specs: Sequence[ToolSpec], *, near: bool = False) -> str:
    """What the search tool answers.

    Args:
        query: What was asked for.
        specs: What was found, best first.
        near: Whether only near names were found.
    """
    if not specs:
        return f"No tool fits {_cut(query, _MOST_WORD)!r}. Try other words: what the tool does, or what it works on."
    words = f"No tool speaks of {_cut(query, _MOST_WORD)!r}; these have names that are near.\n" if near else ""
    head = "1 tool was found. It" if len(specs) == 1 else f"{len(specs)} tools were found. They"
    told = "\n\n".join(_told(spec) for spec in specs)
    return f"{words}{head} can be called from your next answer on.\n\n{told}"


def _told(spec: ToolSpec) -> str:
    description = _cut(" ".join((spec.description or spec.title or "").split()), MOST_DESCRIPTION)
    head = f"{spec.name}: {description}" if description else spec.name
    return f"{head}\n  arguments: {arguments_text(spec)}"


def arguments_text(spec: ToolSpec) -> str:
    """A tool's arguments in one line: `path (string, required), limit (integer)`; at most 20 of them."""
    schema: Any = json.loads(spec.input_schema_text)
    properties: Any = schema.get("properties")
    if spec.kind == "freeform":
        return "free text"
    if not isinstance(properties, dict) or not properties:
        return "none"
    required: Any = schema.get("required")
    needed: list[Any] = required if isinstance(required, list) else []  # pyright: ignore[reportUnknownVariableType]
    facts = list(properties.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    told = [_argument(name, rule, required=name in needed) for name, rule in facts[:MOST_ARGUMENTS]]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    more = len(facts) - MOST_ARGUMENTS  # pyright: ignore[reportUnknownArgumentType]
    return ", ".join([*told, f"and {more} more"] if more > 0 else told)


def _argument(name: str, rule: Any, *, required: bool) -> str:
    kind: Any = rule.get("type") if isinstance(rule, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    kinds: list[Any] = kind if isinstance(kind, list) else [kind]  # pyright: ignore[reportUnknownVariableType]
    facts = [" or ".join(each for each in kinds if isinstance(each, str)), "required" if required else ""]
    told = ", ".join(fact for fact in facts if fact)
    return _cut(name, _MOST_WORD) + (f" ({told})" if told else "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


__all__ = ["arguments_text", "found_text"]
