"""Check of a resolution by a lock: what is held back, what asks, and what is only reported."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import Factory, define, field, frozen

from pegboard import Tool
from pegboard.json import MOST_PROBLEMS, digest_of, is_array, is_object
from pegboard.text import visible
from pegboard.typing import JsonObject
from pegboard_lock.code import FILE, CodeDigests, change_of_code
from pegboard_lock.drift import Drift, by_gravity, drift_of
from pegboard_lock.lock_file import Lock

_SECONDS: Final = 3.0  # for values that prove changes of arguments, all tools of a resolution together
_PATIENT_SECONDS: Final = 60.0  # likewise, of a command
MOST_PROBLEMS_SHOWN: Final = MOST_PROBLEMS


@frozen(eq=False)
class Present:
    """What a lock is compared with.

    Attributes:
        tools: The tools.
        identities: The toolsets' identities, as far as they are known, by the toolset's name.
        toolsets: The names of the toolsets whose tools are all among `tools`.
        silent: The names of the others that are there; `None`: it isn't known which others are.
        definitions: Where tools are transformed: the digests of what toolsets list, by toolset and name.
    """

    tools: Sequence[Tool]
    identities: Mapping[str, Any] = field(factory=dict[str, Any])
    toolsets: frozenset[str] = frozenset()
    silent: frozenset[str] | None = None
    definitions: Mapping[str, Mapping[str, str]] = field(factory=dict[str, Mapping[str, str]])

    def knows(self, toolset: str) -> bool:
        """Whether all tools of a toolset of this name are among those here; it has none if it is gone."""
        return toolset in self.toolsets or (self.silent is not None and toolset not in self.silent)


@define(eq=False)
class Comparison:
    """Comparison of tools with a lock; remembers what it knows of each tool.

    Attributes:
        lock: What was accepted.
        base: The folder of the project, which paths are relative to.
        codes: The digests of code.
    """

    lock: Lock
    base: Path
    codes: CodeDigests = field(default=Factory(lambda self: CodeDigests(self.base), takes_self=True))
    _known: dict[Tool, tuple[str | None, tuple[Drift, ...]]] = field(factory=dict[Any, Any], init=False)

    def of_tool(self, tool: Tool, deadline: float | None = None) -> tuple[str | None, tuple[Drift, ...]]:
        """The name of a tool's code, and the drifts of its definition."""
        known = self._known.get(tool)
        if known is None:
            name, is_late = self.codes.name_of(tool), deadline is not None and time.monotonic() > deadline
            known = name, _safe_drift(tool, name, self.lock, deadline)
            if not (is_late and known[1]):  # the next resolution has time for it
                self._known[tool] = known
        return known

    def tools(
        self, tools: Sequence[Tool], seconds: float | None = None
    ) -> Iterator[tuple[Tool, str | None, tuple[Drift, ...]]]:
        """Each tool with the name of its code and the drifts of its definition.

        Args:
            tools: The tools.
            seconds: How long values may be sought that prove changes of arguments, by default 3; those after that are
                incompatible.
        """
        deadline = time.monotonic() + (_SECONDS if seconds is None else seconds)
        if len(self._known) > 2 * len(tools) + 100:
            self._known = {tool: known for tool in tools if (known := self._known.get(tool)) is not None}
        for tool in tools:
            yield tool, *self.of_tool(tool, deadline)

    def of_code(self, names: Iterable[str | None]) -> dict[str, list[Drift]]:
        """The drifts of distributions and files, by name."""
        drifts: dict[str, list[Drift]] = {}
        for name in {name for name in names if name is not None}:
            if (before := self.lock.distributions.get(name)) is None:
                if any(entry["distribution"] == name for entry in self.lock.tools.values()):
                    drifts[name] = [Drift("code", None, f"the lock doesn't have the code of {name}", name)]
                continue
            now = self.codes.entry(name)
            if (how := change_of_code(before.get("code"), now["code"])) is not None:
                drifts.setdefault(name, []).append(Drift("code", None, f"the code of {name} {how}", name))
            if before.get("version") != now["version"]:
                text = f"{name} was {visible(str(before.get('version')))[:80]}, is {now['version']}"
                drifts.setdefault(name, []).append(Drift("version", None, text, name))
        return drifts

    def code_text(self, name: str | None, toolset: str | None, identity: Any) -> str | None:
        """The present digests of a tool's code and of its toolset's, or of their parts; `None` if none is known."""
        codes = [] if name is None else [self.codes.entry(name)["code"]]
        codes += [] if toolset is None else [self.entry_of_toolset(toolset, identity).get("code")]
        texts = [each if isinstance(each, str) else " ".join(sorted(each.values())) for each in codes if each]
        return " ".join(texts) or None

    def entry_of_toolset(self, name: str, identity: Any) -> JsonObject:
        """The entry of a toolset in a lock: the digests of where its tools come from, and of their code, if any."""
        entry: JsonObject = {"identity": identity_digest(identity, self.base)}
        if is_object(identity) and "code" in identity:
            places = identity["code"] if is_array(identity["code"]) else []
            entry["code"] = self.codes.of_toolset(name, [each for each in places if isinstance(each, str)])
        return entry

    def of_toolsets(self, identities: Mapping[str, Any]) -> dict[str, list[Drift]]:
        """The drifts of toolsets that come from elsewhere, or whose code has changed, by name."""
        drifts: dict[str, list[Drift]] = {}
        for name, identity in identities.items():
            if (before := self.lock.toolsets.get(name)) is None:
                if any(entry["toolset"] == name for entry in self.lock.tools.values()):
                    text = f"the lock doesn't have where toolset {name!r} comes from"
                    drifts[name] = [Drift("reach", None, text, toolset=name)]
                continue
            now = self.entry_of_toolset(name, identity)
            if before.get("identity") != now["identity"]:
                text = f"toolset {name!r} comes from another server or command"
                drifts.setdefault(name, []).append(Drift("reach", None, text, toolset=name))
            if (how := change_of_code(before.get("code"), now.get("code"))) is not None:
                text = f"the code of toolset {name!r} {how}"
                drifts.setdefault(name, []).append(Drift("code", None, text, toolset=name))
        return drifts

    def absent_files(self, present: Present) -> set[str]:
        """The files of functions that have locked tools, are there, and none of whose tools is present."""
        names = {name for entry in self.lock.tools.values() if (name := entry["distribution"] or "").startswith(FILE)}
        if names:
            names -= {
                known[0] if (known := self._known.get(tool)) else self.codes.name_of(tool) for tool in present.tools
            }
        base = self.codes.base
        return {name for name in names if os.path.exists(base / name.removeprefix(FILE))}  # noqa: PTH110  never raises

    def missing(self, present: Present) -> Mapping[str, JsonObject]:
        """The entries of locked tools that aren't there, by name, if what they were of is known now."""
        here = {tool.name for tool in present.tools}
        gone = {name: entry for name, entry in self.lock.tools.items() if name not in here}
        absent = self.absent_files(present) if gone else ()
        return {
            name: entry
            for name, entry in gone.items()
            if (present.knows(entry["toolset"]) if entry["toolset"] else entry["distribution"] not in absent)
        }

    def removals(self, present: Present) -> list[Drift]:
        """The drifts of locked tools that aren't there."""
        return [Drift("removed", name, "it is no longer there") for name in self.missing(present)]

    def all_drifts(self, present: Present) -> list[Drift]:
        """All drifts, the gravest class first."""
        known = [*self.tools(present.tools, _PATIENT_SECONDS)]
        of_code, of_toolsets = self.of_code(name for _, name, _ in known), self.of_toolsets(present.identities)
        drifts = [drift for _, _, own in known for drift in own]
        drifts += [drift for table in (of_code, of_toolsets) for own in table.values() for drift in own]
        return by_gravity([*drifts, *self.removals(present)])


def identity_digest(identity: Any, base: Path) -> str | None:
    """The digest of where a toolset's tools come from; `None` if that isn't known. Paths count from `base` on."""
    given = relative_paths(identity, base)
    if is_object(given) and "code" in given:
        given = {key: value for key, value in given.items() if key != "code"} or None
    return None if given is None else digest_of(given)


def relative_paths(value: Any, base: Path) -> Any:
    """JSON data in which a text that is a path below a folder, or that folder, is relative to it."""
    if is_object(value):
        return {key: relative_paths(each, base) for key, each in value.items()}
    if is_array(value):
        return [relative_paths(each, base) for each in value]
    if isinstance(value, str) and os.path.isabs(value) and Path(value).is_relative_to(base):  # noqa: PTH117  a text
        return f"./{Path(value).relative_to(base).as_posix()}"
    return value


def _safe_drift(tool: Tool, name: str | None, lock: Lock, deadline: float | None) -> tuple[Drift, ...]:
    """The drifts of a tool; one that can't be compared is incompatible."""
    try:
        return drift_of(tool, name, lock, deadline)
    except Exception as error:  # noqa: BLE001  a definition from elsewhere mustn't end the check of the others
        return (Drift("incompatible", tool.name, f"it can't be compared: {type(error).__name__}"),)
