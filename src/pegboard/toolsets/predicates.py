"""The predicates that a program writes.

    read_only & ~tagged("network") & named("git_*")

is the same as the text `read_only and not tag:network and name:git_*`, which `parse_predicate` reads.
"""

from __future__ import annotations

from typing import Final

from pegboard.toolsets.predicate import (
    And,
    Custom,
    CustomPredicates,
    Flag,
    Matches,
    Or,
    Predicate,
    PredicateFunction,
    StateMatches,
    predicate_from_json,
)

# Flags ------------------------------------------------------------------------------------------------------------

read_only: Final[Predicate] = Flag("read_only")
"""Hinted to change nothing, by an origin that is trusted."""
destructive: Final[Predicate] = Flag("destructive")
"""Hinted to destroy."""
idempotent: Final[Predicate] = Flag("idempotent")
"""Hinted that the same call twice has the effect of one, by an origin that is trusted."""
open_world: Final[Predicate] = Flag("open_world")
"""Hinted to reach outside."""
edit: Final[Predicate] = Flag("edit")
"""Hinted to edit files."""
long_running: Final[Predicate] = Flag("long_running")
"""Answers with an id first and with its result later."""
deferred: Final[Predicate] = Flag("deferred")
"""Offered only once it was found by a search."""

# Values -----------------------------------------------------------------------------------------------------------


def named(pattern: str) -> Predicate:
    """The tool's name matches: `*` is any run of characters, `?` is one, the rest is literal."""
    return Matches("name", pattern)


def tagged(pattern: str) -> Predicate:
    """One of the tool's tags matches."""
    return Matches("tag", pattern)


def kind(pattern: str) -> Predicate:
    """The tool's kind matches: `function`, `freeform` or `provider`.

    Raises:
        PredicateError: There is no such kind.
    """
    return Matches("kind", pattern)


def from_plugin(pattern: str) -> Predicate:
    """The plugin that brought the tool matches, or its distribution; tools of the host have none."""
    return Matches("plugin", pattern)


def from_toolset(pattern: str) -> Predicate:
    """The toolset that offers the tool matches; static tools have none."""
    return Matches("toolset", pattern)


def from_distribution(pattern: str) -> Predicate:
    """The distribution that brought the tool matches."""
    return Matches("distribution", pattern)


def has_property(pattern: str) -> Predicate:
    """The name of one of the tool's arguments matches."""
    return Matches("property", pattern)


def for_user(pattern: str) -> Predicate:
    """The context's user matches; where there is none, nothing does."""
    return Matches("user", pattern)


def for_agent(pattern: str) -> Predicate:
    """The context's agent matches."""
    return Matches("agent", pattern)


def for_model(pattern: str) -> Predicate:
    """The context's model matches."""
    return Matches("model", pattern)


def for_provider(pattern: str) -> Predicate:
    """The provider of the context's model matches."""
    return Matches("provider", pattern)


def state(key: str, pattern: str) -> Predicate:
    """A value of the context's state matches as text: booleans and null as in JSON; a missing key never does."""
    return StateMatches(key, pattern)


def custom(function: PredicateFunction, name: str | None = None) -> Predicate:
    """What a callable answers.

    Args:
        function: Takes the tool and the context; plain. Where it raises, the tool is out.
        name: The name under which it is registered; without one the predicate has neither text nor JSON.

    Raises:
        PredicateError: The function is async, or the name can't be one.
    """
    return Custom(function, name)


# Joined -----------------------------------------------------------------------------------------------------------

everything: Final = named("*")
"""Every tool."""
nothing: Final = ~everything
"""No tool."""


def all_of(*predicates: Predicate) -> Predicate:
    """All of them; of none, everything."""
    return _joined(And, predicates, everything)


def any_of(*predicates: Predicate) -> Predicate:
    """At least one of them; of none, nothing."""
    return _joined(Or, predicates, nothing)


def _joined(kind: type[And | Or], predicates: tuple[Predicate, ...], of_none: Predicate) -> Predicate:
    if len(predicates) > 1:
        return kind(predicates)
    return predicates[0] if predicates else of_none


__all__ = [
    "CustomPredicates",
    "Predicate",
    "PredicateFunction",
    "all_of",
    "any_of",
    "custom",
    "deferred",
    "destructive",
    "edit",
    "everything",
    "for_agent",
    "for_model",
    "for_provider",
    "for_user",
    "from_distribution",
    "from_plugin",
    "from_toolset",
    "has_property",
    "idempotent",
    "kind",
    "long_running",
    "named",
    "nothing",
    "open_world",
    "predicate_from_json",
    "read_only",
    "state",
    "tagged",
]
