"""Objects with some of their keys taken away or exchanged, the others in their order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any, Final

from pegboard.schema.json import canonical_json
from pegboard.typing import JsonObject

_FEW: Final = 8
_TEXT: Final = frozenset({str})


def without(schema: Mapping[str, Any], keywords: Collection[str]) -> JsonObject:
    """A copy without some keys."""
    return {key: value for key, value in schema.items() if key not in keywords}


def only(schema: Mapping[str, Any], keywords: Collection[str]) -> JsonObject:
    """A copy with some keys only."""
    return {key: value for key, value in schema.items() if key in keywords}


def exchanged(schema: Mapping[str, Any], old: str, new: str, value: Any) -> JsonObject:
    """A copy in which one key is another, at its place; what stood under the other is gone."""
    return {
        (new if key == old else key): (value if key == old else each)
        for key, each in schema.items()
        if key == old or key != new
    }


def _plainly_distinct(values: list[Any]) -> bool:
    """Whether they are seen to be different without being written: texts, or a few of which Python finds no two equal.

    What JSON holds to be equal, Python does too; the other way round it need not be.
    """
    if _TEXT.issuperset(map(type, values)):
        return len(set(values)) == len(values)
    return len(values) <= _FEW and not any(one == other for one, other in combinations(values, 2))


def distinct(values: list[Any]) -> list[Any]:
    """JSON values, each once, in their order; equal as JSON says it (`true` is not 1)."""
    if _plainly_distinct(values):
        return values
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(canonical_json(value), value)
    return list(found.values())
