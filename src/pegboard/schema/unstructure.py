"""Python into JSON data, by type: hooks for the one cattrs converter, made of type adapters."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from pegboard.schema.adapters import (
    NULL,
    TEXT,
    AliasAdapter,
    AnyAdapter,
    ArrayAdapter,
    ChoiceAdapter,
    ConstrainedAdapter,
    DerivedAdapter,
    FlagAdapter,
    MappingAdapter,
    NotedAdapter,
    RecordAdapter,
    ScalarAdapter,
    TextAdapter,
    TupleAdapter,
    TypeAdapter,
    UnionAdapter,
    bare,
)
from pegboard.schema.converter import (
    ForeignAdapter,
    HookField,
    Hooks,
    UnstructureHook,
    converter,
    in_code,
    model_writer,
    same,
    type_variables,
)
from pegboard.schema.dump import in_order, to_json_data
from pegboard.schema.text import nearest_notation
from pegboard.schema.types import adapter_of

if TYPE_CHECKING:
    from cattrs import Converter

_MATCH_DEPTH: Final = 3
"""How far a union looks into a Python value to find its member: a type made of itself could take forever."""


def unstructurer(annotation: object) -> Callable[[Any], Any] | None:
    """What turns a value of a type into JSON data.

    A value of a derived class is written with the fields of the declared one.

    Returns:
        Python value -> JSON data; `None` where the value is JSON data already. Of a value of another type it may raise
        anything: such a value is for `to_json_data`, which writes it by its own class.

    Raises:
        DefinitionError: JSON can't say the type.
    """
    hook = unstructure_hook(adapter_of(annotation))
    return None if hook is same else hook


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
    return unstructure_hook(adapter) if adapter is TEXT or not isinstance(adapter, ScalarAdapter) else str


@cache
def _converter() -> Converter:
    """The one cattrs converter, which finds the hooks of a class's fields by their adapters."""
    found = converter()
    found.register_unstructure_hook_factory(lambda each: isinstance(each, TypeAdapter), _cattrs_hook)
    return found


def _cattrs_hook(adapter: TypeAdapter) -> UnstructureHook:
    """The hook, or cattrs's own that does nothing, which it leaves out of the code that it makes."""
    from cattrs.fns import identity

    hook = unstructure_hook(adapter)
    return identity if hook is same else hook


def _unstructure_record(adapter: RecordAdapter) -> UnstructureHook:
    if adapter.cls is dict:
        hooks = {each.key: unstructure_hook(each.adapter) for each in adapter.members}
        if all(hook is same for hook in hooks.values()):
            return same
        return lambda value: {key: hooks[key](item) for key, item in value.items()}
    from cattrs import gen

    fields = [
        HookField(each.attribute, each.key, each.adapter, attrs.NOTHING)
        for each in adapter.members
        if each.attribute is not None
    ]
    return cast("Any", gen).make_dict_unstructure_fn_from_attrs(
        fields,
        in_code(adapter.cls),
        _converter(),
        type_variables(adapter.cls),
        _cattrs_use_linecache=False,
        _cattrs_use_alias=True,
    )


def _unstructure_union(adapter: UnionAdapter) -> UnstructureHook:
    """By the first member that the value looks to be of; a value of none is written by its own class."""
    hooks = [(each, unstructure_hook(each)) for each in adapter.members]
    if all(hook is same for _, hook in hooks):
        return same
    if len(hooks) == 2 and adapter.members[1] is NULL:
        hook = hooks[0][1]
        return lambda value: None if value is None else hook(value)
    exact = _by_class(adapter)

    def unstructure_union(value: Any) -> Any:
        if (hook := exact.get(cast("type[Any]", type(value)))) is not None:
            return hook(value)
        for member, hook in hooks:
            if _matches(member, value, _MATCH_DEPTH):
                return hook(value)
        return to_json_data(value)

    return unstructure_union


def _by_class(adapter: UnionAdapter) -> Mapping[type[Any], UnstructureHook]:
    """The hooks for instances of exactly a member's class, so that a base class doesn't take them."""
    records = [found for each in adapter.members if isinstance(found := bare(each), RecordAdapter)]
    classes = [each.cls for each in records if each.cls is not dict]
    return {each.cls: unstructure_hook(each) for each in records if classes.count(each.cls) == 1}


def _matches(adapter: TypeAdapter, value: Any, depth: int) -> bool:
    """Whether a Python value looks like one of the type's, as deep as `depth` levels of containers."""
    return _MATCHERS.get(type(adapter), lambda adapter, value, _: isinstance(value, adapter.cls))(adapter, value, depth)


def _matches_array(adapter: ArrayAdapter, value: Any, depth: int) -> bool:
    """By what is in it, but never text; of sets either kind."""
    classes = (set, frozenset) if adapter.unique else adapter.cls
    if not isinstance(value, classes) or isinstance(value, str | bytes):
        return False
    return depth == 0 or all(_matches(adapter.item, item, depth - 1) for item in cast("Iterable[Any]", value))


def _matches_tuple(adapter: TupleAdapter, value: Any, depth: int) -> bool:
    if not isinstance(value, tuple) or len(items := cast("tuple[Any, ...]", value)) != len(adapter.items):
        return False
    return depth == 0 or all(_matches(each, item, depth - 1) for each, item in zip(adapter.items, items, strict=True))


def _matches_mapping(adapter: MappingAdapter, value: Any, depth: int) -> bool:
    if not isinstance(value, adapter.cls):
        return False
    members = cast("Mapping[Any, Any]", value).items()
    return depth == 0 or all(
        _matches(adapter.key, key, depth) and _matches(adapter.item, item, depth - 1) for key, item in members
    )


def _matches_record(adapter: RecordAdapter, value: Any, depth: int) -> bool:
    """By class; where that doesn't say enough, by what is in it too."""
    if not isinstance(value, adapter.cls):
        return False
    if adapter.cls is dict:
        known = {each.key: each.adapter for each in adapter.members}
        members = cast("Mapping[str, Any]", value)
        return (
            members.keys() <= known.keys()
            and all(each.key in members for each in adapter.members if each.required)
            and (depth == 0 or all(_matches(known[key], item, depth - 1) for key, item in members.items()))
        )
    if depth == 0 or not adapter.is_generic:
        return True
    readable = ((each.adapter, each.attribute) for each in adapter.members if each.attribute is not None)
    return all(_matches(each, getattr(value, attribute), depth - 1) for each, attribute in readable)


def _matches_inner(adapter: Any, value: Any, depth: int) -> bool:
    return _matches(adapter.inner, value, depth)


_MATCHERS: Final[Mapping[type[TypeAdapter], Callable[[Any, Any, int], bool]]] = {
    ScalarAdapter: lambda adapter, value, _: type(value) in adapter.classes,
    AnyAdapter: lambda _, value, depth: True,  # noqa: ARG005  (every value)
    TextAdapter: lambda adapter, value, _: (
        isinstance(value, adapter.cls) and nearest_notation(cast("type[Any]", type(value))) is adapter.notation
    ),
    ChoiceAdapter: lambda adapter, value, _: any(
        type(value) is type(each.value) and value == each.value for each in adapter.choices
    ),
    ArrayAdapter: _matches_array,
    TupleAdapter: _matches_tuple,
    MappingAdapter: _matches_mapping,
    RecordAdapter: _matches_record,
    UnionAdapter: lambda adapter, value, depth: any(_matches(each, value, depth) for each in adapter.members),
    AliasAdapter: _matches_inner,
    NotedAdapter: _matches_inner,
    ConstrainedAdapter: _matches_inner,
}


def _unstructure_foreign(adapter: ForeignAdapter) -> UnstructureHook:
    """As it writes itself, or by its hook, which may give what isn't JSON yet."""
    write = model_writer(adapter.cls) or _converter().get_unstructure_hook(adapter.cls)
    return lambda value: to_json_data(write(value))


_BARE: Final[Mapping[str, UnstructureHook]] = {"string": str.__str__, "integer": int.__int__, "number": float.__float__}
_UNSTRUCTURE: Final[Mapping[type[TypeAdapter], Callable[[Any], UnstructureHook]]] = {
    ScalarAdapter: lambda _: same,
    AnyAdapter: lambda _: to_json_data,
    DerivedAdapter: lambda adapter: _BARE[adapter.scalar.type],  # whatever the class makes of `str()` and its kin
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
unstructure_hook: Final[Hooks[UnstructureHook]] = Hooks(_UNSTRUCTURE)
"""Adapter -> hook that unstructures its values."""
