"""`key=value` words of the command line -> the arguments of a call, typed by the tool's schema.

    key=value     read by the schema: null, a boolean or a number where it allows one and JSON spells it so, a member
                  of an enum, a JSON array or object where one is allowed; else the text as it is
    key:=JSON     any JSON value
    key=@FILE     the text of a file; key:=@FILE its JSON; key=@@text is the text '@text'
    a.b=value     the property b of the object a
    key=x key=y   two items of an array

A value that can't be read is passed on as text, so that the tool's own schema words the problem.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

from attrs import frozen

from pegboard.schema.json import json_faults, strict_json
from pegboard.schema.messages import type_of
from pegboard.schema.references import References
from pegboard.typing import JsonMapping, JsonObject, JsonSchema

ALL_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_SAYS_TYPE: Final = {"properties": "object", "additionalProperties": "object", "items": "array", "prefixItems": "array"}
_MOST_PARTS: Final = 200
MOST_FILE_BYTES: Final = 10_000_000


@frozen(eq=False)
class SchemaType:
    """Click type of one value, by its JSON Schema.

    Attributes:
        schema: An object or a boolean; anything else is ignored.
        root: What its references (`#/...`) point into.
    """

    schema: Any
    root: Any

    @cached_property
    def parts(self) -> tuple[dict[str, Any], ...]:
        """The plain schemas that it is made of: references followed, alternatives side by side."""
        return tuple(_parts(self.schema, self.root))

    @cached_property
    def types(self) -> frozenset[str]:
        """The JSON types that it allows; all of them where it names none."""
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
        """What is hinted of one property, named or not."""
        named = self.properties.get(name)
        if named is not None:
            return named
        rest = [part.get("additionalProperties", True) for part in self.parts if "object" in _types(part)]
        return SchemaType({"anyOf": rest or [False]}, self.root)

    def item(self, index: int) -> SchemaType:
        """What is hinted of one item of an array."""
        found: list[Any] = []
        for part in self.parts:
            if "array" in _types(part):
                first = _list(part.get("prefixItems"))
                found.append(first[index] if index < len(first) else part.get("items", True))
        return SchemaType({"anyOf": found or [False]}, self.root)

    @cached_property
    def keywords(self) -> Mapping[str, Any]:
        """The keywords in the schema itself, then those of its parts, of each the first value."""
        return {name: value for part in (*self.parts[::-1], _object(self.schema)) for name, value in part.items()}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _named(part: dict[str, Any]) -> list[Any]:
    return _list(part.get("enum")) or ([part["const"]] if "const" in part else [])


def _parts(schema: Any, root: Any) -> Iterator[dict[str, Any]]:
    """The plain schemas; of a tangle of references and alternatives, the first 200."""
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
    """The alternatives of a schema, and what its reference points to, once each."""
    below = [part for word in ("anyOf", "oneOf", "allOf") for part in _list(schema.get(word))]
    reference = schema.get("$ref")
    if isinstance(reference, str):
        below.append(None if reference in followed else References(root).target(reference))
        followed.add(reference)
    return below


def _types(part: dict[str, Any]) -> frozenset[str]:
    """The types that a plain schema allows; all where it names none."""
    named = part.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(name for name in named if isinstance(name, str))  # pyright: ignore[reportUnknownVariableType]
    named = _named(part)
    if named:
        return frozenset(map(type_of, named))
    return frozenset(kind for word, kind in _SAYS_TYPE.items() if word in part) or ALL_TYPES


class WordError(ValueError):
    """A word of the command line that can't become an argument; the text names which, why, and what to do."""


def read_arguments(words: Iterable[str], schema: JsonSchema, base: JsonMapping | None = None) -> JsonObject:
    """The arguments that these words give.

    Args:
        words: `key=value` each; see the module.
        schema: The tool's input schema; it types, it doesn't validate.
        base: Arguments that the words are put over (`--input-json`).

    Raises:
        WordError: A word has no `=`, no key, JSON that isn't, or a file that can't be read; a key is given twice
            and takes one value, or is given with and without a part of itself (`a=... a.b=...`).
    """
    root = SchemaType(schema, schema)
    arguments: JsonObject = json.loads(json.dumps(base)) if base else {}
    hints: dict[tuple[str, ...], SchemaType] = {}
    given: dict[tuple[str, ...], list[tuple[str, str, bool]]] = {}
    for word in words:
        parted = _parted(word)
        path, hint = place(parted[0], root)
        hints[path] = hint
        given.setdefault(path, []).append(parted)
    for path in sorted(given, key=len):
        _put(arguments, given[path][0][0], path, _value(given[path], hints[path]))
    return arguments


def read_words(words: Iterable[str]) -> JsonObject:
    """`k=v` words as a flat mapping of texts; `k:=JSON` as in arguments, the later over the earlier.

    Raises:
        WordError: As `read_arguments` does.
    """
    state: JsonObject = {}
    for word in words:
        key, text, is_json = _parted(word)
        state[key] = _json(key, text) if is_json else text
    return state


def typed(text: str, hint: SchemaType) -> Any:
    """A text as the JSON value that the schema takes it for; the text itself where it takes it for none."""
    for member in hint.members:
        if text == (member if isinstance(member, str) else json.dumps(member)):
            return member
    with suppress(ValueError):
        # The text of a file ends with a line's end, which is no part of an object or a list.
        value = _strict(text if text[:1] in "[{" or text == text.strip() else "")
        kind = type_of(value)
        if kind != "string" and hint.types & ({"integer", "number"} if kind in ("integer", "number") else {kind}):
            return value
    return text


def _parted(word: str) -> tuple[str, str, bool]:
    """Key, text and whether it is JSON; a file's text is read."""
    key, sign, text = word.partition("=")
    if not sign:
        raise WordError(f"{word!r} is no argument: write key=value, or key:=JSON")
    is_json = key.endswith(":")
    key = key.removesuffix(":")
    if not key:
        raise WordError(f"{word!r} has no key before the '='")
    if text.startswith("@@") and not is_json:
        return key, text[1:], is_json
    return key, _file_text(key, text[1:]) if text.startswith("@") else text, is_json


def _file_text(key: str, name: str) -> str:
    try:
        with Path(name).expanduser().open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
        if len(data) > MOST_FILE_BYTES:
            raise WordError(f"{key}=@{name}: the file has more than {MOST_FILE_BYTES:,} bytes")
        return data.decode()
    except OSError as error:
        reason = error.strerror or str(error)
        raise WordError(f"{key}=@{name}: {reason}; for a text that begins with '@', write {key}=@@{name}") from None
    except UnicodeDecodeError:
        raise WordError(f"{key}=@{name}: the file isn't UTF-8 text") from None


def place(key: str, root: SchemaType) -> tuple[tuple[str, ...], SchemaType]:
    """Where a key's value goes: a name with dots in it first, then the parts of an object."""
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
            raise WordError(f"{key} is given {len(parted)} times and takes one value")
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
        raise WordError(f"{key}:= needs JSON, and this is none: {error}") from None


def _strict(text: str) -> Any:
    """JSON without what readers let pass: NaN, infinities, a key twice."""
    value: Any = strict_json(text.encode())
    if faults := json_faults({"value": value}):  # 1e999 is infinite
        raise ValueError(faults[0])
    return value


def _put(arguments: JsonObject, key: str, path: tuple[str, ...], value: Any) -> None:
    here = arguments
    for name in path[:-1]:
        below = here.setdefault(name, {})
        if not isinstance(below, dict):
            raise WordError(f"{key} is a part of {name!r}, which is given as a whole and is no object")
        here = cast("JsonObject", below)
    here[path[-1]] = value
