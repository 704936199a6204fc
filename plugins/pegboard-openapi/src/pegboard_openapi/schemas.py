"""Schemas of OpenAPI documents as JSON Schema, with what they refer to as `$defs`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import define, field, frozen

from pegboard.json import is_array, is_object
from pegboard.schema import NAMED, NOTES, ONE, SOME
from pegboard.typing import JsonObject, JsonSchema
from pegboard_openapi.document import Document, DocumentError, Source

_DROPPED: Final = frozenset(
    {"$anchor", "$comment", "$defs", "$id", "$schema", "definitions", "discriminator", "example", "externalDocs"}
    | {"id", "readOnly", "writeOnly", "xml"}
)
"""Keywords that say nothing to a validator or a model, or would change what references mean elsewhere."""

_COMPOSED: Final = frozenset({"$ref", "allOf", "anyOf", "const", "not", "oneOf"})  # of which null has to be an option
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_BOUNDS: Final = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
_LEFTOVERS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "$recursiveAnchor": lambda _: True,
    "$recursiveRef": lambda rule: rule == "#",
    "description": lambda rule: not isinstance(rule, str),
    "examples": lambda rule: not is_array(rule),
    "exclusiveMaximum": lambda rule: isinstance(rule, bool),
    "exclusiveMinimum": lambda rule: isinstance(rule, bool),
    "items": is_array,
    "nullable": lambda _: True,
    "required": lambda rule: isinstance(rule, bool),
}
"""Keyword that OpenAPI 3.0 or an earlier draft defines otherwise -> whether a value is one by that definition."""


@frozen(eq=False)
class ConvertedSchema:
    """A schema as JSON Schema.

    Attributes:
        schema: Its references lead to `$defs`.
        names: The definitions that it refers to.
    """

    schema: Any
    names: frozenset[str]


@define(eq=False)
class Definitions:
    """The schemas of one document that others refer to, each converted once, as requests have them.

    Attributes:
        document: The document.
        repairs: What was repaired: keyword -> where.
    """

    document: Document
    repairs: dict[str, dict[str, None]] = field(factory=dict[str, dict[str, None]], init=False)
    _names: dict[tuple[str, str], str] = field(factory=dict[Any, str], init=False)
    _numbers: dict[str, int] = field(factory=dict[str, int], init=False)  # the last one at the end of a name
    _places: dict[str, tuple[Any, Source, str]] = field(factory=dict[str, Any], init=False)
    _made: dict[str, ConvertedSchema | DocumentError] = field(factory=dict[str, Any], init=False)

    def convert(self, schema: Any, source: Source, owner: str, pointer: str | None = None) -> ConvertedSchema:
        """A schema in a file of the document as JSON Schema.

        Args:
            schema: As it is written.
            source: The file that it is in.
            owner: Where it is, for people.
            pointer: The JSON pointer to it, if a reference leads to it.

        Raises:
            DocumentError: A reference leads nowhere.
        """
        conversion = _Conversion(self, source, owner, pointer)
        return ConvertedSchema(conversion.convert(schema), frozenset(conversion.names))

    def collect(self, names: Iterable[str]) -> JsonObject:
        """The definitions of these names, and all that they refer to, by name."""
        found: dict[str, Any] = {}
        waiting = sorted(names, reverse=True)  # in order, as converting one may number the names of others
        while waiting:
            name = waiting.pop()
            if name not in found:
                made = self._definition(name)
                found[name] = made.schema
                waiting += sorted(made.names - found.keys(), reverse=True)
        return {name: found[name] for name in sorted(found)}

    def name_of(self, reference: str, source: Source) -> str:
        """The name of the definition that a reference leads to."""
        value, target, pointer = self.document.target(reference, source)
        key = target.location, pointer
        known = self._names.get(key)
        if known is None:
            plain = _NOT_IN_NAMES.sub("_", pointer.rpartition("/")[2])[:60] or "root"
            number, known = self._numbers.get(plain, 1), plain
            while known in self._places:
                number += 1
                known = f"{plain}_{number}"
            self._numbers[plain] = number
            self._names[key] = known
            self._places[known] = value, target, pointer
        return known

    def _definition(self, name: str) -> ConvertedSchema:
        made = self._made.get(name)
        if made is None:
            value, source, pointer = self._places[name]
            try:
                made = self.convert(value, source, name, pointer)
            except DocumentError as error:
                made = DocumentError(f"in the schema {name!r}: {error}")
            self._made[name] = made
        if isinstance(made, DocumentError):
            raise made
        return made


@define(eq=False)
class _Conversion:
    """Conversion of one schema, without what it refers to."""

    definitions: Definitions
    source: Source
    owner: str
    pointer: str | None
    names: set[str] = field(factory=set[str], init=False)

    def convert(self, schema: Any) -> Any:
        """A schema with its parts converted."""
        if isinstance(schema, bool):
            return schema
        if not is_object(schema):
            raise DocumentError(f"a schema isn't an object, but {type(schema).__name__}")
        if self._is_3_0 and isinstance(schema.get("$ref"), str):  # its siblings count since 3.1; notes do no harm
            schema = {key: rule for key, rule in schema.items() if key == "$ref" or key in NOTES}
        new: JsonSchema = {
            keyword: self._rule(keyword, rule)
            for keyword, rule in _without_read_only(schema).items()
            if keyword not in _DROPPED and not keyword.startswith("x-")
        }
        if not _LEFTOVERS.keys().isdisjoint(new):
            self._repair(new)
        return new

    def _rule(self, keyword: str, rule: Any) -> Any:
        """The value of a keyword."""
        if keyword in ONE and isinstance(rule, dict | bool):
            return self.convert(rule)
        if keyword in NAMED and is_object(rule):
            return self._by_name(keyword, rule)
        if keyword in SOME and is_array(rule):
            return [self.convert(part) for part in rule]
        return self._reference(rule) if keyword == "$ref" and isinstance(rule, str) else rule

    @property
    def _is_3_0(self) -> bool:
        return self.definitions.document.minor == 0

    def _by_name(self, keyword: str, rule: JsonObject) -> JsonObject:
        """Schemas by name, without properties that only answers have."""
        return {
            name: self.convert(part) if isinstance(part, dict | bool) else part
            for name, part in rule.items()
            if keyword != "properties" or not _is_read_only(part)
        }

    def _reference(self, reference: str) -> str:
        name = self.definitions.name_of(reference, self.source)
        self.names.add(name)
        return f"#/$defs/{name}"

    def _repair(self, new: JsonSchema) -> None:
        """Rewrites what is OpenAPI 3.0's or an earlier draft's; in later documents, such parts are reported."""
        strange = [word for word, is_strange in _LEFTOVERS.items() if word in new and is_strange(new[word])]
        for word in strange if not self._is_3_0 else ():
            self.definitions.repairs.setdefault(word, {})[self.owner] = None
        values = {word: new.pop(word) for word in strange}
        for bound, limit in _BOUNDS:
            if values.get(bound) is True and limit in new:
                new[bound] = new.pop(limit)
        if "items" in values:
            new["prefixItems"] = values["items"]
        if "$recursiveRef" in values:
            if self.pointer is None:
                raise DocumentError("$recursiveRef is supported in schemas that references lead to only")
            new["$ref"] = self._reference(f"#{self.pointer}")
        if values.get("nullable") is True:
            _allow_null(new)


def _is_read_only(schema: Any) -> bool:
    return is_object(schema) and schema.get("readOnly") is True


def _without_read_only(schema: JsonSchema) -> JsonSchema:
    """A schema that doesn't require properties that only answers have."""
    properties, required = schema.get("properties"), schema.get("required")
    if not is_object(properties) or not is_array(required) or not any(map(_is_read_only, properties.values())):
        return schema
    return {**schema, "required": [name for name in required if not _is_read_only(properties.get(name))]}


def _allow_null(schema: JsonSchema) -> None:
    """Makes a schema accept null, too."""
    if not _COMPOSED.isdisjoint(schema):
        rest = {key: rule for key, rule in schema.items() if key not in NOTES}
        notes = {key: rule for key, rule in schema.items() if key in NOTES}
        schema.clear()
        schema.update({"anyOf": [rest, {"type": "null"}], **notes})
        return
    if is_array(options := schema.get("enum")) and None not in options:
        schema["enum"] = [*options, None]
    if "type" in schema:
        kind = schema["type"]
        schema["type"] = list(dict.fromkeys((*(kind if is_array(kind) else (kind,)), "null")))


def repair_texts(repairs: Mapping[str, Mapping[str, None]]) -> list[str]:
    """What was repaired, in one line for each keyword."""
    lines: list[str] = []
    for keyword, owners in sorted(repairs.items()):
        some = list(owners)
        more = f" and {len(some) - 3} more" if len(some) > 3 else ""
        lines.append(f"{keyword!r}, of an earlier version, was repaired in {', '.join(some[:3])}{more}")
    return lines
