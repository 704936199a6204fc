"""Our own values from JSON data that isn't trusted: one strict cattrs converter, with the path of what is wrong.

A field's key is its name, or `json_key(...)` in its metadata. What is missing or null takes the field's default, other
keys are passed over, and nothing is coerced.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar, cast

import attrs

from pegboard.schema.problems import path_text

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")
Count: TypeAlias = Annotated[int, "0 or above"]
"""A whole number, 0 or above."""

_KEY: Final = "pegboard_json"
_WANTED: Final[Mapping[type, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "a boolean",
    dict: "an object",
}


class UnreadError(ValueError):
    """Data that can't be read. Its text goes on from the path of the data: `.name: missing`, or `: must be a text`."""


def json_key(key: str) -> dict[str, str]:
    """Metadata for a field whose key in JSON isn't its name; `""` for one that isn't read."""
    return {_KEY: key}


def read_record(cls: type[T], data: object, what: str) -> T:
    """A value of one of our own classes.

    Args:
        cls: An attrs class.
        data: As a JSON parser gave it.
        what: What it should be, for an error of the whole.

    Raises:
        ValueError: It isn't, as `"path: reason"`.
    """
    try:
        return _converter().structure(data, cls)
    except Exception as error:  # noqa: BLE001  (cattrs raises groups of what hooks and constructors raise)
        path, text = _first(error)
        raise ValueError(f"{path_text(path) if path else what if text[0] == ':' else ''}{text}".lstrip(".")) from None


def read_by(kind: Any, read: Callable[[Any], Any]) -> None:
    """Has fields of a type read by a function, which gets an object's data and raises `UnreadError`."""
    _readers[kind] = read


_readers: Final[dict[Any, Callable[[Any], Any]]] = {}


def read_below(read: Callable[[Mapping[str, Any]], Any]) -> Callable[[Any], Any]:
    """A reader out of one that raises `ValueError`: `"path: reason"`."""

    def read_data(data: Mapping[str, Any]) -> Any:
        try:
            return read(data)
        except ValueError as error:
            raise UnreadError(f".{error}") from None

    return read_data


def tagged(classes: Mapping[str, Any]) -> Callable[[Any], Any]:
    """A reader of one of several classes, by the `"type"` in the data."""

    def read_tagged(data: Mapping[str, Any]) -> Any:
        kind = data.get("type")
        if kind is None:
            raise UnreadError(".type: missing")
        if not isinstance(kind, str):
            raise UnreadError(f".type: must be a text, got {type(kind).__name__}")
        if kind not in classes:
            raise UnreadError(f".type: must be one of {', '.join(classes)}, got {kind!r:.80}")
        return _converter().structure(data, classes[kind])

    return read_tagged


@cache
def _converter() -> Converter:
    from cattrs import Converter

    converter = Converter(detailed_validation=True)
    converter.register_structure_hook_factory(attrs.has, partial(_of_class, converter))
    converter.register_structure_hook_factory(_has_origin(tuple), partial(_of_tuple, converter))
    converter.register_structure_hook_factory(_has_origin(Literal), _of_literal)
    converter.register_structure_hook_func(_has_origin(Mapping), _exactly(dict))
    converter.register_structure_hook_factory(
        lambda kind: type(None) in typing.get_args(kind), partial(_of_optional, converter)
    )
    converter.register_structure_hook_func(lambda kind: kind == str | bytes | Mapping[str, Any], _text_or_object)
    for kind in (str, int, float, bool):
        converter.register_structure_hook(kind, _exactly(kind))
    converter.register_structure_hook_func(lambda kind: kind == Count, _count)
    converter.register_structure_hook_func(
        lambda kind: kind in _readers, lambda data, kind: _readers[kind](_object(data))
    )
    return converter


def _of_optional(converter: Converter, kind: Any) -> Callable[[Any, Any], Any]:
    """By the type without `None`, which has been left out already."""
    given = [each for each in typing.get_args(kind) if each is not type(None)]
    hook = converter.get_structure_hook(given := typing.Union[tuple(given)])  # noqa: UP007  (values)
    return lambda data, _: hook(data, given)


def _has_origin(origin: Any) -> Callable[[Any], bool]:
    return lambda kind: typing.get_origin(kind) is origin


def _exactly(kind: type) -> Callable[[Any, Any], Any]:
    def read_exactly(data: Any, _type: Any) -> Any:
        if type(data) is not kind and not (kind is float and type(data) is int):
            raise UnreadError(f": must be {_WANTED[kind]}, got {type(data).__name__}")
        return data

    return read_exactly


def _count(data: Any, kind: Any) -> int:
    if _exactly(int)(data, kind) < 0:
        raise UnreadError(f": must be 0 or above, got {data:.20g}")
    return data


def _text_or_object(data: Any, _type: Any) -> Any:
    if not isinstance(data, str | Mapping):
        raise UnreadError(f": must be a text or an object, got {type(data).__name__}")
    return cast("Any", data)


def _object(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise UnreadError(f": must be an object, got {type(data).__name__}")
    return cast("Mapping[str, Any]", data)


def _of_class(converter: Converter, cls: Any) -> Callable[[Any, Any], Any]:
    from cattrs import gen

    attrs.resolve_types(cls)
    given = {each.name: each.metadata.get(_KEY) for each in attrs.fields(cls)}
    keys = {name: gen.override(omit=True) if key == "" else gen.override(rename=key) for name, key in given.items()}
    fill = cast("Any", gen).make_dict_structure_fn(cls, converter, _cattrs_use_linecache=False, **keys)
    return lambda data, _: fill({key: value for key, value in _object(data).items() if value is not None}, cls)


def _of_tuple(converter: Converter, kind: Any) -> Callable[[Any, Any], Any]:
    item = typing.get_args(kind)[0]
    hook = converter.get_structure_hook(item)

    def read_tuple(data: Any, _type: Any) -> tuple[Any, ...]:
        if not isinstance(data, list | tuple):
            raise UnreadError(f": must be an array, got {type(data).__name__}")
        done: list[Any] = []
        try:
            for each in cast("Sequence[Any]", data):
                done.append(hook(each, item))  # noqa: PERF401  (its length says which item failed)
        except Exception as error:  # noqa: BLE001  (as read_record)
            path, text = _first(error)
            raise UnreadError(f"{_joined((len(done), *path))}{text}") from None
        return tuple(done)

    return read_tuple


def _of_literal(kind: Any) -> Callable[[Any, Any], Any]:
    options = typing.get_args(kind)

    def read_literal(data: Any, _type: Any) -> Any:
        if type(data) is not str:
            raise UnreadError(f": must be a text, got {type(data).__name__}")
        if data not in options:
            raise UnreadError(f": must be one of {', '.join(options)}, got {data!r:.80}")
        return data

    return read_literal


def _first(error: Exception) -> tuple[tuple[str | int, ...], str]:
    """The first error of those that cattrs has collected: where it is, and what goes on from there."""
    path: tuple[str | int, ...] = ()
    while isinstance(error, ExceptionGroup):
        cls, error = cast("Any", error).cl, cast("Exception", error.exceptions[0])
        for note in getattr(error, "__notes__", ()):
            if type(note).__name__ == "AttributeValidationNote":
                key = attrs.fields_dict(cls)[note.name].metadata.get(_KEY, note.name)
                path = (*path, key)
                if isinstance(error, KeyError) and error.args == (key,):
                    return path, ": missing"
    if isinstance(error, UnreadError):
        return path, str(error)
    return path, f": {error}"


def _joined(path: Sequence[str | int]) -> str:
    """A path as it goes on from another."""
    text = path_text(path)
    return text if text.startswith("[") else f".{text}"
