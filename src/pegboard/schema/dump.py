"""Python values as JSON data: by their own classes, or by the type that a tool declares."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, cast

import attrs

from pegboard.schema.adapters import (
    INTEGER,
    NULL,
    AliasAdapter,
    AnyAdapter,
    ArrayAdapter,
    ChoiceAdapter,
    ConstrainedAdapter,
    FlagAdapter,
    ForeignAdapter,
    MappingAdapter,
    NotedAdapter,
    RecordAdapter,
    ScalarAdapter,
    TextAdapter,
    TupleAdapter,
    TypeAdapter,
    UnionAdapter,
    bare,
    reach,
)
from pegboard.schema.converter import (
    HookField,
    UnstructureHook,
    foreign_writer,
    is_pydantic,
    made_of_fields,
    same,
    unstructure_hook,
)
from pegboard.schema.json import MAX_DEPTH, canonical_json, path_text
from pegboard.schema.text import nearest_notation

_Path = tuple[str | int, ...]
_AS_IT_IS: Final = frozenset({str, int, bool, type(None)})


def to_json_data(value: object) -> Any:
    """`value` as JSON data, by its own class.

    Takes JSON's own types, attrs classes, dataclasses and named tuples (as objects, by the names that their
    constructors take), enums (by value), dates, times, durations, UUIDs, decimals, paths and patterns (as text),
    bytes (base64), mappings (keys: text, integers, booleans, enums of those and whatever is written as text),
    sets (sorted), sequences, the models of pydantic and msgspec (as they write themselves), and classes with a hook.

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
        if not math.isfinite(value):
            raise ValueError(f"{path_text(path)}: {float(value)} is no JSON number")
        return float.__float__(value)
    if isinstance(value, enum.Enum):
        return _walk(value.value, path, above)
    if (scalar := _as_scalar(value, path)) is not None:
        return scalar
    if id(value) in above:
        raise ValueError(f"{path_text(path)}: contains itself")
    if len(above) >= MAX_DEPTH:
        raise ValueError(f"{path_text(path)}: nested more than {MAX_DEPTH} levels deep")
    return _walk_inside(value, path, (*above, id(value)))


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
    cls = cast("type[Any]", type(value))
    if (write := foreign_writer(cls)) is not None:
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
    if dataclasses.is_dataclass(cls) and not is_pydantic(cls):
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


def _unlisted(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def _unstructure_array(adapter: ArrayAdapter) -> UnstructureHook:
    hook = unstructure_hook(adapter.item)
    if adapter.unique:
        return lambda value: in_order(list(value) if hook is same else [hook(item) for item in value])
    if hook is same:
        return same if adapter.cls is list else list
    return lambda value: [hook(item) for item in value]


def _unstructure_tuple(adapter: TupleAdapter) -> UnstructureHook:
    hooks = [unstructure_hook(each) for each in adapter.items]
    return lambda value: [hook(item) for hook, item in zip(hooks, value, strict=True)]


def _unstructure_mapping(adapter: MappingAdapter) -> UnstructureHook:
    write, hook = _key_writer(adapter.key), unstructure_hook(adapter.item)
    if write is same and hook is same:
        return same if adapter.cls is dict else dict
    return lambda value: {write(key): hook(item) for key, item in value.items()}


def _key_writer(adapter: TypeAdapter) -> UnstructureHook:
    """Key -> text."""
    adapter = bare(adapter)
    if isinstance(adapter, ChoiceAdapter):
        return lambda key: str(_unlisted(key))
    return str if adapter is INTEGER else unstructure_hook(adapter)


def _unstructure_record(adapter: RecordAdapter) -> UnstructureHook:
    if adapter.cls is dict:
        hooks = {each.key: unstructure_hook(each.adapter) for each in adapter.members}
        if all(hook is same for hook in hooks.values()):
            return same
        return lambda value: {key: hooks[key](item) for key, item in value.items()}
    readable = ((each, each.attribute) for each in adapter.members)
    fields = (HookField(name, each.key, each.adapter) for each, name in readable if name is not None)
    return made_of_fields("unstructure", adapter.cls, fields)


def _unstructure_union(adapter: UnionAdapter) -> UnstructureHook:
    """By the member of the value's class or of its nearest base; by its own class where there is none, or several."""
    hooks = [(each, unstructure_hook(each)) for each in adapter.members]
    if all(hook is same for _, hook in hooks):
        return same
    if len(hooks) == 2 and adapter.members[1] is NULL:
        hook = hooks[0][1]
        return lambda value: None if value is None else hook(value)
    table: dict[type[Any], UnstructureHook] = {}
    for member, hook in hooks:
        # Of other members, the value's own class says as much.
        matters = any(isinstance(each, RecordAdapter | ForeignAdapter) for each in reach(member))
        for cls in {cls for each in reach(member, in_place=True) for cls in _classes(each)}:
            table[cls] = hook if matters and cls not in table else to_json_data

    def unstructure_union(value: Any) -> Any:
        classes = cast("type[Any]", type(value)).__mro__
        return next((table[cls] for cls in classes if cls in table), to_json_data)(value)

    return unstructure_union


def _classes(adapter: TypeAdapter) -> Sequence[type[Any]]:
    """The classes of values that hold others, or are of classes of one's own; none of scalars and text."""
    if isinstance(adapter, ArrayAdapter):
        return (set, frozenset) if adapter.unique else (adapter.make or list,)  # pyright: ignore[reportReturnType]
    if isinstance(adapter, MappingAdapter):
        return (adapter.make or dict,)  # pyright: ignore[reportReturnType]  a class
    if isinstance(adapter, TupleAdapter):
        return (tuple,)
    return (adapter.cls,) if isinstance(adapter, RecordAdapter | ForeignAdapter) else ()


def _unstructure_foreign(adapter: ForeignAdapter) -> UnstructureHook:
    """As it writes itself, or by its hook, which may give what isn't JSON yet."""
    write = foreign_writer(adapter.cls) or same
    return lambda value: to_json_data(write(value))


_BARE: Final[Mapping[str, UnstructureHook]] = {"string": str.__str__, "integer": int.__int__, "number": float.__float__}

_UNSTRUCTURE: Final[Mapping[type[TypeAdapter], Callable[[Any], UnstructureHook]]] = {
    # Of a derived class, whatever it makes of `str()` and its kin.
    ScalarAdapter: lambda adapter: same if adapter.cls is None else _BARE[adapter.type],
    AnyAdapter: lambda _: to_json_data,
    TextAdapter: lambda adapter: adapter.notation.write,
    ChoiceAdapter: lambda adapter: (
        _unlisted if any(isinstance(each.value, enum.Enum) for each in adapter.choices) else same
    ),
    FlagAdapter: lambda _: _unlisted,
    ArrayAdapter: _unstructure_array,
    TupleAdapter: _unstructure_tuple,
    MappingAdapter: _unstructure_mapping,
    RecordAdapter: _unstructure_record,
    UnionAdapter: _unstructure_union,
    AliasAdapter: lambda adapter: unstructure_hook(adapter.inner),
    NotedAdapter: lambda adapter: unstructure_hook(adapter.inner),
    ConstrainedAdapter: lambda adapter: unstructure_hook(adapter.inner),
    ForeignAdapter: _unstructure_foreign,
}
unstructure_hook.makers.update(_UNSTRUCTURE)
