"""The fields of attrs classes, dataclasses, named tuples and `TypedDict`s: the parameters of their constructors."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import NoneType
from typing import Annotated, Any, Final, TypeAlias, TypeVar, Union, cast

import attrs

from pegboard.typing import frozen

MISSING: Final = object()
"""Marks a missing default."""

ANNOTATED: Final[Any] = type(Annotated[int, ""])
_CONTAINERS: Final[Sequence[Any]] = (list, dict, tuple, set, frozenset)
_DECLARATIONS: Final[Mapping[tuple[str, str], str]] = {  # package and class -> the function that is called
    ("pydantic.v1", "FieldInfo"): "pydantic.v1.Field",
    ("pydantic.v1", "ModelPrivateAttr"): "pydantic.v1.PrivateAttr",
    ("pydantic", "FieldInfo"): "pydantic.Field",
    ("pydantic", "ModelPrivateAttr"): "pydantic.PrivateAttr",
    ("dataclasses", "Field"): "dataclasses.field",
    ("attr", "_CountingAttr"): "attrs.field",
    ("attr", "Factory"): "attrs.Factory",
    ("msgspec", "Field"): "msgspec.field",
}


def declaration_of(default: object) -> str:
    """The function that made a default which only declares one, such as `"dataclasses.field"`; else `""`."""
    return _declaration_by(type(default))


@lru_cache(maxsize=256)
def _declaration_by(cls: type) -> str:
    places = ((each.__module__.rpartition(".")[0] or each.__module__, each.__name__) for each in cls.__mro__)
    return next(filter(None, map(_DECLARATIONS.get, places)), "")


def metadata_of(annotation: Any) -> tuple[Any, ...]:
    """The metadata of an `Annotated`, none of another type: asking one of `typing` for the attribute is slow."""
    return annotation.__metadata__ if type(annotation) is ANNOTATED else ()


def is_dataclass(cls: Any) -> bool:
    """As `dataclasses.is_dataclass` of a class, without that module, which few programs need."""
    return isinstance(cls, type) and hasattr(cls, "__dataclass_fields__")


def is_field(marker: object) -> bool:
    """Whether it is what pydantic's `Field(...)` returns."""
    return declaration_of(marker) == "pydantic.Field"


def fills_or_names(marker: Any) -> bool:
    """Whether it is what pydantic's `Field(...)` returns, with a default or an alias."""
    return is_field(marker) and bool(not marker.is_required() or marker.alias or marker.validation_alias)


def default_in(annotation: Any) -> tuple[Any, Callable[[], Any] | None]:
    """The default that pydantic's `Field(...)` in `Annotated` declares, as `ClassField` has it; and what makes it.

    Raises `ValueError` if it declares something that isn't applied to a parameter.
    """
    default, make = MISSING, None
    for each in filter(is_field, metadata_of(annotation)):
        if type(each.validation_alias) not in (str, NoneType):
            raise ValueError("its validation_alias must be a string")
        if each.validate_default or each.default_factory_takes_validated_data:
            raise ValueError("neither validate_default nor a default_factory that takes data is applied")
        if not each.is_required():
            default = each.default if each.default_factory is None else _default(attrs.NOTHING, each.default_factory)
            make = cast("Callable[[], Any]", partial(each.get_default, call_default_factory=True))
    return default, make


@frozen
class ClassField:
    """One field of a class, before its type is read."""

    name: str  # of the attribute
    key: str  # in JSON: the constructor's parameter
    annotation: Any  # resolved; `Any` where it has none
    required: bool
    default: Any  # `MISSING` if it has none, or a factory other than a container's class makes it
    description: str | None = None
    validator: Any = None


def fields_of(annotation: Any) -> list[ClassField] | None:
    """The fields that the constructor of a class takes, perhaps with arguments; `None` if it isn't made of fields.

    Raises what resolving its annotations does, and `ValueError` if a handwritten constructor takes other parameters.
    """
    cls: Any = typing.get_origin(annotation) or annotation
    if attrs.has(cls):
        read = _of_attrs
    elif is_dataclass(cls):
        read = _of_dataclass
    elif is_typed_dict(cls):
        read = _of_typed_dict
    elif tuple in cls.__mro__ and hasattr(cls, "_fields"):
        read = _of_named_tuple
    else:
        return None
    fields, bindings = list(read(cls, resolved_hints(cls))), bindings_of(annotation)
    if read is not _of_typed_dict:
        _check_constructor(cls, fields)
    for place, each in enumerate(fields):
        bound = substitute(each.annotation, _binding_for(bindings, each.name))
        if bound is not each.annotation:
            fields[place] = attrs.evolve(each, annotation=bound)
    return fields


def resolved_hints(cls: Any) -> Mapping[str, Any]:
    """The annotations of a class and its bases; a local class may refer to itself and to what is defined beside it."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError:
        names = {**enclosing_locals(cls.__qualname__, cls.__module__), cls.__name__: cls}
        return typing.get_type_hints(cls, localns=names, include_extras=True)


def enclosing_locals(qualname: str, module: str) -> Mapping[str, Any]:
    """The local variables of the functions and class bodies that enclose a function or class, if they still run.

    With annotations as strings, a type defined in an enclosing function isn't in the closure; a decorator finds it only
    in the frames on the stack. Only frames of the module whose names begin that name are used.
    """
    names: dict[str, Any] = {}
    frame = inspect.currentframe() if "." in qualname else None
    while frame is not None:
        if frame.f_globals.get("__name__") == module and qualname.startswith(f"{frame.f_code.co_qualname}."):
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


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
            default=_default(each.default),
            description=_description_in(each.metadata),
            # A converter runs before the validator, which then applies to another value than the given one.
            validator=None if each.converter else each.validator,
        )


def _default(default: Any, factory: Any = None) -> Any:
    """The default; of factories, only classes of containers are called: others may have side effects."""
    if isinstance(default, attrs.Factory):  # pyright: ignore[reportArgumentType]
        factory = None if default.takes_self else default.factory
    elif default is not attrs.NOTHING:
        return default
    return factory() if any(factory is each for each in _CONTAINERS) else MISSING


def _input_of(converter: Any, annotation: Any) -> Any:
    """The annotated parameter type of a converter; the field's own type where there is none."""
    function = getattr(converter, "converter", converter)
    if not inspect.isroutine(function):
        return annotation
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        taken = hints.get(next(iter(inspect.signature(function).parameters)), Any)
    except Exception:  # noqa: BLE001  (a foreign function's annotations may hold anything)
        return annotation
    return annotation if taken is Any or isinstance(taken, TypeVar) else taken


def _description_in(metadata: Mapping[Any, Any]) -> str | None:
    text = metadata.get("description")
    return text if isinstance(text, str) else None


def _of_dataclass(cls: Any, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    import dataclasses  # already loaded, as it made the class

    fields: Mapping[str, dataclasses.Field[Any]] = cls.__dataclass_fields__
    stored = {each.name for each in dataclasses.fields(cls)}
    for name, each in fields.items():
        annotation = hints.get(name, Any)
        passed_on = isinstance(annotation, dataclasses.InitVar)
        if not each.init or (name not in stored and not passed_on):
            continue
        default = attrs.NOTHING if each.default is dataclasses.MISSING else each.default
        yield ClassField(
            name=name,
            key=name,
            annotation=cast("Any", annotation).type if passed_on else annotation,
            required=default is attrs.NOTHING and each.default_factory is dataclasses.MISSING,
            default=_default(default, each.default_factory) if default is attrs.NOTHING else default,
            description=_description_in(each.metadata) or getattr(each, "doc", None),
        )


def _of_named_tuple(cls: Any, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    defaults: Mapping[str, Any] = cls._field_defaults
    for name in cls._fields:
        default = defaults.get(name, MISSING)
        yield ClassField(name, name, hints.get(name, Any), required=name not in defaults, default=default)


def _of_typed_dict(cls: Any, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    """The keys; where annotations were strings, the class doesn't know their `Required` and `NotRequired`."""
    for name, hint in hints.items():
        annotation, stated = _unqualified(hint)
        required = name in cls.__required_keys__ if stated is None else stated
        yield ClassField(name, name, annotation, required=required, default=MISSING)


def _unqualified(hint: Any) -> tuple[Any, bool | None]:
    """A type without `Required`, `NotRequired` and `ReadOnly`, and whether it is required; `None`: not stated."""
    if typing.get_origin(hint) is Annotated:
        inner, stated = _unqualified(hint.__origin__)
        return (hint if inner is hint.__origin__ else Annotated[(inner, *hint.__metadata__)]), stated
    stated = None
    while (name := getattr(typing.get_origin(hint), "_name", "")) in ("Required", "NotRequired", "ReadOnly"):
        stated = stated if name == "ReadOnly" else name == "Required"
        (hint,) = typing.get_args(hint)
    return hint, stated


def _check_constructor(cls: Any, fields: Sequence[ClassField]) -> None:
    parameters = inspect.signature(cls).parameters
    names = [each.key for each in fields]
    starred = {each.name for each in parameters.values() if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL)}
    needed = {each.name for each in parameters.values() if each.default is each.empty} - starred
    if not set(names) <= parameters.keys() - starred or not needed <= set(names):
        raise ValueError(f"its constructor takes ({', '.join(parameters)}), its fields are ({', '.join(names)})")


_Binding: TypeAlias = Mapping[Any, Any]  # type variable -> annotation


def bindings_of(annotation: Any) -> Mapping[Any, _Binding]:
    """The bindings of the type variables of a class, perhaps with arguments, and then of each of its bases.

    The same variable may be bound differently in different bases.
    """
    found: dict[Any, _Binding] = {}
    waiting: list[tuple[Any, Any]] = [(typing.get_origin(annotation) or annotation, typing.get_args(annotation))]
    while waiting:
        cls, arguments = waiting.pop()
        if cls in found or not isinstance(cls, type) or cls is typing.Generic:
            continue
        found[cls] = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
        for base in reversed(cls.__dict__.get("__orig_bases__", cls.__bases__)):
            given = [substitute(each, found[cls]) for each in typing.get_args(base)]
            waiting.append((typing.get_origin(base) or base, given))
    return found


def _binding_for(bindings: Mapping[Any, _Binding], name: str) -> _Binding:
    """The binding of the class that declares the attribute `name`."""
    binding: _Binding = {}
    for cls, each in bindings.items():
        if name in getattr(cls, "__annotations__", ()):
            binding = each
            if not is_typed_dict(cls):  # which repeats inherited keys: there the last one declares it
                break
    return binding


def substitute(annotation: Any, binding: _Binding) -> Any:
    """`annotation` with its type variables replaced by their bindings."""
    if isinstance(annotation, typing.TypeVar):
        return binding.get(annotation, annotation)
    if isinstance(annotation, type):  # a generic class without arguments
        return annotation
    names: Sequence[Any] = getattr(annotation, "__parameters__", ())
    if not any(name in binding for name in names):
        return annotation
    return annotation[tuple(binding.get(name, name) for name in names)]


def type_for_unbound(variable: Any) -> Any:
    """The type that an unbound type variable means: its default, bound or constraints, else anything."""
    default = getattr(variable, "__default__", None)
    if default is not None and type(default).__name__ != "NoDefaultType":
        return default
    if variable.__bound__ is not None:
        return variable.__bound__
    constraints: Sequence[Any] = variable.__constraints__
    return Union[tuple(constraints)] if constraints else Any  # noqa: UP007  (values, not a type expression)


def is_typed_dict(cls: Any) -> bool:
    """Whether it is a `TypedDict` of `typing` or `typing_extensions`, without importing the latter."""
    return isinstance(cls, type) and dict in cls.__mro__ and hasattr(cls, "__required_keys__")
