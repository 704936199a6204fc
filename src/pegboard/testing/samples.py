"""`Samples`: values that a JSON Schema takes, ordinary ones and those at its bounds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from attrs import define, field

from pegboard.schema.json import is_array, is_object
from pegboard.schema.messages import SchemaSearch, holds
from pegboard.schema.references import References
from pegboard.typing import JsonObject, JsonSchema

_IMPLIED: Final = (
    ("object", ("properties", "required", "additionalProperties", "minProperties", "patternProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
    ("string", ("minLength", "maxLength", "pattern", "format", "contentEncoding")),
    ("integer", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
_ORDINARY_NUMBER: Final = 3
_LARGE_NUMBER: Final = 2**31  # past the range of 32 bits, where code that meets it for the first time goes wrong
_COMMON: Final = (  # texts as patterns ask for: names, versions, dates, codes, digests
    *(
        "sample",
        "a",
        "A",
        "0",
        "1",
        "",
        "aa",
        "aaa",
        "aaaa",
        "AA",
        "AAA",
        "AAAA",
        "00",
        "000",
        "0000",
        "00000",
        "000000",
    ),
    *("12.50", "-1", "+1", "1.0.0", "v1", "v1.0.0", "a1", "A1", "a0", "a-b", "a_b", "a.b", "a/b", "/a", "/a/b", "./a"),
    *("a.txt", "a b", "a,b", "a:b", "a=b", "AAA-0000", "AAA-000", "AA-00", "A-1", "en", "en-US", "en_US", "EUR"),
    *("2024", "2024-02", "2024-02-29", "12:30", "12:30:00", "2024-02-29T12:30:00Z", "1h", "10s", "5m", "50%", "$a"),
    *("#00ff00", "#fff", "@sample", "#sample", "0x1f", "00ff00", "sample@example.org", "https://example.org/"),
    *("example.org", "localhost:8080", "192.0.2.1", "+4912345678", "123e4567-e89b-42d3-a456-426614174000"),
    *("0" * 8, "0" * 16, "0" * 32, "0" * 40, "0" * 64, "sha256:" + "0" * 64, "\t", "\n"),
)
MOST_CHARACTERS: Final = 100_000  # the longest text that is tried
_ORDINARY_TEXT: Final = "sample"
_LONG_TEXT: Final = 1_000
_BY_FORMAT: Final[Mapping[str, str]] = {
    "date": "2024-02-29",
    "date-time": "2024-02-29T12:30:00+00:00",
    "duration": "P1DT2H",
    "email": "sample@example.org",
    "hostname": "example.org",
    "idn-email": "sample@example.org",
    "idn-hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "iri": "https://example.org/",
    "iri-reference": "/sample",
    "json-pointer": "/sample",
    "regex": "^a+$",
    "relative-json-pointer": "0/sample",
    "time": "12:30:00",
    "uri": "https://example.org/",
    "uri-reference": "/sample",
    "uri-template": "https://example.org/{sample}",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
}
"""Values of RFC 3339, 4122, 5321, ... as JSON Schema's "format" vocabulary names them."""
_MOST_SAMPLES: Final = 500  # of a whole schema
_MOST_VARIANTS: Final = 60  # of one part of a schema
MOST_GUESSES: Final = 5_000  # for one schema; some 50 us each
_MOST_LEVELS: Final = 12
_FULL_LEVELS: Final = 4
_MOST_ITEMS: Final = 1_000
_FAIR_SHARE: Final = 6
_KEYS: Final = ("sample", "other", "third", "a", "A", "1", "2", "3", "x-sample", "sample_key")


def _kinds_of(schema: JsonSchema) -> tuple[str, ...]:
    """The kinds to make values of: those that `type` names, or what the other keywords speak of."""
    named = schema.get("type")
    if named is not None:
        return tuple(named) if is_array(named) else (named,)
    return next(((kind,) for kind, keywords in _IMPLIED if any(each in schema for each in keywords)), ("string",))


def _numbers(schema: JsonSchema, *, whole: bool) -> Iterator[tuple[str, Any]]:
    low, high = (_bound(schema, name, whole=whole) for name in ("Minimum", "Maximum"))
    step = schema.get("multipleOf", 1)
    for guess in (_ORDINARY_NUMBER, 0, _between(low, high), low, high):
        if guess is not None:
            yield "sample", _stepped(guess, step)
    if not whole:
        yield "sample", _between(low, high)
        yield "a fraction", 0.5
    yield "the least", low if low is not None else -_LARGE_NUMBER
    yield "the most", high if high is not None else _LARGE_NUMBER
    yield "zero", 0
    if whole:
        yield "a whole number as a fraction", float(_stepped(_ORDINARY_NUMBER, step))


def _bound(schema: JsonSchema, name: str, *, whole: bool) -> Any:
    """The `"Minimum"` or `"Maximum"` that the bounds let through, or `None`."""
    sign = 1 if name == "Minimum" else -1
    bounds = [schema[name.lower()]] if name.lower() in schema else []
    beyond = schema.get(f"exclusive{name}")
    if isinstance(beyond, int | float) and not isinstance(beyond, bool):
        bounds.append(sign * (math.floor(sign * beyond) + 1) if whole else math.nextafter(beyond, sign * math.inf))
    bound = max(bounds, key=lambda each: sign * each, default=None)
    return sign * math.ceil(sign * bound) if whole and bound is not None else bound


def _between(low: Any, high: Any) -> Any:
    if low is None or high is None:
        return low if high is None else high
    return low + (high - low) / 2


def _stepped(guess: Any, step: Any) -> Any:
    """The first multiple of `step` from `guess` on."""
    return guess if step == 1 else math.ceil(guess / step) * step


def _word_for(pattern: str) -> str | None:
    """A common text in which the validator finds the pattern, or `None`: then an example has to show one."""
    try:
        return next((word for word in _COMMON if holds("pattern", pattern, word)), None)
    except ValueError:  # no pattern at all
        return None


def _texts(schema: JsonSchema) -> Iterator[tuple[str, str]]:
    """Texts with what is special about each; the caller holds them against the schema.

    Where there is a format, an encoding or a pattern, only ordinary ones are made.
    """
    formed = _BY_FORMAT.get(schema.get("format", ""))
    if formed is not None:
        yield "sample", formed
    elif schema.get("contentEncoding") == "base64":
        yield from (("sample", "c2FtcGxl"), ("nothing", ""))
    elif "pattern" in schema:
        word = _word_for(schema["pattern"])
        if word is not None:
            yield "sample", word
    else:
        yield from _by_length(schema.get("minLength", 0), schema.get("maxLength"))


def _by_length(least: int, most: int | None) -> Iterator[tuple[str, str]]:
    if least > MOST_CHARACTERS:
        return
    yield "sample", _ORDINARY_TEXT[:most].ljust(least, "a")
    yield "the shortest text", "a" * least
    if most is None:
        yield "a long text", "a" * max(_LONG_TEXT, least)
    elif most <= MOST_CHARACTERS:
        yield "the longest text", "a" * most
    yield "a text of several lines and scripts", "Zoë\n日本 🙂"


class NoSampleError(Exception):
    """No value is known that this part of a schema takes."""


class Sample(NamedTuple):
    """A value, and what is special about it; an ordinary one is called `"sample"`."""

    label: str
    value: Any


@define(eq=False)
class Samples:
    """Makes values for the parts of one schema; the same in every run.

    What it makes is a guess (much of JSON Schema can't be turned round), held against the schema by parts,
    and as a whole by its validator.

    Attributes:
        references: Of the schema.
        accepts: The schema's validator.
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
            if len(seen) >= (_MOST_VARIANTS if level else _MOST_SAMPLES) or (seen and self.left < 0):
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
        return SchemaSearch(self.references).fits(schema, value)

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
            for kind in _kinds_of(flat):
                yield from self._of_kind(kind, flat, level)

    def _of_kind(self, kind: str, flat: JsonSchema, level: int) -> Iterator[Sample]:
        match kind:
            case "object":
                return self._object(flat, level)
            case "array":
                return self._array(flat, level)
            case "string":
                return (Sample(*each) for each in _texts(flat))
            case "integer" | "number":
                return (Sample(*each) for each in _numbers(flat, whole=kind == "integer"))
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
        share = _MOST_VARIANTS if level else max(_FAIR_SHARE, _MOST_SAMPLES // max(len(variants), 1))
        for name, found in variants.items():
            for label, value in found[1:share]:
                yield Sample(f"{label} for {name!r}", {**ordinary, name: value})

    def _more_entries(self, flat: JsonSchema, have: Mapping[str, Any], level: int) -> JsonObject:
        """Entries beside the named properties, where a schema defines them, or how many there must be."""
        rule = flat.get("additionalProperties", True)
        wanted = max(flat.get("minProperties", 0) - len(have), 1 if is_object(rule) else 0)
        if rule is False or not wanted or level >= _MOST_LEVELS:
            return {}
        names = (name for name in self._keys(flat) if name not in have and name not in flat.get("properties", {}))
        pool = self._pool(rule, level)
        return dict.fromkeys(islice(names, wanted), pool[0]) if pool else {}

    def _keys(self, flat: JsonSchema) -> Iterator[str]:
        rule = flat.get("propertyNames", True)
        named = () if isinstance(rule, bool) else self._tried({"type": "string", **rule}, 0)
        spelled = [sample.value for sample in named if isinstance(sample.value, str)]
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
