"""`Breach`: a value that a schema forbids, made of one that it takes by breaking one rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from attrs import define, frozen

from pegboard.schema.json import is_array, is_object
from pegboard.schema.problems import counted, kind_shown, path_text
from pegboard.testing.kind import allowed_kinds, kind_of
from pegboard.testing.sample import NoSampleError, Samples
from pegboard.testing.text import MOST_CHARACTERS
from pegboard.typing import JsonObject, JsonSchema

_MOST_LEVELS: Final = 6
_MOST_ITEMS: Final = 1_000
_EACH_KIND: Final = ("text", 7, 1.5, True, None, ["text"], {"key": "text"})
_NEW_KEY: Final = "no_such_key"
_NO_OPTION: Final = "no such option"


@frozen
class Breach:
    """A value that breaks one rule.

    Attributes:
        value: The whole value.
        rule: The keyword that is broken.
        path: Where.
        what: How, in a few words, without the place.
    """

    value: Any
    rule: str
    path: tuple[str | int, ...]
    what: str

    def __str__(self) -> str:
        """`"limit: number 0, and the schema's 'minimum' forbids it"`."""
        return f"{path_text(self.path)}: {self.what}, and the schema's {self.rule!r} forbids it"


@define(eq=False)
class Breaches:
    """Breaks the rules of one schema one by one.

    Every keyword binds by itself, whatever stands beside it: a value that breaks one doesn't fit, with no need to
    ask a judge. Rules that can't be broken for sure are left alone (below `not` and `if`, between alternatives of
    one kind).

    Attributes:
        samples: Of the schema.
    """

    samples: Samples

    def of(self, schema: JsonSchema | bool, value: Any, level: int = 0) -> Iterator[Breach]:
        """What a schema forbids, each a little way from `value`, which it takes."""
        if level > _MOST_LEVELS or isinstance(schema, bool):
            return
        for target in self.samples.references.targets(schema):
            yield from self.of(target, value, level + 1)
        if self.samples.references.legacy and "$ref" in schema:
            return
        for part in schema.get("allOf", ()):
            yield from self.of(part, value, level + 1)
        yield from self._kinds(schema)
        yield from self._options(schema)
        for keyword, rule in schema.items():
            if (broken := _BROKEN.get(keyword)) is not None and not isinstance(rule, bool):
                yield from (Breach(each, keyword, (), kind_shown(each)) for each in broken(rule))
        yield from self._alternatives(schema, level)
        if is_object(value):
            yield from self._object(schema, value, level)
        elif is_array(value):
            yield from self._array(schema, value, level)

    def _kinds(self, schema: JsonSchema) -> Iterator[Breach]:
        """A value of every kind that isn't allowed."""
        keyword = next((each for each in ("type", "anyOf", "oneOf") if each in schema), None)
        if keyword is None:
            return
        allowed = allowed_kinds(self.samples.references, {keyword: schema[keyword]})
        for value in _EACH_KIND:
            if kind_of(value) not in allowed:
                yield Breach(value, keyword, (), kind_shown(value))

    def _options(self, schema: JsonSchema) -> Iterator[Breach]:
        for keyword in ("const", "enum"):
            if keyword in schema:
                options = [schema[keyword]] if keyword == "const" else schema[keyword]
                if _NO_OPTION not in options:
                    yield Breach(_NO_OPTION, keyword, (), kind_shown(_NO_OPTION))

    def _alternatives(self, schema: JsonSchema, level: int) -> Iterator[Breach]:
        """What breaks the one alternative that takes values of its kind."""
        for keyword in ("anyOf", "oneOf"):
            parts: Sequence[Any] = schema.get(keyword, ())
            kinds = [allowed_kinds(self.samples.references, part) for part in parts]
            for place, part in enumerate(parts):
                others = frozenset[str]().union(*kinds[:place], *kinds[place + 1 :])
                for breach in self._of_alternative(part, level):
                    if kind_of(breach.value) not in others:
                        yield breach

    def _of_alternative(self, part: Any, level: int) -> Iterator[Breach]:
        try:
            value = self.samples.one(part, level + 1)
        except NoSampleError:
            return
        yield from self.of(part, value, level + 1)

    def _object(self, schema: JsonSchema, value: JsonObject, level: int) -> Iterator[Breach]:
        for name in schema.get("required", ()):
            rest = {key: item for key, item in value.items() if key != name}
            yield Breach(rest, "required", (name,), "left out")
        closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        if closed and _NEW_KEY not in schema.get("properties", {}):
            yield Breach({**value, _NEW_KEY: 1}, "additionalProperties", (_NEW_KEY,), "an unknown key")
        if (least := schema.get("minProperties", 0)) > 0:
            yield _counted(dict(islice(value.items(), least - 1)), "minProperties", "key")
        for name, rule in self._members(schema, value):
            for inner in self.of(rule, value[name], level + 1):
                yield _outside(inner, name, {**value, name: inner.value})

    def _members(self, schema: JsonSchema, value: JsonObject) -> Iterator[tuple[str, Any]]:
        properties: JsonObject = schema.get("properties", {})
        others = schema.get("additionalProperties", True) if "patternProperties" not in schema else True
        return ((name, properties.get(name, others)) for name in value)

    def _array(self, schema: JsonSchema, value: list[Any], level: int) -> Iterator[Breach]:
        least, most = schema.get("minItems", 0), schema.get("maxItems", _MOST_ITEMS)
        if least > 0:
            yield _counted(value[: least - 1], "minItems", "item")
        if value and most < _MOST_ITEMS:
            yield _counted((value * (most + 1))[: most + 1], "maxItems", "item")
        if value and schema.get("uniqueItems") is True:
            yield Breach([*value, value[0]], "uniqueItems", (), "the same item twice")
        first: Any = schema.get("prefixItems", ())
        rule = schema.get("items", True)
        for place, item in enumerate(value[: len(first) + 1]):
            for inner in self.of(first[place] if place < len(first) else rule, item, level + 1):
                yield _outside(inner, place, [*value[:place], inner.value, *value[place + 1 :]])


def _counted(value: Any, keyword: str, noun: str) -> Breach:
    return Breach(value, keyword, (), counted(len(value), noun))


def _outside(inner: Breach, step: str | int, whole: Any) -> Breach:
    return Breach(whole, inner.rule, (step, *inner.path), inner.what)


def _multiple(rule: Any) -> list[Any]:
    return [rule / 2] if isinstance(rule, float) or rule == 1 else [1]


_BROKEN: Final[Mapping[str, Callable[[Any], Sequence[Any]]]] = {
    "minimum": lambda rule: [min(rule - 1, math.nextafter(rule, -math.inf))],
    "maximum": lambda rule: [max(rule + 1, math.nextafter(rule, math.inf))],
    "exclusiveMinimum": lambda rule: [rule],
    "exclusiveMaximum": lambda rule: [rule],
    "multipleOf": _multiple,
    "minLength": lambda rule: ["a" * (rule - 1)] if 0 < rule <= MOST_CHARACTERS else [],
    "maxLength": lambda rule: ["a" * (rule + 1)] if rule < MOST_CHARACTERS else [],
}
"""Keyword -> values that it forbids."""
