"""Python values as JSON data, by their own classes."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, cast

import attrs

from pegboard.schema.converter import model_writer
from pegboard.schema.json import MAX_DEPTH, canonical_json
from pegboard.schema.problems import path_text
from pegboard.schema.text import nearest_notation

_Path = tuple[str | int, ...]
_AS_IT_IS: Final = frozenset({str, int, bool, type(None)})


def to_json_data(value: object) -> Any:
    """`value` as JSON data, by its own class.

    Takes JSON's own types, attrs classes, dataclasses and named tuples (as objects, by the names that their
    constructors take), enums (by value), dates, times, durations, UUIDs, decimals, paths and patterns (as text),
    bytes (base64), mappings (keys: text, integers, booleans, enums of those and whatever is written as text),
    sets (sorted), sequences, and the models of pydantic and msgspec (as they write themselves).

    Args:
        value: Anything.

    Raises:
        TypeError: Something in it has no JSON form.
        ValueError: NaN, an infinity, a cycle, two keys with one text, or more than 64 levels.
            Both name the path: `"items[3].when: ..."`.
    """
    return _walk(value, (), ())


def _walk(value: Any, path: _Path, above: tuple[int, ...]) -> Any:
    cls = cast("type[Any]", type(value))
    if cls in _AS_IT_IS:
        return value
    if cls is float or isinstance(value, float):
        return _finite(value, path)
    if isinstance(value, enum.Enum):
        return _walk(value.value, path, above)
    if (scalar := _as_scalar(value, path)) is not None:
        return scalar
    if id(value) in above:
        raise ValueError(f"{path_text(path)}: contains itself")
    if len(above) >= MAX_DEPTH:
        raise ValueError(f"{path_text(path)}: nested more than {MAX_DEPTH} levels deep")
    return _walk_inside(value, path, (*above, id(value)))


def _finite(value: float, path: _Path) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{path_text(path)}: {float(value)} is no JSON number")
    return float.__float__(value)


def _as_scalar(value: Any, path: _Path) -> str | int | None:
    """A value that is written as text or as an integer, or `None` where it holds others."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    notation = nearest_notation(cast("type[Any]", type(value)))
    if notation is None:
        return None
    try:
        return notation.write(value)
    except ValueError as error:
        raise ValueError(f"{path_text(path)}: {error}") from None


def _walk_inside(value: Any, path: _Path, above: tuple[int, ...]) -> Any:
    names = written_names(cast("type[Any]", type(value)))
    if names is not None:
        return {key: _walk(_attribute(value, name, path), (*path, key), above) for name, key in names}
    if isinstance(value, Mapping):
        return _walk_mapping(cast("Mapping[Any, Any]", value), path, above)
    if isinstance(value, AbstractSet):
        return in_order([_walk(item, path, above) for item in cast("AbstractSet[Any]", value)])
    if isinstance(value, Sequence):
        items = cast("Iterable[Any]", value)
        return [_walk(item, (*path, index), above) for index, item in enumerate(items)]
    if (write := model_writer(cast("type[Any]", type(value)))) is not None:
        return _walk(write(value), path, above)
    raise TypeError(
        f"{path_text(path)}: {type(value).__module__}.{type(value).__qualname__} has no JSON form; return text, "
        f"numbers, lists, dicts, or an attrs class or dataclass of those"
    )


def _attribute(value: Any, name: str, path: _Path) -> Any:
    try:
        return getattr(value, name)
    except AttributeError:
        raise TypeError(f"{path_text((*path, name))}: the attribute isn't set") from None


def _walk_mapping(value: Mapping[Any, Any], path: _Path, above: tuple[int, ...]) -> dict[str, Any]:
    done: dict[str, Any] = {}
    for key, item in value.items():
        name = _key_text(key, path)
        if name in done:
            raise ValueError(f"{path_text(path)}: two keys are both written as {name!r}")
        done[name] = _walk(item, (*path, name), above)
    return done


def _key_text(key: Any, path: _Path) -> str:
    while isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, bool):
        return "true" if key else "false"
    text = _as_scalar(key, path)
    if text is None:
        raise TypeError(f"{path_text(path)}: a key of type {type(key).__qualname__} has no text")
    return str(text)


@lru_cache(maxsize=1024)
def written_names(cls: type[Any]) -> tuple[tuple[str, str], ...] | None:
    """Of an attrs class, dataclass or named tuple: each attribute that its constructor takes, and the key for it."""
    if attrs.has(cls):
        return tuple((each.name, each.alias or each.name) for each in attrs.fields(cls) if each.init)
    if dataclasses.is_dataclass(cls):
        return tuple((each.name, each.name) for each in dataclasses.fields(cls) if each.init)
    if tuple in cls.__mro__ and (names := cast("Sequence[str]", getattr(cls, "_fields", ()))):
        return tuple((name, name) for name in names)
    return None


def in_order(items: list[Any]) -> list[Any]:
    """What a set is written as: sorted, so that it is the same in every process."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=canonical_json)
