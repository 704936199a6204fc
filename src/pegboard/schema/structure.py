"""JSON into Python, by type: hooks for the cattrs converter of tools' types, made of type adapters.

The law: what the derived schema takes is structured, and nothing is converted that JSON Schema distinguishes. The
schema validates first, so hooks check only what no schema can say (dates, decimals, checks in Python), and raise a
`StructureError` with its path. cattrs makes the code for classes; it is imported when there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, repeat
from typing import Any, Final, cast

import attrs

from pegboard.schema.adapters import (
    ARRAYS,
    INTEGER,
    NULL,
    NUMBERS,
    OBJECTS,
    TEXT,
    TEXTS,
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
    SchemaWriter,
    TextAdapter,
    TupleAdapter,
    TypeAdapter,
    UnionAdapter,
    key_texts,
)
from pegboard.schema.converter import (
    HookField,
    StructureHook,
    foreign_reader,
    is_msgspec,
    is_pydantic,
    made_of_fields,
    noted_step,
    refused_by,
    same,
    structure_hook,
    unstructure_hook,
)
from pegboard.schema.dump import written_names
from pegboard.schema.json import StructureError, canonical_json, json_text, kind_shown, shown
from pegboard.schema.references import compiled
from pegboard.schema.text import notation_of
from pegboard.schema.types import adapter_of, root_schema
from pegboard.schema.validator import Validator

_MOST_REASONS: Final = 3
_TELLING: Final = frozenset({"description", "title", "examples", "default", "deprecated", "format", "$comment"})
_NARROWING: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern"}
    | {"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"}
)


# Public ---------------------------------------------------------------------------------------------------------------


def structure(value: Any, annotation: object) -> Any:
    """JSON data as a value of any type that a tool's parameter may have; nothing is coerced.

    Raises:
        StructureError: It doesn't fit the type's schema, or is refused by the type itself.
        DefinitionError: JSON can't say the type.
    """
    return strict_structurer(annotation)(value)


def structurer(annotation: object) -> Callable[[Any], Any] | None:
    """What turns JSON data that the derived schema has taken into the Python value.

    Returns:
        JSON data -> Python value; raises `StructureError`, and nothing else, for what no schema can say. `None` where
        the JSON data is the Python value already (text, `list[str]`, `Literal`s, `Any`).
    """
    hook = structure_hook(adapter_of(annotation))
    return None if hook is same else _guarded(hook)


def strict_structurer(annotation: object) -> Callable[[Any], Any]:
    """As `structurer`, but never `None`: for values that no derived schema has validated, which it does first.

    Raises:
        DefinitionError: JSON can't say the type.
    """
    return _strict(adapter_of(annotation))


def unstructurer(annotation: object) -> Callable[[Any], Any] | None:
    """What turns a value of a type into JSON data; `None` where the value is JSON data already.

    A value of a derived class is written with the fields of the declared one. One of another type may raise anything:
    it is for `to_json_data`, which writes it by its own class.

    Raises:
        DefinitionError: JSON can't say the type.
    """
    hook = unstructure_hook(adapter_of(annotation))
    return None if hook is same else hook


def _strict(adapter: TypeAdapter) -> Callable[[Any], Any]:
    require = Validator(json_text(root_schema(adapter))).require
    make = _guarded(structure_hook(adapter))

    def structure_strictly(value: Any) -> Any:
        require(value)
        return make(value)

    return structure_strictly


def _guarded(hook: StructureHook) -> Callable[[Any], Any]:
    def structure_guarded(value: Any) -> Any:
        try:
            return hook(value, None)
        except Exception as error:  # noqa: BLE001  (handled there)
            raise refusal(error) from error.__cause__ or error

    return structure_guarded


# JSON into Python -----------------------------------------------------------------------------------------------------


def _structure_number(value: Any, _type: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise StructureError("must be a number that fits a 64-bit float") from None


def _structure_scalar(adapter: ScalarAdapter) -> StructureHook:
    hooks: Mapping[str, StructureHook] = {"integer": lambda value, _: int(value), "number": _structure_number}
    hook = hooks.get(adapter.type, same)
    if (cls := adapter.cls) is None:
        return hook

    def structure_derived(value: Any, _type: Any) -> Any:
        scalar = hook(value, None)
        try:
            return cls(scalar)
        except Exception as error:
            raise refused_by(cls, error) from error

    return structure_derived


def _structure_text(adapter: TextAdapter) -> StructureHook:
    cls, read, wanted = adapter.cls, adapter.notation.read, adapter.notation.wanted

    def structure_text(value: Any, _type: Any) -> Any:
        try:
            return read(cls, value)
        except Exception as error:  # `re` raises `RecursionError` and more, `decimal` its own kinds
            raise StructureError(f"must be {wanted}, got {shown(value)}") from error

    return structure_text


def _structure_choice(adapter: ChoiceAdapter) -> StructureHook:
    if adapter.kinds() == TEXTS:
        texts = {each.json: each.value for each in adapter.choices}
        return same if all(type(value) is str for value in texts.values()) else lambda value, _: texts[value]
    table = {each.key: each.value for each in adapter.choices}
    if not adapter.kinds() & NUMBERS and all(each.json is each.value for each in adapter.choices):
        return same
    return lambda value, _: table[type(value) is bool, value]


def _structure_flag(adapter: FlagAdapter) -> StructureHook:
    cls, mask, wanted = adapter.cls, adapter.mask, adapter.describe()

    def structure_flag(value: Any, _type: Any) -> Any:
        number = int(value)
        if number & ~mask:
            raise StructureError(f"must be {wanted}, got {kind_shown(value)}")
        return cls(number)

    return structure_flag


def _structure_array(adapter: ArrayAdapter) -> StructureHook:
    hook, make = structure_hook(adapter.item), adapter.make
    if adapter.unique:
        return _structure_set(adapter, hook)
    if hook is same:
        return same if make is None else lambda value, _: make(value)
    return _structure_items(hook, make)


def _structure_items(
    hook: StructureHook | Sequence[StructureHook], make: Callable[[list[Any]], Any] | None = None
) -> StructureHook:
    """Of a hook for each item, or of one for each place of a tuple."""
    hooks = repeat(hook) if callable(hook) else hook

    def structure_items(value: Any, _type: Any) -> Any:
        done: list[Any] = []
        try:
            for each, item in zip(hooks, value, strict=False):
                done.append(each(item, None))
        except Exception as error:  # noqa: BLE001  (handled there)
            raise refusal(error, len(done)) from error.__cause__ or error
        return done if make is None else make(done)

    return structure_items


def _structure_set(adapter: ArrayAdapter, hook: StructureHook) -> StructureHook:
    """Items that differ as JSON and are equal in Python (`1` and `true`, two spellings of one path) are refused."""
    cls, structure_items = cast("type[Any]", adapter.make), _structure_items(hook)
    # Only arrays and objects can be equal as JSON and made into what isn't equal in Python.
    compares = bool(adapter.item.kinds() & (ARRAYS | OBJECTS))

    def structure_set(value: Any, _type: Any) -> Any:
        items = structure_items(value, None)
        try:
            made = cls(items)
        except TypeError as error:
            raise StructureError("must be an array of hashable items") from error
        if len(made) != len(items) or (compares and len({canonical_json(item) for item in value}) != len(items)):
            raise StructureError("must not hold the same item twice")
        return made

    return structure_set


def _structure_mapping(adapter: MappingAdapter) -> StructureHook:
    read, hook, make = _key_reader(adapter.key), structure_hook(adapter.item), adapter.make
    if read is same and hook is same:
        return same if make is None else lambda value, _: make(value)

    def structure_mapping(value: Any, _type: Any) -> Any:
        done: dict[Any, Any] = {}
        name: Any = ""
        try:
            for name, item in value.items():
                done[name if read is same else _key(read, name)] = hook(item, None)
        except Exception as error:  # noqa: BLE001  (handled there)
            raise refusal(error, name) from error.__cause__ or error
        if len(done) != len(value):
            raise StructureError("must not hold two keys that mean the same")
        return done if make is None else make(done)

    return structure_mapping


def _key(read: StructureHook, name: str) -> Any:
    try:
        return read(name, None)
    except StructureError as error:
        raise StructureError(f"the key {error.reason}") from error.__cause__


def _key_reader(adapter: TypeAdapter) -> StructureHook:
    """Text -> key."""
    if isinstance(adapter, NotedAdapter):
        return _key_reader(adapter.inner)
    if adapter is INTEGER:
        return _read_integer
    if isinstance(adapter, ChoiceAdapter):
        texts = key_texts(adapter)
        return same if all(text is key for text, key in texts.items()) else lambda text, _: texts[text]
    if not isinstance(adapter, ConstrainedAdapter):
        return structure_hook(adapter)
    # The schema has the constraints on text, and none on what the text is read as.
    is_text = adapter.inner is TEXT
    checks = [each for each in adapter.checks if not (is_text and each.keywords)]
    return _checked(_key_reader(adapter.inner), checks)


def _read_integer(text: str, _type: Any) -> int:
    try:
        return int(text)
    except ValueError:
        raise StructureError("must have fewer digits") from None


def _structure_record(adapter: RecordAdapter) -> StructureHook:
    if adapter.cls is dict:
        return _structure_typed_dict({each.key: structure_hook(each.adapter) for each in adapter.members})
    fields = (
        HookField(
            each.key,
            each.key,
            each.adapter,
            attrs.NOTHING if each.required else None,
            same if structure_hook(each.adapter) is same else None,
        )
        for each in adapter.members
    )
    return made_of_fields("structure", adapter.cls, fields)


def _structure_typed_dict(hooks: Mapping[str, StructureHook]) -> StructureHook:
    if all(hook is same for hook in hooks.values()):
        return same

    def structure_typed_dict(value: Any, _type: Any) -> dict[str, Any]:
        done: dict[str, Any] = {}
        key = ""
        try:
            for key, hook in hooks.items():
                if key in value:
                    done[key] = hook(value[key], None)
        except Exception as error:  # noqa: BLE001  (handled there)
            raise refusal(error, key) from error.__cause__ or error
        return done

    return structure_typed_dict


def _structure_union(adapter: UnionAdapter) -> StructureHook:
    """Hands a value to the first member that takes it; the tag decides between objects that have one."""
    hooks = {each: structure_hook(each) for each in adapter.members}
    key, tagged = adapter.tag()
    by_tag = {text: hooks[each] for text, each in tagged.items()}
    table: dict[type[Any], StructureHook] = {}
    made: dict[tuple[TypeAdapter, ...], StructureHook] = {}
    for kind in adapter.kinds():
        taking = tuple(each for each in adapter.members if kind in each.kinds())
        if kind is dict and tagged:
            table[kind] = lambda value, _: by_tag[value[key]](value, None)
        else:
            table[kind] = made[taking] = made.get(taking) or _first(taking, hooks)
    if all(hook is same for hook in table.values()):
        return same
    if len(hooks) == 2 and NULL in hooks and len(set(map(id, table.values()))) == 2:
        other = next(hook for each, hook in hooks.items() if each is not NULL)
        return lambda value, _: None if value is None else other(value, None)
    return lambda value, _: table[type(value)](value, None)


def _first(members: Sequence[TypeAdapter], hooks: Mapping[TypeAdapter, StructureHook]) -> StructureHook:
    """The hook of the first member that takes a value, found by a schema that is exact.

    Trying one hook after the other would take exponential time for types made of themselves.
    """
    if len({id(hooks[each]) for each in members}) == 1:
        return hooks[members[0]]
    choices = [(_test(each, exact=True), hooks[each]) for each in members]

    def structure_first(value: Any, _type: Any) -> Any:
        for accepts, hook in choices:
            if accepts(value):
                return hook(value, None)
        if type(value) is str:
            raise _joined([hook for _, hook in choices], value)
        nearest = next((each for each in members if _test(each, exact=False)(value)), members[0])
        return hooks[nearest](value, None)

    return structure_first


@lru_cache(maxsize=64)
def _test(adapter: TypeAdapter, *, exact: bool) -> Callable[[Any], bool]:
    """Whether a value is of a type; exactly, formats included, as far as it can be known without making one."""
    writer = SchemaWriter(exact=exact)
    text = json_text(root_schema(adapter, writer))
    return compiled(text, writer.formats if exact else None).is_valid


def _joined(hooks: Iterable[StructureHook], value: str) -> StructureError:
    """The reasons of several members for refusing a text, in one."""
    reasons: dict[str, None] = {}
    for hook in hooks:
        try:
            hook(value, None)
        except Exception as error:  # noqa: BLE001  (each member refuses in its own way)
            reasons[refusal(error).reason] = None
    return StructureError("; or ".join(list(reasons)[:_MOST_REASONS]))


def _structure_noted(adapter: NotedAdapter) -> StructureHook:
    """Notes that may make the schema take what the type doesn't have the type's own schema validate it again."""
    hook = structure_hook(adapter.inner)
    own = adapter.inner.schema(SchemaWriter()).keys()
    beyond = adapter.notes.keys() - _TELLING
    if not beyond or isinstance(adapter.inner, ForeignAdapter) or (beyond <= _NARROWING and not beyond & own):
        return hook
    make = _strict(adapter.inner)
    return lambda value, _: make(value)


def _checked(hook: StructureHook, checks: Sequence[Any]) -> StructureHook:
    if not checks:
        return hook

    def structure_checked(value: Any, _type: Any) -> Any:
        made = hook(value, None)
        for check in checks:
            try:
                accepted = check.accepts(made)
            except Exception as error:
                raise StructureError(check.text) from error
            if not accepted:
                raise StructureError(check.text)
        return made

    return structure_checked


def _structure_foreign(adapter: ForeignAdapter) -> StructureHook:
    """A model converts more than what has the formats of its schema; those are asserted before."""
    read = foreign_reader(adapter.cls, adapter.annotation)
    schema = json_text(adapter.given)
    if not (is_pydantic(adapter.cls) or is_msgspec(adapter.cls)) or '"format"' not in schema:
        return lambda value, _: read(value)
    validator = compiled(schema, _formats())

    def structure_model(value: Any, _type: Any) -> Any:
        if not validator.is_valid(value):
            raise _refused_format(validator.iter_errors(value))
        return read(value)

    return structure_model


def _refused_format(errors: Iterable[Any]) -> StructureError:
    """The error for the first text that doesn't have its format, which may be below errors of alternatives."""
    waiting = list(errors)
    for error in waiting:  # grows by what is below
        details = error.kind.as_dict()
        if (name := details.get("format")) is not None:
            reason = f"must have the format {json_text(name)} of JSON Schema, got {shown(error.instance)}"
            return StructureError(reason, error.instance_path)
        waiting += chain([details["error"]] if "error" in details else (), *details.get("context", ()))
    return StructureError("must have the formats of its JSON Schema")


@cache
def _formats() -> dict[str, Callable[[str], bool]]:
    """The formats of JSON Schema that our own types have, by our own readers."""
    import datetime as dt
    import uuid

    classes = (dt.date, dt.time, dt.datetime, dt.timedelta, uuid.UUID)
    adapters = [TextAdapter(cls, notation) for cls in classes if (notation := notation_of(cls)) is not None]
    return {str(each.notation.schema["format"]): each.reads for each in adapters}


_STRUCTURE: Final[Mapping[type[TypeAdapter], Callable[[Any], StructureHook]]] = {
    ScalarAdapter: _structure_scalar,
    AnyAdapter: lambda _: same,
    TextAdapter: _structure_text,
    ChoiceAdapter: _structure_choice,
    FlagAdapter: _structure_flag,
    ArrayAdapter: _structure_array,
    TupleAdapter: lambda adapter: _structure_items([structure_hook(each) for each in adapter.items], tuple),
    MappingAdapter: _structure_mapping,
    RecordAdapter: _structure_record,
    UnionAdapter: _structure_union,
    AliasAdapter: lambda adapter: structure_hook(adapter.inner),
    NotedAdapter: _structure_noted,
    ConstrainedAdapter: lambda adapter: _checked(
        structure_hook(adapter.inner), [each for each in adapter.checks if not each.keywords]
    ),
    ForeignAdapter: _structure_foreign,
}
structure_hook.makers.update(_STRUCTURE)


# Errors ---------------------------------------------------------------------------------------------------------------


def refusal(error: Exception, *path: str | int) -> StructureError:
    """What a hook has raised, as seen from further out; of what cattrs has collected, the first."""
    found = error
    while isinstance(found, ExceptionGroup):  # of a class: cattrs notes the field, but not where the class refuses
        group, found = cast("Any", found), cast("Exception", found.exceptions[0])
        if (step := noted_step(found)) is None:
            return _refused(getattr(group.cl, "func", group.cl), found, path)
        path = (*path, step)
    if isinstance(found, StructureError):
        return found.below(*path)
    return StructureError(f"can't be structured ({type(found).__name__})", path)


def _refused(cls: type[Any], error: Exception, path: tuple[str | int, ...]) -> StructureError:
    """The error for what a constructor has raised, at the field that it complains of if that can be known."""
    name = _attribute_at_fault(cls, error)
    keys = [key for attribute, key in written_names(cls) or () if attribute == name]
    return refused_by(cls, error).below(*path, *keys)


def _attribute_at_fault(cls: type[Any], error: Exception) -> str | None:
    """The name of the attribute that an attrs class complains of, or `None` where that can't be known.

    A validator of attrs puts the attribute among its error's arguments; one of the class's own has it among its
    parameters; and a converter refuses the value again.
    """
    import traceback

    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    for values in (error.args, *(frame.values() for frame in reversed(frames))):
        for value in values:
            if isinstance(value, attrs.Attribute):
                return cast("attrs.Attribute[Any]", value).name
    arguments: Mapping[str, Any] = frames[0].get("res", {}) if frames else {}  # of the function that cattrs has made
    for each in attrs.fields(cls) if attrs.has(cls) else ():
        if callable(each.converter) and each.alias in arguments:
            try:
                each.converter(arguments[each.alias])
            except type(error):
                return each.name
            except Exception:  # noqa: BLE001, S112  (it wants more than the value: it can't be asked)
                continue
    return None
