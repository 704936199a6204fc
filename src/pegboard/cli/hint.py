"""What a JSON Schema says of one value, as far as a command line needs to know it: hints, never a judgement."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from attrs import frozen

ALL_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_JOINED: Final = ("anyOf", "oneOf", "allOf")
_SAYS_TYPE: Final = {"properties": "object", "additionalProperties": "object", "items": "array", "prefixItems": "array"}
_TYPE_NAMES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_MOST_PARTS: Final = 200


def json_type(value: Any) -> str:
    """The JSON Schema type of a value; a number that JSON spells without a fraction is `"integer"`."""
    return "null" if value is None else _TYPE_NAMES[type(value)]


@frozen(eq=False)
class Hint:
    """What the schema of one value hints.

    Attributes:
        schema: An object or a boolean; anything else says nothing.
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
        """The JSON types that it allows; all of them where it says nothing."""
        return frozenset[str]().union(*map(_types, self.parts))

    @property
    def is_open(self) -> bool:
        """Whether it says nothing of the type."""
        return self.types == ALL_TYPES

    @property
    def members(self) -> tuple[Any, ...]:
        """The values that an `enum` or a `const` names."""
        return tuple(member for part in self.parts for member in _named(part))

    @property
    def properties(self) -> dict[str, Hint]:
        """The named properties of an object, in the schema's order."""
        found: dict[str, Hint] = {}
        for part in self.parts:
            for name, schema in _object(part.get("properties")).items():
                found.setdefault(name, Hint(schema, self.root))
        return found

    @property
    def required(self) -> frozenset[str]:
        """The names of the properties that an object needs."""
        return frozenset(name for part in self.parts for name in _list(part.get("required")) if isinstance(name, str))

    def child(self, name: str) -> Hint:
        """What is hinted of one property, named or not."""
        named = self.properties.get(name)
        if named is not None:
            return named
        rest = [part.get("additionalProperties", True) for part in self.parts if "object" in _types(part)]
        return Hint({"anyOf": rest or [False]}, self.root)

    def item(self, index: int) -> Hint:
        """What is hinted of one item of an array."""
        found: list[Any] = []
        for part in self.parts:
            if "array" in _types(part):
                first = _list(part.get("prefixItems"))
                found.append(first[index] if index < len(first) else part.get("items", True))
        return Hint({"anyOf": found or [False]}, self.root)

    def says(self, keyword: str) -> Any:
        """What the schema says under this keyword, itself first, then its parts; `None` where none does."""
        return next((part[keyword] for part in (_object(self.schema), *self.parts) if keyword in part), None)


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
    below = [part for word in _JOINED for part in _list(schema.get(word))]
    reference = schema.get("$ref")
    if isinstance(reference, str):
        below.append(reference not in followed and _target(reference, root))
        followed.add(reference)
    return below


def _types(part: dict[str, Any]) -> frozenset[str]:
    """The types that a plain schema allows; all where it says nothing."""
    said = part.get("type")
    if isinstance(said, str):
        return frozenset({said})
    if isinstance(said, list):
        return frozenset(name for name in said if isinstance(name, str))  # pyright: ignore[reportUnknownVariableType]
    named = _named(part)
    if named:
        return frozenset(map(json_type, named))
    return frozenset(kind for word, kind in _SAYS_TYPE.items() if word in part) or ALL_TYPES


def _target(reference: str, root: Any) -> Any:
    """What `#/a/b` points to in the root, or `False`, which allows nothing."""
    if not reference.startswith("#"):
        return False
    here = root
    for step in filter(None, reference[1:].split("/")):
        key = step.replace("~1", "/").replace("~0", "~")
        index = int(key) if key.isdecimal() else -1
        if isinstance(here, list) and 0 <= index < len(here):  # pyright: ignore[reportUnknownArgumentType]
            here = here[index]  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(here, dict) and key in here:
            here = here[key]  # pyright: ignore[reportUnknownVariableType]
        else:
            return False
    return here  # pyright: ignore[reportUnknownVariableType]


__all__ = ["ALL_TYPES", "Hint", "json_type"]
