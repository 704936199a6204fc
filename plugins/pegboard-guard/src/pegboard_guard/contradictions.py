"""`check_order` refuses rules that contradict each other, so that some tool could never be called.

As patterns match tools that aren't known yet, the rules are tried on representatives: each name in them, and for each
pattern a name that matches it and as little else as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Final, NoReturn

from attrs import field, frozen

from pegboard_guard.ordering import ComesAfter, Distinct, Exclusive, NotAfter, Required
from pegboard_guard.rules import Names, Rule, join_words

_ANY: Final = "\x00"  # in no tool's name


def check_order(rules: Iterable[Rule]) -> None:
    """Refuses rules that contradict each other.

    Raises:
        ValueError: A tool could never be called, or not all that is required; names the rules.
    """
    rules = tuple(rules)
    required = [rule for rule in rules if isinstance(rule, Required)]
    waits = [_Wait(rule.names, need, rule) for rule in rules if isinstance(rule, ComesAfter) for need in rule.needs]
    named = _names_of(pattern for rule in rules for pattern in rule.patterns)
    for wait in waits:
        if not any(wait.holds(name) for name in _names_of(wait.held.patterns)):
            raise ValueError(f"{wait.held} can't wait for {wait.need}: those are the same tools")
    _check_waits(named, waits)
    for rule in rules:
        if isinstance(rule, Exclusive):
            _check_group(rule, named, waits, required)
    for rule in rules:
        if isinstance(rule, NotAfter):
            _check_closed(rule, named, waits, required)
        elif isinstance(rule, Distinct):
            _check_distinct(rule, required)
    _check_required(required)


@frozen
class _Wait:
    """A tool or pattern that others wait for."""

    held: Names
    need: Names
    rule: ComesAfter = field(eq=False)

    def holds(self, name: str) -> bool:
        return name in self.held and name not in self.need


def _refuse(cause: str) -> NoReturn:
    raise ValueError(f"the rules contradict each other{cause}. Take one of the rules out")


def _names_of(patterns: Iterable[str]) -> list[str]:
    """A representative of each name and pattern, in their order."""
    return list(dict.fromkeys(pattern.replace("*", _ANY).replace("?", _ANY) for pattern in patterns))


def _pattern_text(name: str) -> str:
    return name.replace(_ANY, "*")


def _check_waits(named: Sequence[str], waits: Sequence[_Wait]) -> None:
    """Refuses tools that wait for each other: of which none can be called after those that wait for nothing."""
    possible: set[str] = set()
    while more := {name for name in named if name not in possible and not list(_unmet(name, waits, possible))}:
        possible |= more
    for name in named:
        if name not in possible:
            steps = _describe_cycle(_find_cycle(name, named, waits, possible), "waits for")
            _refuse(f", so that none of these could ever be called: {steps}")


def _unmet(name: str, waits: Sequence[_Wait], called: Iterable[str]) -> Iterator[_Wait]:
    for wait in waits:
        if wait.holds(name) and not any(other in wait.need for other in called):
            yield wait


def _find_cycle(name: str, named: Sequence[str], waits: Sequence[_Wait], possible: set[str]) -> list[str]:
    """The names from one to itself, each of which waits for the next."""
    way = [name]
    while True:
        wait = next(_unmet(way[-1], waits, possible))
        following = next(other for other in named if other in wait.need)
        if following in way:
            return [*way[way.index(following) :], following]
        way.append(following)


def _describe_cycle(names: Iterable[str], verb: str) -> str:
    """`a waits for b, b waits for a`."""
    return ", ".join(f"{_pattern_text(one)} {verb} {_pattern_text(other)}" for one, other in pairwise(names))


def _check_group(group: Exclusive, named: Sequence[str], waits: Sequence[_Wait], required: Sequence[Required]) -> None:
    """Refuses a group in which one member needs another, or two are required."""
    near = [wait for wait in waits if _is_within(wait.rule.within, group.within)]
    for name in named:
        _check_members(group, _with_needs([name], named, near), f"{_pattern_text(name)} needs")
    demands = [rule for rule in required if _is_within(rule.within, group.within)]
    always = [name for rule in demands if not rule.when for name in rule.tools if name in named]
    _check_members(group, _with_needs(always, named, near), "the turn needs")
    for rule in demands:
        for cause in _names_of(rule.when):
            needs = [cause, *(name for name in rule.tools if name in named and name not in rule.condition), *always]
            _check_members(group, _with_needs(needs, named, near), f"a turn with {_pattern_text(cause)} needs")


def _check_closed(rule: NotAfter, named: Sequence[str], waits: Sequence[_Wait], required: Sequence[Required]) -> None:
    """Refuses a rule that closes a tool as soon as what it waits for, or what requires it, has run."""
    near = [wait for wait in waits if _is_within(wait.rule.within, rule.within)]
    for name in (name for name in named if name in rule.names):
        for wait in near:
            ways = [other for other in named if other in wait.need]
            if wait.holds(name) and all(other in rule.condition for other in ways):
                _refuse_closed(f"{_pattern_text(name)} waits for {wait.need}", rule)
        for demand in required:
            is_due = name in demand.names and name not in demand.condition and _is_within(demand.within, rule.within)
            if is_due and any(cause in rule.condition for cause in _names_of(demand.when)):
                _refuse_closed(f"{_pattern_text(name)} is required after {demand.condition}", rule)


def _refuse_closed(cause: str, rule: NotAfter) -> NoReturn:
    _refuse(f": {cause}, and may not be called any more once {rule.condition} ran")


def _check_distinct(rule: Distinct, required: Sequence[Required]) -> None:
    """Refuses a rule against repeated calls of a tool that may be required again without other arguments."""
    for demand in required:
        recurs = bool(demand.when) or (demand.within, rule.within) == ("turn", "session")
        for name in _names_of(demand.tools):
            if name in rule.names and recurs and not rule.seconds:
                again = f"after {demand.condition}" if demand.when else "in each turn"
                _refuse(
                    f": {_pattern_text(name)} is required {again}, and its calls may not be repeated "
                    f"in this {rule.within}"
                )


def _check_required(required: Sequence[Required]) -> None:
    """Refuses tools each of which has to be called after the other."""
    names = _names_of(pattern for rule in required for pattern in rule.tools)
    graph = {
        name: [each for rule in required if name in rule.names for each in names if each in rule.condition]
        for name in names
    }
    try:
        TopologicalSorter({name: {*before} - {name} for name, before in graph.items()}).prepare()
    except CycleError as error:
        steps = _describe_cycle(reversed(error.args[1]), "is required after")
        _refuse(f", so that no turn could end: {steps}")


def _check_members(group: Exclusive, needs: Sequence[str], before: str) -> None:
    members = [name for name in needs if name in group.names]
    if len(members) > 1:
        needed = join_words(map(_pattern_text, needs), "and")
        _refuse(f": {before} {needed}, but of {group.names} only one may be used in a {group.within}")


def _with_needs(names: Sequence[str], named: Sequence[str], waits: Sequence[_Wait]) -> list[str]:
    """The names with all that must be called before them, as far as there is only one way."""
    needs = list(dict.fromkeys(names))
    for name in needs:
        for wait in waits:
            ways = [other for other in named if other in wait.need]
            if wait.holds(name) and len(ways) == 1 and ways[0] not in needs:
                needs.append(ways[0])
    return needs


def _is_within(inner: str, outer: str) -> bool:
    """Whether what must be done within `inner` must be done within `outer` too: a turn is part of a session."""
    return inner in (outer, "turn")
