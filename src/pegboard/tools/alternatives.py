"""What to say of a value that fits none of several alternatives: what the nearest one lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pegboard.tools.problem import kind_shown, listed

Kind: TypeAlias = Literal["type", "value", "missing", "other"]


_MOST_WANTED: Final = 20
_MOST_OPTIONS: Final = 50_000


class Problem(NamedTuple):
    """One thing that is wrong with a value.

    Attributes:
        path: Where, seen from the value.
        reason: Why, for the model.
        kind: `"type"` and `"value"` say that the value is something else altogether.
        wanted: For those two: what it must be, to be joined by "or".
    """

    path: tuple[str | int, ...]
    reason: str
    kind: Kind = "other"
    wanted: str = ""


class Alternative(NamedTuple):
    """One of several schemas.

    Attributes:
        tags: The properties that must have one of certain values, which tell it from the others.
        problems: What the value lacks to fit it; never empty.
    """

    tags: Mapping[str, Sequence[Any]]
    problems: Sequence[Problem]

    def is_something_else(self) -> bool:
        """Whether the value is of another type altogether, so that its inside says nothing."""
        return all(not each.path and each.kind in ("type", "value") for each in self.problems)

    def is_null(self) -> bool:
        """Whether only null fits, which a value given was hardly meant as."""
        return self.is_something_else() and self.problems[0].wanted == "null"

    def lacks(self, name: str, kind: Kind) -> bool:
        """Whether one of its problems is of this kind and stands directly at the property `name`."""
        return any(each.kind == kind and each.path == (name,) for each in self.problems)


def mismatch(wanted: str, value: Any, kind: Kind = "type") -> Problem:
    """The problem of a value that is something else than what is wanted."""
    return Problem((), f"must be {wanted}, got {kind_shown(value)}", kind, wanted)


def one_of(options: Iterable[Any]) -> str:
    """`"a"`, or `one of "a", "b"`."""
    values = list(options)
    return listed(values) if len(values) == 1 else f"one of {listed(values)}"


def nearest(alternatives: Sequence[Alternative], value: Any) -> Sequence[Problem]:
    """The problems of the alternative that `value` was most likely meant as.

    By type first, then by tag, then by the number of problems; where that leaves several with one problem each
    at the same place, both reasons.
    """
    meant = [each for each in alternatives if not each.is_null()] or alternatives
    inside = [each for each in meant if not each.is_something_else()]
    if not inside:
        return (mismatch(_wanted(meant), value),)
    if isinstance(value, dict) and len(inside) > 1:
        inside, wrong = _by_tag(inside, value)  # pyright: ignore[reportUnknownArgumentType]
        if wrong is not None:
            return (wrong,)
    fewest = min(len(each.problems) for each in inside)
    return _either([each for each in inside if len(each.problems) == fewest])


def _wanted(alternatives: Sequence[Alternative]) -> str:
    """What each alternative wants, joined by "or": the first twenty, and how many more there are."""
    wanted = list(dict.fromkeys(each.problems[0].wanted for each in alternatives))
    more = len(wanted) - _MOST_WANTED
    return " or ".join(wanted if more <= 0 else [*wanted[:_MOST_WANTED], f"{more} others"])


def _by_tag(inside: Sequence[Alternative], value: Mapping[str, Any]) -> tuple[Sequence[Alternative], Problem | None]:
    """Those with the value's tags, or the problem with a tag that none has."""
    for name in inside[0].tags:
        if not all(name in each.tags for each in inside):
            continue
        options = _distinct(option for each in inside for option in each.tags[name])
        if name in value:
            meant = [each for each in inside if not each.lacks(name, "value")]
            if not meant:
                return inside, Problem((name,), f"must be {one_of(options)}", "value", one_of(options))
            inside = meant
        elif all(each.lacks(name, "missing") for each in inside):
            return inside, Problem((name,), f"required, missing ({one_of(options)})", "missing")
    return inside, None


def _distinct(options: Iterable[Any]) -> list[Any]:
    """Of the first 50,000 (some 20 ms): alternatives may share a long list."""
    return list({repr(option): option for option in islice(options, _MOST_OPTIONS)}.values())


def _either(best: Sequence[Alternative]) -> Sequence[Problem]:
    """The first, or all in one where each has a single problem and all stand at the same place."""
    first = best[0].problems
    if len(best) == 1 or len(first) != 1 or any(each.problems[0].path != first[0].path for each in best):
        return first
    reasons = list(dict.fromkeys(each.problems[0].reason for each in best))
    return (Problem(first[0].path, "; or ".join(reasons[:3]), first[0].kind, first[0].wanted),)
