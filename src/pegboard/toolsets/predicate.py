"""`Predicate`: a question about a tool in a context, kept as data; and its algebra: `&`, `|`, `~`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeAlias

from attrs import Converter, Factory, field, frozen

from pegboard.errors import PredicateError
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    from pegboard.tools.context import ReadonlyContext
    from pegboard.tools.tool import Tool

Test: TypeAlias = "Callable[[Tool], bool]"
"""A predicate bound to a context."""

MAX_DEPTH: Final = 64


class Predicate(ABC):
    """A question about a tool in a context.

    Predicates are frozen values: they compare, hash, combine with `&`, `|` and `~`, print a text that
    `parse_predicate` reads back, and turn into JSON. None is nested deeper than 64 levels.
    """

    __slots__ = ()
    depth: int = 1

    @abstractmethod
    def bound(self, context: ReadonlyContext) -> Test:
        """The test for tools in this context; what asks the context alone is settled here, once for all tools."""

    @abstractmethod
    def to_json(self) -> JsonObject:
        """An object with one key, which `predicate_from_json` reads back.

        Raises:
            PredicateError: It holds a callable that isn't registered under a name.
        """

    @abstractmethod
    def __str__(self) -> str: ...

    def __call__(self, tool: Tool, context: ReadonlyContext) -> bool:
        """Whether it is so for this tool in this context; raises whatever a custom callable raises."""
        return self.bound(context)(tool)

    def deciding(self, _tool: Tool, _context: ReadonlyContext, /) -> Predicate:
        """The smallest part that settles the answer for this tool."""
        return self

    def facts(self, _tool: Tool, _context: ReadonlyContext, /) -> str:
        """What the tool says to the question, for people; may be empty."""
        return ""

    def __and__(self, other: Predicate) -> Predicate:
        return And((self, other)) if isinstance(other, Predicate) else NotImplemented  # pyright: ignore[reportUnnecessaryIsInstance]

    def __or__(self, other: Predicate) -> Predicate:
        return Or((self, other)) if isinstance(other, Predicate) else NotImplemented  # pyright: ignore[reportUnnecessaryIsInstance]

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError("a predicate is neither true nor false by itself: combine with &, | and ~ (not and, or, not)")

    def __repr__(self) -> str:
        return f"<Predicate {self}>"


def _check_depth(_predicate: Any, _attribute: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise PredicateError(f"a predicate can't be nested deeper than {MAX_DEPTH} levels")


def _check_members(_joined: Any, _attribute: Any, members: tuple[Predicate, ...]) -> None:
    if len(members) < 2:
        raise PredicateError("at least two predicates can be joined; all_of() and any_of() take any number")


def _flat(members: Iterable[Predicate], joined: Any) -> tuple[Predicate, ...]:
    """The members, with those of a member of the same kind in its place."""
    nested = (
        member.members if isinstance(member, Joined) and type(member) is type(joined) else (member,)
        for member in members
    )
    return tuple(part for parts in nested for part in parts)


def _depth(joined: Joined) -> int:
    return 1 + max((member.depth for member in joined.members), default=0)


@frozen(repr=False)
class Joined(Predicate):
    """Two or more predicates under one word; asked in order, up to the first that settles it."""

    word: ClassVar[str]
    settles: ClassVar[bool]
    members: tuple[Predicate, ...] = field(converter=Converter(_flat, takes_self=True), validator=_check_members)
    depth: int = field(init=False, eq=False, default=Factory(_depth, takes_self=True), validator=_check_depth)

    def deciding(self, tool: Tool, context: ReadonlyContext, /) -> Predicate:
        """The first member that settles the answer; all of them where none does."""
        for member in self.members:
            if member(tool, context) is self.settles:
                return member.deciding(tool, context)
        return self

    def to_json(self) -> JsonObject:
        """The members in a list under the word."""
        return {self.word: [member.to_json() for member in self.members]}

    def __str__(self) -> str:
        return f" {self.word} ".join(map(self._part, self.members))

    def _part(self, member: Predicate) -> str:
        return str(member)


@frozen(repr=False)
class And(Joined):
    """All of its members."""

    word = "and"
    settles = False

    def bound(self, context: ReadonlyContext) -> Test:
        """True up to the first member that isn't."""
        tests = [member.bound(context) for member in self.members]
        if len(tests) == 2:
            first, second = tests
            return lambda tool: first(tool) and second(tool)
        return lambda tool: all(test(tool) for test in tests)

    def _part(self, member: Predicate) -> str:
        return f"({member})" if isinstance(member, Or) else str(member)


@frozen(repr=False)
class Or(Joined):
    """Any of its members."""

    word = "or"
    settles = True

    def bound(self, context: ReadonlyContext) -> Test:
        """False up to the first member that isn't."""
        tests = [member.bound(context) for member in self.members]
        if len(tests) == 2:
            first, second = tests
            return lambda tool: first(tool) or second(tool)
        return lambda tool: any(test(tool) for test in tests)


def _depth_of_not(negated: Not) -> int:
    return 1 + negated.member.depth


@frozen(repr=False)
class Not(Predicate):
    """The opposite of its member; two of them are none (`~~p == p`)."""

    member: Predicate
    depth: int = field(init=False, eq=False, default=Factory(_depth_of_not, takes_self=True), validator=_check_depth)

    def bound(self, context: ReadonlyContext) -> Test:
        """The opposite; where the member raises, it raises too."""
        test = self.member.bound(context)
        return lambda tool: not test(tool)

    def deciding(self, tool: Tool, context: ReadonlyContext, /) -> Predicate:
        """The opposite of what settles the member."""
        return ~self.member.deciding(tool, context)

    def facts(self, tool: Tool, context: ReadonlyContext, /) -> str:
        """Those of the member."""
        return self.member.facts(tool, context)

    def to_json(self) -> JsonObject:
        """The member under `not`."""
        return {"not": self.member.to_json()}

    def __invert__(self) -> Predicate:
        return self.member

    def __str__(self) -> str:
        return f"not ({self.member})" if isinstance(self.member, Joined) else f"not {self.member}"
