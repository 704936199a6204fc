"""`Offer`: what a toolset has offered for one context, checked; and what went wrong on the way."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, Self, TypeAlias

import attrs
from attrs import field, frozen

from pegboard.errors import PegboardError, SchemaError
from pegboard.tools.origin import HOST, Origin
from pegboard.tools.tool import Tool
from pegboard.toolsets.sound import check_sound

MOST_TOOLS: Final = 100_000
MOST_PROBLEMS: Final = 20
_MOST_TEXT: Final = 500


@frozen
class ToolsetProblem:
    """Something that went wrong with a toolset, or with what was asked of a resolution; everything else works.

    Attributes:
        toolset: The toolset's name, or `""` where it isn't about one.
        cause: What happened, for the operator.
        tool: The name of the tool that it cost, or `None`.
        origin: Who brought the toolset.
        error: What was raised, or `None`.
        note: Whether nothing failed: it is worth knowing, and no more.
    """

    toolset: str
    cause: str
    tool: str | None = None
    origin: Origin = HOST
    error: BaseException | None = field(default=None, eq=False, repr=False)
    note: bool = False

    def __str__(self) -> str:
        return ": ".join(part for part in (self.toolset and f"toolset {self.toolset!r}", self.cause) if part)


@frozen
class Dropped:
    """A tool that a toolset has, and doesn't offer for this context.

    Attributes:
        name: The tool's name, as it would be offered.
        step: What dropped it: `"filtered"`, `"combined"` ...
        text: Why.
    """

    name: str
    step: str
    text: str


class Offer(tuple[Tool, ...]):  # noqa: SLOT001  a tuple has no room for slots
    """Tools with handlers where there are any, each name once; and what isn't among them.

    Attributes:
        problems: What went wrong.
        dropped: What was left out.
    """

    problems: tuple[ToolsetProblem, ...]
    dropped: tuple[Dropped, ...]

    def __new__(
        cls,
        tools: Iterable[Tool] = (),
        problems: Iterable[ToolsetProblem] = (),
        dropped: Iterable[Dropped] = (),
    ) -> Self:
        """Tools whose names are distinct."""
        offer = super().__new__(cls, tools)
        offer.problems = tuple(problems)
        offer.dropped = tuple(dropped)
        return offer

    @property
    def has_failed(self) -> bool:
        """Whether something went wrong, wholly or in part; notes don't count."""
        return any(not problem.note for problem in self.problems)

    def owned_by(self, origin: Origin) -> Offer:
        """The same with the problems in somebody's name."""
        if not self.problems or origin is HOST:
            return self
        return Offer(self, (attrs.evolve(problem, origin=origin) for problem in self.problems), self.dropped)


def described(error: BaseException) -> str:
    """What was raised, in one short line."""
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  an exception whose own text can't be had
        text = ""
    kind = type(error).__name__
    line = " ".join(text.split())[:_MOST_TEXT]
    if isinstance(error, PegboardError):
        return line or kind
    return f"{kind}: {line}" if line else kind


def failed(toolset: str, error: BaseException) -> Offer:
    """The offer of a toolset that failed as a whole."""
    return Offer((), [ToolsetProblem(toolset, described(error), error=error)])


Checked: TypeAlias = tuple[list[Tool], list[ToolsetProblem]]


def checked(toolset: str, answer: Any) -> Checked:
    """The tools of an answer that may be anything; what isn't a sound tool, or repeats a name, costs only itself.

    Raises:
        TypeError: The answer is no sequence.
        ValueError: It is longer than 100,000.
    """
    tools: dict[str, Tool] = {}
    problems: list[ToolsetProblem] = []
    for index, item in enumerate(listed(answer)):
        if not isinstance(item, Tool):
            problems.append(ToolsetProblem(toolset, f"item {index} is no Tool but {type(item).__name__}"))
        elif (fault := _fault(item)) is not None:
            problems.append(ToolsetProblem(toolset, described(fault), item.spec.name, error=fault))
        elif tools.setdefault(item.spec.name, item) is not item:
            problems.append(repeated(toolset, item.spec.name))
    return list(tools.values()), shortened(toolset, problems)


def _fault(tool: Tool) -> SchemaError | None:
    try:
        check_sound(tool)
    except SchemaError as error:
        return error
    return None


def listed(answer: Any) -> list[Any]:
    """The items of an answer that may be anything.

    Raises:
        TypeError: The answer is no sequence.
        ValueError: It is longer than 100,000.
    """
    if not _is_list(answer):
        raise TypeError(f"a toolset has to give a list of tools, and gave {type(answer).__name__}")
    items: list[Any] = list(islice(answer, MOST_TOOLS + 1))
    if len(items) > MOST_TOOLS:
        raise ValueError(f"a toolset may give {MOST_TOOLS:,} tools, and gave more")
    return items


def _is_list(answer: object) -> bool:
    """Whether its items can be looked at without an end that never comes: a generator's can't."""
    return hasattr(answer, "__getitem__") and hasattr(answer, "__len__") and not isinstance(answer, str | bytes | dict)


def repeated(toolset: str, name: str) -> ToolsetProblem:
    """The problem of a second tool of the same name."""
    return ToolsetProblem(toolset, f"it has two tools called {name!r}; the first is offered", name)


def shortened(toolset: str, problems: list[ToolsetProblem]) -> list[ToolsetProblem]:
    """At most 20 problems, and how many more there were."""
    more = len(problems) - MOST_PROBLEMS
    if more <= 0:
        return problems
    return [*problems[:MOST_PROBLEMS], ToolsetProblem(toolset, f"and {more} more problems of this kind")]
