"""`Trace`: what each step of a resolution did, kept so that it costs little until somebody asks why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import attrs
from attrs import field, frozen

from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool
from pegboard.toolsets.explanation import Reason
from pegboard.toolsets.names import Candidates, Held
from pegboard.toolsets.offer import Dropped
from pegboard.toolsets.predicate import Predicate
from pegboard.toolsets.sift import Faults, why

T = TypeVar("T")


@frozen(eq=False)
class Pass:
    """One step and the tools that came through.

    Attributes:
        step: Its name.
        tools: Those that came through.
        predicate: What was asked, or `None`.
        faults: The tools for which it raised, and what.
        texts: Why, for those that didn't come through, where no predicate was asked.
    """

    step: str
    tools: Sequence[Tool]
    predicate: Predicate | None = None
    faults: Faults = field(factory=dict[str, str])
    texts: Mapping[str, str] = field(factory=dict[str, str])


@frozen(eq=False)
class Trace:
    """What each step did.

    Attributes:
        candidates: The tools that were considered.
        passes: The steps, in order.
        tools: Those that are offered, in order.
        context: What they were resolved for.
        added: The tools that came in later, by name: how many steps had been made by then.
    """

    candidates: Candidates
    passes: Sequence[Pass]
    tools: Sequence[Tool]
    context: ReadonlyContext
    added: Mapping[str, int] = field(factory=dict[str, int])

    def candidate(self, name: str) -> Tool | None:
        """The tool of this name that was considered, or `None`."""
        return self._candidates.get(name)

    def then(self, step: Pass) -> Trace:
        """The same with one more step."""
        return attrs.evolve(self, passes=(*self.passes, step), tools=step.tools)

    def joined_by(self, tools: Sequence[Tool]) -> Trace:
        """The same with tools that came in now, of names that nobody has."""
        candidates = attrs.evolve(self.candidates, tools=(*self.candidates.tools, *tools))
        added = {**self.added, **dict.fromkeys((tool.spec.name for tool in tools), len(self.passes))}
        return attrs.evolve(self, candidates=candidates, tools=(*self.tools, *tools), added=added)

    def holding_back(self, held: Sequence[Held]) -> Trace:
        """The same with tools that are held back, as others have their names."""
        return attrs.evolve(self, candidates=attrs.evolve(self.candidates, held=(*self.candidates.held, *held)))

    @cached_property
    def considered(self) -> frozenset[str]:
        """Every name that somebody has a tool for."""
        return frozenset({*self._candidates, *self._held, *self._dropped})

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """What each step said to the tools of this name."""
        before = [Reason(each.step, "out", each.text) for each in self._dropped.get(name, ())]
        held = [
            Reason("name", "out", f"the tool of {tool.origin} is held back: {holder.origin} has the name")
            for tool, holder in self._held.get(name, ())
        ]
        tool = self._candidates.get(name)
        if tool is None:
            return (*before, *held)
        return (*before, Reason("offered", "in", f"by {tool.origin}"), *held, *self._passed(tool))

    def _passed(self, tool: Tool) -> Iterator[Reason]:
        """What each step said, up to the one that it didn't come through."""
        first = self.added.get(tool.spec.name, 0)
        for each, names in zip(self.passes[first:], self._through[first:], strict=True):
            came_through = tool.spec.name in names
            yield Reason(each.step, "in" if came_through else "out", self._text(each, tool, came_through=came_through))
            if not came_through:
                return
        yield Reason("order", "in", f"place {self._places[tool.spec.name]} of {len(self.tools)}")

    def _text(self, each: Pass, tool: Tool, *, came_through: bool) -> str:
        if each.texts:
            return each.texts.get(tool.spec.name, "kept")
        if each.predicate is None:
            return "among the active names" if came_through else "not among the active names"
        fault = each.faults.get(tool.spec.name)
        return why(each.predicate, tool, self.context) if fault is None else f"{each.predicate} failed: {fault}"

    @cached_property
    def _candidates(self) -> Mapping[str, Tool]:
        return {tool.spec.name: tool for tool in self.candidates.tools}

    @cached_property
    def _held(self) -> Mapping[str, list[Held]]:
        return _grouped((held[0].spec.name, held) for held in self.candidates.held)

    @cached_property
    def _dropped(self) -> Mapping[str, list[Dropped]]:
        return _grouped((dropped.name, dropped) for dropped in self.candidates.dropped)

    @cached_property
    def _through(self) -> Sequence[frozenset[str]]:
        return [frozenset(tool.spec.name for tool in each.tools) for each in self.passes]

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {tool.spec.name: place for place, tool in enumerate(self.tools, 1)}


def _grouped(pairs: Iterator[tuple[str, T]]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = {}
    for name, item in pairs:
        groups.setdefault(name, []).append(item)
    return groups
