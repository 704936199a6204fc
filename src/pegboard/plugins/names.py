"""Name conflicts between distributions: which distribution gets a name, by what the user has accepted.

Load order never decides. A name that one distribution brings is its own; one that several bring goes to the
distribution that it was accepted for in this environment, and if that is none of them, to none. What was accepted is
stored in one file of the user's state folder, `accepted.json`: the command `registry` adds names without conflicts,
and `registry plugins accept` the user's decisions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import field

from pegboard.catalogue import EXTRAS, Catalogue
from pegboard.config import normalised
from pegboard.files import read_state, write_state
from pegboard.json import is_object
from pegboard.tools.spec import Origin, Problem
from pegboard.typing import define, frozen

KINDS: Final = ("plugins", "tools", "toolsets", "commands", *EXTRAS)  # of names; plugins' are their distributions', too
_FILE: Final = "accepted.json"
Names = Mapping[str, Mapping[str, str]]  # kind -> name -> the normalised name of a distribution


def load_accepted_names() -> Names:
    """Which distribution each name was accepted for in this environment; nothing where the file is invalid."""
    kinds = _environments().get(sys.prefix, {})
    return {kind: kinds[kind] for kind in KINDS if is_object(kinds.get(kind))}


def accept(names: Names) -> None:
    """Stores what is accepted in this environment, in place of what was accepted before; raises `OSError`."""
    own = {kind: dict(of_kind) for kind, of_kind in names.items() if of_kind}
    others = {prefix: kinds for prefix, kinds in _environments().items() if Path(prefix).exists()}
    write_state(_FILE, {"environments": {**others, sys.prefix: own}})


def _environments() -> dict[str, Any]:
    found = read_state(_FILE).get("environments")
    return {prefix: kinds for prefix, kinds in found.items() if is_object(kinds)} if is_object(found) else {}


@frozen
class NameConflict:
    """A name that several distributions bring."""

    kind: str  # one of `KINDS`
    name: str
    origins: tuple[Origin, ...]  # what brings it, one origin a distribution
    owner: str | None  # the distribution that it was accepted for, as it is spelt there, or `None`

    @property
    def held_back(self) -> tuple[Origin, ...]:
        """Those that don't get the name."""
        return tuple(origin for origin in self.origins if origin.distribution != self.owner)

    def problem(self, origin: Origin) -> Problem:
        """The problem of one that doesn't get it, with the line of configuration that resolves it."""
        others = [each.distribution or "?" for each in self.origins if each != origin]
        why = f"{self.owner} has the name, and not {origin.distribution}"
        if self.owner is None:
            why = f"{' and '.join(others)} {'bring' if len(others) > 1 else 'brings'} one, too"
        fix = f"in pegboard.toml, block = [{', '.join(map(json.dumps, others))}] resolves it"
        if self.kind == "tools" and origin.plugin:
            fix += f', or [prefix] "{origin.plugin}" = "{origin.plugin.replace("-", "_")}_"'
        cause = f"{self.kind[:-1]} {self.name!r} is held back: {why}; {fix}, or registry plugins accept DISTRIBUTION"
        tool = self.name if self.kind == "tools" else None
        return Problem.of(origin, cause, tool, offers=frozenset([(self.kind, self.name)]))


@define(eq=False)
class NameOwners:
    """Which distribution has a name, as far as they are known; only installed plugins reserve names."""

    preferred: frozenset[str] = frozenset()  # distributions that get all their names, whatever was accepted
    _origins: dict[tuple[str, str], dict[str, Origin]] = field(factory=dict[tuple[str, str], dict[str, Origin]])
    _accepted: Names | None = None

    def add(self, kind: str, names: Iterable[str], origin: Origin) -> None:
        """Notes that a plugin brings these names."""
        if origin.distribution is not None:
            key = normalised(origin.distribution)
            for name in names:
                origins = self._origins.setdefault((kind, name), {})
                if origins.setdefault(key, origin).plugin is None:  # was only reserved
                    origins[key] = origin

    def reserve(self, distribution: str) -> None:
        """Reserves what was accepted for a distribution that is left out, so that no other gets it."""
        for kind, of_kind in load_accepted_names().items():
            names = [name for name, owner in of_kind.items() if owner == normalised(distribution)]
            self.add(kind, names, Origin(distribution=distribution))

    def has(self, kind: str, name: str, origin: Origin) -> bool:
        """Whether a plugin gets a name that it brings."""
        origins = self._origins.get((kind, name), {})
        if origin.distribution is None or len(origins) < 2:
            return True
        return self._owner(kind, name, origins) == normalised(origin.distribution)

    def conflicts(self) -> Iterator[NameConflict]:
        """The names that several distributions bring."""
        for (kind, name), origins in self._origins.items():
            if len(origins) > 1:
                owner = self._owner(kind, name, origins)
                written = None if owner is None else origins[owner].distribution
                yield NameConflict(kind, name, tuple(origins.values()), written)

    def _owner(self, kind: str, name: str, origins: Mapping[str, Origin]) -> str | None:
        if preferred := self.preferred & origins.keys():
            return min(preferred) if len(preferred) == 1 else None
        if self._accepted is None:
            self._accepted = load_accepted_names()
        accepted = self._accepted.get(kind, {}).get(name)
        return accepted if accepted in origins else None

    def to_accept(self, installed: Iterable[str]) -> Names:
        """What to accept now: every name without a conflict, and what was accepted for installed distributions."""
        before, here = load_accepted_names(), frozenset(map(normalised, installed))
        names: dict[str, dict[str, str]] = {
            kind: {name: owner for name, owner in of_kind.items() if owner in here} for kind, of_kind in before.items()
        }
        for (kind, name), origins in self._origins.items():
            owner = self._owner(kind, name, origins) if len(origins) > 1 else next(iter(origins))
            if owner is not None and (len(origins) > 1 or name not in names.get(kind, {})):
                names.setdefault(kind, {})[name] = owner
        return names


def hold_back(catalogue: Catalogue, conflict: NameConflict) -> Catalogue:
    """A catalogue without the things that don't get the name, and with a problem for each."""
    losing = {origin.distribution for origin in conflict.held_back}
    if conflict.kind == "tools":
        tool = catalogue.tools.get(conflict.name)
        if tool is not None and tool.origin.distribution in losing:
            catalogue = catalogue.without_tools([tool]).holding_back([tool])
    elif conflict.kind == "toolsets":
        named: list[Any] = [toolset for toolset in catalogue.toolsets if toolset.name == conflict.name]
        catalogue = catalogue.without_toolsets([each for each in named if each.origin.distribution in losing])
    else:
        owner = catalogue.owners.get(f"{conflict.kind}:{conflict.name}")
        if owner is not None and owner.distribution in losing:
            catalogue = catalogue.without_extra(conflict.kind, conflict.name)
    return catalogue.with_problems(*map(conflict.problem, conflict.held_back))
