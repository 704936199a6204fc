"""`Samples`: values that a JSON Schema takes, ordinary ones and those at its bounds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from attrs import define, field

from pegboard.schema.json import is_object
from pegboard.schema.messages import Diagnosis
from pegboard.schema.references import References
from pegboard.testing.kind import kinds_of
from pegboard.testing.number import numbers
from pegboard.testing.text import texts
from pegboard.typing import JsonObject, JsonSchema

MOST_SAMPLES: Final = 500
"""Of a whole schema."""

MOST_VARIANTS: Final = 60
"""Of one part of a schema."""

MOST_GUESSES: Final = 5_000
"""For one schema; some 50 us each."""

_MOST_LEVELS: Final = 12
_FULL_LEVELS: Final = 4
_MOST_ITEMS: Final = 1_000
_FAIR_SHARE: Final = 6
_KEYS: Final = ("sample", "other", "third", "a", "A", "1", "2", "3", "x-sample", "sample_key")


class NoSampleError(Exception):
    """No value is known that this part of a schema takes."""


class Sample(NamedTuple):
    """A value, and what is special about it; an ordinary one is called `"sample"`."""

    label: str
    value: Any


@define(eq=False)
class Samples:
    """Makes values for the parts of one schema; the same in every run.

    What it makes is a guess (JSON Schema says much that can't be turned round), held against the schema by parts,
    and as a whole by its judge.

    Attributes:
        references: Of the schema.
        accepts: The schema's judge.
        left: How many more guesses may be made; a schema that branches without end gets smaller samples then.
        missed: The names of the properties for which no value was found.
    """

    references: References
    accepts: Callable[[Any], bool]
    left: int = MOST_GUESSES
    missed: dict[str, None] = field(factory=dict[str, None], init=False)

    def of(self, schema: JsonSchema | bool, level: int = 0) -> Iterator[Sample]:
        """An ordinary value first, then those at the bounds, each once; at most 60 of a part, 500 of the whole.

        Raises:
            NoSampleError: Not even the first is found.
        """
        seen: set[str] = set()
        for sample in self._guesses(schema, level):
            self.left -= 1
            text = json.dumps(sample.value)
            if text not in seen and (self.fits(schema, sample.value) if level else self.accepts(sample.value)):
                seen.add(text)
                yield sample
            if len(seen) >= (MOST_VARIANTS if level else MOST_SAMPLES) or (seen and self.left < 0):
                return
        if not seen:
            raise NoSampleError

    def one(self, schema: JsonSchema | bool, level: int = 0) -> Any:
        """An ordinary value.

        Raises:
            NoSampleError: None is found.
        """
        return next(self.of(schema, level)).value

    def fits(self, schema: JsonSchema | bool, value: Any) -> bool:
        """Whether a value fits a part of the schema."""
        return Diagnosis(self.references).fits(schema, value)

    def flat(self, schema: JsonSchema | bool) -> JsonSchema:
        """A schema with its reference and its `allOf` merged in, as far as they can be."""
        if isinstance(schema, bool):
            return {} if schema else {"enum": []}
        for target in self.references.targets(schema):
            if is_object(target):
                rest = {} if self.references.legacy else {k: v for k, v in schema.items() if not k.startswith("$")}
                return self.flat(_merged(target, rest))
        parts: Sequence[Any] = schema.get("allOf", ())
        if not parts:
            return schema
        whole = {key: rule for key, rule in schema.items() if key != "allOf"}
        for part in parts:
            whole = _merged(whole, self.flat(part))
        return self.flat(whole)

    # Guesses -----------------------------------------------------------------------------------------------------

    def _guesses(self, schema: JsonSchema | bool, level: int) -> Iterator[Sample]:
        if level > _MOST_LEVELS:
            return
        flat = self.flat(schema)
        yield from (Sample("sample", value) for value in flat.get("examples", ()))
        yield from self._by_form(flat, level)
        if "default" in flat:
            yield Sample("its default", flat["default"])

    def _by_form(self, flat: JsonSchema, level: int) -> Iterator[Sample]:
        if "const" in flat:
            yield Sample("sample", flat["const"])
        elif "enum" in flat:
            yield from (Sample("sample", option) for option in flat["enum"])
        elif (choice := "anyOf" if "anyOf" in flat else "oneOf") in flat:
            rest = {key: rule for key, rule in flat.items() if key not in (choice, "default", "examples")}
            for alternative in flat[choice]:
                yield from self._guesses(_merged(self.flat(alternative), rest), level)
        else:
            for kind in kinds_of(flat):
                yield from self._of_kind(kind, flat, level)

    def _of_kind(self, kind: str, flat: JsonSchema, level: int) -> Iterator[Sample]:
        match kind:
            case "object":
                return self._object(flat, level)
            case "array":
                return self._array(flat, level)
            case "string":
                return (Sample(*each) for each in texts(flat))
            case "integer" | "number":
                return (Sample(*each) for each in numbers(flat, whole=kind == "integer"))
            case "boolean":
                return (Sample("sample", value) for value in (True, False))
            case _:
                return iter([Sample("sample", None)])

    def _array(self, flat: JsonSchema, level: int) -> Iterator[Sample]:
        first: Any = flat.get("prefixItems", ())
        rule = flat.get("items", True)
        if isinstance(rule, list):  # as drafts before 2020-12 say it
            first, rule = cast("list[Any]", rule), flat.get("additionalItems", True)
        least, most = flat.get("minItems", 0), flat.get("maxItems", _MOST_ITEMS)
        head = [self.one(part, level + 1) for part in first]
        pool = self._pool(rule, level)
        unique = bool(flat.get("uniqueItems"))

        def filled(length: int) -> list[Any]:
            wanted = max(length - len(head), 0)
            return [*head, *(pool[:wanted] if unique else (pool * wanted)[:wanted])][: max(length, len(head))]

        ordinary = filled(max(least, len(head), min(1, most)))
        yield Sample("sample", ordinary)
        yield Sample("the fewest items", filled(least) if least else [])
        if "maxItems" in flat and most <= _MOST_ITEMS:
            yield Sample("the most items", filled(most))
        parts = [*first, *(() if len(ordinary) <= len(head) else (rule,))]
        for place, part in enumerate(parts):
            for label, item in islice(self.of(part, level + 1), 1, None):
                yield Sample(f"{label} at [{place}]", [*ordinary[:place], item, *ordinary[place + 1 :]])

    def _pool(self, rule: Any, level: int) -> list[Any]:
        """Different values for the items of an array; none where it ends here."""
        if not is_object(rule):
            return ["sample", "other", 3] if rule else []
        return [sample.value for sample in islice(self._tried(rule, level), 1 if self._is_late(level) else None)]

    def _is_late(self, level: int) -> bool:
        """Whether parts that may be left out are."""
        return level >= _FULL_LEVELS or self.left < 0

    def _tried(self, rule: Any, level: int) -> Iterator[Sample]:
        try:
            yield from self.of(rule, level + 1)
        except NoSampleError:
            return

    def _object(self, flat: JsonSchema, level: int) -> Iterator[Sample]:
        properties: JsonObject = flat.get("properties", {})
        required: Sequence[str] = flat.get("required", ())
        optional = {} if self._is_late(level) else properties
        variants = {name: list(self._tried(rule, level)) for name, rule in optional.items()}
        self.missed |= dict.fromkeys(name for name, found in variants.items() if not found)
        for name in required:
            if name not in variants:
                rule = properties.get(name, flat.get("additionalProperties", True))
                variants[name] = list(islice(self.of(rule, level + 1), 1))
        ordinary = {name: found[0].value for name, found in variants.items() if found}
        ordinary |= self._more_entries(flat, ordinary, level)
        yield Sample("sample", ordinary)
        yield Sample("only what is required", {name: ordinary[name] for name in required if name in ordinary})
        share = MOST_VARIANTS if level else max(_FAIR_SHARE, MOST_SAMPLES // max(len(variants), 1))
        for name, found in variants.items():
            for label, value in found[1:share]:
                yield Sample(f"{label} for {name!r}", {**ordinary, name: value})

    def _more_entries(self, flat: JsonSchema, have: Mapping[str, Any], level: int) -> JsonObject:
        """Entries beside the named properties, where a schema says what they are, or how many there must be."""
        rule = flat.get("additionalProperties", True)
        wanted = max(flat.get("minProperties", 0) - len(have), 1 if is_object(rule) else 0)
        if rule is False or not wanted or level >= _MOST_LEVELS:
            return {}
        names = (name for name in self._keys(flat) if name not in have and name not in flat.get("properties", {}))
        pool = self._pool(rule, level)
        return dict.fromkeys(islice(names, wanted), pool[0]) if pool else {}

    def _keys(self, flat: JsonSchema) -> Iterator[str]:
        rule = flat.get("propertyNames", True)
        told = () if isinstance(rule, bool) else self._tried({"type": "string", **rule}, 0)
        spelled = [sample.value for sample in told if isinstance(sample.value, str)]
        names = spelled if is_object(rule) and "format" in rule else [*_KEYS, *spelled]
        return (name for name in dict.fromkeys(names) if self.fits(rule, name))


def _merged(one: JsonSchema, other: JsonSchema) -> JsonSchema:
    """Both rules in one schema, for making values; where both have a keyword, the second's counts."""
    whole = {**one, **other}
    for keyword in ("properties", "$defs"):
        if keyword in one and keyword in other:
            whole[keyword] = {**one[keyword], **other[keyword]}
    if "required" in one and "required" in other:
        whole["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return whole
