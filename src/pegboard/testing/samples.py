"""`Samples`: values that fit a JSON Schema, ordinary ones and those at its bounds."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from attrs import Factory, define, field

from pegboard.json import is_array, is_object
from pegboard.schema.messages import SchemaSearch
from pegboard.schema.references import REFERENCES, References, matcher
from pegboard.typing import JsonObject, JsonSchema

_IMPLIED: Final = (
    ("object", ("properties", "required", "additionalProperties", "minProperties", "patternProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
    ("string", ("minLength", "maxLength", "pattern", "format", "contentEncoding")),
    ("integer", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
_BOUNDS: Final = {"minimum": 1, "exclusiveMinimum": 1, "maximum": -1, "exclusiveMaximum": -1}
_ORDINARY_NUMBER: Final = 3
_LARGE_NUMBER: Final = 2**31  # exceeds 32 bits
_WORDS: Final = """
    sample a A 0 1 aa aaa aaaa AA AAA AAAA 00 000 0000 00000 000000 12.50 -1 +1 1.0.0 v1 v1.0.0 a1 A1 a0 a-b a_b a.b a/b
    /a /a/b ./a a.txt a,b a:b a=b AAA-0000 AAA-000 AA-00 A-1 en en-US en_US EUR 2024 2024-02 2024-02-29 12:30 12:30:00
    2024-02-29T12:30:00Z 1h 10s 5m 50% $a #00ff00 #fff @sample #sample 0x1f 00ff00 sample@example.org
    https://example.org/ example.org localhost:8080 192.0.2.1 +4912345678 123e4567-e89b-42d3-a456-426614174000
"""
"""Texts that fit common patterns: names, versions, dates, codes."""
_COMMON: Final = (*_WORDS.split(), "", "a b", *("0" * length for length in (8, 16, 32, 40, 64)), "\t", "\n")
_LITERAL: Final = re.compile(r"[^\\^$.|?*+(){}\[\]]{1,80}")  # the runs of a pattern that may stand for themselves
MOST_CHARACTERS: Final = 100_000  # the longest text that is tried
_MOST_TEXT: Final = 1_000_000  # characters of the JSON of an array, which may have such arrays as items
_ORDINARY_TEXT: Final = "sample"
_LONG_TEXT: Final = 1_000
_BY_FORMAT: Final[Mapping[str, str]] = {
    "date": "2024-02-29",
    "date-time": "2024-02-29T12:30:00+00:00",
    "duration": "P1DT2H",
    "email": "sample@example.org",
    "idn-email": "sample@example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "iri": "https://example.org/",
    "json-pointer": "/sample",
    "relative-json-pointer": "0/sample",
    "time": "12:30:00",
    "uri": "https://example.org/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
}
"""Values for formats of JSON Schema that the ordinary text doesn't fit."""
_MOST_SAMPLES: Final = 500  # of a whole schema
_MOST_VARIANTS: Final = 60  # of one part of a schema
MOST_GUESSES: Final = 5_000  # for one schema; some 50 us each
_MOST_LEVELS: Final = 12
_FULL_LEVELS: Final = 4
_MOST_ITEMS: Final = 1_000
_FAIR_SHARE: Final = 6
_MERGED: Final = frozenset({"allOf", *REFERENCES})
_KEYS: Final = ("sample", "other", "third", "a", "A", "1", "2", "3", "x-sample", "sample_key")


def _size(schema: JsonSchema, name: str, default: int) -> int:
    """A length or count, which JSON Schema may also write as `2.0`."""
    return int(schema.get(name, default))


def _numbers(schema: JsonSchema, *, whole: bool) -> Iterator[Any]:
    """Candidate numbers: ordinary ones, then those at the bounds; the caller validates them."""
    bounds: list[Any] = []
    for name, inwards in _BOUNDS.items():
        bound = schema.get(name)
        if bound is not None and not isinstance(bound, bool):  # of draft 4: whether the other one is exclusive
            nearest = inwards * math.ceil(inwards * bound) if whole else bound
            bounds += [nearest, nearest + inwards if whole else math.nextafter(bound, inwards * math.inf)]
    middle, step = sum(bounds) / len(bounds) if bounds else 0, schema.get("multipleOf", 1)
    guesses = (_ORDINARY_NUMBER, 0, middle, *bounds)
    multiples = [guess if step == 1 else math.ceil(guess / step) * step for guess in guesses]
    yield from (*multiples, middle, 0.5, *bounds, -_LARGE_NUMBER, _LARGE_NUMBER, 0)
    if whole:
        yield float(multiples[0])


def _texts(schema: JsonSchema) -> Iterator[str]:
    """Candidate texts: ordinary ones; without format, encoding or pattern also the shortest, a long and an odd one."""
    formed = _BY_FORMAT.get(schema.get("format", ""))
    least, most = _size(schema, "minLength", 0), _size(schema, "maxLength", _LONG_TEXT)
    if formed is not None:
        yield formed
    elif schema.get("contentEncoding") == "base64":
        yield from ("c2FtcGxl", "")
    elif "pattern" in schema:
        if (matches := matcher(schema["pattern"])) is not None:
            runs = _LITERAL.findall(schema["pattern"])[:20]
            yield from islice(filter(matches, (*_COMMON, *runs, "".join(runs))), 1)
    elif least <= MOST_CHARACTERS:
        yield _ORDINARY_TEXT[:most].ljust(least, "a")
        yield from ("a" * length for length in (least, max(least, most)) if length <= MOST_CHARACTERS)
        yield "Zoë\n日本 🙂"


_OF_BOTH: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(("items", "additionalProperties", "propertyNames"), lambda one, other: {"allOf": [one, other]}),
    "type": lambda one, other: other if other == "integer" or is_array(one) else one,
    "required": lambda one, other: [*dict.fromkeys((*one, *other))],
}
"""The rule that applies where two schemas have a keyword; of other keywords, the first schema's is used."""


def _both(one: JsonSchema, other: JsonSchema) -> JsonSchema:
    """A schema for values that two schemas accept, if possible: values are only guessed by it."""
    if not one:
        return other
    both = {key: rule(one[key], other[key]) for key, rule in _OF_BOTH.items() if key in one and key in other}
    new = {**other, **one, **both}
    if names := dict.fromkeys((*one.get("properties", ()), *other.get("properties", ()))):
        new["properties"] = {name: {"allOf": [_member(one, name), _member(other, name)]} for name in names}
    return new


def _member(schema: JsonSchema, name: str) -> Any:
    """The schema of one property; any value where a pattern may match its name."""
    others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
    return schema.get("properties", {}).get(name, others)


class NoSampleError(Exception):
    """No value was found that fits this part of a schema."""


@define(eq=False)
class Samples:
    """Generator of values for the parts of one schema; deterministic.

    The values are guesses, since much of JSON Schema can't be inverted; each part is checked against its schema, and
    the whole by the validator.

    Attributes:
        schema: The schema.
        accepts: The schema's validator.
        left: How many more guesses may be made; after that, optional parts are left out, and after 5,000 more all.
        deadline: When to end, by `time.monotonic`.
    """

    schema: JsonSchema
    accepts: Callable[[Any], bool]
    left: int = MOST_GUESSES
    deadline: float = math.inf
    _references: References = field(default=Factory(lambda self: References(self.schema), takes_self=True), init=False)

    def of(self, schema: JsonSchema | bool | None = None, level: int = 0) -> Iterator[Any]:
        """Distinct values for a part, or for the whole if `None`: an ordinary one first, then those at the bounds.

        At most 60 for a part, 500 for the whole.

        Raises:
            NoSampleError: None was found.
        """
        schema = self.schema if schema is None else schema
        most, seen = _MOST_VARIANTS if level else _MOST_SAMPLES, set[str]()
        for value in self._guesses(schema, level):
            self.left -= 1
            text = json.dumps(value)
            if text not in seen and (self.fits(schema, value) if level else self.accepts(value)):
                seen.add(text)
                yield value
            if len(seen) >= most or (seen and self.left < 0) or self._is_spent():
                break
        if not seen:
            raise NoSampleError

    def _is_spent(self) -> bool:
        """Whether there may be no more guesses, for required parts either."""
        return self.left < -MOST_GUESSES or time.monotonic() > self.deadline

    def fits(self, schema: JsonSchema | bool, value: Any) -> bool:
        """Whether a value fits a part of the schema."""
        return SchemaSearch(self._references).fits(schema, value)

    def flat(self, schema: JsonSchema | bool) -> JsonSchema:
        """A schema with its references and `allOf` merged in, as far as possible."""
        own: JsonSchema = {}
        waiting, seen = [schema], dict[int, Any]()
        for part in waiting:  # grows as parts are found
            if part is False:
                return {"enum": []}
            if not is_object(part) or id(part) in seen:
                continue
            seen[id(part)] = part
            waiting += [*self._references.targets(part), *part.get("allOf", ())]
            if not (self._references.legacy and "$ref" in part):  # which hides what is beside it
                own = _both(own, {key: rule for key, rule in part.items() if key not in _MERGED})
        return own

    def _guesses(self, schema: JsonSchema | bool, level: int) -> Iterator[Any]:
        if level > _MOST_LEVELS or self._is_spent():
            self.left -= 1  # many parts may end here without a guess
            return
        flat = self.flat(schema)
        yield from flat.get("examples", ())
        if "const" in flat:
            yield flat["const"]
        elif "enum" in flat:
            yield from flat["enum"]
        elif (choice := "anyOf" if "anyOf" in flat else "oneOf") in flat:
            rest = {key: rule for key, rule in flat.items() if key not in (choice, "default", "examples")}
            for alternative in flat[choice]:
                yield from self._guesses({"allOf": [alternative, rest]}, level)
        else:
            implied = (kind for kind, keywords in _IMPLIED if not flat.keys().isdisjoint(keywords))
            kinds = flat.get("type") or next(implied, "string")
            for kind in kinds if is_array(kinds) else (kinds,):
                with suppress(OverflowError):  # a bound exceeds the range of floats
                    yield from self._of_kind(kind, flat, level)
        if "default" in flat:
            yield flat["default"]

    def _of_kind(self, kind: str, flat: JsonSchema, level: int) -> Iterable[Any]:
        match kind:
            case "object":
                return self._objects(flat, level)
            case "array":
                return self._arrays(flat, level)
            case "string":
                return _texts(flat)
            case "integer" | "number":
                return _numbers(flat, whole=kind == "integer")
            case _:
                return (True, False) if kind == "boolean" else (None,)

    def _arrays(self, flat: JsonSchema, level: int) -> Iterator[list[Any]]:
        """Candidate arrays: an ordinary one, the shortest, the longest, then the ordinary one with each item varied."""
        first: Any = flat.get("prefixItems", ())
        rule = flat.get("items", True)
        if is_array(rule):  # of an older draft
            first, rule = rule, flat.get("additionalItems", True)
        least, most = _size(flat, "minItems", 0), _size(flat, "maxItems", _MOST_ITEMS)
        if least > _MOST_ITEMS:
            return
        head = [next(self.of(part, level + 1)) for part in first]
        if "contains" in flat:
            head += [next(self.of(flat["contains"], level + 1))] * min(_size(flat, "minContains", 1), _MOST_ITEMS)
        pool = self._pool(rule, level)
        longest = min(_MOST_ITEMS, _MOST_TEXT // max((len(json.dumps(each)) for each in pool), default=1))
        if least > longest:
            return

        def filled(length: int) -> list[Any]:
            items = pool if flat.get("uniqueItems") else pool * length
            return [*head, *items[: max(length - len(head), 0)]]

        ordinary = filled(max(least, min(1, most)))
        yield ordinary
        yield filled(least) if least else []
        if "maxItems" in flat and most <= longest:
            yield filled(most)
        parts = [*first, *(() if len(ordinary) <= len(head) else (rule,))]
        for place, part in enumerate(parts):
            for item in islice(self.of(part, level + 1), 1, None):
                yield [*ordinary[:place], item, *ordinary[place + 1 :]]

    def _pool(self, rule: Any, level: int) -> list[Any]:
        """Different values for the items of an array; none at the deepest level."""
        if not is_object(rule):
            return ["sample", "other", 3] if rule else []
        return list(islice(self._try(rule, level), 1 if self._is_late(level) else None))

    def _is_late(self, level: int) -> bool:
        """Whether optional parts are left out."""
        return level >= _FULL_LEVELS or self.left < 0

    def _try(self, rule: Any, level: int) -> Iterator[Any]:
        with suppress(NoSampleError):
            yield from self.of(rule, level + 1)

    def _objects(self, flat: JsonSchema, level: int) -> Iterator[JsonObject]:
        """Candidate objects: one with all properties, one with the required ones, then the first with each varied."""
        properties: JsonObject = flat.get("properties", {})
        required: Sequence[str] = flat.get("required", ())
        optional = {} if self._is_late(level) else properties
        variants: dict[str, list[Any]] = {}
        for name in dict.fromkeys((*optional, *required)):
            rule = properties.get(name, flat.get("additionalProperties", True))
            variants[name] = list(islice(self._try(rule, level), None if name in optional else 1))
        ordinary = {name: found[0] for name, found in variants.items() if found}
        ordinary |= self._more_entries(flat, ordinary, level)
        yield ordinary
        yield {name: ordinary[name] for name in required if name in ordinary}
        share = _MOST_VARIANTS if level else max(_FAIR_SHARE, _MOST_SAMPLES // max(len(variants), 1))
        for name, found in variants.items():
            yield from ({**ordinary, name: value} for value in found[1:share])

    def _more_entries(self, flat: JsonSchema, have: Mapping[str, Any], level: int) -> JsonObject:
        """Entries besides the named properties, if the schema defines them or requires a number of them."""
        rule, of_names = flat.get("additionalProperties", True), flat.get("propertyNames", True)
        wanted = max(_size(flat, "minProperties", 0) - len(have), 1 if is_object(rule) else 0)
        if rule is False or not wanted or level >= _MOST_LEVELS:
            return {}
        names = list(_KEYS)
        if is_object(of_names):
            spelled = [name for name in self._try({"type": "string", **of_names}, 0) if isinstance(name, str)]
            names = spelled if "format" in of_names else [*names, *spelled]
        taken = {*have, *flat.get("properties", ())}
        free = (name for name in dict.fromkeys(names) if name not in taken and self.fits(of_names, name))
        pool = self._pool(rule, level)
        return dict.fromkeys(islice(free, wanted), pool[0]) if pool else {}
