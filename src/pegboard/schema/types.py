"""JSON Schema from types: annotations are parsed into type adapters, which write their schemas."""

from __future__ import annotations

import copy
import enum
import inspect
import math
import re
import sys
import types
import typing
from collections import abc
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NoReturn, TypeAlias, TypeVar, Union, cast

import attrs
from attrs import field

from pegboard.errors import DefinitionError
from pegboard.schema.adapters import (
    ANY,
    KINDS_OF,
    NULL,
    SCALARS,
    TEXT,
    AliasAdapter,
    ArrayAdapter,
    Choice,
    ChoiceAdapter,
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
    object_of,
    reach,
    root_schema,
    text_key,
)
from pegboard.schema.constraints import (
    NothingLeftError,
    constrain,
    constraints_of,
    expand_metadata,
    find_ignored_constraints,
    is_read_by_pydantic,
    marker_text,
    narrow,
    needs_pydantic,
    notes_of,
    validator_constraints,
)
from pegboard.schema.conversion import json_default
from pegboard.schema.converter import converter, has_hook, is_pydantic, model_defaults, model_schema, pydantic_reader
from pegboard.schema.docstrings import attribute_docs, parse_docstring
from pegboard.schema.fields import (
    ANNOTATED,
    MISSING,
    ClassField,
    declaration_of,
    fields_of,
    fills_or_names,
    is_dataclass,
    is_field,
    is_typed_dict,
    substitute,
    type_for_unbound,
)
from pegboard.schema.text_types import notation_of
from pegboard.typing import JsonSchema, define, frozen

_HINT: Final = (
    "Pass input_schema=..., or use a class of attrs, pydantic or msgspec, a dataclass or a TypedDict, or register "
    "a hook with pegboard.schema.converter.converter() and add its schema to the type (Annotated[X, {...}])."
)
_INSTEAD: Final[Mapping[str, str]] = {
    "Callable": "the name of the function (Literal or an enum)",
    **dict.fromkeys(("Iterator", "Generator", "deque"), "a list"),
    **dict.fromkeys(("Counter", "defaultdict", "OrderedDict"), "a dict"),
}
_UNWRAPPED: Final = ("Final", "ClassVar", "Required", "NotRequired", "ReadOnly")
_MOST_CACHED: Final = 4096
_Known: TypeAlias = dict[Hashable, tuple[Any, TypeAdapter]]  # annotations with their adapters, by key
_cache: Final[_Known] = {}


# Schemas --------------------------------------------------------------------------------------------------------------


@frozen
class Property:
    """One parameter; required if its default is `MISSING`. Its description takes precedence over its type's."""

    name: str
    annotation: Any
    description: str | None = None
    default: Any = MISSING


def schema_of(annotation: object, *, tool: str = "", path: str = "", written: bool = False) -> JsonSchema:
    """The JSON Schema (draft 2020-12) of one type, as `get_type_hints(..., include_extras=True)` gives it.

    References are inlined except to recursive types: those are in `$defs` at the root, and the root itself is written
    out. `written` is for results, which models may write in another form than they read.

    Raises:
        DefinitionError: The type has no JSON Schema; names the tool, the path of the part at fault, its annotation and
            what to do instead.
    """
    return copy.deepcopy(root_schema(adapter_of(annotation, tool=tool, path=path), SchemaWriter(written=written)))


def object_schema(
    properties: Sequence[Property], *, tool: str = "", additional: object = MISSING, written: bool = False
) -> JsonSchema:
    """The schema of an object with these properties, in their order; its parts are shared, and not to be changed.

    A default is written if its JSON has at most 10,000 characters and the type accepts it; otherwise, the property is
    still optional. `additional` is the type of other keys' values (`**kwargs`). Raises as `schema_of`.
    """
    writer = SchemaWriter(written=written)
    members: list[Member] = []
    for each in properties:
        adapter = adapter_of(each.annotation, tool=tool, path=each.name)
        notes = _notes(each.description, each.default, adapter)
        members.append(Member(each.name, adapter, each.default is MISSING, notes))
    schema = object_of(members, writer)
    if additional is not MISSING:
        schema["additionalProperties"] = writer.write(adapter_of(additional, tool=tool, path="**")) or True
    return {**schema, "$defs": writer.definitions} if writer.definitions else schema


def _notes(description: str | None, default: Any, adapter: TypeAdapter) -> JsonSchema:
    """The keywords for a description and a default, if given."""
    notes: JsonSchema = {"description": description} if description else {}
    if default is not MISSING and (data := json_default(default, adapter)) is not MISSING:
        notes["default"] = data
    return notes


# Annotations as keys and as text --------------------------------------------------------------------------------------

_LITERAL: Final[Any] = typing.Literal
_ODD: Final = re.compile(r"[^A-Za-z0-9_]+")
_MODULE: Final = re.compile(r"\b(?:[A-Za-z_]\w*\.)+")


def annotation_key(annotation: Any) -> Hashable:
    """A cache key, equal only for annotations that mean the same.

    Python treats `int | str` and `str | int` as equal, and `Annotated` with equal metadata; but the order of a union
    decides which member is tried first, and equal metadata may differ. A key that contains an `id` is valid as long as
    its annotation is alive.
    """
    if isinstance(annotation, type):
        return annotation
    # Read directly: `typing.get_origin` and `get_args` take several times as long.
    arguments: tuple[Any, ...] | None = getattr(annotation, "__args__", None)
    if arguments is None:
        return annotation if isinstance(annotation, Hashable) else id(annotation)
    if type(annotation) is types.UnionType:
        return (typing.Union, *map(annotation_key, arguments))
    origin = annotation.__origin__
    if type(annotation) is ANNOTATED:
        notes = [each if type(each) is str else id(each) for each in annotation.__metadata__]
        return (ANNOTATED, annotation_key(origin), *notes)
    if origin is _LITERAL:
        return (origin, *[(type(each).__name__, each) for each in arguments])
    return (origin, *map(annotation_key, arguments))


def _annotation_name(annotation: Any) -> str:
    """A name for `$defs`: `Node`, `Box_int`."""
    return _ODD.sub("_", _annotation_text(annotation)).strip("_")


def _annotation_text(annotation: Any) -> str:
    """An annotation as source text, without modules: `Box[int]`."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation.__name__
    return _MODULE.sub("", repr(annotation))


# The reader -----------------------------------------------------------------------------------------------------------


def adapter_of(annotation: Any, *, tool: str = "", path: str = "") -> TypeAdapter:
    """The adapter of a resolved annotation, cached; `DefinitionError`, with tool and path, if it has no JSON Schema."""
    key = annotation_key(annotation)
    known = _cache.get(key)
    if known is not None:
        return known[1]
    reader = _Reader(tool, annotation)
    adapter = reader.read(annotation, path)
    if len(_cache) >= _MOST_CACHED:  # functions that define tools may create any number of annotations
        _cache.clear()
    _cache.update(reader.records)
    _cache[key] = (annotation, adapter)  # keeps the annotation alive, so that ids in the key stay valid
    return adapter


@define
class _Reader:
    """Parser of one annotation (`whole`) and its parts."""

    tool: str
    whole: Any
    # Of classes, complete or being read, by the key of their annotations:
    records: _Known = field(factory=dict[Any, Any], init=False)
    _aliases: dict[Hashable, AliasAdapter] = field(factory=dict[Hashable, AliasAdapter], init=False)
    _owner: Any = field(default=None, init=False)

    def refuse(self, annotation: Any, path: str, why: str, hint: str = _HINT) -> NoReturn:
        """Raises the error for an annotation without JSON Schema."""
        raise DefinitionError(why, tool=self.tool, parameter=path, annotation=annotation, hint=hint)

    def read(self, annotation: Any, path: str) -> TypeAdapter:
        """The adapter of an annotation, or of a part of the one being read."""
        origin = typing.get_origin(annotation)
        if origin is None:
            return self._single(annotation, path)
        if origin is Annotated:
            return self._annotated(annotation, path)
        if origin is Union or origin is types.UnionType:
            members = dict.fromkeys(self.read(each, path) for each in typing.get_args(annotation))
            return UnionAdapter(tuple(members)) if len(members) > 1 else next(iter(members))
        if origin is Literal:
            return self._choices_of(annotation, typing.get_args(annotation), path)
        if getattr(origin, "_name", "") in _UNWRAPPED:
            return self.read(typing.get_args(annotation)[0], path)
        return self._alias(origin, annotation, path) if _is_alias(origin) else self._class(origin, annotation, path)

    def _single(self, annotation: Any, path: str) -> TypeAdapter:
        """An annotation without arguments: a class, or a name for a type."""
        if annotation is None:
            return NULL
        if isinstance(annotation, type):
            return self._class(annotation, annotation, path)
        if _is_alias(annotation):
            return self._alias(annotation, annotation, path)
        if isinstance(annotation, TypeVar):
            return self.read(type_for_unbound(annotation), path)
        if isinstance(annotation, typing.NewType):  # whose values a hook for it reads
            adapter = self.read(annotation.__supertype__, path)
            hook = converter().get_structure_hook(annotation) if has_hook(annotation) else None
            return ReaderAdapter(adapter, lambda value, _: hook(value, annotation)) if hook else adapter
        return self._special(annotation, path)

    def _special(self, annotation: Any, path: str) -> TypeAdapter:
        """`Self`, `LiteralString`, a bare `Final`."""
        name = getattr(annotation, "_name", "")
        if name == "Self" and self._owner is not None:
            return self.read(self._owner, path)
        if name in ("LiteralString", "Final"):
            return TEXT if name == "LiteralString" else ANY
        if isinstance(annotation, str | typing.ForwardRef):
            hint = "Define the name at module level; a recursive type needs TypeAliasType (`type X = ...`)."
            self.refuse(annotation, path, f"{annotation!r} isn't resolved", hint)
        return self.refuse(annotation, path, f"{annotation!r} has no JSON Schema")

    def _annotated(self, annotation: Any, path: str) -> TypeAdapter:
        metadata = list(expand_metadata(annotation.__metadata__))
        fields = [each for each in metadata if is_field(each)]
        if any(map(fills_or_names, fields)) and annotation is not self.whole:
            why = "pydantic.Field(...) can give a default or alias only to a parameter, and this is a part of a type"
            self.refuse(annotation, path, why, "Remove them from Field(...).")
        notes = notes_of(metadata)
        try:
            for change in [each.json_schema_extra for each in fields if callable(each.json_schema_extra)]:
                change(notes)
        except Exception as error:  # noqa: BLE001  (any of the author's function)
            self.refuse(annotation, path, f"its metadata can't be read: {error}", "Correct it.")
        # What pydantic's validators state to read; `Json` reads a text.
        stated = [kind for each in metadata if (kind := getattr(each, "json_schema_input_type", Any)) is not Any]
        stated = [each for each in stated if type(each).__name__ != "PydanticUndefinedType"]
        stated += [str for each in metadata if type(each).__name__ == "Json" and needs_pydantic(each)]
        adapter = self._noted(stated[-1] if stated else annotation.__origin__, notes, path)
        of_pydantic = [index for index, each in enumerate(metadata) if needs_pydantic(each)]
        first = 0 if stated else min(of_pydantic, default=len(metadata))
        # What pydantic doesn't apply, and comes after its first validator, is about the value that pydantic makes.
        late = [each for each in metadata[first:] if not is_read_by_pydantic(each)]
        if not stated:  # else only pydantic knows what it is given
            early = [each for each in metadata if all(each is not other for other in late)]
            adapter = self._constrained(adapter, early, annotation, path)
        if of_pydantic:
            is_alike = all(map(_is_read_alike, reach(adapter)))
            whole = Annotated[(annotation.__origin__ if is_alike else Any, *metadata)]
            adapter = self._validator(adapter, whole, path, structured=not is_alike)
        adapter = self._constrained(adapter, late, annotation, path)
        return NotedAdapter(adapter, notes) if notes else adapter

    def _validator(self, adapter: TypeAdapter, annotation: Any, path: str, *, structured: bool = False) -> TypeAdapter:
        """The adapter that runs pydantic's validators: on the JSON data, or on the structured value."""
        try:
            read = pydantic_reader(annotation, structured=structured)
        except ImportError:
            self.refuse(annotation, path, "only pydantic can apply it", "Install pydantic.")
        except Exception as error:  # noqa: BLE001  (pydantic's own, or that of a class that it asks)
            why = f"pydantic can't apply it: {' '.join(str(error).split())[:200]}"
            self.refuse(annotation, path, why, "Correct it, or check the value in the function.")
        return ReaderAdapter(adapter, read)

    def _noted(self, inner: Any, notes: JsonSchema, path: str) -> TypeAdapter:
        """The adapter of the annotated type; with a schema in the notes, registered hooks come before fields."""
        if notes.keys() <= {"description", "title", "deprecated"}:
            return self.read(inner, path)
        from pegboard.schema.validator import check_schema  # which loads jsonschema-rs

        check_schema(notes, tool=self.tool, what=f"the schema in Annotated of {path or 'the type'}")
        given = ForeignAdapter(inner, inner, notes, notes)
        if type(cast("object", inner)) is typing.NewType and has_hook(inner):
            return given
        try:
            adapter = self.read(inner, path)
        except DefinitionError:
            if isinstance(inner, type) and has_hook(inner):
                return given
            raise
        if isinstance(adapter, RecordAdapter) and (attrs.has(inner) or is_dataclass(inner)) and has_hook(given.cls):
            return given
        named = notes.get("type", [])
        kinds = [KINDS_OF[each] for each in ([named] if isinstance(named, str) else named)]
        if kinds and not any(adapter.kinds() & each for each in kinds):
            why = f"the schema in Annotated allows only {named!r}, which {_annotation_text(inner)} doesn't accept"
            hint = "Correct its type, or register a hook for it with pegboard.schema.converter.converter() first."
            self.refuse(inner, path, why, hint)
        return adapter

    def _constrained(self, adapter: TypeAdapter, markers: Sequence[Any], annotation: Any, path: str) -> TypeAdapter:
        """The adapter of the values that meet the constraints among some metadata."""
        try:
            constraints = list(constraints_of(markers))
        except ValueError as error:
            self.refuse(annotation, path, f"its metadata can't be read: {error}", "Correct it.")
        for marker, several in constraints:
            found: TypeAdapter | None = None
            try:
                for each in several:
                    found = constrain(found or adapter, attrs.evolve(each, skips_null=True)) or found
            except NothingLeftError:
                self.refuse(annotation, path, f"{marker_text(marker)} leaves no value", "Remove it, or relax it.")
            if not several:
                hint = "Use annotated_types, pydantic's AfterValidator(...), or check the value in the function."
                why = f"{marker_text(marker)} looks like a constraint, and can't be applied"
                self.refuse(annotation, path, why, hint)
            if found is None:
                why = f"{marker_text(marker)} doesn't apply to {_annotation_text(annotation.__origin__)}"
                self.refuse(annotation, path, why, "Remove it, or correct the type.")
            adapter = found
        return adapter

    def _choices_of(self, annotation: Any, values: Iterable[Any], path: str) -> TypeAdapter:
        """The adapter of a `Literal` or an enum, by its values or members."""
        choices = [Choice(each.value if isinstance(each, enum.Enum) else each, each) for each in values]
        if not choices:
            self.refuse(annotation, path, f"{_annotation_text(annotation)} has no values", "Add some.")
        for each in choices:
            if not _is_scalar(each.json):
                hint = "Use text, numbers, booleans and None as values."
                self.refuse(annotation, path, f"{each.value!r} has no JSON form", hint)
        return ChoiceAdapter.of(choices)

    def _class(self, cls: Any, annotation: Any, path: str) -> TypeAdapter:  # noqa: PLR0911  (one for each kind)
        """The adapter of a class; `annotation` is the class with its arguments, if it is generic."""
        if cls is object or cls is Any:
            return ANY
        if (scalar := SCALARS.get(cls)) is not None:
            return scalar
        if cls is tuple:
            return self._tuple(annotation, path)
        if cls in _LISTS or cls in _SETS:
            return self._array(cls, annotation, path)
        if cls in _MAPPINGS:
            return self._mapping(cls, annotation, path)
        if (notation := notation_of(cls)) is not None and typing.get_args(annotation) != (bytes,):
            return TextAdapter(cls, notation)
        if isinstance(cls, enum.EnumMeta):
            if issubclass(cls, enum.Flag):
                why = f"{cls.__qualname__} is a Flag, which has no JSON form"
                self.refuse(cls, path, why, "Use a list of an Enum's members.")
            adapter, notes = self._choices_of(cls, cls, path), _class_notes(cls)
            return NotedAdapter(adapter, notes) if notes else adapter
        found = self._model(cls, annotation, path) or self._record(cls, annotation, path)
        return found or self._derived(cls, annotation, path)

    def _derived(self, cls: Any, annotation: Any, path: str) -> TypeAdapter:
        for base in (str, int, float):
            if issubclass(cls, base):
                if hasattr(cls, "__get_pydantic_core_schema__"):  # its constructor may check nothing
                    return self._validator(SCALARS[base], cls, path)
                return attrs.evolve(SCALARS[base], cls=cls)
        text = _annotation_text(annotation)
        near = _INSTEAD.get(text.partition("[")[0])
        hint = f"Pass input_schema=..., or use {near} instead." if near else _HINT
        return self.refuse(annotation, path, f"{text} has no JSON Schema", hint)

    def _array(self, cls: Any, annotation: Any, path: str) -> TypeAdapter:
        """A list or set."""
        arguments = typing.get_args(annotation)
        item = self.read(arguments[0], f"{path}[]") if arguments else ANY
        if cls in _SETS and not item.is_hashable():
            why = "the items of a set must be hashable, and these may not be"
            hint = "Give its item type (set[str]), use a list, or make the items tuples or frozen classes."
            self.refuse(annotation, path, why, hint)
        return ArrayAdapter(item, _SETS.get(cls, cls), unique=cls in _SETS)

    def _tuple(self, annotation: Any, path: str) -> TypeAdapter:
        arguments = typing.get_args(annotation)
        if not arguments:
            return TupleAdapter(()) if hasattr(annotation, "__args__") else ArrayAdapter(ANY, tuple)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return ArrayAdapter(self.read(arguments[0], f"{path}[]"), tuple)
        if any(getattr(each, "__unpacked__", False) or typing.get_origin(each) is typing.Unpack for each in arguments):
            why = "a tuple of fixed and other items has no JSON Schema here"
            self.refuse(annotation, path, why, "Use a list or a union.")
        return TupleAdapter(tuple(self.read(each, f"{path}[{index}]") for index, each in enumerate(arguments)))

    def _mapping(self, cls: Any, annotation: Any, path: str) -> TypeAdapter:
        arguments = typing.get_args(annotation) or (Any, Any)
        key = TEXT if arguments[0] is Any else self.read(arguments[0], path)
        if text_key(key) is None:
            why = "its keys can't be written as text, as JSON requires"
            hint = "Use str, int, an enum or Literal of those, or a type that is written as text (UUID, date, Path)."
            self.refuse(annotation, path, why, hint)
        return MappingAdapter(key, self.read(arguments[1], f"{path}.*" if path else "*"), cls)

    def _model(self, cls: Any, annotation: Any, path: str) -> TypeAdapter | None:
        """The adapter of a pydantic model or msgspec struct, by its own schema; `None` for any other class."""
        self._check_defaults(cls, model_defaults(cls), path)
        try:
            ignored = next(find_ignored_constraints(cls), None)
            given = model_schema(cls, annotation, written=False)
            written = model_schema(cls, annotation, written=True)
        except Exception as error:  # noqa: BLE001  (the fields of a model may be anything)
            why = f"{cls.__qualname__} has no JSON Schema: {' '.join(str(error).split())[:200]}"
            self.refuse(annotation, path, why, "Pass input_schema=..., or give its fields types with a JSON Schema.")
        if ignored is not None:
            why = f"{type(ignored).__name__} in Annotated isn't applied by the library of {cls.__qualname__}"
            self.refuse(annotation, path, why, "Write the constraint as that library does.")
        return None if given is None or written is None else ForeignAdapter(annotation, cls, given, written)

    def _check_defaults(self, cls: Any, defaults: Iterable[tuple[str, Any]], path: str) -> None:
        """Refuses a default that the class passes on as it is, and another library means as a declaration."""
        for key, default in defaults:
            if name := declaration_of(default):
                why = f"its default is {name}(...), which {cls.__qualname__} doesn't read"
                self.refuse(cls, f"{path}.{key}".lstrip("."), why, "Write the default itself.")

    def _record(self, cls: Any, annotation: Any, path: str) -> TypeAdapter | None:
        """The adapter of a class that is made of fields; `None` for any other."""
        key = annotation_key(annotation)
        known = self.records.get(key) or _cache.get(key)
        if known is not None:
            return known[1]
        try:
            fields = fields_of(annotation)
        except Exception as error:  # noqa: BLE001  (resolving annotations may raise anything)
            hint = "Define its types at module level, let its constructor take its fields, or pass input_schema=..."
            self.refuse(annotation, path, f"the fields of {cls.__qualname__} can't be read: {error}", hint)
        if fields is None:
            return None
        self._check_defaults(cls, ((each.key, each.default) for each in fields), path)
        if inspect.isabstract(cls):
            self.refuse(annotation, path, f"{cls.__qualname__} is abstract", "Use a union of its concrete subclasses.")
        adapter = RecordAdapter(_annotation_name(annotation), dict if is_typed_dict(cls) else cls, _class_notes(cls))
        self.records[key] = (annotation, adapter)
        outer, self._owner = self._owner, annotation
        docs = attribute_docs(cls)
        adapter.members = tuple(self._member(each, docs, f"{path}.{each.key}" if path else each.key) for each in fields)
        self._owner = outer
        return adapter

    def _member(self, given: ClassField, docs: Mapping[str, str], path: str) -> Member:
        """One field. Its own description takes precedence over its type's, and that over the class's docstring."""
        adapter = narrow(self.read(given.annotation, path), validator_constraints(given.validator))
        described = isinstance(adapter, NotedAdapter) and "description" in adapter.notes
        documented = None if described else docs.get(given.name) or docs.get(given.key)
        notes = _notes(given.description or documented, given.default, adapter)
        return Member(given.key, adapter, given.required, notes)

    def _alias(self, alias: Any, annotation: Any, path: str) -> TypeAdapter:
        key = annotation_key(annotation)
        if (known := self._aliases.get(key)) is not None:
            return known
        try:
            value = _alias_value(alias, typing.get_args(annotation))
        except NameError as error:
            self.refuse(annotation, path, f"{alias.__name__} can't be resolved: {error}", "Define it at module level.")
        adapter = self._aliases[key] = AliasAdapter(_annotation_name(annotation))
        inner = self.read(value, path)
        adapter.hashable = inner.is_hashable()  # if it is so where it refers to itself
        adapter.inner = inner
        if adapter in reach(adapter.inner, in_place=True):
            self.refuse(annotation, path, f"{alias.__name__} is an alias of itself", "Remove the reference to itself.")
        if adapter in reach(adapter.inner):
            return adapter
        del self._aliases[key]
        return adapter.inner


def _is_read_alike(adapter: TypeAdapter) -> bool:
    """Whether pydantic makes the same value of the same JSON data."""
    if isinstance(adapter, RecordAdapter):
        return adapter.cls is dict
    if isinstance(adapter, TextAdapter):
        return "contentEncoding" not in adapter.notation.schema
    if isinstance(adapter, ForeignAdapter):
        return is_pydantic(adapter.cls)
    return not isinstance(adapter, ReaderAdapter) and not (isinstance(adapter, ScalarAdapter) and adapter.cls)


def _is_scalar(value: object) -> bool:
    return value is None or type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value))


def _class_notes(cls: type) -> JsonSchema:
    """The description of a class: the first paragraph of its docstring, unless a decorator generated that."""
    text: str | None = cls.__dict__.get("__doc__")
    if not text or text.startswith(f"{cls.__name__}("):
        return {}
    return {"description": parse_docstring(text).summary}


def _is_alias(annotation: Any) -> bool:
    """Whether it is a `TypeAliasType` of `typing` or `typing_extensions`, without importing the latter."""
    return type(annotation).__name__ == "TypeAliasType"


def _alias_value(alias: Any, arguments: tuple[Any, ...]) -> Any:
    """The aliased type with these arguments; names in strings are resolved in the alias's module."""
    holder = types.SimpleNamespace(__annotations__={"value": alias.__value__})
    names = dict(vars(sys.modules.get(alias.__module__, typing)))
    known = {each.__name__: each for each in (*alias.__type_params__, alias)}
    value = typing.get_type_hints(holder, names, known, include_extras=True)["value"]
    return substitute(value, dict(zip(alias.__type_params__, arguments, strict=False)))


_LISTS: Final = frozenset({list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable, abc.Reversible})
_SETS: Final[Mapping[Any, type[Any]]] = {set: set, frozenset: frozenset, abc.Set: frozenset, abc.MutableSet: set}
_MAPPINGS: Final = frozenset({dict, abc.Mapping, abc.MutableMapping})
