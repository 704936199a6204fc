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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

from attrs import frozen

from pegboard.json import json_problems, strict_json
from pegboard.schema.messages import type_of
from pegboard.schema.references import References
from pegboard.text import visible
from pegboard.typing import JsonMapping, JsonObject, JsonSchema

ALL_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_IMPLIED: Final = {
    "properties": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
}
_MOST_PARTS: Final = 200
MOST_FILE_BYTES: Final = 10_000_000


@frozen(eq=False, slots=False)  # attrs' cached properties of a class with slots take five times as long
class SchemaType:
    """Types, properties and keywords of a value by its JSON Schema; references (`#/...`) point into the root."""

    schema: Any
    root: Any

    @cached_property
    def parts(self) -> tuple[dict[str, Any], ...]:
        """The schema flattened: references followed, alternatives listed."""
        return tuple(_parts(self.schema, self.root))

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
        return tuple(member for part in self.parts for member in _named(part))

    @property
    def properties(self) -> dict[str, SchemaType]:
        """The named properties of an object, in the schema's order."""
        found: dict[str, SchemaType] = {}
        for part in self.parts:
            for name, schema in _object(part.get("properties")).items():
                found.setdefault(name, SchemaType(schema, self.root))
        return found

    @property
    def required(self) -> frozenset[str]:
        """The names of the properties that an object needs."""
        return frozenset(name for part in self.parts for name in _list(part.get("required")) if isinstance(name, str))

    def child(self, name: str) -> SchemaType:
        """The type of a property, by `properties` or else `additionalProperties`."""
        named = self.properties.get(name)
        if named is not None:
            return named
        rest = [part.get("additionalProperties", True) for part in self.parts if "object" in _types(part)]
        return SchemaType({"anyOf": rest or [False]}, self.root)

    def item(self, index: int) -> SchemaType:
        """The type of the array item at an index."""
        found: list[Any] = []
        for part in self.parts:
            if "array" in _types(part):
                first = _list(part.get("prefixItems"))
                found.append(first[index] if index < len(first) else part.get("items", True))
        return SchemaType({"anyOf": found or [False]}, self.root)

    @cached_property
    def keywords(self) -> Mapping[str, Any]:
        """The keywords of the schema itself, then those of its parts; the first value of each counts."""
        return {name: value for part in (*self.parts[::-1], _object(self.schema)) for name, value in part.items()}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _named(part: dict[str, Any]) -> list[Any]:
    return _list(part.get("enum")) or ([part["const"]] if "const" in part else [])


def _parts(schema: Any, root: Any) -> Iterator[dict[str, Any]]:
    """The flattened schema, bounded to 200 steps."""
    pending: list[Any] = [schema]
    followed: set[str] = set()
    for _ in range(_MOST_PARTS):
        if not pending:
            return
        here: Any = pending.pop(0)
        if here is True:
            yield {}
        if not isinstance(here, dict):
            continue
        below = _below(here, root, followed)  # pyright: ignore[reportUnknownArgumentType]
        pending[:0] = below
        if not below or _types(here) != ALL_TYPES:  # pyright: ignore[reportUnknownArgumentType]
            yield here  # pyright: ignore[reportUnknownVariableType]


def _below(schema: dict[str, Any], root: Any, followed: set[str]) -> list[Any]:
    """The alternatives of a schema and the target of its reference, each reference followed once."""
    below = [part for word in ("anyOf", "oneOf", "allOf") for part in _list(schema.get(word))]
    reference = schema.get("$ref")
    if isinstance(reference, str):
        below.append(None if reference in followed else References(root).target(reference))
        followed.add(reference)
    return below


def _types(part: dict[str, Any]) -> frozenset[str]:
    """The types that a flat schema allows; all if it names none."""
    named = part.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(name for name in named if isinstance(name, str))  # pyright: ignore[reportUnknownVariableType]
    named = _named(part)
    if named:
        return frozenset(map(type_of, named))
    return frozenset(kind for word, kind in _IMPLIED.items() if word in part) or ALL_TYPES


class WordError(ValueError):
    """A word of the command line that isn't a valid argument."""


def read_arguments(words: Iterable[str], schema: JsonSchema, base: JsonMapping | None = None) -> JsonObject:
    """Parses words into arguments, over those of `base`; the tool's schema gives types: nothing is validated.

    Raises:
        WordError: A word has no `=`, no key, invalid JSON, or an unreadable file; a key is repeated but isn't an
            array, or conflicts with one of its parts (`a=... a.b=...`).
    """
    root = SchemaType(schema, schema)
    arguments: JsonObject = json.loads(json.dumps(base)) if base else {}
    hints: dict[tuple[str, ...], SchemaType] = {}
    given: dict[tuple[str, ...], list[tuple[str, str, bool]]] = {}
    words = [*words]
    for word in words:
        if "=" not in word:
            raise WordError(f"{word!r} is not an argument: write {_suggestion(word, words, root)}")
        parted = _parted(word)
        path, hint = place(parted[0], root)
        hints[path] = hint
        given.setdefault(path, []).append(parted)
    for path in sorted(given, key=len):
        _put(arguments, given[path][0][0], path, _value(given[path], hints[path]))
    return arguments


def _suggestion(value: str, words: Iterable[str], root: SchemaType) -> str:
    """How to write a value without a key: as the first argument that isn't given, required ones before others."""
    free = root.properties.keys() - {word.partition("=")[0].removesuffix(":") for word in words if "=" in word}
    names = [name for name in root.properties if name in free]
    for name in sorted(names, key=lambda name: name not in root.required):
        return shlex.quote(visible(f"{name}={value}"))
    return "key=value, or key:=JSON"


def read_words(words: Iterable[str]) -> JsonObject:
    """Parses `k=v` words into a flat mapping of texts (`k:=JSON`: of JSON); the last of a key counts."""
    state: JsonObject = {}
    for word in words:
        key, text, is_json = _parted(word)
        state[key] = _json(key, text) if is_json else text
    return state


def typed(text: str, hint: SchemaType) -> Any:
    """A text as a JSON value of a type that the schema allows, or else the text itself."""
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


def _parted(word: str) -> tuple[str, str, bool]:
    """Splits a word into key, text and whether the text is JSON; reads files."""
    key, sign, text = word.partition("=")
    if not sign:
        raise WordError(f"{word!r} is not an argument: write key=value, or key:=JSON")
    is_json = key.endswith(":")
    key = key.removesuffix(":")
    if not key:
        raise WordError(f"{word!r} has no key before the '='")
    if text.startswith("@@") and not is_json:
        return key, text[1:], is_json
    if text.startswith("@"):
        text = file_text(f"{key}={text}", text[1:], f"; for a text that begins with '@', write {key}=@{text}")
    return key, text, is_json


def file_text(word: str, name: str, hint: str = "") -> str:
    """The text of a file that a word of the command line names; else a `WordError`, which may end with the hint."""
    try:
        with Path(name).expanduser().open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
        if len(data) > MOST_FILE_BYTES:
            raise WordError(f"{word}: the file is larger than {MOST_FILE_BYTES:,} bytes")
        return data.decode()
    except OSError as error:
        raise WordError(f"{word}: {error.strerror or error}{hint}") from None
    except UnicodeDecodeError:
        raise WordError(f"{word}: the file isn't UTF-8 text") from None


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


def _value(parted: Sequence[tuple[str, str, bool]], hint: SchemaType) -> Any:
    key, text, is_json = parted[0]
    if len(parted) > 1:
        if "array" not in hint.types:
            raise WordError(f"{key} is given {len(parted)} times but takes one value")
        return [_read(*each, hint.item(index)) for index, each in enumerate(parted)]
    value = _read(key, text, is_json, hint)
    if not is_json and isinstance(value, str) and not hint.types & {"string"} and "array" in hint.types:
        return [typed(text, hint.item(0))]
    return value


def _read(key: str, text: str, is_json: bool, hint: SchemaType) -> Any:
    return _json(key, text) if is_json else typed(text, hint)


def _json(key: str, text: str) -> Any:
    try:
        return _strict(text)
    except ValueError as error:
        raise WordError(f"{key}:= needs valid JSON: {error}") from None


def _strict(text: str) -> Any:
    """Parses JSON strictly: no NaN, infinities or duplicate keys."""
    value: Any = strict_json(text.encode())
    if faults := json_problems({"value": value}):  # 1e999 is infinite
        raise ValueError(faults[0])
    return value


def _put(arguments: JsonObject, key: str, path: tuple[str, ...], value: Any) -> None:
    here = arguments
    for name in path[:-1]:
        below = here.setdefault(name, {})
        if not isinstance(below, dict):
            raise WordError(f"{key} sets a part of {name!r}, which is also given and isn't an object")
        here = cast("JsonObject", below)
    here[path[-1]] = value
