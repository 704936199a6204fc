"""What stands where in a JSON Schema (2020-12): its subschemas, its references, its faults as a schema."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

import jsonschema
from attrs import frozen

Faults = list[str]

MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLE: Final = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
)


@frozen
class Place:
    """A subschema and where it stands.

    Attributes:
        path: From the root, as a JSON pointer; `""` for the root.
        schema: An object or a boolean.
        level: In how many objects it stands, itself counted if it is one.
    """

    path: str
    schema: Any
    level: int

    @property
    def words(self) -> Mapping[str, Any]:
        """Its keywords; none of a boolean."""
        return self.schema if isinstance(self.schema, dict) else {}

    @property
    def is_object(self) -> bool:
        return "object" in types_of(self.schema) or "properties" in self.words

    @property
    def is_array(self) -> bool:
        return "array" in types_of(self.schema)


def types_of(schema: Any) -> tuple[str, ...]:
    """What a schema says of the type, in small letters; nothing where it says nothing."""
    said = schema.get("type", ()) if isinstance(schema, dict) else ()
    return tuple(each.lower() for each in ([said] if isinstance(said, str) else said))


def children(schema: Any) -> Iterator[tuple[str, Any]]:
    """The subschemas right below one, each with the rest of its path."""
    if not isinstance(schema, dict):
        return
    for keyword in MAPS:
        for name, each in schema.get(keyword, {}).items():
            yield f"/{keyword}/{_escaped(name)}", each
    for keyword in LISTS:
        for number, each in enumerate(schema.get(keyword, ())):
            yield f"/{keyword}/{number}", each
    for keyword in SINGLE:
        if keyword in schema:
            yield f"/{keyword}", schema[keyword]


def places(schema: Any, path: str = "", level: int = 0) -> Iterator[Place]:
    """A schema and everything below it, as it stands: references aren't followed."""
    here = Place(path, schema, level)
    here = Place(path, schema, level + here.is_object)
    yield here
    for rest, each in children(schema):
        yield from places(each, path + rest, here.level)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def target(root: Any, reference: str) -> Any:
    """The subschema that a reference within a schema names; `None` where there is none."""
    home = _home(root, reference)
    return next((place.schema for place in places(root) if place.path == home), None)


def name_faults(names: Sequence[str], pattern: str) -> Faults:
    """The names that aren't as they must be, and those that are there twice."""
    found = [f"{name!r:.80}: no name like {pattern}" for name in names if re.fullmatch(pattern, name) is None]
    return found + [f"{name}: is there {count} times" for name, count in Counter(names).items() if count > 1]


def tool_schema_faults(schema: Any, not_at_root: Collection[str] = ()) -> Faults:
    """What keeps a schema from being one of a tool's arguments: its root is a plain object's."""
    found = schema_faults(schema)
    if not found and schema.get("type") != "object":
        found.append(": its root must have the type object")
    return found or [f": {word!r} must not stand at the root" for word in schema if word in not_at_root]


def schema_faults(schema: Any) -> Faults:
    """What keeps a schema from being one: by the meta-schema of 2020-12, and references that lead out or nowhere."""
    found = list(_meta_faults(json.dumps(schema)))
    for place in places(schema) if not found else ():
        reference = place.words.get("$ref")
        if reference is None:
            continue
        if not reference.startswith("#"):
            found.append(f"{place.path}: $ref {reference!r} leads elsewhere")
        elif target(schema, reference) is None:
            found.append(f"{place.path}: $ref {reference!r} leads nowhere")
    return found


@cache
def _meta_faults(text: str) -> tuple[str, ...]:
    """By the meta-schema, which takes some 6 ms a schema: exporters write many alike."""
    return tuple(
        f"{'/'.join(map(str, ('', *error.absolute_path)))}: no JSON Schema 2020-12: {error.message:.120}"
        for error in _META.iter_errors(json.loads(text))
    )


_META: Final = jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA)


def example_faults(schema: Any, example: Any) -> Faults:
    """Where an example doesn't fit a schema, by another validator than the board's."""
    return [
        f"{error.json_path}: {error.message:.120}"
        for error in jsonschema.Draft202012Validator(schema).iter_errors(example)
    ]


def keyword_faults(schema: Any, refused: frozenset[str], why: str) -> Faults:
    """The places where keywords stand that a dialect hasn't."""
    return [f"{place.path}: {word!r} {why}" for place in places(schema) for word in place.words if word in refused]


def property_faults(schema: Any, pattern: str) -> Faults:
    """The properties, at any depth, whose names aren't as they must be."""
    return [
        f"{place.path}/properties: {name!r:.80} must match {pattern}"
        for place in places(schema)
        for name in place.words.get("properties", ())
        if re.fullmatch(pattern, name) is None
    ]


def cycles(schema: Any, *, free: bool = False) -> Faults:
    """A way from which references lead back to where it began; empty where there is none.

    Args:
        schema: The root.
        free: Whether a way round through a property that may be left out is no cycle.
    """
    edges = {place.path: {_home(schema, each) for each in _references(place.schema, free)} for place in places(schema)}
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return [f"{error.args[1][0] or '/'}: comes back to itself by references"]
    return []


def _home(root: Any, reference: str) -> str:
    """The path of what a reference names."""
    fragment = urllib.parse.unquote(reference.removeprefix("#"))
    if not fragment or fragment.startswith("/"):
        return fragment
    return next((place.path for place in places(root) if place.words.get("$anchor") == fragment), reference)


def _references(schema: Any, free: bool) -> Iterator[str]:
    """The references in a schema; where `free`, without those below properties that may be left out."""
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("$ref"), str):
        yield schema["$ref"]
    required = {_escaped(name) for name in schema.get("required", ())}
    for rest, each in children(schema):
        _, keyword, name = (*rest.split("/", 2), "")[:3]
        is_free = free and keyword == "properties" and name not in required
        if keyword not in ("$defs", "definitions") and not is_free:
            yield from _references(each, free)
