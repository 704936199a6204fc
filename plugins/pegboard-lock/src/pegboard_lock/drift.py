"""Drift of tools from a lock: what has changed of each, by class."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen

from pegboard import Tool
from pegboard.json import canonical_json, is_array, is_object
from pegboard.schema import NOTES
from pegboard.schema.converter import ALWAYS, JsonRecord, json_key
from pegboard.text import escape_hidden, visible
from pegboard.tools import alike
from pegboard.typing import JsonObject
from pegboard_lock.compare import SchemaChange, compare_arguments
from pegboard_lock.lock_file import Lock, policy_of
from pegboard_lock.settings import CLASSES, DriftClass

_REACH: Final = (
    *("annotations", "concurrency", "kind", "originalName", "permission", "permissionArguments", "providerArguments"),
    *("providerId", "requiresConfirmation", "tags", "longRunning"),
)
_REACH_OF_POLICY: Final = ("executor", "queue", "sends", "presets")
_POLICY: Final = ("deferred", "strict")
_OWN_CLASS: Final[Mapping[str, DriftClass | None]] = {
    "name": None,
    "inputSchema": None,  # by values
    "outputSchema": "output",
    "grammar": "incompatible",
    "version": "version",
}
_SHOWN: Final = 200


@frozen
class Drift(JsonRecord):
    """One drift of a tool, a toolset or a distribution from a lock.

    Attributes:
        kind: Its class.
        tool: The tool's name, or `None` if it is one of a distribution or toolset.
        text: What has changed.
        distribution: The distribution, or `None`.
        toolset: The toolset, or `None`.
        only_old: JSON text of arguments that only the locked tool takes, or `None`.
        only_new: JSON text of arguments that only the present tool takes, or `None`.
    """

    kind: DriftClass = field(metadata=json_key("class"))
    tool: str | None = field(metadata=ALWAYS)
    text: str
    distribution: str | None = None
    toolset: str | None = None
    only_old: str | None = None
    only_new: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def by_gravity(drifts: list[Drift]) -> list[Drift]:
    """Drifts, the gravest class first."""
    return sorted(drifts, key=lambda each: (CLASSES.index(each.kind), each.tool or ""))


def drift_of(tool: Tool, distribution: str | None, lock: Lock, deadline: float | None = None) -> tuple[Drift, ...]:
    """The drifts of a tool's own definition.

    Args:
        tool: The tool.
        distribution: The name of its code.
        lock: What was accepted.
        deadline: When to end the search for values that prove a change of arguments, by `time.monotonic`.
    """
    name, entry = tool.name, lock.tools.get(tool.name)
    if entry is None:
        return (_addition(tool, lock),)
    policy, origin = policy_of(tool), tool.origin
    now = (origin.plugin, distribution, origin.toolset, origin.trusted, policy)
    before = tuple(entry[key] for key in ("plugin", "distribution", "toolset", "declared_trust", "policy"))
    if entry["digest"] == tool.spec.digest and before == now:
        return ()
    texts: dict[DriftClass, list[str]] = {}
    for what, old, new in zip(("plugin", "distribution", "toolset", "trust"), before, now, strict=False):
        if old != new:
            texts.setdefault("reach", []).append(f"{what} {_short(old)} is {_short(new)}")
    for key in {*entry["policy"], *policy}:
        if entry["policy"].get(key) != policy.get(key):
            kind: DriftClass = "reach" if key in _REACH_OF_POLICY else "policy"
            texts.setdefault(kind, []).append(_difference(key, entry["policy"].get(key), policy.get(key)))
    change = None
    if entry["digest"] != tool.spec.digest:
        change = _compare_specs(entry["spec"], tool.spec.to_json(), texts, deadline)
        if not texts:
            texts["wording"] = ["its definition differs"]
    proofs = {} if change is None else {"only_old": change.only_old, "only_new": change.only_new}
    drifts = [
        Drift(kind, name, "; ".join(sorted(parts)), **(proofs if change is not None and kind == change.kind else {}))
        for kind, parts in texts.items()
    ]
    return tuple(by_gravity(drifts))


def _addition(tool: Tool, lock: Lock) -> Drift:
    if (name := lock.look_alikes.get(alike(tool.name))) is not None:
        return Drift("hidden", tool.name, f"its name looks like {name!r}, which is locked")
    return Drift("added", tool.name, "the lock doesn't have it")


def _compare_specs(
    old: JsonObject, new: JsonObject, texts: dict[DriftClass, list[str]], deadline: float | None
) -> SchemaChange | None:
    """Adds texts on what differs in two definitions, by class; returns the change of the arguments."""

    def add(kind: DriftClass, text: str) -> None:
        texts.setdefault(kind, []).append(text)

    if (more := hidden_in(new) - hidden_in(old)) > 0:
        add("hidden", f"{more} more invisible characters in its texts")
    for key in sorted({*old, *new} - {*_OWN_CLASS}):
        if old.get(key) != new.get(key):
            kind: DriftClass = "reach" if key in _REACH else "policy" if key in _POLICY else "wording"
            add(kind, _difference(key, old.get(key), new.get(key)))
    for key, own in _OWN_CLASS.items():
        if own is not None and old.get(key) != new.get(key):
            add(own, _difference(key, old.get(key), new.get(key)) if key != "outputSchema" else "another schema")
    change = compare_arguments(old["inputSchema"], new["inputSchema"], deadline)
    if change is not None:
        add(change.kind, str(change))
    if _notes(old["inputSchema"]) != _notes(new["inputSchema"]):
        add("wording", "texts on its arguments differ")
    return change


def _notes(schema: Any) -> list[str]:
    """The notes in a schema, as text, in order."""
    if is_object(schema):
        own = [canonical_json([key, schema[key]]) for key in sorted(NOTES & schema.keys())]
        return own + [each for key in sorted(schema) if key not in NOTES for each in _notes(schema[key])]
    return [each for part in schema for each in _notes(part)] if is_array(schema) else []


def hidden_in(definition: JsonObject) -> int:
    """The invisible characters in the texts of a definition, written out or not."""
    return sum(escape_hidden(text).count("\\u{") for text in _texts(definition))


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif is_object(data):
        for key, value in data.items():
            yield key
            yield from _texts(value)
    elif is_array(data):
        for each in data:
            yield from _texts(each)


def _difference(what: str, old: Any, new: Any) -> str:
    return f"{visible(what)[:_SHOWN]} was {_short(old)}, is {_short(new)}"


def _short(value: Any) -> str:
    text = "unset" if value is None else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
