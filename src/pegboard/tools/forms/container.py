"""Reads the annotations of lists, tuples, sets and mappings."""

from __future__ import annotations

import collections
import typing
from collections import abc
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, Protocol

from pegboard.tools.forms.array import ListForm, SetForm, TupleForm
from pegboard.tools.forms.form import Form
from pegboard.tools.forms.mapping import MappingForm, key_form
from pegboard.tools.forms.scalar import ANY, TEXT


class Reading(Protocol):
    """What reads the arguments of an annotation."""

    def read(self, annotation: Any, path: str) -> Form:
        """The form of an annotation."""
        ...

    def refuse(self, annotation: Any, path: str, why: str, hint: str = ...) -> NoReturn:
        """Says what can't be said in JSON."""
        ...


def read_container(reading: Reading, cls: Any, annotation: Any, path: str) -> Form | None:
    """The form of a container, or `None` for any other class.

    Args:
        reading: Reads the arguments.
        cls: The class without its arguments.
        annotation: The whole annotation.
        path: Where it stands.
    """
    if cls is tuple:
        return _tuple(reading, annotation, path)
    if cls in _LISTS:
        return _list(_item(reading, annotation, path), cls)
    if cls in _SETS:
        return _set(reading, annotation, path)
    return _mapping(reading, annotation, path) if cls in _MAPPINGS else None


def _item(reading: Reading, annotation: Any, path: str) -> Form:
    arguments = typing.get_args(annotation)
    return reading.read(arguments[0], f"{path}[]") if arguments else ANY


def _list(item: Form, cls: Any) -> Form:
    """Where the class is abstract a list will do."""
    return ListForm(item, cls, cls if cls in (tuple, collections.deque) else None)


def _tuple(reading: Reading, annotation: Any, path: str) -> Form:
    arguments = typing.get_args(annotation)
    if not arguments:
        return TupleForm(()) if hasattr(annotation, "__args__") else _list(ANY, tuple)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return _list(reading.read(arguments[0], f"{path}[]"), tuple)
    if any(getattr(each, "__unpacked__", False) or typing.get_origin(each) is typing.Unpack for each in arguments):
        reading.refuse(annotation, path, "a tuple of fixed and other items has no form here", "Use a list or a union.")
    return TupleForm(tuple(reading.read(each, f"{path}[{index}]") for index, each in enumerate(arguments)))


def _set(reading: Reading, annotation: Any, path: str) -> Form:
    item = _item(reading, annotation, path)
    if not item.is_hashable():
        reading.refuse(
            annotation,
            path,
            "the items of a set must be hashable, and these may not be",
            "Say of what it is (set[str]), use a list, or make the items tuples or frozen classes.",
        )
    return SetForm(item, _SETS[typing.get_origin(annotation) or annotation])


def _mapping(reading: Reading, annotation: Any, path: str) -> Form:
    cls = typing.get_origin(annotation) or annotation
    arguments = typing.get_args(annotation) or (Any, Any)
    key = TEXT if arguments[0] is Any else reading.read(arguments[0], path)
    keys = key_form(key)
    if keys is None:
        reading.refuse(
            annotation,
            path,
            "its keys can't be written as text, which JSON's keys are",
            "Use str, int, an enum or Literal of those, or a type that is written as text (UUID, date, Path).",
        )
    item = reading.read(arguments[1], f"{path}.*" if path else "*")
    return MappingForm(key, keys, item, _MAPPINGS[cls], cls)


_LISTS: Final = frozenset(
    {
        list,
        collections.deque,
        abc.Sequence,
        abc.MutableSequence,
        abc.Collection,
        abc.Iterable,
        abc.Reversible,
    }
)
_SETS: Final[Mapping[Any, type[Any]]] = {
    set: set,
    frozenset: frozenset,
    abc.Set: frozenset,
    abc.MutableSet: set,
}
_MAPPINGS: Final[Mapping[Any, Callable[[dict[Any, Any]], Any] | None]] = {
    dict: None,
    abc.Mapping: None,
    abc.MutableMapping: None,
    collections.OrderedDict: collections.OrderedDict,
}
