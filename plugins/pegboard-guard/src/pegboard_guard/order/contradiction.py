"""Rules that contradict each other: some tool could never be called, whatever is called before it.

Patterns stand for tools that nobody knows yet. So the rules are tried on representatives: each name that they hold,
and for each pattern a name that matches it and as little else as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from attrs import field, frozen

from pegboard_guard.names import Names, listed
from pegboard_guard.order.after import ComesAfter
from pegboard_guard.order.exclusive import Exclusive
from pegboard_guard.order.required import Required

_ANY: Final = "\x00"  # stands in no tool's name


def check_order(after: Sequence[ComesAfter], exclusive: Sequence[Exclusive], required: Sequence[Required]) -> None:
    """Refuses rules that contradict each other.

    Raises:
        ValueError: A tool could never be called, or nothing could do all that is required; with the rules at fault.
    """
    waits = [_Wait(Names(rule.tools), Names((need,)), rule) for rule in after for need in rule.after]
    named = _named(after, exclusive, required)
    for wait in waits:
        _check_pointless(wait)
    possible = _possible(named, waits)
    for name in named:
        if name not in possible:
            raise ValueError(_circle(name, named, waits, possible))
    for group in exclusive:
        _check_group(_Group(Names(group.tools), group), named, waits, required)


@frozen
class _Wait:
    """One tool, or pattern, that others wait for."""

    held: Names
    need: Names
    rule: ComesAfter = field(eq=False)

    def holds(self, name: str) -> bool:
        return name in self.held and name not in self.need


@frozen
class _Group:
    names: Names
    rule: Exclusive


def _named(*families: Iterable[ComesAfter | Exclusive | Required]) -> list[str]:
    """A representative of each name and pattern, in the order in which they stand there."""
    patterns = [
        pattern
        for family in families
        for rule in family
        for pattern in (*rule.tools, *(rule.after if isinstance(rule, ComesAfter) else ()))
    ]
    return list(dict.fromkeys(pattern.replace("*", _ANY).replace("?", _ANY) for pattern in patterns))


def _shown(name: str) -> str:
    return name.replace(_ANY, "*")


def _check_pointless(wait: _Wait) -> None:
    held = [pattern.replace("*", _ANY).replace("?", _ANY) for pattern in wait.held.patterns]
    if not any(wait.holds(name) for name in held):
        raise ValueError(f"{wait.held} can't wait for {wait.need}: those are the same tools")


def _possible(named: Sequence[str], waits: Sequence[_Wait]) -> set[str]:
    """Those that can be called sooner or later: first those that wait for nothing, then those that waited for them."""
    possible: set[str] = set()
    while True:
        more = {name for name in named if name not in possible and not list(_unmet(name, waits, possible))}
        if not more:
            return possible
        possible |= more


def _unmet(name: str, waits: Sequence[_Wait], called: Iterable[str]) -> Iterator[_Wait]:
    for wait in waits:
        if wait.holds(name) and not any(other in wait.need for other in called):
            yield wait


def _circle(name: str, named: Sequence[str], waits: Sequence[_Wait], possible: set[str]) -> str:
    """`a waits for b, b waits for a`."""
    way = [name]
    while True:
        wait = next(_unmet(way[-1], waits, possible))
        following = next(other for other in named if other in wait.need)
        if following in way:
            circle = [*way[way.index(following) :], following]
            break
        way.append(following)
    steps = ", ".join(f"{_shown(one)} waits for {_shown(other)}" for one, other in pairwise(circle))
    return f"the rules contradict each other, so that none of these could ever be called: {steps}. Take one of them out"


def _check_group(group: _Group, named: Sequence[str], waits: Sequence[_Wait], required: Sequence[Required]) -> None:
    """Refuses a group of which one member needs another, or of which two are required."""
    near = [wait for wait in waits if _is_within(wait.rule.within, group.rule.within)]
    for name in named:
        _check_members(group, _forced([name], named, near), f"{_shown(name)} needs ")
    all_required = [
        pattern
        for rule in required
        if _is_within(rule.within, group.rule.within)
        for pattern in rule.tools
        if pattern in named
    ]
    _check_members(group, _forced(all_required, named, near), "the turn needs ")


def _check_members(group: _Group, forced: Sequence[str], before: str) -> None:
    members = [name for name in forced if name in group.names]
    if len(members) > 1:
        raise ValueError(
            f"the rules contradict each other: {before}{listed(map(_shown, forced), 'and')}, but of {group.names} "
            f"only one may be used in a {group.rule.within}. Take one of the rules out"
        )


def _forced(names: Sequence[str], named: Sequence[str], waits: Sequence[_Wait]) -> list[str]:
    """The names, and all that have to be called for their sake; what could be done in several ways is left out."""
    forced = list(names)
    for name in forced:
        for wait in waits:
            ways = [other for other in named if other in wait.need]
            if wait.holds(name) and len(ways) == 1 and ways[0] not in forced:
                forced.append(ways[0])
    return forced


def _is_within(inner: str, outer: str) -> bool:
    """Whether what has to be done in the one has to be done in the other too: a turn lies in a session."""
    return inner in (outer, "turn")
