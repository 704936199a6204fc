"""`check_order` refuses rules that contradict each other, so that some tool could never be called.

As patterns match tools that aren't known yet, the rules are tried on representatives: each name in them, and for each
pattern a name that matches it and as little else as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from attrs import field, frozen

from pegboard_guard.closing import NotAfter
from pegboard_guard.ordering import ComesAfter, Exclusive, Required
from pegboard_guard.rules import Names, listed

_ANY: Final = "\x00"  # in no tool's name


def check_order(
    after: Sequence[ComesAfter],
    exclusive: Sequence[Exclusive],
    required: Sequence[Required],
    closed: Sequence[NotAfter] = (),
) -> None:
    """Refuses rules that contradict each other.

    Raises:
        ValueError: A tool could never be called, or not all that is required; names the rules.
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
    for rule in closed:
        _check_closed(rule, named, waits)


@frozen
class _Wait:
    """A tool or pattern that others wait for."""

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
    """A representative of each name and pattern, in their order."""
    patterns = [
        pattern
        for family in families
        for rule in family
        for pattern in (*rule.tools, *(rule.after if isinstance(rule, ComesAfter) else ()))
    ]
    return list(dict.fromkeys(pattern.replace("*", _ANY).replace("?", _ANY) for pattern in patterns))


def _pattern_text(name: str) -> str:
    return name.replace(_ANY, "*")


def _check_pointless(wait: _Wait) -> None:
    held = [pattern.replace("*", _ANY).replace("?", _ANY) for pattern in wait.held.patterns]
    if not any(wait.holds(name) for name in held):
        raise ValueError(f"{wait.held} can't wait for {wait.need}: those are the same tools")


def _possible(named: Sequence[str], waits: Sequence[_Wait]) -> set[str]:
    """The names that can be called at some time: those that wait for nothing, then those that waited for them."""
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
    steps = ", ".join(f"{_pattern_text(one)} waits for {_pattern_text(other)}" for one, other in pairwise(circle))
    return f"the rules contradict each other, so that none of these could ever be called: {steps}. Take one of them out"


def _check_group(group: _Group, named: Sequence[str], waits: Sequence[_Wait], required: Sequence[Required]) -> None:
    """Refuses a group in which one member needs another, or two are required."""
    near = [wait for wait in waits if _is_within(wait.rule.within, group.rule.within)]
    for name in named:
        _check_members(group, _forced([name], named, near), f"{_pattern_text(name)} needs ")
    all_required = [
        pattern
        for rule in required
        if _is_within(rule.within, group.rule.within)
        for pattern in rule.tools
        if pattern in named
    ]
    _check_members(group, _forced(all_required, named, near), "the turn needs ")


def _check_closed(rule: NotAfter, named: Sequence[str], waits: Sequence[_Wait]) -> None:
    """Refuses a rule that closes a tool as soon as what it waits for has run."""
    near = [wait for wait in waits if _is_within(wait.rule.within, rule.within)]
    for name in named:
        for wait in near:
            ways = [other for other in named if other in wait.need]
            if name in rule.names and wait.holds(name) and all(other in rule.closing for other in ways):
                raise ValueError(
                    f"the rules contradict each other: {_pattern_text(name)} waits for {wait.need}, and may not be "
                    f"called any more once {rule.closing} ran. Take one of the rules out"
                )


def _check_members(group: _Group, forced: Sequence[str], before: str) -> None:
    members = [name for name in forced if name in group.names]
    if len(members) > 1:
        raise ValueError(
            f"the rules contradict each other: {before}{listed(map(_pattern_text, forced), 'and')}, but of "
            f"{group.names} only one may be used in a {group.rule.within}. Take one of the rules out"
        )


def _forced(names: Sequence[str], named: Sequence[str], waits: Sequence[_Wait]) -> list[str]:
    """The names with all that must be called before them, as far as there is only one way."""
    forced = list(names)
    for name in forced:
        for wait in waits:
            ways = [other for other in named if other in wait.need]
            if wait.holds(name) and len(ways) == 1 and ways[0] not in forced:
                forced.append(ways[0])
    return forced


def _is_within(inner: str, outer: str) -> bool:
    """Whether what must be done within `inner` must be done within `outer` too: a turn is part of a session."""
    return inner in (outer, "turn")
