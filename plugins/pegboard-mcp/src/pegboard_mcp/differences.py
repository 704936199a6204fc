"""Differences of a tool's definition from an earlier one, for the user who accepts it."""

from __future__ import annotations

from pegboard.schema import compare_schemas
from pegboard.typing import JsonObject


def differences(old: JsonObject, new: JsonObject) -> str:
    """The members in which two definitions differ; of schemas, whether the new one is wider or narrower."""
    words: list[str] = []
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            ways = compare_schemas(old.get(key), new.get(key)) if key.endswith("Schema") else ()
            words.append(f"{key}: {' and '.join(sorted(ways, reverse=True))}" if ways else key)
    return ", ".join(words)
