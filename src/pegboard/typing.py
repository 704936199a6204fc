"""Type aliases for JSON and JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

if TYPE_CHECKING:
    from attrs import define as define, frozen as frozen  # noqa: PLC0414  exported
else:  # common methods for all: compiling them for each class would be a fifth of a first call

    def define(cls: type | None = None, /, **options: Any) -> Any:
        """`attrs.define`, with a common `__repr__`, if frozen also `__eq__` and `__hash__`, unless it has its own."""
        if cls is None:
            return partial(define, **options)
        if options.get("repr", "__repr__" not in vars(cls)):
            cls.__repr__ = _attributes
        if options.get("frozen") and options.get("eq", "__eq__" not in vars(cls)):
            cls.__eq__, cls.__hash__ = _is_equal, _hash_of
        return attrs.define(cls, **options)

    frozen = partial(define, frozen=True, on_setattr=None)

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"
"""Any JSON value."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object; its values are `JsonValue`, typed `Any` so that reading them needs no casts."""

JsonSchema: TypeAlias = dict[str, Any]
"""A JSON Schema (draft 2020-12) as an object."""

JsonMapping: TypeAlias = Mapping[str, Any]
"""A read-only JSON object."""


@recursive_repr()
def _attributes(self: Any) -> str:
    """The text that attrs gives a class: its name and attributes."""
    shown: list[str] = []
    for field in self.__attrs_attrs__:
        if field.repr is not False:
            value = getattr(self, field.name) if field.init else getattr(self, field.name, attrs.NOTHING)
            text = repr(value) if field.repr is True else field.repr(value)
            shown.append(f"{field.name}={text}")
    return f"{type(self).__qualname__.rsplit('>.', 1)[-1]}({', '.join(shown)})"


def _is_equal(self: Any, other: object) -> bool:
    """As attrs compares objects: of exactly the same class, attribute by attribute."""
    if other.__class__ is not self.__class__:
        return NotImplemented
    return all(getattr(self, field.name) == getattr(other, field.name) for field in self.__attrs_attrs__ if field.eq)


def _hash_of(self: Any) -> int:
    values = [getattr(self, field.name) for field in self.__attrs_attrs__ if field.eq]
    return hash((self.__class__, *values))


__all__ = ["JsonMapping", "JsonObject", "JsonSchema", "JsonValue"]
