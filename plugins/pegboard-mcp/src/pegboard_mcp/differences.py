"""Differences of a tool's definition from an earlier one, for the user who accepts it."""

from __future__ import annotations

from typing import Any, Final, cast

from pegboard.typing import JsonObject

_NOTES: Final = frozenset({"$comment", "$id", "$schema", "default", "deprecated", "description", "examples", "title"})
_PARAMETERS: Final = frozenset({"properties", "required"})
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_NESTED: Final = frozenset({"additionalProperties", "items"})
_ALTERNATIVES: Final = frozenset({"anyOf", "enum", "type"})
_LEAST: Final = frozenset({"exclusiveMinimum", "minItems", "minLength", "minProperties", "minimum"})
_MOST: Final = frozenset({"exclusiveMaximum", "maxItems", "maxLength", "maxProperties", "maximum"})


def differences(old: JsonObject, new: JsonObject) -> str:
    """The members in which two definitions differ; of schemas, whether the new one is wider or narrower."""
    words: list[str] = []
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            ways = _compare_schemas(old.get(key), new.get(key)) if key.endswith("Schema") else ()
            words.append(f"{key}: {' and '.join(sorted(ways, reverse=True))}" if ways else key)
    return ", ".join(words)


def _compare_schemas(old: Any, new: Any) -> set[str]:
    """`"wider"` if a schema accepts what an earlier one didn't, `"narrower"` for the reverse, or both.

    It compares the keywords one by one, without trying values, and counts a new optional property as wider.

    Args:
        old: The earlier schema, or anything in its place.
        new: The later one.
    """
    if old == new:
        return set()
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return {"wider" if new in (None, True) or old is False else "narrower"}
    before, after = _normal(cast("JsonObject", old)), _normal(cast("JsonObject", new))
    ways = _ways_of_parameters(before, after)
    for key in {*before, *after} - _NOTES - _PARAMETERS:
        was, now = before.get(key), after.get(key)
        if key in _NESTED:
            ways |= _compare_schemas(before.get(key, True), after.get(key, True))
        elif key in _DEFINITIONS:  # one that is new or gone matters where it is referred to
            ways |= {
                way
                for name in {*_table(was)} & {*_table(now)}
                for way in _compare_schemas(_table(was)[name], _table(now)[name])
            }
        elif was != now:
            ways |= _ways_of_keyword(key, was, now)
    return ways


def _normal(schema: JsonObject) -> JsonObject:
    """The schema with `const` as an `enum`, the integers beside `number`, and without a `uniqueItems` that is false."""
    normal = dict(schema)
    if "const" in normal:
        normal["enum"] = [normal.pop("const")]
    if "number" in _items(types := normal.get("type")):
        normal["type"] = [*_items(types), "integer"]
    if normal.get("uniqueItems") is False:
        del normal["uniqueItems"]
    return normal


def _ways_of_parameters(before: JsonObject, after: JsonObject) -> set[str]:
    ways: set[str] = set()
    was, now = (_table(schema.get("properties")) for schema in (before, after))
    needed, needs = (_items(schema.get("required")) for schema in (before, after))
    for name in {*was, *now}:
        if name in was and name in now:
            ways |= _compare_schemas(was[name], now[name])
        elif name in was:
            ways.add("narrower")
        elif name not in needs:
            ways.add("wider")
        if (name in needs) is not (name in needed) and name in now:
            ways.add("narrower" if name in needs else "wider")
    return ways


def _ways_of_keyword(key: str, was: Any, now: Any) -> set[str]:
    """The ways of a keyword whose value differs; `None` stands for none."""
    if was is None or now is None:
        return {"narrower" if was is None else "wider"}
    if key in _ALTERNATIVES:
        olds, news = _items(was), _items(now)
        more, fewer = any(item not in olds for item in news), any(item not in news for item in olds)
        return {way for way, holds in (("wider", more), ("narrower", fewer)) if holds}
    if key in _LEAST | _MOST and isinstance(was, int | float) and isinstance(now, int | float):
        return {"wider" if (now < was) is (key in _LEAST) else "narrower"}
    return {"wider", "narrower"}


def _table(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]
