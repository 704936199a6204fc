"""Steps for drafts, unknown keywords, formats, patterns and bounds; and limits on the size of a schema."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from pegboard.json import is_array, is_object, json_text
from pegboard.schema import NAMED, NOTES, ONE, SOME, References, Steps, compiled, parts_of, schemas
from pegboard.typing import JsonSchema
from pegboard_clients.dialects.dialect import (
    Change,
    Place,
    Rewritten,
    Step,
    described,
    distinct,
    everywhere,
    exchanged,
    from_outside,
    in_words,
    into_description,
    only,
    step_for,
    step_if,
    without,
)
from pegboard_clients.dialects.references import target_of

if TYPE_CHECKING:
    from jsonschema_rs import Validator

TYPES: Final = ("string", "integer", "number", "boolean", "object", "array", "null")
"""The types of JSON Schema."""

MOST_ERRORS: Final = 10_000
"""Validation errors of one schema, up to eight per fault; with more it is refused."""


def well_formed(schema: JsonSchema) -> Rewritten:
    """Drops what is invalid by draft 2020-12, so that later steps may rely on every rule's shape.

    In lists and maps of schemas, only the parts at fault; in an `enum`, duplicates.
    """
    changes: dict[Change, None] = {}
    while errors := [tuple(error.instance_path) for error in islice(_meta_schema().iter_errors(schema), MOST_ERRORS)]:
        if len(errors) == MOST_ERRORS:
            return Rewritten({"type": "object"}, (Change("", "", "not valid in too many places", refused=True),))
        wrong = sorted(set(errors))
        schema = json.loads(json_text(schema))
        for path in wrong:
            at = _keyword_at(path)
            changes[Change(Place(steps=path[:at]).path, str(path[at]), "not valid, left out")] = None
        for path in reversed(wrong):  # parts before their parents, and the last item of a list first
            holder: Any = schema
            for step in path[:-1]:
                holder = holder[step]
            del holder[path[-1]]
    if any(_repeats(part["enum"]) for part in schemas(schema) if "enum" in part):
        schema = _distinct_values(schema).schema
    return Rewritten(schema, tuple(changes))


@cache
def _meta_schema() -> Validator:
    return compiled('{"$ref": "https://json-schema.org/draft/2020-12/schema"}')


def _keyword_at(path: Steps) -> int:
    """The index of the keyword in a path from the root to a fault in its rule."""
    at = 0
    while True:
        steps = 1 if path[at] in ONE else 2 if path[at] in SOME | NAMED else len(path)
        if at + steps >= len(path):
            return at
        at += steps


def _repeats(values: list[Any]) -> bool:
    """Whether a value may occur twice; strings, of which most lists consist, needn't be compared as JSON."""
    return not all(type(value) is str for value in values) or len(set(values)) < len(values)


@everywhere
def _distinct_values(schema: JsonSchema, _place: Place) -> JsonSchema:
    values = distinct(schema.get("enum", []))
    return schema if len(values) == len(schema.get("enum", ())) else {**schema, "enum": values}


_CURRENT: Final = "2020-12"
_BESIDE_A_REFERENCE: Final = NOTES | {"$ref", "$defs", "definitions", "$id", "$schema"}


@step_if(lambda parts: "$schema" in parts[0] or any(_modern(part, hides=True) is not part for part in parts))
def modern_draft(schema: JsonSchema) -> Rewritten:
    """Converts keywords of older drafts to draft 2020-12; lossless.

    These are lists under `items` with `additionalItems`, `dependencies`, boolean exclusive bounds, `id`, and keywords
    next to a `$ref`, which are ignored there. A `$schema` that names another draft is dropped.
    """
    hides = References(schema).legacy
    own = everywhere(lambda part, _place: _modern(part, hides=hides))(schema).schema
    return Rewritten(own if _CURRENT in str(own.get("$schema", _CURRENT)) else without(own, {"$schema"}))


def _modern(schema: JsonSchema, *, hides: bool) -> JsonSchema:
    if hides and isinstance(schema.get("$ref"), str):
        schema = only(schema, _BESIDE_A_REFERENCE)
    if hides and isinstance(schema.get("id"), str):
        schema = without(schema, {"id"})
    schema = _with_dependents(_with_prefix(schema))
    schema = _with_bound(schema, "exclusiveMinimum", "minimum")
    return _with_bound(schema, "exclusiveMaximum", "maximum")


def _with_prefix(schema: JsonSchema) -> JsonSchema:
    first = schema.get("items")
    if not is_array(first):
        return schema
    rest = schema.get("additionalItems", True)
    schema = without(exchanged(schema, "items", "prefixItems", first), {"additionalItems"})
    if not first:
        schema = without(schema, {"prefixItems"})
    return schema if rest is True else {**schema, "items": rest}


def _with_dependents(schema: JsonSchema) -> JsonSchema:
    both = schema.get("dependencies")
    if not is_object(both):
        return schema
    names = {name: rule for name, rule in both.items() if is_array(rule)}
    others = {name: rule for name, rule in both.items() if not is_array(rule)}
    schema = without(schema, {"dependencies"})
    if names:
        schema["dependentRequired"] = names
    if others:
        schema["dependentSchemas"] = others
    return schema


def _with_bound(schema: JsonSchema, exclusive: str, bound: str) -> JsonSchema:
    """Converts draft 4's flag next to `minimum` to the keyword of later drafts."""
    flag = schema.get(exclusive)
    if not isinstance(flag, bool):
        return schema
    schema = without(schema, {exclusive})
    return exchanged(schema, bound, exclusive, schema[bound]) if flag and bound in schema else schema


_SILENT: Final = frozenset({"$comment", "$schema", "$id", "$anchor", "$dynamicAnchor", "$vocabulary", "title"})
_OTHERS: Final = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_WITH_ANOTHER: Final = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}


def only_keywords(kept: Collection[str]) -> Step:
    """The step that moves all keywords but some into the description."""
    stay = frozenset(kept)

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        if stay.issuperset(schema):
            return schema
        sentences: list[str] = []
        for keyword in schema:
            if keyword not in stay and keyword not in _SILENT and not _is_idle(keyword, schema):
                sentences.append(in_words(keyword, schema))
                place.lost(keyword, "moved into the description" if sentences[-1] else "left out")
        return described(only(schema, stay), *sentences)

    return from_outside(visit)


def _is_idle(keyword: str, schema: JsonSchema) -> bool:
    """Whether a keyword has no effect by itself, or none that matters to a model.

    A model doesn't make up further keys, whether they are refused or allowed.
    """
    rule = schema[keyword]
    idle = rule is False or rule in ({}, []) or (rule is True and keyword in _OTHERS)
    return idle or _WITH_ANOTHER.get(keyword) in schema


def short_descriptions(most: int) -> Step:
    """The step that cuts descriptions to a number of characters."""

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        text = schema.get("description")
        if not isinstance(text, str) or len(text) <= most:
            return schema
        place.lost("description", f"cut to {most:,} of {len(text):,} characters")
        return {**schema, "description": text[: most - 1] + "…"}

    return everywhere(visit)


def formats(known: Collection[str]) -> Step:
    """The step that moves formats that a provider doesn't know into the description."""

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        if "format" not in schema or schema["format"] in known:
            return schema
        return into_description(schema, place, ["format"], "not known to the provider, moved into the description")

    return step_for("format")(everywhere(visit))


_TOKEN: Final = re.compile(r"\\(?P<escape>.)|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<look>\(\?(?:<?[=!]|>))", re.DOTALL)


def patterns(*, word_bounds: bool = True) -> Step:
    r"""The step that moves patterns with look-around or backreferences into the description.

    Args:
        word_bounds: Whether the provider supports `\b` and `\B`.
    """

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        if "pattern" not in schema or is_plain(schema["pattern"], word_bounds=word_bounds):
            return schema
        why = "not supported by the provider's engine, moved into the description"
        return into_description(schema, place, ["pattern"], why)

    return step_for("pattern")(everywhere(visit))


def is_plain(pattern: str, *, word_bounds: bool = True) -> bool:
    r"""Whether a pattern has no look-around, atomic group or backreference, and `\b` only if `word_bounds`."""
    for token in _TOKEN.finditer(pattern):
        escape = token["escape"]
        if token["look"] or (escape and escape in "k123456789"):
            return False
        if escape and escape in "bB" and not word_bounds:
            return False
    return True


def least_items(most: int) -> Step:
    """The step that limits `minItems` to a number, and moves a larger one into the description."""

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        if schema.get("minItems", 0) <= most:
            return schema
        place.lost("minItems", f"written as {most}, and in full in the description")
        return described({**schema, "minItems": most}, in_words("minItems", schema))

    return step_for("minItems")(everywhere(visit))


@step_for("exclusiveMinimum", "exclusiveMaximum")
@everywhere
def whole_bounds(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Writes exclusive bounds of integers as inclusive ones: more than 3 is at least 4. Lossless."""
    if schema.get("type") != "integer":
        return schema
    for exclusive, bound, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        limit = schema.get(exclusive)
        if isinstance(limit, int):
            tighter = max if step == 1 else min
            schema = exchanged(schema, exclusive, bound, tighter(limit + step, schema.get(bound, limit + step)))
    return schema


@frozen
class Counts:
    """Size of a schema, or limits on it; as limits, `None` is no limit.

    Attributes:
        properties: In all objects together.
        levels: Objects within objects, the root being the first; a recursive type counts once.
        enum_values: In all `enum` and `const` together.
        characters: Of the names of properties and definitions, and of the values that are strings.
        optional: Properties that aren't required.
        unions: Properties of several types, or with `anyOf`.
    """

    properties: int | None = None
    levels: int | None = None
    enum_values: int | None = None
    characters: int | None = None
    optional: int | None = None
    unions: int | None = None


MOST_LEVELS: Final = 128
"""Depth to which a schema is measured: beyond all limits on levels."""

_WORDS: Final = {
    "properties": "properties",
    "levels": "levels of objects",
    "enum_values": "values of enums",
    "characters": "characters of names and values",
    "optional": "optional properties",
    "unions": "properties of several types",
}


@frozen
class Within:
    """The step that refuses a schema beyond limits."""

    limits: Counts

    def __call__(self, schema: JsonSchema) -> Rewritten:
        """The unchanged schema, refused for each limit that it exceeds."""
        counts = counts_of(schema)
        beyond = [
            Change("", "limits", f"{count} {_WORDS[name]}, at most {most} are accepted", refused=True)
            for name in _WORDS
            if (most := getattr(self.limits, name)) is not None and (count := getattr(counts, name)) > most
        ]
        return Rewritten(schema, tuple(beyond))


def counts_of(schema: JsonSchema) -> Counts:
    """The size of a schema whose references point to `$defs` at the root."""
    definitions: dict[str, JsonSchema] = schema.get("$defs", {})
    found: Counter[str] = Counter(
        {"levels": _height(schema, definitions, {}), "characters": sum(map(len, definitions))}
    )
    for part in {id(each): each for each in schemas(schema)}.values():
        _add(part, found)
    return Counts(**{name: found[name] for name in _WORDS})


def _height(schema: JsonSchema, definitions: dict[str, JsonSchema], known: dict[int, int], level: int = 0) -> int:
    """The levels of objects in a schema."""
    if id(schema) in known or level > MOST_LEVELS:
        return known.get(id(schema), 0)
    known[id(schema)] = 0  # for recursive types
    inner = [part for steps, part in parts_of(schema) if steps[0] != "$defs"]
    if (target := target_of(schema, definitions)) is not None:
        inner.append(target)
    heights = [_height(part, definitions, known, level + 1) for part in inner]
    known[id(schema)] = height = max(heights, default=0) + ("properties" in schema)
    return height


def _add(schema: JsonSchema, found: Counter[str]) -> None:
    if properties := schema.get("properties"):
        found["properties"] += len(properties)
        found["optional"] += len(properties.keys() - frozenset(schema.get("required", ())))
        parts: list[JsonSchema] = [part for part in properties.values() if is_object(part)]
        found["unions"] += sum("anyOf" in part or is_array(part.get("type")) for part in parts)
        found["characters"] += sum(map(len, properties))
    if "enum" in schema or "const" in schema:
        values: list[Any] = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
        found["enum_values"] += len(values)
        found["characters"] += sum(len(each) for each in values if isinstance(each, str))
