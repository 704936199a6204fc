"""Class of a change of a tool's arguments, by values that only one of two schemas takes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any, Final, Literal, cast

from attrs import evolve, frozen

from pegboard.errors import SchemaError
from pegboard.json import canonical_json, is_object, json_text
from pegboard.schema import NOTES, check_schema, compare_schemas, mapped, validator_of
from pegboard.typing import JsonObject, JsonSchema

_MOST_VALUES: Final = 6_000  # tried on both schemas; about 2 us each
_MOST_SAMPLES: Final = 150  # of each schema
_MOST_GUESSES: Final = 400  # for them; about 50 us each
_MOST_BASES: Final = 12  # samples that are changed to near misses
_MOST_ATOMS: Final = 60
_MOST_LEVELS: Final = 5
_MOST_PARTS: Final = 30
_MOST_LENGTH: Final = 2_000
_ATOMS: Final[tuple[Any, ...]] = (None, True, 0, 1, -1, 1.5, 2**31, "", "x", "a b", "A-1", [], ["x"], [1], {}, {"x": 1})
_PLAIN: Final = frozenset({"type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema"})
_ADDED: Final[tuple[Any, ...]] = ("x", 1, True, None, [], {})
_LITERAL: Final = re.compile(r"[^\\^$.|?*+(){}\[\]]{1,80}")  # the runs of a pattern that may stand for themselves
_AFFIXES: Final = ("x", "a", "0", "-", " ")
_UNKNOWN: Final = "x_unknown"
_MISSING: Final = object()
_ANYTHING: Final[JsonSchema] = {}


@frozen
class SchemaChange:
    """A change of a schema, with values that prove it.

    Attributes:
        kind: `"widened"`, `"narrowed"` or `"incompatible"`.
        only_old: JSON text of a value that only the old schema takes, or `None`.
        only_new: JSON text of a value that only the new schema takes, or `None`.
        keywords: `"wider"` and `"narrower"`, as far as the keywords say so.
    """

    kind: Literal["widened", "narrowed", "incompatible"]
    only_old: str | None = None
    only_new: str | None = None
    keywords: tuple[str, ...] = ()

    def __str__(self) -> str:
        proofs = ((self.only_new, "it takes {} now"), (self.only_old, "it no longer takes {}"))
        texts = [text.format(value) for value, text in proofs if value is not None]
        unproven = f"by its keywords it is {' and '.join(self.keywords)}, as no value shows"
        return " and ".join(texts) or unproven


def compare_arguments(old: JsonSchema, new: JsonSchema, deadline: float | None = None) -> SchemaChange | None:
    """How a schema has changed, by values; `None` if only its notes have.

    Samples of both schemas, and near misses of these, are tried on both. A schema that takes more, as a value proves,
    is never called narrowed, nor one that takes less widened.

    Args:
        old: The earlier schema.
        new: The later one.
        deadline: When to end the search, by `time.monotonic`; the change is incompatible then.
    """
    before, after = _bare(old), _bare(new)
    if canonical_json(before) == canonical_json(after):
        return None
    before, after = _without_common(before, after)
    change = _by_values(before, after, deadline)
    if change.kind == "narrowed" and not _narrows_in_all_parts(before, after, deadline):
        return evolve(change, kind="incompatible")
    return change


def _by_values(before: JsonSchema, after: JsonSchema, deadline: float | None) -> SchemaChange:
    ways = tuple(sorted(compare_schemas(before, after), reverse=True))
    if _is_late(deadline):
        return SchemaChange("incompatible", keywords=ways)
    found: dict[bool, str] = {}  # by whether only the new schema takes it
    is_whole = False  # whether all values were tried, and one that both take was among them
    try:
        for each in (before, after):  # a lock may come from anybody
            check_schema(each, tool="", skip_patterns=True)
        takes_old, takes_new = (validator_of(json_text(each)).accepts for each in (before, after))
        takes_both = False
        for value in islice(_values((before, takes_old), (after, takes_new)), _MOST_VALUES):
            if (is_new := takes_new(value)) is not takes_old(value):
                found.setdefault(is_new, json.dumps(value))
            elif is_new:
                takes_both = True
            if len(found) == 2 or _is_late(deadline):
                break
        else:
            is_whole = takes_both
    except (SchemaError, ValueError, TypeError, RecursionError, OverflowError):
        pass  # it is unproven
    kind: Literal["widened", "narrowed", "incompatible"] = "incompatible"
    if is_whole and len(found) == 1:
        kind = "widened" if True in found else "narrowed"
    return SchemaChange(kind, found.get(False), found.get(True), ways)


def _is_late(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() > deadline


def _narrows_in_all_parts(before: JsonSchema, after: JsonSchema, deadline: float | None) -> bool:
    """Whether each changed part of a schema takes less by itself: one that does must not hide one that takes more."""
    waiting: list[tuple[Any, Any]] = [(before, after)]
    for old, new in waiting:  # grows as parts are found
        if new is False:
            continue
        if old is False or len(waiting) > _MOST_PARTS:
            return False
        if (old, new) != (before, after):
            roots = (_member(old, before), _member(new, after))
            if _by_values(*roots, deadline).kind != "narrowed":
                return False
        if {*_list(old.get("required"))} - {*_list(new.get("required"))}:
            return False
        waiting += _changed_parts(old, new)
    return True


def _without_common(old: JsonSchema, new: JsonSchema) -> tuple[JsonSchema, JsonSchema]:
    """Schemas of closed objects without the optional properties that both have in one form, which prove nothing."""
    if not all(each.keys() <= _PLAIN and each.get("additionalProperties") is False for each in (old, new)):
        return old, new
    olds, news = (each.get("properties", {}) for each in (old, new))
    if not (is_object(olds) and is_object(news)):
        return old, new
    needed = [*_list(old.get("required")), *_list(new.get("required"))]
    common = {name for name in olds if name not in needed and name in news and olds[name] == news[name]}
    one, other = (
        {**schema, "properties": {name: each for name, each in own.items() if name not in common}}
        for schema, own in ((old, olds), (new, news))
    )
    return one, other


def _changed_parts(old: JsonSchema, new: JsonSchema) -> Iterator[tuple[Any, Any]]:
    """The parts that two schemas have in different forms: of properties, items and alternatives."""
    olds, news = (_table(each.get("properties")) for each in (old, new))
    others = [each.get("additionalProperties", True) for each in (old, new)]
    if "patternProperties" in old or "patternProperties" in new:
        names = olds.keys() & news.keys()
    else:
        names = olds.keys() | news.keys()
    pairs = [(olds.get(name, others[0]), news.get(name, others[1])) for name in sorted(names)]
    pairs += [(old.get("items", True), new.get("items", True)), (others[0], others[1])]
    for key in ("patternProperties", "$defs", "definitions"):
        tables = _table(old.get(key)), _table(new.get(key))
        pairs += [(tables[0][name], tables[1][name]) for name in sorted(tables[0].keys() & tables[1].keys())]
    for key in ("prefixItems", "anyOf", "allOf"):
        lists = _list(old.get(key)), _list(new.get(key))
        pairs += zip(*lists, strict=True) if len(lists[0]) == len(lists[1]) else ()
    for pair in pairs:
        one, other = (_ANYTHING if part is True else part for part in pair)
        if one != other and all(part is False or is_object(part) for part in (one, other)):
            yield one, other


def _member(part: JsonSchema, root: JsonSchema) -> JsonSchema:
    """The schema of an object with just this property."""
    definitions = {key: root[key] for key in ("$defs", "definitions") if key in root}
    return {"type": "object", "properties": {"a": part}, "required": ["a"], **definitions}


def _bare(schema: JsonSchema) -> JsonSchema:
    """A schema without its notes."""
    kept = {key: rule for key, rule in schema.items() if key not in NOTES}
    return mapped(kept, lambda part, _: _bare(part))


def _values(*schemas: tuple[JsonSchema, Callable[[Any], bool]]) -> Iterator[Any]:
    """Samples of schemas, given with their validators, then near misses of the samples."""
    from pegboard.testing import NoSampleError, Samples

    samples: list[list[Any]] = []
    for schema, accepts in schemas:
        own: list[Any] = []
        with suppress(NoSampleError):
            own.extend(islice(Samples(schema, accepts, _MOST_GUESSES).of(), _MOST_SAMPLES))
        samples.append(own)
    yield from ({}, *chain.from_iterable(samples))
    atoms, names = _atoms([schema for schema, _ in schemas])
    bases = [each for pair in zip(*(own[:_MOST_BASES] for own in map(_padded, samples)), strict=True) for each in pair]
    yield from chain.from_iterable(_near(base, atoms, names) for base in bases if base is not _MISSING)


def _padded(samples: list[Any]) -> list[Any]:
    return [*samples, *(_MISSING for _ in range(_MOST_BASES))]


def _atoms(schemas: list[JsonSchema]) -> tuple[list[Any], list[str]]:
    """Values to put in place of others, by the constants in the schemas; and the names of their properties."""
    own: dict[str, Any] = {}
    names = {_UNKNOWN: None}
    waiting: list[Any] = [*schemas]
    for part in waiting:  # grows as parts are found
        if len(waiting) > _MOST_VALUES:
            break
        if isinstance(part, dict):
            table = cast("JsonObject", part)
            for key in ("properties", "dependentRequired", "dependentSchemas"):
                names |= dict.fromkeys(_table(table.get(key)))
            patterns = [table.get("pattern"), *_table(table.get("patternProperties"))]
            for run in (run for each in patterns if isinstance(each, str) for run in _LITERAL.findall(each)[:8]):
                own.setdefault(json.dumps(run), run)
                names[run] = None
            for value in (*_list(table.get("enum")), *(table[key] for key in ("const",) if key in table)):
                own.setdefault(json.dumps(value), value)
            for key, value in table.items():
                if type(value) in (int, float) and abs(value) < 1e15:
                    own |= {json.dumps(each): each for each in _around(key, value)}
            waiting += table.values()
        elif isinstance(part, list):
            waiting += cast("list[Any]", part)
    return [*_ATOMS, *islice(own.values(), _MOST_ATOMS)], [*names][:_MOST_ATOMS]


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _table(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _around(key: str, value: float) -> Iterator[Any]:
    """Values at a bound of a schema."""
    if "Length" in key or "Items" in key:
        for length in (int(value) - 1, int(value), int(value) + 1):
            if 0 <= length <= _MOST_LENGTH:
                yield "a" * length if "Length" in key else ["x"] * length
    elif "Properties" not in key:
        yield from (value, value + 1, value - 1, value + 0.5, value - 0.5, value * 2)


def _near(value: Any, atoms: list[Any], names: list[str], level: int = 0) -> Iterator[Any]:
    """A value with one part removed, added or replaced."""
    if level > _MOST_LEVELS:
        return
    if isinstance(value, dict):
        yield from _near_object(cast("JsonObject", value), atoms, names, level)
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        yield from ([*items, "x"], [*items, None], items[1:], [*items, *items[-1:]], items * 5)
        for place, each in enumerate(items[:2]):
            for near in _near(each, atoms, names, level + 1):
                yield [*items[:place], near, *items[place + 1 :]]
    elif isinstance(value, str):
        yield from (value[:-1], value[1:], value.upper(), value.lower(), f"{value}\n")
        yield from chain.from_iterable((f"{value}{each}", f"{each}{value}") for each in _AFFIXES)
    if level:
        yield from atoms


def _near_object(table: JsonObject, atoms: list[Any], names: list[str], level: int) -> Iterator[JsonObject]:
    for key in table:
        yield {name: each for name, each in table.items() if name != key}
    for name in names:
        if name not in table:
            yield from ({**table, name: atom} for atom in _ADDED)
    for key, each in table.items():
        yield from ({**table, key: near} for near in _near(each, atoms, names, level + 1))
