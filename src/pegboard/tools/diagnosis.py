"""Why a value doesn't fit a schema: every problem with its place, in words that a model can act on.

jsonschema_rs judges; this only words what it has refused. jsonschema_rs could list its errors too, but does so
for every branch of every union at every level: for a recursive union of four, six levels of nesting take it
380 ms, ten would take a minute. Here each pair of schema and value is looked at once, and the whole search has a
budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

from attrs import define, field

from pegboard.tools.alternatives import Problem, mismatch, one_of
from pegboard.tools.json_value import is_array, is_object
from pegboard.tools.keywords import CHECKS
from pegboard.tools.problem import MOST_PROBLEMS
from pegboard.tools.references import References
from pegboard.typing import JsonSchema

MOST_STEPS: Final = 100_000
"""Steps of one search: pairs of schema and value, and the parts of each rule. Some 100 ms."""

_MOST_HOPS: Final = 16
_TYPES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "number": ("a number", lambda value: type(value) in (int, float)),
    "integer": ("an integer", lambda value: type(value) is int or (type(value) is float and value.is_integer())),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "array": ("an array", lambda value: isinstance(value, list | tuple)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "null": ("null", lambda value: value is None),
}


@define
class Diagnosis:
    """One search; it may miss what it has no words for.

    Attributes:
        references: Of the schema.
        left: How many steps it may still take; below 0 it has given up, and the rest counts as fitting.
    """

    references: References
    left: int = MOST_STEPS
    _seen: dict[tuple[int, int], Sequence[Problem]] = field(
        factory=dict[tuple[int, int], Sequence[Problem]], init=False
    )

    def problems(self, schema: JsonSchema | bool, value: Any) -> Sequence[Problem]:
        """What keeps `value` from fitting `schema`, at most 20."""
        if isinstance(schema, bool):
            return () if schema else (Problem((), "must not be given"),)
        pair = (id(schema), id(value))
        if (known := self._seen.get(pair)) is not None:
            return known
        if not self.pays(1):
            return ()
        self._seen[pair] = ()
        found = self._seen[pair] = tuple(islice(self._search(schema, value), MOST_PROBLEMS))
        return found

    def pays(self, steps: int) -> bool:
        """Takes so many steps off the budget; whether there were as many."""
        self.left -= steps
        return self.left >= 0

    def fits(self, schema: JsonSchema | bool, value: Any) -> bool:
        """Whether nothing was found that keeps `value` from fitting `schema`."""
        return not self.problems(schema, value)

    def below(self, schema: JsonSchema | bool, value: Any, step: str | int) -> Iterator[Problem]:
        """The problems of a part of the value, seen from the whole."""
        for path, reason, kind, wanted in self.problems(schema, value):
            yield Problem((step, *path), reason, kind, wanted)

    def followed(self, schema: JsonSchema | bool) -> JsonSchema | bool:
        """What a schema that only refers to another comes to."""
        for _ in range(_MOST_HOPS):
            target = next(self.references.targets(schema), None) if isinstance(schema, dict) else None
            if target is None:
                break
            schema = target
        return schema

    def _search(self, schema: JsonSchema, value: Any) -> Iterator[Problem]:
        if self.references.legacy and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        if "enum" in schema and not isinstance(value, str) and not self.pays(_parts(schema["enum"])):
            return
        if (wrong := _something_else(schema, value)) is not None:
            yield wrong
            return
        checks = CHECKS[type(value)]
        for keyword, rule in schema.items():
            if (check := checks.get(keyword)) and self.pays(_parts(rule)):
                yield from check(self, rule, schema, value)


def _parts(rule: Any) -> int:
    return len(rule) if is_object(rule) or is_array(rule) else 1


def _something_else(schema: JsonSchema, value: Any) -> Problem | None:
    """The problem of a value that isn't among those allowed, or of none of the types."""
    if "const" in schema and not _is_among([schema["const"]], value):
        return _not_among([schema["const"]])
    if "enum" in schema and not _is_among(schema["enum"], value):
        return _not_among(schema["enum"])
    wanted = schema.get("type")
    if wanted is None:
        return None
    names: list[str] = [wanted] if isinstance(wanted, str) else wanted
    if any(_TYPES[name][1](value) for name in names):
        return None
    meant = [name for name in names if name != "null"] or names
    return mismatch(" or ".join(_TYPES[name][0] for name in meant), value)


def _is_among(options: Sequence[Any], value: Any) -> bool:
    return value in options if isinstance(value, str) else any(_is_same(each, value) for each in options)


def _is_same(one: Any, other: Any) -> bool:
    """JSON's equality, which isn't Python's: true is not 1, but 1.0 is."""
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(_is_same(item, other[name]) for name, item in one.items())
    if is_array(one) and isinstance(other, list | tuple):
        items = cast("Sequence[Any]", other)
        return len(one) == len(items) and all(map(_is_same, one, items))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _not_among(options: Sequence[Any]) -> Problem:
    return Problem((), f"must be {one_of(options)}", "value", one_of(options))
