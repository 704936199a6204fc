"""Parser of `key=value` words: the arguments of a call, typed by the tool's schema.

    key=value     a member of an enum, or JSON of a type that the schema allows (null, a boolean, a number, an array,
                  an object); else the text itself
    key:=JSON     any JSON value
    key=@FILE     the text of a file; key:=@FILE its JSON; key=@@text is the text '@text'
    a.b=value     the property b of the object a
    key=x key=y   two items of an array

A value that doesn't fit is passed on as text: validation against the schema reports it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from attrs import frozen

from pegboard.json import is_array, is_object, json_problems, strict_json
from pegboard.schema.references import References
from pegboard.text import visible
from pegboard.typing import JsonMapping, JsonObject, JsonSchema

ALL_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_IMPLIED: Final = {"properties": "object", "additionalProperties": "object", "items": "array", "prefixItems": "array"}
_MOST_PARTS: Final = 200
MOST_FILE_BYTES: Final = 10_000_000
_HOW: Final = "key=value, or key:=JSON"


@frozen(eq=False, slots=False)  # attrs' cached properties of a class with slots take five times as long
class SchemaType:
    """Types, properties and keywords of a value by its JSON Schema; references (`#/...`) point into the root."""

    schema: Any
    root: Any

    @cached_property
    def parts(self) -> list[JsonObject]:
        """The schema flattened, in at most 200 steps: alternatives listed, each reference followed once."""
        found, followed, pending = list[JsonObject](), set[str](), [self.schema]
        for _ in range(_MOST_PARTS):
            if not pending:
                break
            part: Any = pending.pop(0)
            part = {} if part is True else part
            if not is_object(part):
                continue
            below = [each for word in ("anyOf", "oneOf", "allOf") for each in _items_of(part, word)]
            if isinstance(reference := part.get("$ref"), str):
                below.append(None if reference in followed else References(self.root).target(reference))
                followed.add(reference)
            pending[:0] = below
            if not below or _types(part) != ALL_TYPES:
                found.append(part)
        return found

    @cached_property
    def types(self) -> frozenset[str]:
        """The JSON types that it allows; all if it names none."""
        return frozenset[str]().union(*map(_types, self.parts))

    @property
    def is_open(self) -> bool:
        """Whether it names no type."""
        return self.types == ALL_TYPES

    @property
    def members(self) -> tuple[Any, ...]:
        """The values that an `enum` or a `const` names."""
        return tuple(member for part in self.parts for member in _members(part))

    @property
    def properties(self) -> dict[str, SchemaType]:
        """The named properties of an object, in the schema's order; the first schema of each counts."""
        named = (part["properties"].items() for part in self.parts if is_object(part.get("properties")))
        found: dict[str, SchemaType] = {}
        for name, schema in chain.from_iterable(named):
            found.setdefault(name, SchemaType(schema, self.root))
        return found

    @property
    def required(self) -> frozenset[str]:
        """The names of the properties that an object needs."""
        return frozenset(name for part in self.parts for name in _items_of(part, "required") if isinstance(name, str))

    def child(self, name: str) -> SchemaType:
        """The type of a property, by `properties` or else `additionalProperties`."""
        rest = [part.get("additionalProperties", True) for part in self.parts if "object" in _types(part)]
        return self.properties.get(name) or SchemaType({"anyOf": rest or [False]}, self.root)

    def item(self, index: int) -> SchemaType:
        """The type of the array item at an index."""
        found: list[Any] = []
        for part in self.parts:
            if "array" in _types(part):
                first = _items_of(part, "prefixItems")
                found.append(first[index] if index < len(first) else part.get("items", True))
        return SchemaType({"anyOf": found or [False]}, self.root)

    @cached_property
    def keywords(self) -> Mapping[str, Any]:
        """The keywords of the schema itself, then those of its parts; the first value of each counts."""
        own = self.schema if is_object(self.schema) else {}
        return {name: value for part in (*self.parts[::-1], own) for name, value in part.items()}


def _items_of(part: JsonObject, keyword: str) -> list[Any]:
    items = part.get(keyword)
    return items if is_array(items) else []


def _members(part: JsonObject) -> list[Any]:
    return _items_of(part, "enum") or ([part["const"]] if "const" in part else [])


def _types(part: JsonObject) -> frozenset[str]:
    """The types that a flat schema allows; all if it names none."""
    named = part.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if is_array(named):
        return frozenset(name for name in named if isinstance(name, str))
    if members := _members(part):
        from pegboard.schema.messages import type_of  # the texts of refusals are beside it; few listings need them

        return frozenset(map(type_of, members))
    return frozenset(_IMPLIED[word] for word in _IMPLIED if word in part) or ALL_TYPES


def read_arguments(words: Iterable[str], schema: JsonSchema, base: JsonMapping | None = None) -> JsonObject:
    """Parses words into arguments, over those of `base`; the tool's schema gives types: nothing is validated.

    Raises `click.ClickException` for a word that can't be read, and a key that is repeated or conflicts with another.
    """
    root, texts = SchemaType(schema, schema), [*words]
    arguments: JsonObject = json.loads(json.dumps(base)) if base else {}
    given: dict[tuple[str, ...], tuple[SchemaType, list[_Word]]] = {}
    for text in texts:
        word = _word(text, _suggestion(text, texts, root))
        path, hint = place(word.key, root)
        given.setdefault(path, (hint, []))[1].append(word)
    for path in sorted(given, key=len):
        hint, (first, *others) = given[path]
        value = first.value(hint)
        if others:
            if "array" not in hint.types:
                raise click.ClickException(f"{first.key} is given {len(others) + 1} times but takes one value")
            value = [word.value(hint.item(index)) for index, word in enumerate((first, *others))]
        elif isinstance(value, str) and not first.is_json and "array" in hint.types and "string" not in hint.types:
            value = [first.value(hint.item(0))]
        here = arguments
        for name in path[:-1]:
            here = here.setdefault(name, {})
            if not is_object(here):
                why = f"{first.key} sets a part of {name!r}, which is also given and isn't an object"
                raise click.ClickException(why)
        here[path[-1]] = value
    return arguments


def _suggestion(value: str, words: Iterable[str], root: SchemaType) -> str:
    """How to write a value without a key: as the first argument that isn't given, required ones before others."""
    given = {word.partition("=")[0].removesuffix(":") for word in words if "=" in word}
    free = sorted((name for name in root.properties if name not in given), key=lambda name: name not in root.required)
    return shlex.quote(visible(f"{free[0]}={value}")) if free else _HOW


def read_words(words: Iterable[str]) -> JsonObject:
    """Parses `k=v` words into a flat mapping of texts (`k:=JSON`: of JSON); the last of a key counts."""
    text = SchemaType({"type": "string"}, {})
    return {word.key: word.value(text) for word in map(_word, words)}


def convert_text(text: str, hint: SchemaType) -> Any:
    """A text as a JSON value of a type that the schema allows, or else the text itself."""
    from pegboard.schema.messages import type_of

    for member in hint.members:
        if text == (member if isinstance(member, str) else json.dumps(member)):
            return member
    with suppress(ValueError):
        # Surrounding whitespace, such as the last newline of a file, is allowed for objects and arrays only.
        value = _strict(text if text[:1] in "[{" or text == text.strip() else "")
        kind = type_of(value)
        if kind != "string" and hint.types & ({"integer", "number"} if kind in ("integer", "number") else {kind}):
            return value
    return text


class _Word(NamedTuple):
    """A word of the command line, `key=text` or `key:=text`."""

    key: str
    text: str
    is_json: bool

    def value(self, hint: SchemaType) -> Any:
        """Its value, typed by the schema unless it is JSON."""
        if not self.is_json:
            return convert_text(self.text, hint)
        try:
            return _strict(self.text)
        except ValueError as error:
            raise click.ClickException(f"{self.key}:= needs valid JSON: {error}") from None


def _word(word: str, instead: str = _HOW) -> _Word:
    """Parses a word; reads the file that it names. An error says what to write instead."""
    key, sign, text = word.partition("=")
    if not sign:
        raise click.ClickException(f"{word!r} is not an argument: write {instead}")
    is_json = key.endswith(":")
    key = key.removesuffix(":")
    if not key:
        raise click.ClickException(f"{word!r} has no key before the '='")
    if text.startswith("@@") and not is_json:
        text = text[1:]
    elif text.startswith("@"):
        text = file_text(f"{key}={text}", text[1:], f"; for a text that begins with '@', write {key}=@{text}")
    return _Word(key, text, is_json)


def file_text(word: str, name: str, hint: str = "", most: int | None = None) -> str:
    """The text of a file that a word names; else a `click.ClickException`, which may end with the hint."""
    most = most or MOST_FILE_BYTES
    try:
        with Path(name).expanduser().open("rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise click.ClickException(f"{word}: the file is larger than {most:,} bytes")
        return data.decode()
    except OSError as error:
        raise click.ClickException(f"{word}: {error.strerror or error}{hint}") from None
    except UnicodeDecodeError:
        raise click.ClickException(f"{word}: the file isn't UTF-8 text") from None


def place(key: str, root: SchemaType) -> tuple[tuple[str, ...], SchemaType]:
    """Path and type of a key's value: a property whose name has dots comes before parts of objects."""
    path: tuple[str, ...] = ()
    here, rest = root, key
    while rest not in here.properties:
        head, _, tail = rest.partition(".")
        below = here.child(head)
        if not head or not tail or "object" not in below.types:
            break
        path, here, rest = (*path, head), below, tail
    return (*path, rest), here.child(rest)


def _strict(text: str) -> Any:
    """Parses JSON strictly: no NaN, infinities or duplicate keys."""
    value: Any = strict_json(text.encode())
    if faults := json_problems({"value": value}):  # 1e999 is infinite
        raise ValueError(faults[0])
    return value
