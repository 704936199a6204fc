"""`Dialect`: the subset of JSON Schema that a provider accepts, as rewriting steps; and their shared tree walk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import define, field, frozen

from pegboard.json import NotPlainError, canonical_json, count_text, is_array, is_object, json_text, plain_copy
from pegboard.schema import NOTES, Steps, mapped, schemas
from pegboard.typing import JsonObject, JsonSchema


@frozen
class Change:
    """One constraint that the rewritten schema lost.

    An equivalent form (`const` as `enum`, an inlined reference, an optional property as a required nullable one) is
    not a change.

    Attributes:
        path: Where, as a JSON pointer within the schema: `""` is the root, `"/properties/count"` a property. After
            earlier steps have moved something, its new place.
        keyword: The keyword at fault (`"minimum"`, `"$ref"`).
        what: What the step did with it, for people (`"moved into the description"`).
        refused: Whether the provider rejects schemas of this kind, at all or as strict ones.
    """

    path: str
    keyword: str
    what: str
    refused: bool = False


@frozen
class Rewritten:
    """A schema rewritten to a dialect, and its losses.

    Attributes:
        schema: The schema, not to be changed: its parts may be shared. If `refused` is true, it is only an
            approximation, and not to be sent.
        changes: The losses and refusals, in the order of the steps.
    """

    schema: JsonSchema
    changes: tuple[Change, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the dialect can't express the schema at all."""
        return any(change.refused for change in self.changes)


Step: TypeAlias = Callable[[JsonSchema], Rewritten]
"""Rewrites a schema into a new one, without changing it. A dialect's `rewrite` is a step too."""

_MAY_CHANGE: Final = "may_change"
_KEYWORDS: Final = "keywords"

MayChange: TypeAlias = Callable[[Sequence[JsonSchema]], bool]
"""Whether a step may change a schema, or lose something of it: gets every schema within it, itself first."""


def step_if(may_change: MayChange) -> Callable[[Step], Step]:
    """Decorator: a dialect skips the step for schemas that it can't change, which is most of them."""

    def mark(step: Step) -> Step:
        setattr(step, _MAY_CHANGE, may_change)
        return step

    return mark


def step_for(*keywords: str) -> Callable[[Step], Step]:
    """Decorator: a dialect runs the step only for schemas that have one of these keywords somewhere.

    That is cheaper than to ask the step, as the keywords of a schema are collected once for all steps.
    """

    def mark(step: Step) -> Step:
        setattr(step, _KEYWORDS, frozenset(keywords))
        return step

    return mark


Visit: TypeAlias = "Callable[[JsonSchema, Place], JsonSchema]"


@define
class Place:
    """Location of a schema within the root, with the shared list of changes."""

    above: Place | None = None
    steps: Steps = ()
    changes: list[Change] = field(factory=list[Change])

    @property
    def is_root(self) -> bool:
        """Whether this is the whole schema."""
        return self.above is None

    @property
    def path(self) -> str:
        """The location as a JSON pointer (RFC 6901)."""
        above = "" if self.above is None else self.above.path
        return "/".join([above, *(str(step).replace("~", "~0").replace("/", "~1") for step in self.steps)])

    def below(self, steps: Steps) -> Place:
        """The location of a part."""
        return Place(self, steps, self.changes)

    def lost(self, keyword: str, what: str) -> None:
        """Records a lost constraint."""
        self.changes.append(Change(self.path, keyword, what))

    def refused(self, keyword: str, what: str) -> None:
        """Records a constraint for which the schema is refused."""
        self.changes.append(Change(self.path, keyword, what, refused=True))


def walked(schema: JsonSchema, place: Place, visit: Visit) -> JsonSchema:
    """Visits every schema within `schema`, depth first, and `schema` itself last."""
    return visit(mapped(schema, lambda part, steps: walked(part, place.below(steps), visit)), place)


def from_outside(visit: Visit) -> Step:
    """The step that visits every schema within a schema, from the root down."""

    def walk(schema: JsonSchema, place: Place) -> JsonSchema:
        return mapped(visit(schema, place), lambda part, steps: walk(part, place.below(steps)))

    return _step_of(visit, walk)


def _step_of(visit: Visit, walk: Visit) -> Step:
    def may_change(parts: Sequence[JsonSchema]) -> bool:
        root = Place()
        below = root.below(())
        same = all(visit(part, below if place else root) is part for place, part in enumerate(parts))
        return not same or bool(root.changes)

    return step_if(may_change)(lambda schema: here(schema, walk))


def here(schema: JsonSchema, visit: Visit) -> Rewritten:
    """The result of a visit at the root."""
    place = Place()
    return Rewritten(visit(schema, place), tuple(place.changes))


def everywhere(visit: Visit) -> Step:
    """Decorator: a step that visits every schema within a schema, definitions too, depth first.

    `visit` gets a schema whose parts have been visited; it returns the same object, or a new one without changing it.
    """
    step = _step_of(visit, lambda schema, place: walked(schema, place, visit))
    step.__name__, step.__doc__ = visit.__name__, visit.__doc__
    return step


MOST_LEVELS: Final = 128
"""Nesting depth of a given schema; JSON parsers commonly read this much."""

MOST_VALUES: Final = 500_000
"""Values of a given schema; shared ones are count_text each time."""

MOST_WRITTEN: Final = 50_000
"""JSON values to which a step may expand a smaller schema."""


def deep_copy(value: Any) -> tuple[Any, str | None]:
    """A copy that shares no container with `value`, and `None`; or `{}` and the reason why it can't be copied.

    Args:
        value: Any value; one that isn't JSON, or beyond the limits (as a cycle is), can't be copied.
    """
    try:
        return plain_copy(value, MOST_LEVELS, [MOST_VALUES]), None
    except NotPlainError as error:
        return {}, str(error)


def without(schema: Mapping[str, Any], keywords: Collection[str]) -> JsonObject:
    """A copy without some keys."""
    return {key: value for key, value in schema.items() if key not in keywords}


def only(schema: Mapping[str, Any], keywords: Collection[str]) -> JsonObject:
    """A copy with some keys only."""
    return {key: value for key, value in schema.items() if key in keywords}


def exchanged(schema: Mapping[str, Any], old: str, new: str, value: Any) -> JsonObject:
    """A copy with one key replaced by another, in the same place; an earlier value of the new key is dropped."""
    return {
        (new if key == old else key): (value if key == old else each)
        for key, each in schema.items()
        if key == old or key != new
    }


def distinct(values: list[Any]) -> list[Any]:
    """The distinct JSON values, in order; compared as in JSON (`true` is not 1)."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(canonical_json(value), value)
    return list(found.values())


_MOST_SHOWN: Final = 200
_MOST_LISTED: Final = 50


def _as_json(value: Any) -> str:
    """A JSON value as text, cut after 200 characters."""
    text = str(json_text(value))
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _each_as_json(values: Sequence[Any]) -> str:
    """JSON values with commas between them, the first 50."""
    more = f" and {len(values) - _MOST_LISTED} more" if len(values) > _MOST_LISTED else ""
    return ", ".join(_as_json(value) for value in values[:_MOST_LISTED]) + more


def _count_limit(limit: str, noun: str) -> Callable[[Any], str]:
    return lambda count: f"{limit} {count_text(count, noun)}."


def _beside(rule: Mapping[str, Sequence[str]]) -> str:
    pairs = [f"With {name}, {', '.join(needed)} must be given too." for name, needed in rule.items() if needed]
    return " ".join(pairs[:_MOST_LISTED])


def _kind(part: Any) -> str:
    """A short text for a schema: its title, a plain type, or the schema itself."""
    known: JsonSchema = part if is_object(part) else {}
    plain = known.get("type") if set(known) == {"type"} else None
    return str(known.get("title") or plain or _as_json(part))


_WORDS: Final[Mapping[str, Callable[[Any], str]]] = {
    "minimum": lambda rule: f"At least {_as_json(rule)}.",
    "maximum": lambda rule: f"At most {_as_json(rule)}.",
    "exclusiveMinimum": lambda rule: f"More than {_as_json(rule)}.",
    "exclusiveMaximum": lambda rule: f"Less than {_as_json(rule)}.",
    "multipleOf": lambda rule: f"A multiple of {_as_json(rule)}.",
    "minLength": _count_limit("At least", "character"),
    "maxLength": _count_limit("At most", "character"),
    "pattern": lambda rule: f"Matches the pattern {rule}.",
    "format": lambda rule: f"Format: {rule}.",
    "contentEncoding": lambda rule: f"Encoded as {rule}.",
    "contentMediaType": lambda rule: f"Of the media type {rule}.",
    "minItems": _count_limit("At least", "item"),
    "maxItems": _count_limit("At most", "item"),
    "uniqueItems": lambda rule: "No item twice." if rule else "",
    "contains": lambda rule: f"Holds an item that fits {_as_json(rule)}.",
    "prefixItems": lambda rule: f"Its first items, in this order: {', '.join(map(_kind, rule[:_MOST_LISTED]))}.",
    "minProperties": _count_limit("At least", "key"),
    "maxProperties": _count_limit("At most", "key"),
    "propertyNames": lambda rule: f"Its keys fit {_as_json(rule)}.",
    "patternProperties": lambda rule: " ".join(
        f"Keys matching {pattern} hold {_as_json(part)}." for pattern, part in rule.items()
    ),
    "additionalProperties": lambda rule: f"Other keys hold {_as_json(rule)}." if rule else "",
    "dependentRequired": _beside,
    "dependentSchemas": lambda rule: f"Depending on its keys, it fits {_as_json(rule)}.",
    "default": lambda rule: f"Default: {_as_json(rule)}.",
    "examples": lambda rule: f"Examples: {_each_as_json(rule)}.",
    "enum": lambda rule: f"One of: {_each_as_json(rule)}.",
    "const": lambda rule: f"Always {_as_json(rule)}.",
    "anyOf": lambda rule: f"Fits one of: {_each_as_json(rule)}.",
    "oneOf": lambda rule: f"Fits exactly one of: {_each_as_json(rule)}.",
    "allOf": lambda rule: f"Fits all of: {_each_as_json(rule)}.",
    "not": lambda rule: f"Must not fit {_as_json(rule)}." if rule else "",
    "deprecated": lambda rule: "Deprecated." if rule else "",
    "readOnly": lambda rule: "Read only." if rule else "",
    "writeOnly": lambda rule: "Write only." if rule else "",
}


def in_words(keyword: str, schema: JsonSchema) -> str:
    """A keyword's constraint as a sentence; `""` if there is none."""
    if keyword != "if":
        words = _WORDS.get(keyword)
        return words(schema[keyword]) if words else ""
    ways = (("then", "it"), ("else", "otherwise it"))
    branches = [f"{what} fits {_as_json(schema[way])}" for way, what in ways if way in schema]
    return f"If it fits {_as_json(schema['if'])}: {'; '.join(branches)}." if branches else ""


def described(schema: JsonSchema, *sentences: str) -> JsonSchema:
    """A copy with sentences appended to its description, except for those already in it."""
    text = str(schema.get("description", ""))
    for sentence in filter(None, sentences):
        if sentence not in text:
            text = f"{text} {sentence}" if text else sentence
    return {**schema, "description": text} if text else dict(schema)


def into_description(schema: JsonSchema, place: Place, keywords: Sequence[str], what: str) -> JsonSchema:
    """A copy with some keywords moved to the end of its description, as sentences, and recorded as lost."""
    for keyword in keywords:
        place.lost(keyword, what)
    return described(without(schema, keywords), *(in_words(keyword, schema) for keyword in keywords))


@frozen
class Dialect:
    """Dialect of JSON Schema that a provider accepts: a name for tables, and the rewriting steps, in order."""

    name: str
    steps: tuple[Step, ...] = field(default=(), repr=False)

    def rewrite(self, schema: JsonSchema) -> Rewritten:
        """Rewrites a schema to this dialect; never raises because of its content, and takes bounded time.

        The result is deterministic, key for key, and idempotent.

        Args:
            schema: JSON Schema of any draft; not changed.

        Returns:
            A new schema, and its losses. A schema that isn't JSON, or exceeds the limits (128 levels, 500,000 values),
            is refused, and replaced by one for any object. One that a step makes larger than `MOST_WRITTEN` values is
            reduced to the properties at its root, with their types and notes.
        """
        own, fault = deep_copy(schema)
        if fault is not None:
            return Rewritten({"type": "object"}, (Change("", "", fault, refused=True),))
        changes: list[Change] = []
        parts = list(schemas(own))
        keywords = _keywords_of(parts)
        for step in self.steps:
            needed: frozenset[str] | None = getattr(step, _KEYWORDS, None)
            may_change: MayChange | None = getattr(step, _MAY_CHANGE, None)
            if needed is not None and needed.isdisjoint(keywords):
                continue
            if may_change is not None and not may_change(parts):
                continue
            stepped = step(own)
            changes += stepped.changes
            if stepped.schema is own:
                continue
            before, own, count = own, stepped.schema, len(parts)
            parts = list(schemas(own))
            is_marked = needed is not None or may_change is not None
            may_grow = not is_marked or len(parts) > count  # counting the values takes as long as three steps
            if may_grow and (size := size_of(own)) > MOST_WRITTEN and size > size_of(before):
                changes.append(Change("", "$defs", "too large once inlined; only the root is left"))
                own = _outline(own)
                parts = list(schemas(own))
            keywords = _keywords_of(parts)
        return Rewritten(own, tuple(dict.fromkeys(changes)))


def _keywords_of(parts: Sequence[JsonSchema]) -> frozenset[str]:
    return frozenset[str]().union(*parts)


def size_of(schema: Any, known: dict[int, int] | None = None) -> int:
    """The number of JSON values, shared ones count_text each time; takes time linear in the distinct ones."""
    if not is_object(schema) and not is_array(schema):
        return 1
    known = {} if known is None else known
    size = known.get(id(schema))
    if size is None:
        items: Any = schema.values() if is_object(schema) else schema
        size = known[id(schema)] = 1 + sum(size_of(item, known) for item in items)
    return size


def _outline(schema: JsonSchema) -> JsonSchema:
    properties: JsonSchema = {}
    for name, part in schema.get("properties", {}).items():
        if is_object(part):
            kept = only(part, ("type", "title", "description"))
            properties[name] = {**kept, "items": {}} if "array" in kept.get("type", ()) else kept
    return {**only(schema, NOTES | {"required"}), "type": "object", "properties": properties}


PLAIN: Final = Dialect("plain")
"""Nothing is rewritten."""
