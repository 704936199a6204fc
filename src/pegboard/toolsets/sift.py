"""Asking a predicate about many tools: where it raises for one, that one is out, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool
from pegboard.toolsets.offer import described
from pegboard.toolsets.predicate import Not, Predicate

Faults: TypeAlias = dict[str, str]
"""Names of tools for which a predicate raised, and what."""


def sift(tools: Iterable[Tool], predicate: Predicate, context: ReadonlyContext) -> tuple[list[Tool], Faults]:
    """The tools for which it is so, in their order; and those for which it raised."""
    kept: list[Tool] = []
    faults: Faults = {}
    try:
        test = predicate.bound(context)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whatever it is, it costs only the tools that it is asked about
        cause = described(error)
        return kept, {tool.spec.name: cause for tool in tools}
    for tool in tools:
        try:
            if test(tool):
                kept.append(tool)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  whatever it is, it costs only the tool
            faults[tool.spec.name] = described(error)
    return kept, faults


def why(predicate: Predicate, tool: Tool, context: ReadonlyContext) -> str:
    """The part of the predicate that settles the answer for this tool, and what the tool says to it."""
    try:
        part = predicate.deciding(tool, context)
        part = ~part if isinstance(part, Not) else part  # "tag:net is so", rather than "not tag:net is not so"
        facts = part.facts(tool, context)
        answer = "is so" if part(tool, context) else "is not so"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whatever it is, it costs only an explanation
        return f"{predicate} failed: {described(error)}"
    return f"{part} {answer}" + (f" ({facts})" if facts else "")
