"""The fields of a class: what its constructor takes, as attrs, dataclasses, named tuples or a `TypedDict` have it."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Final, TypeVar, cast

import attrs
from attrs import frozen

from pegboard.tools.forms.demand import Demand
from pegboard.tools.forms.generic import is_typed_dict
from pegboard.tools.forms.validator import demand_of


class Missing(Enum):
    """Stands where there is no default."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
"""Stands where there is no default."""
_PURE: Final[Sequence[Any]] = (list, dict, tuple, set, frozenset)


@frozen
class ClassField:
    """One field of a class, before its type is read.

    Attributes:
        name: The attribute.
        key: Its key in JSON: the constructor's parameter.
        annotation: Its type, resolved; `Any` where it has none.
        required: Whether it must be given.
        default: What it is if it isn't given; `MISSING` where that is made anew each time.
        by_keyword: Whether the constructor takes it by keyword only.
        readable: Whether instances have it as an attribute.
        description: From its metadata, or `None`.
        demand: What a validator asks of it, or `None`.
    """

    name: str
    key: str
    annotation: Any
    required: bool
    default: Any
    by_keyword: bool = False
    readable: bool = True
    description: str | None = None
    demand: Demand | None = None


def fields_of(cls: Any) -> list[ClassField] | None:
    """The fields that the constructor of `cls` takes, or `None` for a class that isn't made of fields.

    Raises:
        NameError, TypeError, ...: Whatever resolving its annotations raises.
        ValueError: The constructor takes other parameters than the fields, because somebody has written it.
    """
    if attrs.has(cls):
        fields = list(_of_attrs(cls, resolved_hints(cls)))
    elif dataclasses.is_dataclass(cls):
        fields = list(_of_dataclass(cls, resolved_hints(cls)))
    elif is_typed_dict(cls):
        return list(_of_typed_dict(cls, resolved_hints(cls)))
    elif tuple in cls.__mro__ and hasattr(cls, "_fields"):
        fields = list(_of_named_tuple(cls, resolved_hints(cls)))
    else:
        return None
    return _as_constructed(cls, fields)


def resolved_hints(cls: Any) -> Mapping[str, Any]:
    """The annotations of a class and its bases; a class that isn't in its module's namespace still knows itself."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError:
        return typing.get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)


def _of_attrs(cls: Any, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    for each in attrs.fields(cls):
        if not each.init:
            continue
        annotation = hints.get(each.name, Any if each.type is None or isinstance(each.type, str) else each.type)
        yield ClassField(
            name=each.name,
            key=each.alias,
            annotation=annotation if each.converter is None else _input_of(each.converter, annotation),
            required=each.default is attrs.NOTHING,
            default=_attrs_default(each.default),
            by_keyword=each.kw_only,
            description=_described(each.metadata),
            # A converter stands before the validator, which then says nothing of what is given.
            demand=demand_of(each.validator) if each.validator and not each.converter else None,
        )


def _attrs_default(default: Any) -> Any:
    if isinstance(default, attrs.Factory):  # pyright: ignore[reportArgumentType]
        return _made_by(default.factory) if not default.takes_self else MISSING
    return MISSING if default is attrs.NOTHING else default


def _made_by(factory: Callable[[], Any]) -> Any:
    """What an empty container's class makes; other factories may do anything, and aren't called."""
    return factory() if any(factory is each for each in _PURE) else MISSING


def _input_of(converter: Any, annotation: Any) -> Any:
    """What a converter says that it takes; the field's own type where it says nothing."""
    function = getattr(converter, "converter", converter)
    if not inspect.isroutine(function):
        return annotation
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        taken = hints.get(next(iter(inspect.signature(function).parameters)), Any)
    except Exception:  # noqa: BLE001  (a foreign function's annotations may hold anything)
        return annotation
    return annotation if taken is Any or isinstance(taken, TypeVar) else taken


def _described(metadata: Mapping[Any, Any]) -> str | None:
    text = metadata.get("description")
    return text if isinstance(text, str) else None


def _of_dataclass(cls: Any, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    fields: Mapping[str, dataclasses.Field[Any]] = cls.__dataclass_fields__
    stored = {each.name for each in dataclasses.fields(cls)}
    for name, each in fields.items():
        annotation = hints.get(name, Any)
        passed_on = isinstance(annotation, dataclasses.InitVar)
        if not each.init or (name not in stored and not passed_on):
            continue
        yield ClassField(
            name=name,
            key=name,
            annotation=cast("Any", annotation).type if passed_on else annotation,
            required=each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING,
            default=_dataclass_default(each),
            by_keyword=each.kw_only is True,
            readable=not passed_on,
            description=_described(each.metadata) or getattr(each, "doc", None),
        )


def _dataclass_default(each: dataclasses.Field[Any]) -> Any:
    if each.default is not dataclasses.MISSING:
        return each.default
    return MISSING if each.default_factory is dataclasses.MISSING else _made_by(each.default_factory)


def _of_named_tuple(cls: Any, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    defaults: Mapping[str, Any] = cls._field_defaults
    for name in cls._fields:
        default = defaults.get(name, MISSING)
        yield ClassField(name, name, hints.get(name, Any), required=name not in defaults, default=default)


def _of_typed_dict(cls: Any, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    """The keys; where annotations were text, the class itself hasn't seen `Required` and `NotRequired` in them."""
    for name, hint in hints.items():
        annotation, said = _unqualified(hint)
        required = name in cls.__required_keys__ if said is None else said
        yield ClassField(name, name, annotation, required=required, default=MISSING)


def _unqualified(hint: Any) -> tuple[Any, bool | None]:
    """A type without `Required`, `NotRequired` and `ReadOnly`, and whether the first or second was among them."""
    if typing.get_origin(hint) is Annotated:
        inner, said = _unqualified(hint.__origin__)
        return (hint if inner is hint.__origin__ else Annotated[(inner, *hint.__metadata__)]), said
    said = None
    while (name := getattr(typing.get_origin(hint), "_name", "")) in ("Required", "NotRequired", "ReadOnly"):
        said = said if name == "ReadOnly" else name == "Required"
        (hint,) = typing.get_args(hint)
    return hint, said


def _as_constructed(cls: Any, fields: Sequence[ClassField]) -> list[ClassField]:
    """The fields, taken by keyword where the constructor's order is another."""
    parameters = inspect.signature(cls).parameters
    names = [each.key for each in fields]
    if list(parameters) == names:
        return list(fields)
    starred = {each.name for each in parameters.values() if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL)}
    needed = {each.name for each in parameters.values() if each.default is each.empty} - starred
    if not set(names) <= parameters.keys() - starred or not needed <= set(names):
        raise ValueError(f"its constructor takes ({', '.join(parameters)}), its fields are ({', '.join(names)})")
    return [attrs.evolve(each, by_keyword=True) for each in fields]
