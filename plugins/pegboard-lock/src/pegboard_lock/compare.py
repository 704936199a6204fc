"""Class of a change of a tool's arguments, by values that only one of two schemas takes."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice, zip_longest
from typing import Any, Final, Literal, cast

from attrs import frozen

from pegboard.errors import SchemaError
from pegboard.json import canonical_json, is_array, is_object, json_text
from pegboard.schema import NOTES, check_schema, mapped, validator_of
from pegboard.typing import JsonObject, JsonSchema
from pegboard_lock.proof import Proof

_MOST_VALUES: Final = 6_000  # tried on both schemas; about 2 us each
_MOST_SAMPLES: Final = 150  # of each schema
_MOST_GUESSES: Final = 400  # for them; about 50 us each
_MOST_BASES: Final = 12  # samples that are changed to near misses
_MOST_ATOMS: Final = 60
_MOST_LEVELS: Final = 5
_MOST_NUMBER: Final = 1e15
_MOST_LENGTH: Final = 2_000
_MOST_NAME: Final = 64
_ATOMS: Final[tuple[Any, ...]] = (None, True, 0, 1, -1, 1.5, 2**31, "", "x", "a b", "A-1", [], ["x"], [1], {}, {"x": 1})
_PLAIN: Final = frozenset({"type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema"})
_ADDED: Final[tuple[Any, ...]] = ("x", 1, True, None, [], {})
_LITERAL: Final = re.compile(r"[^\\^$.|?*+(){}\[\]]{1,80}")  # the runs of a pattern that may stand for themselves
_AFFIXES: Final = ("x", "a", "0", "-", " ")
_UNKNOWN: Final = ("x_unknown", "9")
_MOST_FILLED: Final = 8  # names of which every value is tried
_MISSING: Final = object()
_FAULTS: Final = (SchemaError, ValueError, TypeError, RecursionError, OverflowError)


@frozen
class SchemaChange:
    """A change of a schema, with values that prove it.

    Attributes:
        kind: `"widened"`, `"narrowed"` or `"incompatible"`.
        only_old: JSON text of a value that only the old schema takes, or `None`.
        only_new: JSON text of a value that only the new schema takes, or `None`.
    """

    kind: Literal["widened", "narrowed", "incompatible"]
    only_old: str | None = None
    only_new: str | None = None

    def __str__(self) -> str:
        proofs = ((self.only_new, "it takes {:.200} now"), (self.only_old, "it no longer takes {:.200}"))
        texts = [text.format(value) for value, text in proofs if value is not None]
        if self.kind == "incompatible" and len(texts) < len(proofs):
            texts.append("it may differ in more" if texts else "no value was found that shows how it differs")
        return " and ".join(texts)


def compare_arguments(old: JsonSchema, new: JsonSchema, deadline: float | None = None) -> SchemaChange | None:
    """How a schema has changed; `None` if only its notes have.

    A schema is narrowed if a value shows that it takes less, and its keywords that it takes no more; widened is the
    opposite. The values are samples of both schemas and near misses of these, tried on both.

    Args:
        old: The earlier schema.
        new: The later one.
        deadline: When to end the search, by `time.monotonic`; what wasn't shown by then is incompatible.
    """
    before, after = _strip_notes(old), _strip_notes(new)
    if canonical_json(before) == canonical_json(after):
        return None
    found = dict[bool, str]()
    kind: Literal["widened", "narrowed", "incompatible"] = "incompatible"
    with suppress(*_FAULTS):  # a lock may come from anybody
        if not _is_late(deadline):
            for each in (before, after):
                check_schema(each, tool="", skip_patterns=True)
            found = _differences(*_drop_common(before, after), deadline)
        if found.keys() == {False} and Proof(after, before, deadline).is_found():
            kind = "narrowed"
        elif found.keys() == {True} and Proof(before, after, deadline).is_found():
            kind = "widened"
    return SchemaChange(kind, found.get(False), found.get(True))


def _differences(before: JsonSchema, after: JsonSchema, deadline: float | None) -> dict[bool, str]:
    """Values that just one of two schemas takes, by whether it is the new one."""
    found: dict[bool, str] = {}
    takes_old, takes_new = (validator_of(json_text(each)).accepts for each in (before, after))
    for number, value in enumerate(_values((before, takes_old), (after, takes_new), deadline=deadline)):
        if (is_new := takes_new(value)) is not takes_old(value):
            found.setdefault(is_new, json.dumps(value))
        if len(found) == 2 or number == _MOST_VALUES or _is_late(deadline):
            break
    return found


def _is_late(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() > deadline


def _drop_common(old: JsonSchema, new: JsonSchema) -> tuple[JsonSchema, JsonSchema]:
    """Schemas of closed objects without the optional properties that both have in one form, which prove nothing."""
    if not all(each.keys() <= _PLAIN and each.get("additionalProperties") is False for each in (old, new)):
        return old, new
    olds, news = (each.get("properties", {}) for each in (old, new))
    if not (is_object(olds) and is_object(news)):
        return old, new
    needed = [*_list(old.get("required")), *_list(new.get("required"))]
    texts = {name: canonical_json(olds[name]) for name in olds.keys() & news.keys() if name not in needed}
    common = {name for name, text in texts.items() if '"$ref"' not in text and text == canonical_json(news[name])}
    one, other = (
        {**schema, "properties": {name: each for name, each in own.items() if name not in common}}
        for schema, own in ((old, olds), (new, news))
    )
    return one, other


def _strip_notes(schema: JsonSchema) -> JsonSchema:
    """A schema without its notes."""
    kept = {key: rule for key, rule in schema.items() if key not in NOTES}
    return mapped(kept, lambda part, _: _strip_notes(part))


def _values(*schemas: tuple[JsonSchema, Callable[[Any], bool]], deadline: float | None) -> Iterator[Any]:
    """Samples of schemas, given with their validators, then near misses of the samples."""
    from pegboard.testing import NoSampleError, Samples

    samples: list[list[Any]] = []
    for schema, accepts in schemas:
        own: list[Any] = []
        with suppress(NoSampleError):
            made = Samples(schema, accepts, _MOST_GUESSES, math.inf if deadline is None else deadline)
            own.extend(islice(made.of(), _MOST_SAMPLES))
        samples.append(own)
    yield from ({}, *chain.from_iterable(samples))
    atoms, names = _atoms([schema for schema, _ in schemas])
    yield from (each for each in atoms if isinstance(each, dict))
    bases = [each for pair in zip_longest(*(own[:_MOST_BASES] for own in samples), fillvalue=_MISSING) for each in pair]
    yield from chain.from_iterable(_near_misses(base, atoms, names) for base in bases if base is not _MISSING)


def _atoms(schemas: Sequence[JsonSchema]) -> tuple[list[Any], list[str]]:
    """Values to put in place of others, by the constants in two schemas; and the names of their properties.

    What only one of them has comes first.
    """
    (olds, old_names), (news, new_names) = map(_constants, schemas)
    own = {**{key: olds.get(key, news.get(key)) for key in sorted(olds.keys() ^ news.keys())}, **olds}
    names = dict.fromkeys((*_UNKNOWN, *sorted(old_names ^ new_names), *sorted(old_names)))
    return [*_ATOMS, *islice(own.values(), _MOST_ATOMS)], [*names][:_MOST_ATOMS]


def _constants(schema: JsonSchema) -> tuple[dict[str, Any], set[str]]:
    """Values at the bounds of a schema, by their texts, and the names in it."""
    own, names = dict[str, Any](), set[str]()
    waiting: list[Any] = [schema]
    for part in waiting:  # grows as parts are found
        if len(waiting) > _MOST_VALUES:
            break
        if is_object(part):
            for key in ("properties", "dependentRequired", "dependentSchemas"):
                names.update(_table(part.get(key)))
            patterns = [part.get("pattern"), *_table(part.get("patternProperties"))]
            runs = [run for each in patterns if isinstance(each, str) for run in _LITERAL.findall(each)[:8]]
            names.update(runs)
            values = [*runs, *_list(part.get("enum")), *(part[key] for key in ("const",) if key in part)]
            for key, value in part.items():
                if type(value) in (int, float) and abs(value) < _MOST_NUMBER:
                    values += (bounds := [*_around(key, value)])
                    names.update(each for each in bounds if isinstance(each, str) and len(each) <= _MOST_NAME)
            own |= {json.dumps(each): each for each in values}
            waiting += part.values()
        elif is_array(part):
            waiting += part
    return own, names


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
    elif "Properties" in key:
        for length in (int(value), int(value) + 1):
            if 0 <= length <= _MOST_LENGTH:
                yield from ({f"k{number}": each for number in range(length)} for each in ("x", 1))
    else:
        yield from (value, value + 1, value - 1, value + 0.5, value - 0.5, value * 2)


def _near_misses(value: Any, atoms: list[Any], names: list[str], level: int = 0) -> Iterator[Any]:
    """A value with one part removed, added or replaced."""
    if level > _MOST_LEVELS:
        return
    if isinstance(value, dict):
        yield from _near_objects(cast("JsonObject", value), atoms, names, level)
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        yield from ([*items, "x"], [*items, None], items[1:], [*items, *items[-1:]], items * 3, items * 5)
        for place, each in enumerate(items[:2]):
            for near in _near_misses(each, atoms, names, level + 1):
                yield [*items[:place], near, *items[place + 1 :]]
    elif isinstance(value, str):
        yield from (value[:-1], value[1:], value.upper(), value.lower(), f"{value}\n")
        yield from chain.from_iterable((f"{value}{each}", f"{each}{value}") for each in _AFFIXES)
    if level:
        yield from atoms


def _near_objects(table: JsonObject, atoms: list[Any], names: list[str], level: int) -> Iterator[JsonObject]:
    for key in table:
        yield {name: each for name, each in table.items() if name != key}
    for place, name in enumerate(names):
        if name not in table:
            yield from ({**table, name: atom} for atom in (atoms if place < _MOST_FILLED else _ADDED))
    for key, each in table.items():
        yield from ({**table, key: near} for near in _near_misses(each, atoms, names, level + 1))
