"""What toolsets round a toolset share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from attrs import evolve, field, frozen

from pegboard.errors import did_you_mean, suggest
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool
from pegboard.toolsets.offer import MOST_PROBLEMS, Dropped, Offer, ToolsetProblem, described, repeated, shortened
from pegboard.toolsets.predicate import Predicate
from pegboard.toolsets.remade import Change, Remaker
from pegboard.toolsets.sift import sift
from pegboard.toolsets.source import Source
from pegboard.toolsets.toolset import Toolset, close


class WrapperToolset:
    """A toolset round another, of the same name; closing it closes the inner one.

    Tools come out of the inner toolset able to run, so that a wrapper that changes a tool changes what is listed and
    what is called together.

    Args:
        inner: Any toolset.

    Attributes:
        name: The inner toolset's.
    """

    def __init__(self, inner: Toolset) -> None:
        self._inner = Source(inner)
        self.name = self._inner.name

    async def tools(self, context: ReadonlyContext) -> Offer:
        """What the inner toolset offers."""
        return await self._inner.offer(context)

    @property
    def inner_toolsets(self) -> tuple[Toolset, ...]:
        """The toolset that it stands round."""
        return (self._inner.toolset,)

    async def close(self) -> None:
        """Closes the inner toolset."""
        await close(self._inner.toolset)


def _same_name(name: str) -> str:
    return name


@frozen
class Step:
    """How a wrapper changes tools.

    Attributes:
        word: What it does, for people: `"prefixed"`.
        change: Changes one tool; where it raises, that tool is out.
        where: Picks the tools that are changed, in a context; `None` picks all. Where it raises, the tool is out.
        rename: What becomes of the names of tools that aren't there.
        speaks_of: The names of tools that it is about; one that nobody has is noted.
    """

    word: str
    change: Change
    where: Predicate | None = None
    rename: Callable[[str], str] = field(default=_same_name)
    speaks_of: Collection[str] = ()


class ChangedToolset(WrapperToolset):
    """A toolset whose tools are changed one by one; the order stays."""

    def __init__(self, inner: Toolset, step: Step) -> None:
        super().__init__(inner)
        self._step = step
        self._remaker = Remaker(step.change)
        self._unseen = set(step.speaks_of)

    async def tools(self, context: ReadonlyContext) -> Offer:
        """The tools of the inner toolset, changed where the step says so."""
        offer = await self._inner.offer(context)
        changed = _Changed(self.name, self._step.word)
        picked, faults = self._picked(offer, context)
        for tool in offer:
            if tool.spec.name in faults:
                changed.lose(tool.spec.name, faults[tool.spec.name])
            elif picked is None or tool in picked:
                changed.take(tool, self._remaker.one)
            else:
                changed.add(tool)
        self._remaker.forget_others(offer)
        dropped = [evolve(each, name=self._step.rename(each.name)) for each in offer.dropped]
        return changed.offer((*offer.problems, *self._notes(offer)), dropped)

    def _notes(self, offer: Offer) -> Iterator[ToolsetProblem]:
        """The names that it speaks of and that nobody has; tools that are there now and then have been seen before."""
        unseen = self._unseen
        if not unseen or offer.has_failed:
            return
        known = {*(tool.spec.name for tool in offer), *(each.name for each in offer.dropped)}
        unseen -= known
        for name in sorted(unseen)[:MOST_PROBLEMS]:
            near = did_you_mean(suggest(name[:200], known)) if len(unseen) <= 3 else ""
            cause = f"no tool is called {name!r}, which was to be {self._step.word}.{near}"
            yield ToolsetProblem(self.name, cause, note=True)

    def _picked(self, tools: Sequence[Tool], context: ReadonlyContext) -> tuple[set[Tool] | None, dict[str, str]]:
        if self._step.where is None:
            return None, {}
        picked, faults = sift(tools, self._step.where, context)
        return set(picked), faults


class _Changed:
    """The tools that a wrapper has so far; the first of a name stays."""

    def __init__(self, toolset: str, word: str) -> None:
        self._toolset = toolset
        self._word = word
        self._tools: dict[str, Tool] = {}
        self._problems: list[ToolsetProblem] = []
        self._dropped: list[Dropped] = []

    def add(self, tool: Tool) -> None:
        if self._tools.setdefault(tool.spec.name, tool) is not tool:
            self._problems.append(repeated(self._toolset, tool.spec.name))

    def take(self, tool: Tool, change: Change) -> None:
        try:
            changed = change(tool)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  whatever it is, it costs only the tool
            self.lose(tool.spec.name, described(error))
        else:
            self.add(changed)

    def lose(self, name: str, cause: str) -> None:
        self._problems.append(ToolsetProblem(self._toolset, f"tool {name!r} can't be {self._word}: {cause}", name))
        self._dropped.append(Dropped(name, self._word, f"failed: {cause}"))

    def offer(self, problems: Sequence[ToolsetProblem], dropped: Sequence[Dropped]) -> Offer:
        """Everything, with what was wrong and left out before."""
        own = shortened(self._toolset, self._problems)
        return Offer(self._tools.values(), (*problems, *own), (*dropped, *self._dropped))
