"""Values into JSON data, by the class of each value (`converter.py` has users' hooks for classes)."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, MappingView, Sequence, Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import attrs

from pegboard.json import MAX_DEPTH, canonical_json, path_text
from pegboard.schema.converter import foreign_writer, is_pydantic
from pegboard.schema.fields import is_dataclass
from pegboard.schema.text_types import nearest_notation

_Above: TypeAlias = tuple[int, ...]  # the ids of the containers around a value
_Writer: TypeAlias = Callable[[Any, _Above], Any]
_PLAIN: Final = frozenset({str, int, bool, type(None)})


class _UnwritableError(Exception):
    """A value has no JSON form; `path` leads to it from the container that is being written."""

    def __init__(self, kind: type[Exception], reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.path: tuple[str | int, ...] = ()


def to_json_data(value: object) -> Any:
    """`value` as JSON data, by its own class.

    Accepts JSON's own types, attrs classes, dataclasses and named tuples (as objects, by the names of their
    constructors' parameters), enums (by value), dates, times, durations, UUIDs, decimals, paths and patterns (as text),
    bytes (base64), mappings (keys: text, integers, booleans, enums of those and types written as text), sets (sorted),
    sequences, views of dicts, models of pydantic and msgspec (as they serialize themselves), and classes with a hook.

    Raises:
        TypeError: Something in it has no JSON form.
        ValueError: NaN, an infinity, a cycle, two keys with one text, or more than 64 levels.
            Both name the path: `"items[3].when: ..."`.
    """
    try:
        return _writer_of(type(value))(value, ())
    except _UnwritableError as error:
        raise error.kind(f"{path_text(error.path)}: {error}") from None


@lru_cache(maxsize=1024)
def _writer_of(cls: type[Any]) -> _Writer:  # noqa: PLR0911  (one for each kind)
    """The writer for the values of a class; raises `_UnwritableError` where they have no JSON form."""
    if cls in _PLAIN:
        return lambda value, _: value
    if issubclass(cls, float):
        return _write_float
    if issubclass(cls, enum.Enum):
        return lambda value, above: _writer_of(cast("type[Any]", type(value.value)))(value.value, above)
    if (write := _scalar_writer(cls)) is not None:
        return lambda value, _: write(value)
    is_container = issubclass(cast("Any", cls), Mapping | AbstractSet | Sequence | MappingView)
    if not is_container and (foreign := foreign_writer(cls)) is not None:
        return _foreign_writer(foreign)
    if (names := names_to_write(cls)) is not None:
        return _container_writer(lambda value: [(key, getattr(value, name)) for name, key in names])
    if issubclass(cls, Mapping):
        return _container_writer(_entries)
    if is_container:
        is_sorted = issubclass(cls, AbstractSet) and not issubclass(cls, MappingView)  # a view is in its dict's order
        return _container_writer(enumerate, _sorted_items if is_sorted else list)
    if hasattr(cls, "dtype"):
        return _write_array_scalar
    what = f"{cls.__module__}.{cls.__qualname__} has no JSON form"
    instead = "return text, numbers, lists, dicts, or an attrs class or dataclass of those"
    raise _UnwritableError(TypeError, f"{what}; {instead}")


def _container_writer(
    read: Callable[[Any], Iterable[tuple[Any, Any]]], make: Callable[[Iterable[Any]], list[Any]] | None = None
) -> _Writer:
    """The writer for values of which `read` returns pairs of key and value, as an array if `make` makes one."""

    def write_container(value: Any, above: _Above) -> Any:
        if id(value) in above or len(above) >= MAX_DEPTH:
            raise _nesting_error(value, above)
        above = (*above, id(value))
        done: dict[Any, Any] = {}
        try:
            pairs = read(value)
        except AttributeError as error:
            raise _UnwritableError(TypeError, f"the attribute {error.name} isn't set") from None
        step: Any = ""
        try:
            for step, item in pairs:
                done[step] = item if type(item) in _PLAIN else _writer_of(cast("type[Any]", type(item)))(item, above)
        except _UnwritableError as error:
            error.path = (step, *error.path)
            raise
        return done if make is None else make(done.values())

    return write_container


def _foreign_writer(write: Callable[[Any], Any]) -> _Writer:
    def write_foreign(value: Any, above: _Above) -> Any:
        if id(value) in above or len(above) >= MAX_DEPTH:
            raise _nesting_error(value, above)
        written = write(value)
        return _writer_of(cast("type[Any]", type(written)))(written, (*above, id(value)))

    return write_foreign


def _nesting_error(value: Any, above: _Above) -> _UnwritableError:
    what = "contains itself" if id(value) in above else f"nested more than {MAX_DEPTH} levels deep"
    return _UnwritableError(ValueError, what)


def _entries(value: Mapping[Any, Any]) -> Iterable[tuple[str, Any]]:
    """Key and value of a mapping, each key as text."""
    if all(type(key) is str for key in value):
        return value.items()
    named: dict[str, Any] = {}
    for key, item in value.items():
        if (name := _key_text(key)) in named:
            raise _UnwritableError(ValueError, f"two keys are both written as {name!r}")
        named[name] = item
    return named.items()


def _sorted_items(items: Iterable[Any]) -> list[Any]:
    """The items of a set, sorted so that they are the same in every process."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=canonical_json)


def _scalar_writer(cls: type[Any]) -> Callable[[Any], str | int] | None:
    """The writer for values that become text or an integer; `None` for other classes."""
    if issubclass(cls, str):
        return str.__str__
    if issubclass(cls, int):
        return int.__int__
    if (notation := nearest_notation(cls)) is None:
        return None

    def write_text(value: Any) -> str:
        try:
            return notation.write(value)
        except ValueError as error:
            raise _UnwritableError(ValueError, str(error)) from None

    return write_text


def _write_array_scalar(value: Any, above: _Above) -> Any:
    kind = {"b": bool, "i": int, "u": int, "f": float}.get(getattr(value.dtype, "kind", ""))  # times have others
    if kind is None or getattr(value, "ndim", 1):
        raise _UnwritableError(TypeError, f"{type(value).__qualname__} has no JSON form; return its tolist()")
    return _writer_of(kind)(kind(value), above)


def _write_float(value: float, _above: _Above) -> float:
    if not math.isfinite(value):
        raise _UnwritableError(ValueError, f"{float(value)} is not a JSON number")
    return float.__float__(value)


def _key_text(key: Any) -> str:
    while isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, bool):
        return "true" if key else "false"
    cls = cast("type[Any]", type(key))
    if (write := _scalar_writer(cls)) is None:
        if hasattr(cls, "dtype"):
            return _key_text(_write_array_scalar(key, ()))
        raise _UnwritableError(TypeError, f"a key of type {cls.__qualname__} can't be written as text")
    return str(write(key))


def names_to_write(cls: type[Any]) -> tuple[tuple[str, str], ...] | None:
    """The attributes that the constructor of an attrs class, dataclass or named tuple takes, each with its key."""
    if attrs.has(cls):
        return tuple((each.name, each.alias or each.name) for each in attrs.fields(cls) if each.init)
    if is_dataclass(cls) and not is_pydantic(cls):
        import dataclasses  # already loaded, as it made the class

        return tuple((each.name, each.name) for each in dataclasses.fields(cls) if each.init)
    if tuple in cls.__mro__ and hasattr(cls, "_fields"):
        return tuple((name, name) for name in cast("Any", cls)._fields)
    return None
