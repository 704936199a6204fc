"""JSON data that nobody can change, for callbacks; and the way back to plain data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias, cast

_FLAT: Final = frozenset({str, int, float, bool, type(None)})


def _refuse(*_given: object, **_named: object) -> NoReturn:
    raise TypeError("arguments are read-only here; answer ChangeArguments({...}) to change them")


class ReadOnlyDict(dict[Any, Any]):
    """A dict that refuses every change; a copy of it is a plain one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class ReadOnlyList(list[Any]):
    """A list that refuses every change; a copy of it is a plain one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = extend = insert = _refuse  # pyright: ignore[reportAssignmentType]
    remove = pop = clear = sort = reverse = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def _shown_tree(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return ReadOnlyDict({key: each if type(each) in _FLAT else _shown_tree(each) for key, each in members.items()})
    if isinstance(value, list):
        return ReadOnlyList([each if type(each) in _FLAT else _shown_tree(each) for each in cast("list[Any]", value)])
    return value


def read_only(arguments: Mapping[str, Any], *, is_tree: bool = False) -> Mapping[str, Any]:
    """The arguments as callbacks see them: read-only all the way down, equal to what they show, plain when copied.

    Args:
        arguments: What they see.
        is_tree: Whether they were made by our own parser: plain dicts and lists, of bounded depth, without cycles.
    """
    if all(type(value) in _FLAT for value in arguments.values()):
        return MappingProxyType(arguments)
    if is_tree:
        return MappingProxyType(_shown_tree(arguments))
    return MappingProxyType(_remade(dict(arguments), ReadOnlyDict, ReadOnlyList))


def plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A copy all the way down, in plain dicts and lists: whoever gave the original can't change the copy with it."""
    return _remade(dict(arguments), dict, list)


def _remade(value: Any, dict_type: type[dict[Any, Any]], list_type: type[list[Any]]) -> Any:
    """A copy in other containers, of any depth; what holds itself holds its own copy."""
    done: dict[int, Any] = {}
    pending: list[tuple[Any, Any]] = []

    def begun(item: Any) -> Any:
        kind = cast("type[Any]", type(item))
        if not issubclass(kind, dict | list | tuple):
            return item
        if id(item) not in done:
            done[id(item)] = dict_type() if issubclass(kind, dict) else list_type()
            pending.append((item, done[id(item)]))
        return done[id(item)]

    whole = begun(value)
    while pending:
        source, target = pending.pop()
        if isinstance(source, dict):
            dict[Any, Any].update(target, {key: begun(member) for key, member in cast("_Dict", source).items()})
        else:
            list[Any].extend(target, [begun(member) for member in source])
    return whole


_Dict: TypeAlias = dict[Any, Any]
__all__ = ["plain", "read_only"]
