"""What the type variables of a generic class stand for."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, Union

Binding: TypeAlias = Mapping[Any, Any]
"""Type variable -> annotation."""


def bindings_of(annotation: Any) -> Mapping[Any, Binding]:
    """For a class or a generic one with arguments: what the type variables of it and of each base stand for.

    Each base has its own binding, since one variable may stand for different things in different bases. Bases
    come after what is derived from them.
    """
    found: dict[Any, Binding] = {}
    cls = typing.get_origin(annotation) or annotation
    _collect(cls, typing.get_args(annotation), found)
    return found


def binding_for(bindings: Mapping[Any, Binding], name: str) -> Binding:
    """The binding of the class that declares the attribute `name`."""
    binding: Binding = {}
    for cls, each in bindings.items():
        if name in getattr(cls, "__annotations__", ()):
            binding = each
            if not is_typed_dict(cls):  # which repeats what it inherits: there the last one declares it
                break
    return binding


def substituted(annotation: Any, binding: Binding) -> Any:
    """`annotation` with the type variables replaced by what they stand for."""
    if isinstance(annotation, typing.TypeVar):
        return binding.get(annotation, annotation)
    if isinstance(annotation, type):  # a generic class without arguments
        return annotation
    names = _parameters(annotation)
    if not any(name in binding for name in names):
        return annotation
    return annotation[tuple(binding.get(name, name) for name in names)]


def unbound(variable: Any) -> Any:
    """What a type variable that nobody has bound stands for: its default, bound or constraints, else anything."""
    default = getattr(variable, "__default__", None)
    if default is not None and type(default).__name__ != "NoDefaultType":
        return default
    if variable.__bound__ is not None:
        return variable.__bound__
    constraints: Sequence[Any] = variable.__constraints__
    return Union[tuple(constraints)] if constraints else Any  # noqa: UP007  (values, not a type expression)


def is_typed_dict(cls: Any) -> bool:
    """Whether it is a `TypedDict`, of `typing` or of `typing_extensions`, which isn't imported for the question."""
    return isinstance(cls, type) and dict in cls.__mro__ and hasattr(cls, "__required_keys__")


def _parameters(annotation: Any) -> Sequence[Any]:
    return getattr(annotation, "__parameters__", ())


def _collect(cls: Any, arguments: Sequence[Any], found: dict[Any, Binding]) -> None:
    found[cls] = dict(zip(_parameters(cls), arguments, strict=False))
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = typing.get_origin(base) or base
        if isinstance(origin, type) and origin not in found and origin is not typing.Generic:
            _collect(origin, [substituted(each, found[cls]) for each in typing.get_args(base)], found)
