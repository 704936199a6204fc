"""Settling names: of several tools of one name, one is considered and the others are held back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from attrs import define, field, frozen

from pegboard.errors import DuplicateToolError
from pegboard.tools.name import is_valid_name
from pegboard.tools.origin import ConflictPolicy
from pegboard.tools.tool import Tool
from pegboard.toolsets.offer import Dropped, Offer, ToolsetProblem
from pegboard.toolsets.remade import remade

Held: TypeAlias = tuple[Tool, Tool]
"""A tool that is held back, and the one that has its name."""


@frozen(eq=False)
class Candidates:
    """The tools that are considered.

    Attributes:
        tools: Sorted by name, each name once.
        held: What is held back.
        dropped: What toolsets have, and don't offer now.
        problems: What went wrong up to here.
    """

    tools: Sequence[Tool]
    held: tuple[Held, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    problems: tuple[ToolsetProblem, ...] = ()


def settled_names(static: Sequence[Tool], offers: Sequence[Offer], policy: ConflictPolicy = "keep") -> Candidates:
    """The static tools and the toolsets' as one sequence, each name once.

    A host's tool has its name before any plugin's. Otherwise the static tool comes before a toolset's and the earlier
    toolset before the later, and the policy says what becomes of the later one: `keep` holds it back, `replace` and
    `shadow` hold back the earlier, `prefix` puts its plugin's or toolset's name in front, and holds it back where
    that name is taken or too long.

    Args:
        static: Sorted by name, each name once.
        offers: Those of the toolsets, in the toolsets' order.
        policy: What happens to a second tool of a name.

    Raises:
        DuplicateToolError: There are two tools of one name and the policy is `error`.
    """
    if not offers:
        return Candidates(static)
    settling = _Settling({tool.spec.name: tool for tool in static}, policy)
    for offer in offers:
        for tool in offer:
            settling.add(tool)
    return Candidates(
        [settling.tools[name] for name in sorted(settling.tools)],
        tuple(settling.held),
        tuple(each for offer in offers for each in offer.dropped),
        (*(problem for offer in offers for problem in offer.problems), *held_back(settling.held)),
    )


@define(eq=False)
class _Settling:
    tools: dict[str, Tool]
    policy: ConflictPolicy
    held: list[Held] = field(factory=list[Held])

    def add(self, tool: Tool) -> None:
        earlier = self.tools.setdefault(tool.spec.name, tool)
        if earlier is tool:
            return
        if self.policy == "error":
            raise DuplicateToolError(tool.name, held_by=str(earlier.origin), wanted_by=str(tool.origin))
        first, second = _ranked(earlier, tool, later_wins=self.policy in ("replace", "shadow"))
        self.tools[first.spec.name] = first
        if self.policy != "prefix" or not self.prefix(second):
            self.held.append((second, first))

    def prefix(self, tool: Tool) -> bool:
        """Puts the tool under a name that tells where it comes from; whether that could be done."""
        name = f"{tool.origin.plugin or tool.origin.toolset or 'host'}_{tool.spec.name}"
        if not is_valid_name(name) or name in self.tools:
            return False
        self.tools[name] = remade(tool, lambda own: own.with_spec(name=name))
        return True


def _ranked(earlier: Tool, later: Tool, *, later_wins: bool) -> tuple[Tool, Tool]:
    """The tool that has the name, and the other."""
    hosts = (earlier.origin.plugin is None, later.origin.plugin is None)
    if hosts[0] is not hosts[1]:
        later_wins = hosts[1]
    return (later, earlier) if later_wins else (earlier, later)


def held_back(held: Iterable[Held]) -> Iterable[ToolsetProblem]:
    """A problem for each tool that is held back."""
    for tool, holder in held:
        cause = f"tool {tool.spec.name!r} is held back: {holder.origin} has the name; prefix or rename one of the two"
        yield ToolsetProblem(tool.origin.toolset or "", cause, tool.spec.name, tool.origin)
