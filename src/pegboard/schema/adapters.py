"""Type adapters: one class for each kind of type, which writes its JSON Schema."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, cast

import attrs
from attrs import field

from pegboard.json import is_object, json_text
from pegboard.schema.references import References, mapped
from pegboard.schema.text_types import Notation
from pegboard.typing import JsonMapping, JsonSchema, define, frozen

Kinds: TypeAlias = frozenset[type[Any]]
"""Classes of JSON values, compared exactly (no subclasses), as the validator does."""

NONE: Final[type[Any]] = type(None)
TEXTS: Final[Kinds] = frozenset({str})
NUMBERS: Final[Kinds] = frozenset({int, float})
ARRAYS: Final[Kinds] = frozenset({list, tuple})
OBJECTS: Final[Kinds] = frozenset({dict})
ALL_KINDS: Final[Kinds] = TEXTS | NUMBERS | ARRAYS | OBJECTS | {bool, NONE}


class TypeAdapter:
    """Base of the type adapters: what one type accepts as JSON."""

    __slots__ = ()

    KINDS: ClassVar[Kinds] = ALL_KINDS
    name: str = ""  # in a schema's `$defs` if it is recursive; "" where it can't be

    def kinds(self) -> Kinds:
        """The classes of the JSON values that it may accept."""
        return self.KINDS

    def is_hashable(self) -> bool:
        """Whether its Python values can be in a set: by their class and that of their parts."""
        is_own = self is not ANY and issubclass(getattr(self, "cls", None) or str, Hashable)
        return is_own and all(each.is_hashable() for each in self.parts())

    def parts(self) -> Sequence[TypeAdapter]:
        """The adapters of its parts: those among its attributes, or in tuples there."""
        found: list[Any] = []
        for each in attrs.fields(cast("Any", type(self))):
            value = getattr(self, each.name, None)
            found += cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
        return [part for part in found if isinstance(part, TypeAdapter)]

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """Its JSON Schema, a new object."""
        raise NotImplementedError


@define
class SchemaWriter:
    """Writes the schemas of adapters, those of recursive types to `$defs`."""

    # if given, the schema is a private, stricter one, which accepts only values of the type: with the range of floats,
    # and formats of our own for types that are written as text, checked by what this returns for their adapters
    check_of: Callable[[TypeAdapter], Callable[[str], bool]] | None = None
    written: bool = False  # whether for output, which models may write in another form than they read
    definitions: dict[str, JsonSchema] = field(factory=dict[str, JsonSchema])
    formats: dict[str, Callable[[str], bool]] = field(factory=dict[str, Callable[[str], bool]])
    _names: dict[tuple[Hashable, str], str] = field(factory=dict[tuple[Hashable, str], str], init=False)

    def of_texts(self, schema: JsonSchema, adapter: TypeAdapter) -> JsonSchema:
        """The schema of texts that `adapter` reads, with a format of our own if it has to be exact."""
        if self.check_of is None:
            return schema
        name = f"text {len(self.formats)}"
        self.formats[name] = self.check_of(adapter)
        return {**schema, "format": name}

    def write(self, adapter: TypeAdapter) -> JsonSchema:
        """The schema of `adapter`, or a reference where it is recursive: shared, not to be changed."""
        if not adapter.name:
            return adapter.schema(self)
        known = adapter.schemas if isinstance(adapter, RecordAdapter) and self.check_of is None else None
        if known and self.written in known:
            return known[self.written]
        if not is_recursive(adapter):
            schema = adapter.schema(self)
            if known is not None and not self._names:  # it refers to nothing
                known[self.written] = schema
            return schema
        is_new = (adapter, adapter.name) not in self._names
        name = self.reserve(adapter.name, adapter)  # before those of its parts
        if is_new:
            self.definitions[name] = adapter.schema(self)
        return {"$ref": f"#/$defs/{name}"}

    def hoist(self, given: JsonMapping) -> JsonSchema:
        """A schema that an author or a library wrote, with its `$defs` among the definitions, under unique names."""
        if not (definitions := given.get("$defs")):
            return dict(given)
        owner = json_text(definitions)  # schemas with the same definitions share them
        names = {name: self.reserve(name, owner) for name in definitions}
        root = References({"$defs": definitions})
        self.definitions.update({names[name]: _rename(each, root, names) for name, each in definitions.items()})
        return _rename({key: rule for key, rule in given.items() if key != "$defs"}, root, names)

    def reserve(self, name: str, owner: Hashable) -> str:
        """A unique name among the definitions for the owner's `name`: itself, or with a number after it."""
        if (known := self._names.get((owner, name))) is not None:
            return known
        free, number = name, 2
        while free in self.definitions:
            free, number = f"{name}_{number}", number + 1
        self.definitions[free] = {}
        return self._names.setdefault((owner, name), free)


def reach(adapter: TypeAdapter, *, in_place: bool = False) -> Iterator[TypeAdapter]:
    """`adapter` and every adapter within it, each once; `in_place`: only those of the same value, not of its items."""
    seen, waiting = set[int](), [adapter]
    while waiting:
        here = waiting.pop()
        if id(here) not in seen:
            seen.add(id(here))
            yield here
            if not in_place or isinstance(here, UnionAdapter | WrapperAdapter):
                waiting.extend(here.parts())


def is_recursive(adapter: TypeAdapter) -> bool:
    """Whether it is within its own parts."""
    return any(adapter in reach(part) for part in adapter.parts())


def root_schema(adapter: TypeAdapter, writer: SchemaWriter | None = None) -> JsonSchema:
    """The schema of an adapter with its definitions, the root written out; its parts are shared, not to be changed."""
    writer = writer or SchemaWriter()
    schema = dict(writer.write(adapter))
    if "$ref" in schema and is_object(target := References({"$defs": writer.definitions}).target(schema["$ref"])):
        del schema["$ref"]
        schema = {**target, **schema}
    return {**schema, "$defs": writer.definitions} if writer.definitions else schema


# Scalars --------------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class ScalarAdapter(TypeAdapter):
    """One of JSON's own scalars, or a class derived from `str`, `int` or `float`, which is called with the scalar."""

    type: str  # `""` for `Any` and `object`: JSON unchanged
    taken: Kinds  # of its JSON values
    cls: type[Any] | None = None

    def kinds(self) -> Kinds:
        return self.taken

    def parts(self) -> Sequence[TypeAdapter]:
        return ()  # most adapters are scalars, and reflection is slow

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        if writer.check_of is not None and self.type == "number":
            return {"type": "number", "minimum": -sys.float_info.max, "maximum": sys.float_info.max}
        return {"type": self.type} if self.type else {}


@frozen(eq=False)
class TextAdapter(TypeAdapter):
    """A type that JSON writes as text, which a schema can't validate in full."""

    cls: type[Any]
    notation: Notation

    KINDS = TEXTS

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        return writer.of_texts({"type": "string", **self.notation.schema}, self)


ANY: Final = ScalarAdapter("", ALL_KINDS)
NULL: Final = ScalarAdapter("null", frozenset({NONE}))
BOOLEAN: Final = ScalarAdapter("boolean", frozenset({bool}))
INTEGER: Final = ScalarAdapter("integer", NUMBERS)
NUMBER: Final = ScalarAdapter("number", NUMBERS)
TEXT: Final = ScalarAdapter("string", TEXTS)
SCALARS: Final[Mapping[Any, ScalarAdapter]] = {NONE: NULL, bool: BOOLEAN, int: INTEGER, float: NUMBER, str: TEXT}
"""The adapter of each scalar's own class."""
KINDS_OF: Final[Mapping[str, Kinds]] = {
    **{each.type: each.taken for each in SCALARS.values()},
    "array": ARRAYS,
    "object": OBJECTS,
}
"""The kinds of each type of JSON Schema."""


def scalar_type(adapter: TypeAdapter) -> str:
    """JSON Schema's type of a scalar, or of a class derived from one; `""` for others."""
    return adapter.type if isinstance(adapter, ScalarAdapter) else ""


# Listed values --------------------------------------------------------------------------------------------------------


@frozen
class Choice:
    """One listed value: the scalar in JSON, and its Python value."""

    json: Any
    value: Any

    @property
    def key(self) -> Hashable:
        """Equal for equal JSON scalars only: 1 and 1.0 are the same number, true is another value."""
        return (type(self.json) is bool, self.json)


@frozen(eq=False)
class ChoiceAdapter(TypeAdapter):
    """`Literal[...]` or an enum: its choices in order, at least one, with distinct JSON values."""

    choices: tuple[Choice, ...]

    @classmethod
    def of(cls, choices: Iterable[Choice]) -> ChoiceAdapter:
        """The adapter of these choices; the first of those with the same JSON value is used."""
        first: dict[Hashable, Choice] = {}
        for each in choices:
            first.setdefault(each.key, each)
        return cls(tuple(first.values()))

    def kinds(self) -> Kinds:
        types = self._types()
        return types | NUMBERS if types & NUMBERS else types  # 1 may come as 1.0

    def _types(self) -> Kinds:
        return frozenset(cast("type[Any]", type(each.json)) for each in self.choices)

    def schema(self, writer: SchemaWriter) -> JsonSchema:  # noqa: ARG002  (as all have it)
        values = [each.json for each in self.choices]
        types = self._types()
        name = "number" if types == NUMBERS else SCALARS[next(iter(types))].type if len(types) == 1 else None
        schema: JsonSchema = {"type": name} if name else {}
        return {**schema, "const": values[0]} if len(values) == 1 else {**schema, "enum": values}


@frozen(eq=False)
class ArrayAdapter(TypeAdapter):
    """`list` and its abstract bases, for which a list is made; tuples of any length, `set`, `frozenset`."""

    item: TypeAdapter
    cls: type[Any]
    unique: bool = False

    KINDS = ARRAYS

    def is_hashable(self) -> bool:
        return self.cls is frozenset or (self.cls is tuple and self.item.is_hashable())

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        items = writer.write(self.item)
        schema: JsonSchema = {"type": "array", "items": items} if items else {"type": "array"}
        return {**schema, "uniqueItems": True} if self.unique else schema


@frozen(eq=False)
class TupleAdapter(TypeAdapter):
    """A tuple of fixed length, with an adapter for each position."""

    items: tuple[TypeAdapter, ...]

    KINDS = ARRAYS

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        if not self.items:
            return {"type": "array", "maxItems": 0}
        count = len(self.items)
        places = [writer.write(each) for each in self.items]
        return {"type": "array", "prefixItems": places, "items": False, "minItems": count, "maxItems": count}


@frozen(eq=False)
class MappingAdapter(TypeAdapter):
    """`dict` and its abstract bases, for which a dict is made."""

    key: TypeAdapter  # which has a `text_key`
    item: TypeAdapter
    cls: type[Any]

    KINDS = OBJECTS

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        schema: JsonSchema = {"type": "object", "additionalProperties": writer.write(self.item) or True}
        key = cast("TypeAdapter", text_key(self.key))
        names = {keyword: rule for keyword, rule in writer.write(key).items() if keyword != "type"}
        return {**schema, "propertyNames": names} if names else schema


def text_key(adapter: TypeAdapter) -> TypeAdapter | None:
    """The adapter of a mapping's keys by the text that JSON writes for them; `None` where there is none."""
    if isinstance(adapter, NotedAdapter):
        return text_key(adapter.inner)
    if isinstance(adapter, ConstrainedAdapter | ReaderAdapter):
        inner, checks = text_key(adapter.inner), adapter.checks
        if inner is not TEXT:  # the keywords are for the value that the text is read as, not for the text
            checks = tuple(attrs.evolve(each, keywords={}) for each in checks)
        return inner and attrs.evolve(adapter, inner=inner, checks=checks)
    if isinstance(adapter, ChoiceAdapter):
        choices = [Choice(str(each.json), each.value) for each in adapter.choices if type(each.json) in (str, int)]
        texts = ChoiceAdapter.of(choices)
        return texts if len(texts.choices) == len(adapter.choices) else None
    if adapter is INTEGER:
        return _INTEGER_KEY
    return adapter if scalar_type(adapter) == "string" or isinstance(adapter, TextAdapter) else None


_INTEGER_KEY: Final = TextAdapter(
    int,
    Notation("an integer with fewer digits", {"pattern": r"^(?:0|-?[1-9][0-9]*)$"}, lambda _, text: int(text), str),
)


@frozen(eq=False)
class Member:
    """One field of a record; its `key` in JSON is the constructor's parameter."""

    key: str
    adapter: TypeAdapter
    required: bool
    notes: JsonMapping  # more keywords of its schema: description, default


@define(eq=False)
class RecordAdapter(TypeAdapter):
    """An object with known keys: attrs classes, dataclasses, named tuples, `TypedDict`. Other keys are refused."""

    name: str
    cls: type[Any]  # `dict` for a `TypedDict`
    notes: JsonMapping
    members: tuple[Member, ...] = field(init=False)  # set once they are read
    # its schema by `SchemaWriter.written`, if that refers to no definition
    schemas: dict[bool, JsonSchema] = field(factory=dict[bool, JsonSchema], init=False)

    KINDS = OBJECTS

    def is_hashable(self) -> bool:
        return issubclass(self.cls, Hashable)

    def parts(self) -> Sequence[TypeAdapter]:
        return [each.adapter for each in self.members]

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        return {**self.notes, **object_of(self.members, writer)}


def object_of(members: Sequence[Member], writer: SchemaWriter) -> JsonSchema:
    """The schema of an object with these members only."""
    properties = {each.key: {**writer.write(each.adapter), **each.notes} for each in members}
    required = {"required": keys} if (keys := [each.key for each in members if each.required]) else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


# Types made of one or several others ----------------------------------------------------------------------------------


@frozen(eq=False)
class UnionAdapter(TypeAdapter):
    """`X | Y`, `Optional[X]`: two or more members.

    The first member that accepts a value structures it, in the order in which they are written. Where all members
    that are objects have a field of the same name with distinct text literals, it is a required tag and decides.
    """

    members: tuple[TypeAdapter, ...]

    def kinds(self) -> Kinds:
        return frozenset(kind for each in self.members for kind in each.kinds())

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        key, tagged = self.tag()
        schemas: list[JsonSchema] = []
        for member in self.members:
            schema = writer.write(member)
            if member in tagged.values():
                schema = {**schema, "required": list(dict.fromkeys((*schema.get("required", ()), key)))}
            if schema not in schemas:
                schemas.append(schema)
        return {"anyOf": schemas} if len(schemas) > 1 else schemas[0]

    def tag(self) -> tuple[str, Mapping[str, TypeAdapter]]:
        """The tag: the key that tells the members that are objects apart, and value -> member; or `"", {}`."""
        objects = [each for each in self.members if each.kinds() & OBJECTS]
        records = [record for each in objects if isinstance(record := bare(each), RecordAdapter)]
        for key in [each.key for each in records[0].members] if 2 <= len(records) == len(objects) else ():
            options = [_options(each, key) for each in records]
            values = [value for each in options for value in each]
            if all(options) and len(set(values)) == len(values):
                return key, {value: member for member, each in zip(objects, options, strict=True) for value in each}
        return "", {}


def _options(record: RecordAdapter, key: str) -> list[str]:
    """The text literals that a field allows; none if it also allows something else."""
    members = (bare(member.adapter) for member in record.members if member.key == key)
    choices = (each.choices for each in members if isinstance(each, ChoiceAdapter) and each.kinds() == TEXTS)
    return [each.json for each in next(choices, ())]


class WrapperAdapter(TypeAdapter):
    """Base of adapters that wrap another one, `inner`."""

    __slots__ = ()

    inner: TypeAdapter

    def kinds(self) -> Kinds:
        return self.inner.kinds()

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        return writer.write(self.inner)


@define(eq=False)
class AliasAdapter(WrapperAdapter):
    """A recursive type alias: `type Json = str | list[Json]`; `inner` is set once it is read."""

    name: str
    inner: TypeAdapter = ANY
    hashable: bool = True

    def is_hashable(self) -> bool:
        return self.hashable


@frozen(eq=False)
class NotedAdapter(WrapperAdapter):
    """An adapter with additional keywords in its schema: a description, examples."""

    inner: TypeAdapter
    notes: JsonMapping

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        return {**writer.write(self.inner), **writer.hoist(self.notes)}


@frozen(eq=False)
class Check:
    """One constraint, as applied to the values of one type."""

    text: str  # such as "must be at least 1"
    accepts: Callable[[Any], object]  # takes a Python value; may raise for one that it doesn't apply to
    keywords: JsonSchema  # empty where JSON Schema has none for it


@frozen(eq=False)
class ConstrainedAdapter(WrapperAdapter):
    """An adapter with constraints; the inner one has none itself."""

    inner: TypeAdapter
    checks: tuple[Check, ...]

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        schema = with_keywords(writer.write(self.inner), (each.keywords for each in self.checks))
        is_text = self.inner is TEXT or isinstance(self.inner, TextAdapter)
        return schema if not is_text or all(each.keywords for each in self.checks) else writer.of_texts(schema, self)


@frozen(eq=False)
class ReaderAdapter(WrapperAdapter):
    """A type whose values a function reads after the inner adapter, whose schema it has: it can't accept more."""

    inner: TypeAdapter
    read: Callable[[Any, Any], Any]  # JSON data and the inner adapter's value -> value; raises any exception
    checks: tuple[Check, ...] = ()  # on the value that is read


@frozen(eq=False)
class ForeignAdapter(TypeAdapter):
    """A class with its own conversion: cattrs hooks and a schema in `Annotated`, or a pydantic or msgspec model."""

    annotation: Any  # the class, perhaps with arguments
    cls: type[Any]
    given: JsonMapping
    written: JsonMapping  # the schema for output

    def kinds(self) -> Kinds:
        return OBJECTS if self.given.get("type") == "object" else ALL_KINDS

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        return writer.hoist(self.written if writer.written else self.given)


def _rename(schema: Any, root: References, names: Mapping[str, str]) -> Any:
    """A schema with its references into `root` changed to the new names of definitions."""
    if not is_object(schema):
        return schema  # true and false
    renamed = mapped(schema, lambda part, _: _rename(part, root, names))
    reference = str(renamed.get("$ref", ""))
    spelled = root.spelled(reference[1:]) if reference.startswith("#/") else None
    written, slash, rest = (spelled or "").removeprefix("/$defs/").partition("/")
    name = written.replace("~1", "/").replace("~0", "~")
    if spelled is None or names.get(name, name) == name:
        return renamed
    new = f"{names[name].replace('~', '~0').replace('/', '~1')}{slash}{rest}"
    return {**renamed, "$ref": f"#/$defs/{new.replace('%', '%25')}"}


def with_keywords(schema: JsonSchema, more: Iterable[JsonSchema]) -> JsonSchema:
    """`schema` with more keywords; those that it has with another value go to `allOf`."""
    merged, aside = dict(schema), list[JsonSchema]()
    for keywords in more:
        if any(merged.get(name, value) != value for name, value in keywords.items()):
            aside.append(dict(keywords))
        else:
            merged.update(keywords)
    return {**merged, "allOf": [*merged.get("allOf", ()), *aside]} if aside else merged


def bare(adapter: TypeAdapter) -> TypeAdapter:
    """The adapter within notes, checks and readers."""
    while isinstance(adapter, NotedAdapter | ConstrainedAdapter | ReaderAdapter):
        adapter = adapter.inner
    return adapter
