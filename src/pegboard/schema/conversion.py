"""Conversion of JSON into Python values, by hooks made from type adapters; `unstructure.py` is the way back.

The invariant: what the derived schema accepts is structured, and values that JSON Schema distinguishes are never
converted into each other. The schema validates first, so hooks check only what no schema can express (dates, decimals,
checks in Python), and raise a `StructureError` with its path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from functools import cache, lru_cache, partial
from itertools import chain, repeat
from typing import Any, Final, TypeAlias, cast, get_origin

import attrs

from pegboard.json import StructureError, canonical_json, json_text, short_json
from pegboard.schema.adapters import (
    ANY,
    ARRAYS,
    NULL,
    NUMBERS,
    OBJECTS,
    AliasAdapter,
    ArrayAdapter,
    ChoiceAdapter,
    ConstrainedAdapter,
    ForeignAdapter,
    MappingAdapter,
    Member,
    NotedAdapter,
    ReaderAdapter,
    RecordAdapter,
    ScalarAdapter,
    SchemaWriter,
    TextAdapter,
    TupleAdapter,
    TypeAdapter,
    UnionAdapter,
    is_recursive,
    reach,
    root_schema,
    text_key,
)
from pegboard.schema.converter import constructor_error, foreign_reader, is_msgspec, is_pydantic, reporting
from pegboard.schema.fields import MISSING
from pegboard.schema.references import compiled
from pegboard.schema.text_types import notation_of
from pegboard.schema.unstructure import to_json_data
from pegboard.schema.validator import Validator

StructureHook: TypeAlias = Callable[[Any], Any]
"""JSON data -> value."""

_MOST_HOOKS: Final = 4096
_MOST_PARTS: Final = 64  # of one expression
_MOST_REASONS: Final = 3
_HARMLESS: Final = frozenset({"description", "title", "examples", "default", "deprecated", "format", "$comment"})


# Hooks of type adapters -----------------------------------------------------------------------------------------------


def same(value: Any) -> Any:
    """The identity hook; a hook made only of `same` is `same` itself."""
    return value


@lru_cache(_MOST_HOOKS)
def structure_hook(adapter: TypeAdapter) -> StructureHook:
    """The hook of an adapter; that of a recursive one is made at its first value, as its parts need it."""
    make = _STRUCTURE[type(adapter)]
    if not (adapter.name and is_recursive(adapter)):
        return make(adapter)
    made = cache(make)
    return lambda value: made(adapter)(value)  # noqa: PLW0108  (later)


def strict_hook(adapter: TypeAdapter) -> Callable[[Any], Any]:
    """A function that validates JSON data by the schema of an adapter, and then structures it."""
    require, hook = Validator(json_text(root_schema(adapter))).require, structure_hook(adapter)

    def structure_strictly(value: Any) -> Any:
        require(value)
        try:
            return hook(value)
        except Exception as error:  # noqa: BLE001  (handled there)
            raise as_structure_error(error) from error.__cause__ or error

    return structure_strictly


# Straight code: one expression for a function's parameters and their classes, instead of a hook for each part ---------


def _expression(adapter: TypeAdapter, value: str, names: dict[str, Any], above: tuple[TypeAdapter, ...] = ()) -> str:
    """The expression for one value that its schema has accepted; `value` is one itself, `names` gets what it refers to.

    A recursive type, and what exceeds the size of one expression, calls its own hook.
    """
    if isinstance(adapter, ScalarAdapter) and adapter.cls is None and adapter.type in _NUMBERS:
        return f"{'int' if adapter.type == 'integer' else 'float'}({value})"
    if adapter not in above and len(names) + len(above) < _MOST_PARTS:
        above = (*above, adapter)
        if isinstance(adapter, RecordAdapter) and adapter.cls is not dict:
            members = [_argument(each, value, names, above) for each in adapter.members]
            return f"{_name(adapter.cls, names)}({', '.join(members)})"
        if isinstance(adapter, ArrayAdapter) and adapter.cls is not tuple and not adapter.unique:
            item = f"i{len(above)}"
            text = _expression(adapter.item, item, names, above)
            return value if text == item else f"[{text} for {item} in {value}]"
        if isinstance(adapter, UnionAdapter) and len(adapter.members) == 2 and NULL in adapter.members:
            text = _expression(next(each for each in adapter.members if each is not NULL), value, names, above)
            return value if text == value else f"(None if {value} is None else {text})"
    hook = structure_hook(adapter)
    return value if hook is same else f"{_name(hook, names)}({value})"


def _argument(member: Member, value: str, names: dict[str, Any], above: tuple[TypeAdapter, ...]) -> str:
    key, text = repr(member.key), _expression(member.adapter, f"{value}[{member.key!r}]", names, above)
    # The constructor has the default of what is left out.
    return f"{member.key}={text}" if member.required else f"**({{{key}: {text}}} if {key} in {value} else {{}})"


def _name(target: Any, names: dict[str, Any]) -> str:
    names[name := f"_{len(names)}"] = target
    return name


def straight_binder(
    adapters: Mapping[str, TypeAdapter], usual: Callable[[Any, Mapping[str, Any]], Any], context: str | None
) -> Callable[[Any, Mapping[str, Any]], Any] | None:
    """The binder of a function that takes all by name, as straight code; where it raises, `usual` binds anew.

    `adapters` has those of the parameters by key. As `usual` makes the parts again, to find the place and word the
    error, there is none if a part runs code of its author, whose effects would be there twice.
    """
    if any(map(_runs_authors_code, chain.from_iterable(map(reach, adapters.values())))):
        return None
    names: dict[str, Any] = {"__name__": __name__, "usual": usual}
    code = ["def bind(context, arguments):", " try:", "  v = dict(arguments)"]
    for key, adapter in adapters.items():
        place = f"v[{key!r}]"
        if (text := _expression(adapter, place, names)) != place:
            code.append(f"  if {key!r} in v: {place} = {text}")
    code.append(" except Exception: return usual(context, arguments)")
    code += [f" v[{context!r}] = context"] if context else []
    exec(_compiled("\n".join((*code, " return (), v"))), names)  # noqa: S102  made of names and quoted keys only
    return names["bind"]


_compiled: Final = lru_cache(_MOST_HOOKS)(partial(compile, filename="<binder>", mode="exec"))  # tools alike share code
_AUTHORS_HOOKS: Final = ("__attrs_pre_init__", "__attrs_post_init__", "__post_init__")
# The files of constructors by attrs, and by dataclasses and named tuples; and that of attrs' `__setattr__`.
_GENERATED: Final = ("<attrs", "<string>", attrs.fields.__code__.co_filename)


def _runs_authors_code(adapter: TypeAdapter) -> bool:
    """Whether making a value runs code of its class's author, which may have effects."""
    if isinstance(adapter, ConstrainedAdapter):
        return not all(each.keywords for each in adapter.checks)
    if not isinstance(adapter, RecordAdapter):
        own = isinstance(adapter, ScalarAdapter) and adapter.cls is not None
        return own or isinstance(adapter, ReaderAdapter | ForeignAdapter)
    cls: Any = adapter.cls
    methods = (type(cls).__call__, cls.__new__, cls.__init__, cls.__setattr__)
    codes = [each.__code__ for each in methods if hasattr(each, "__code__")]
    fields: Sequence[Any] = attrs.fields(cls) if attrs.has(cls) else ()
    factories = [each.default.factory for each in fields if isinstance(each.default, attrs.Factory)]  # pyright: ignore[reportArgumentType]  a class, typed as a function
    factories += [each.default_factory for each in getattr(cls, "__dataclass_fields__", {}).values()]
    return (
        any(hasattr(cls, name) for name in _AUTHORS_HOOKS)
        or any(each.converter or each.validator for each in fields)
        or any(callable(each) and (get_origin(each) or each).__module__ != "builtins" for each in factories)
        or not all(code.co_filename.startswith(_GENERATED) for code in codes)
    )


# JSON into Python -----------------------------------------------------------------------------------------------------


def _structure_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise StructureError("must be a number that fits a 64-bit float") from None


_NUMBERS: Final[Mapping[str, StructureHook]] = {"integer": int, "number": _structure_float}


def _structure_scalar(adapter: ScalarAdapter) -> StructureHook:
    hook = _NUMBERS.get(adapter.type, same)
    if (cls := adapter.cls) is None:
        return hook
    make: StructureHook = lambda value: cls(hook(value))  # noqa: E731
    return reporting(make, cls.__name__)


def _structure_text(adapter: TextAdapter) -> StructureHook:
    cls, read, wanted = adapter.cls, adapter.notation.read, adapter.notation.wanted

    def structure_text(value: Any) -> Any:
        try:
            return read(cls, value)
        except Exception as error:  # `re` raises `RecursionError` and more, `decimal` its own kinds
            raise StructureError(f"must be {wanted}, got {short_json(value)}") from error

    return structure_text


def _structure_choice(adapter: ChoiceAdapter) -> StructureHook:
    if not adapter.kinds() & NUMBERS and all(each.json is each.value for each in adapter.choices):
        return same
    table = {each.key: each.value for each in adapter.choices}
    return lambda value: table[type(value) is bool, value]


def _structure_array(adapter: ArrayAdapter) -> StructureHook:
    hook, make = structure_hook(adapter.item), tuple if adapter.cls is tuple else same
    if adapter.unique:
        return _structure_set(adapter, hook)
    return make if hook is same else _structure_items(repeat(hook), make)


def _structure_items(hooks: Iterable[StructureHook], make: StructureHook = same) -> StructureHook:
    """A hook for arrays, from a hook for each position."""

    def structure_items(value: Any) -> Any:
        done: list[Any] = []
        try:
            for each, item in zip(hooks, value, strict=False):
                done.append(each(item))
        except Exception as error:  # noqa: BLE001  (handled there)
            raise as_structure_error(error, len(done)) from error.__cause__ or error
        return make(done)

    return structure_items


def _structure_set(adapter: ArrayAdapter, hook: StructureHook) -> StructureHook:
    """A hook for sets; refuses items that differ as JSON and are equal in Python (`1` and `true`, `a` and `a/`)."""
    cls, structure_items = adapter.cls, _structure_items(repeat(hook))
    # Only arrays and objects can be equal as JSON and become values that aren't equal in Python.
    compares = bool(adapter.item.kinds() & (ARRAYS | OBJECTS))

    def structure_set(value: Any) -> Any:
        items = structure_items(value)
        try:
            made = cls(items)
        except TypeError as error:
            raise StructureError("must be an array of hashable items") from error
        if len(made) != len(items) or (compares and len({canonical_json(item) for item in value}) != len(items)):
            raise StructureError("must not hold the same item twice")
        return made

    return structure_set


def _structure_mapping(adapter: MappingAdapter) -> StructureHook:
    hook, read = structure_hook(adapter.item), structure_hook(cast("TypeAdapter", text_key(adapter.key)))
    if hook is same and read is same:
        return same

    def structure_mapping(value: Any) -> Any:
        done: dict[Any, Any] = {}
        name: Any = ""
        try:
            for name, item in value.items():
                done[name if read is same else _key(read, name)] = hook(item)
        except Exception as error:  # noqa: BLE001  (handled there)
            raise as_structure_error(error, name) from error.__cause__ or error
        if len(done) != len(value):
            raise StructureError("must not hold two keys that mean the same")
        return done

    return structure_mapping


def _key(read: StructureHook, name: str) -> Any:
    try:
        return read(name)
    except StructureError as error:
        raise StructureError(f"the key {error.reason}") from error.__cause__


def _structure_record(adapter: RecordAdapter) -> StructureHook:
    cls: Any = adapter.cls
    hooks = [(each.key, structure_hook(each.adapter)) for each in adapter.members]
    if adapter.cls is dict and all(hook is same for _, hook in hooks):
        return same

    def structure_record(value: Any) -> Any:
        fields: dict[str, Any] = {}
        key = ""
        try:
            for key, hook in hooks:
                if key in value:
                    fields[key] = value[key] if hook is same else hook(value[key])
        except Exception as error:  # noqa: BLE001  (handled there)
            raise as_structure_error(error, key) from error.__cause__ or error
        try:
            return cls(**fields)
        except Exception as error:
            raise constructor_error(cls.__name__, error).below(*_refused_field(cls, fields)) from error

    return structure_record


def _refused_field(cls: Any, fields: Mapping[str, Any]) -> Sequence[str]:
    """The key of the field whose validator (of attrs) refuses its value; nothing if it was something else."""
    validated = [each for each in attrs.fields(cls) if each.validator] if attrs.has(cls) else []
    if not validated:
        return []
    made: Any = None
    with suppress(Exception):
        made = cls.__new__(cls)
        made.__init__(**fields)  # sets the attributes, and refuses them again
    for each in validated:
        try:
            if hasattr(made, each.name):
                each.validator(made, each, getattr(made, each.name))
        except Exception:  # noqa: BLE001  (a validator may raise anything)
            return [each.alias]
    return []


def _structure_union(adapter: UnionAdapter) -> StructureHook:
    """A hook that uses the first member that accepts a value; a tag selects among objects that have one."""
    key, tagged = adapter.tag()
    by_tag = {text: structure_hook(each) for text, each in tagged.items()}
    table: dict[type[Any], StructureHook] = {}
    for kind in adapter.kinds():
        if kind is dict and tagged:
            table[kind] = lambda value: by_tag[value[key]](value)
        else:
            table[kind] = _first_accepting([each for each in adapter.members if kind in each.kinds()])
    return same if all(hook is same for hook in table.values()) else lambda value: table[type(value)](value)


def _first_accepting(members: Sequence[TypeAdapter]) -> StructureHook:
    """A hook that uses the first member that accepts a value by an exact schema.

    Trying one hook after the other would take exponential time for recursive types.
    """
    hooks = [structure_hook(each) for each in members]
    if all(hook is hooks[0] for hook in hooks):
        return hooks[0]
    checks = [_schema_check(each, exact=True) for each in members]

    def structure_first(value: Any) -> Any:
        for accepts, hook in zip(checks, hooks, strict=True):
            if accepts(value):
                return hook(value)
        if type(value) is str:
            raise _combined_error(hooks, value)
        nearest = (hook for each, hook in zip(members, hooks, strict=True) if _schema_check(each, exact=False)(value))
        return next(nearest, hooks[0])(value)

    return structure_first


@lru_cache(maxsize=64)
def _schema_check(adapter: TypeAdapter, *, exact: bool) -> Callable[[Any], bool]:
    """A check by schema whether a value is of a type; `exact` includes formats and ranges."""
    writer = SchemaWriter(_text_check if exact else None)
    return compiled(json_text(root_schema(adapter, writer)), writer.formats if exact else None).is_valid


def _text_check(adapter: TypeAdapter) -> Callable[[str], bool]:
    """A check whether the hook of an adapter reads a text."""
    hook = structure_hook(adapter)

    def reads(text: str) -> bool:
        try:
            hook(text)
        except Exception:  # noqa: BLE001  (of the type's own code or a check's)
            return False
        return True

    return reads


def _combined_error(hooks: Iterable[StructureHook], value: str) -> StructureError:
    """One error with the reasons of several members for refusing a text."""
    reasons: dict[str, None] = {}
    for hook in hooks:
        try:
            hook(value)
        except Exception as error:  # noqa: BLE001  (each member refuses in its own way)
            reasons[as_structure_error(error).reason] = None
    return StructureError("; or ".join(list(reasons)[:_MOST_REASONS]))


def _structure_noted(adapter: NotedAdapter) -> StructureHook:
    """A hook that validates by the type's own schema again, where notes may have made the schema accept more."""
    hook = structure_hook(adapter.inner)
    if adapter.notes.keys() <= _HARMLESS or isinstance(adapter.inner, ForeignAdapter):
        return hook
    return strict_hook(adapter.inner)


def _with_checks(hook: StructureHook, checks: Sequence[Any]) -> StructureHook:
    if not checks:
        return hook

    def structure_checked(value: Any) -> Any:
        made = hook(value)
        for check in checks:
            try:
                accepted = check.accepts(made)
            except Exception as error:
                raise StructureError(check.text) from error
            if not accepted:
                raise StructureError(check.text)
        return made

    return structure_checked


def _structure_read(adapter: ReaderAdapter) -> StructureHook:
    hook, read = structure_hook(adapter.inner), reporting(adapter.read, "its type")
    return _with_checks(lambda value: read(value, hook(value)), adapter.checks)


def _structure_foreign(adapter: ForeignAdapter) -> StructureHook:
    """A hook that asserts the formats of a model's schema first, as the model itself accepts more."""
    read = foreign_reader(adapter.cls, adapter.annotation)
    schema = json_text(adapter.given)
    if not (is_pydantic(adapter.cls) or is_msgspec(adapter.cls)) or '"format"' not in schema:
        return read
    validator = compiled(schema, _formats())

    def structure_model(value: Any) -> Any:
        if not validator.is_valid(value):
            raise _format_error(validator.iter_errors(value))
        return read(value)

    return structure_model


def _format_error(errors: Iterable[Any]) -> StructureError:
    """The error for the first text that doesn't match its format, perhaps nested in errors of alternatives."""
    waiting = list(errors)
    for error in waiting:  # grows by nested errors
        details = error.kind.as_dict()
        if (name := details.get("format")) is not None:
            reason = f"must have the format {json_text(name)} of JSON Schema, got {short_json(error.instance)}"
            return StructureError(reason, error.instance_path)
        waiting += chain([details["error"]] if "error" in details else (), *details.get("context", ()))
    return StructureError("must match the formats of its JSON Schema")


@cache
def _formats() -> dict[str, Callable[[str], bool]]:
    """The JSON Schema formats of types that are written as text, checked by their own readers."""
    import datetime as dt
    import uuid

    classes = (dt.date, dt.time, dt.datetime, dt.timedelta, uuid.UUID)
    adapters = [TextAdapter(cls, notation) for cls in classes if (notation := notation_of(cls)) is not None]
    return {str(each.notation.schema["format"]): _text_check(each) for each in adapters}


_STRUCTURE: Final[Mapping[type[TypeAdapter], Callable[[Any], StructureHook]]] = {
    ScalarAdapter: _structure_scalar,
    TextAdapter: _structure_text,
    ChoiceAdapter: _structure_choice,
    ArrayAdapter: _structure_array,
    TupleAdapter: lambda adapter: _structure_items([structure_hook(each) for each in adapter.items], tuple),
    MappingAdapter: _structure_mapping,
    RecordAdapter: _structure_record,
    UnionAdapter: _structure_union,
    AliasAdapter: lambda adapter: structure_hook(adapter.inner),
    NotedAdapter: _structure_noted,
    ConstrainedAdapter: lambda adapter: _with_checks(
        structure_hook(adapter.inner), [each for each in adapter.checks if not each.keywords]
    ),
    ReaderAdapter: _structure_read,
    ForeignAdapter: _structure_foreign,
}


def as_structure_error(error: Exception, *path: str | int) -> StructureError:
    """The `StructureError` for what a hook raised, below `path`."""
    if isinstance(error, StructureError):
        return error.below(*path)
    return StructureError(f"can't be structured ({type(error).__name__})", path)


_MOST_DEFAULT: Final = 10_000  # characters of its JSON text


def json_default(value: Any, adapter: TypeAdapter) -> Any:
    """A default as JSON data; `MISSING` if it has none (NaN), or it is too long to be sent with every request.

    Also if the type doesn't accept it (`x: int = None`), or makes something else of it, as of an enum's member that
    only marks a missing value.
    """
    try:
        data = to_json_data(value)
        if type(data) in (str, list, dict) and len(json_text(data)) > _MOST_DEFAULT:
            return MISSING
        if _is_plainly_of(value, adapter):
            return data
        made = strict_hook(adapter)(data)
    except Exception:  # noqa: BLE001  (no JSON form; a type's own code, or one that is still being read)
        return MISSING
    is_plain = isinstance(value, _PLAIN_KINDS) and not isinstance(value, bytes | bytearray)
    return data if is_plain or isinstance(value, type(made)) or isinstance(made, type(value)) else MISSING


_PLAIN_KINDS: Final[tuple[Any, ...]] = (type(None), str, int, float, Sequence, AbstractSet, Mapping)


def _is_plainly_of(value: Any, adapter: TypeAdapter) -> bool:
    """Whether a value is surely of a type: its own scalar, within its bounds, a listed one, or an empty container."""
    if isinstance(adapter, UnionAdapter):
        return any(_is_plainly_of(value, each) for each in adapter.members)
    if isinstance(adapter, ConstrainedAdapter):
        return _is_plainly_of(value, adapter.inner) and all(each.accepts(value) for each in adapter.checks)
    if isinstance(adapter, ScalarAdapter):
        is_of_type = type(value) in adapter.taken and (type(value) is int or adapter.type != "integer")
        return is_of_type and adapter is not ANY and adapter.cls is None
    if isinstance(adapter, ChoiceAdapter):
        return any(type(each.value) is type(value) and each.value == value for each in adapter.choices)
    return isinstance(adapter, ArrayAdapter | MappingAdapter) and type(value) in adapter.kinds() and not value
