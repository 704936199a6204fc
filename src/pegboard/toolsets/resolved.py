"""`ResolvedTools`: the frozen, ordered snapshot that one request offers to a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
from attrs import field, frozen

from pegboard.errors import SchemaError, suggest
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool
from pegboard.toolsets.explanation import Explanation, Reason
from pegboard.toolsets.names import Held, held_back
from pegboard.toolsets.offer import ToolsetProblem, described
from pegboard.toolsets.sound import check_sound
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.trace import Pass, Trace


@frozen(eq=False)
class ResolvedTools:
    """The tools that one request offers, in order; and the reason for every tool that is in or out.

    It keeps the tools themselves: a request runs exactly these, even if they are replaced or removed since.

    Attributes:
        tools: In the order in which they are offered.
        problems: What went wrong: toolsets that failed, tools that were held back, predicates that raised, active
            names that nobody has.
        trace: What each step did.
        toolsets: Those that were asked.
        findable: Tools that are left out until a search finds them; the search looks through these, too.
    """

    tools: tuple[Tool, ...]
    problems: tuple[ToolsetProblem, ...]
    trace: Trace = field(repr=False)
    toolsets: tuple[Toolset, ...] = field(default=(), repr=False)
    findable: tuple[Tool, ...] = field(default=(), repr=False)
    _by_name: Mapping[str, Tool] | None = field(default=None, init=False, repr=False)
    _digest: str | None = field(default=None, init=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in order."""
        return tuple(tool.spec.name for tool in self.tools)

    @property
    def context(self) -> ReadonlyContext:
        """What they were resolved for."""
        return self.trace.context

    @property
    def considered(self) -> frozenset[str]:
        """Every name that somebody has a tool for, offered or not."""
        return self.trace.considered

    @property
    def digest(self) -> str:
        """`"sha256:..."` over the digests of the tools in their order; worked out once."""
        if self._digest is None:
            from pegboard.schema.json import digest_of

            object.__setattr__(self, "_digest", digest_of([tool.spec.digest for tool in self.tools]))
        return self._digest or ""

    @property
    def reasons(self) -> Mapping[str, tuple[Reason, ...]]:
        """For every name that was considered, what each step said to it; worked out when it is asked for."""
        return {name: self.trace.reasons(name) for name in sorted(self.considered)}

    def get(self, name: str) -> Tool | None:
        """The offered tool of this name, or `None`."""
        by_name = self._by_name
        if by_name is None:
            by_name = {tool.spec.name: tool for tool in self.tools}
            object.__setattr__(self, "_by_name", by_name)
        return by_name.get(name)

    def without(self, step: str, reasons: Mapping[str, str]) -> ResolvedTools:
        """The same without some tools.

        Args:
            step: What leaves them out, for explanations: a word.
            reasons: The names of those that are left out, each with the reason; others are passed over.
        """
        out = {name: text for name, text in reasons.items() if name in self}
        if not out:
            return self
        tools = tuple(tool for tool in self.tools if tool.spec.name not in out)
        return attrs.evolve(self, tools=tools, trace=self.trace.then(Pass(step, tools, texts=out)))

    def with_tools(self, *tools: Tool) -> ResolvedTools:
        """The same with more tools, behind the others.

        A tool whose name is taken, also by one that is left out, is held back; a problem says so. So is one whose
        schemas can't judge.
        """
        taken = {tool.spec.name: tool for tool in self.tools}
        new: list[Tool] = []
        held: list[Held] = []
        unsound: list[ToolsetProblem] = []
        for tool in tools:
            holder = taken.get(tool.spec.name) or self.trace.candidate(tool.spec.name)
            if holder is not None:
                held.append((tool, holder))
            elif (problem := _fault(tool)) is not None:
                unsound.append(problem)
            else:
                taken[tool.spec.name] = tool
                new.append(tool)
        grown = attrs.evolve(self, tools=(*self.tools, *new), trace=self.trace.joined_by(new))
        return _holding_back(grown, held, unsound)

    def distinct(self) -> ResolvedTools:
        """The same with each name once: the first keeps it, and a problem says so of the others."""
        first: dict[str, Tool] = {}
        others = [tool for tool in self.tools if first.setdefault(tool.spec.name, tool) is not tool]
        if not others:
            return self
        held = [(tool, first[tool.spec.name]) for tool in others]
        return _holding_back(attrs.evolve(self, tools=tuple(first.values())), held)

    def finding(self, tools: Sequence[Tool]) -> ResolvedTools:
        """The same with more tools that a search may find."""
        return attrs.evolve(self, findable=(*self.findable, *tools)) if tools else self

    def was_held_back(self, name: str) -> bool:
        """Whether somebody has a tool of this name, and this request doesn't offer it."""
        return name not in self and name in self.considered

    def explain(self, name: str) -> Explanation:
        """Each step by which the tool of this name is in or out."""
        if name in self:
            return Explanation(name, offered=True, reasons=self.trace.reasons(name))
        near = () if name in self.considered else suggest(name[:200], self.considered)
        notes = tuple(str(problem) for problem in self.problems if problem.toolset and problem.tool is None)
        return Explanation(name, offered=False, reasons=self.trace.reasons(name), near=near, notes=notes)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)


def _holding_back(
    resolved: ResolvedTools, held: Sequence[Held], problems: Sequence[ToolsetProblem] = ()
) -> ResolvedTools:
    """The same with more that is held back, and told of."""
    told = (*resolved.problems, *problems, *held_back(held))
    return attrs.evolve(resolved, problems=told, trace=resolved.trace.holding_back(held))


def _fault(tool: Tool) -> ToolsetProblem | None:
    try:
        check_sound(tool)
    except SchemaError as error:
        return ToolsetProblem("", described(error), tool.spec.name, tool.origin, error)
    return None
