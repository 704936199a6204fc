"""Type adapters of what is made of other types: containers, records, unions, aliases, constrained and foreign types."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from attrs import define, field, frozen

from pegboard.schema.adapters import (
    ALL_KINDS,
    ARRAYS,
    INTEGER,
    NUMBERS,
    OBJECTS,
    TEXT,
    TEXTS,
    ChoiceAdapter,
    DerivedAdapter,
    Kinds,
    SchemaWriter,
    TextAdapter,
    TypeAdapter,
)
from pegboard.typing import JsonMapping, JsonSchema

_INTEGER_KEY: Final = r"^(?:0|-?[1-9][0-9]*)$"


@frozen(eq=False)
class ArrayAdapter(TypeAdapter):
    """`list`, what is as good as one (`Sequence`, `Iterable`, ...), `deque`, tuples of any length, `set`, `frozenset`.

    Attributes:
        item: Of each item.
        cls: What its Python values are instances of.
        make: Makes one of a list, or `None` where the list will do.
        unique: Whether it is a set.
    """

    item: TypeAdapter
    cls: type[Any]
    make: Callable[[list[Any]], Any] | None
    unique: bool = False

    KINDS = ARRAYS

    def is_hashable(self) -> bool:
        """A tuple of hashable items, and a frozen set."""
        return self.cls is frozenset or (self.cls is tuple and self.item.is_hashable())

    def parts(self) -> Sequence[TypeAdapter]:
        """The item's."""
        return (self.item,)

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """An array of the item's schema."""
        items = writer.write(self.item)
        schema: JsonSchema = {"type": "array", "items": items} if items else {"type": "array"}
        return {**schema, "uniqueItems": True} if self.unique else schema


@frozen(eq=False)
class TupleAdapter(TypeAdapter):
    """A tuple of fixed length.

    Attributes:
        items: Of each place.
    """

    items: tuple[TypeAdapter, ...]

    KINDS = ARRAYS

    def is_hashable(self) -> bool:
        """If all items are."""
        return all(each.is_hashable() for each in self.items)

    def parts(self) -> Sequence[TypeAdapter]:
        """Of the places."""
        return self.items

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """An array with a schema for each place, and no other items."""
        if not self.items:
            return {"type": "array", "maxItems": 0}
        count = len(self.items)
        places = [writer.write(each) for each in self.items]
        return {"type": "array", "prefixItems": places, "items": False, "minItems": count, "maxItems": count}


@frozen(eq=False)
class MappingAdapter(TypeAdapter):
    """`dict` and its abstract kin.

    Attributes:
        key: Of the keys, which has a `key_schema`.
        item: Of the values.
        make: Makes the mapping of a dict, or `None` where a dict will do.
        cls: What its Python values are instances of.
    """

    key: TypeAdapter
    item: TypeAdapter
    make: Callable[[dict[Any, Any]], Any] | None
    cls: type[Any]

    KINDS = OBJECTS

    HASHABLE = False

    def parts(self) -> Sequence[TypeAdapter]:
        """The values'."""
        return (self.item,)

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """An object whose properties are all of one schema."""
        schema: JsonSchema = {"type": "object", "additionalProperties": writer.write(self.item) or True}
        names = key_schema(self.key, writer)
        return {**schema, "propertyNames": names} if names else schema


def key_schema(adapter: TypeAdapter, writer: SchemaWriter) -> JsonSchema | None:  # noqa: PLR0911  (one for each kind)
    """The schema of a mapping's keys, which JSON always writes as text; `None` where they have no text."""
    if isinstance(adapter, NotedAdapter):
        return key_schema(adapter.inner, writer)
    if adapter is TEXT or (isinstance(adapter, DerivedAdapter) and adapter.scalar is TEXT):
        return {}
    if adapter is INTEGER:
        return {"pattern": _INTEGER_KEY}
    if isinstance(adapter, ChoiceAdapter):
        texts = adapter.kinds() <= TEXTS | NUMBERS and key_texts(adapter)
        return {"enum": list(texts)} if texts and len(texts) == len(adapter.choices) else None
    if isinstance(adapter, TextAdapter):
        schema = adapter.schema(writer)
        del schema["type"]
        return schema
    if isinstance(adapter, ConstrainedAdapter):
        inner = key_schema(adapter.inner, writer)
        if inner is None or adapter.inner is not TEXT:
            return inner
        return with_keywords(inner, (each.keywords for each in adapter.checks))
    return None


def key_texts(adapter: ChoiceAdapter) -> dict[str, Any]:
    """Text -> key, of those choices that are text or integers."""
    return {str(each.json): each.value for each in adapter.choices if type(each.json) in (str, int)}


@frozen(eq=False)
class Member:
    """One field of a record.

    Attributes:
        key: Its key in JSON: what the constructor calls it.
        attribute: Where the value stands on an instance; `None` where it can't be read back (`InitVar`).
        adapter: Of the value.
        required: Whether it must be given.
        notes: What the schema says of it beside: description, default.
    """

    key: str
    attribute: str | None
    adapter: TypeAdapter
    required: bool
    notes: JsonMapping


@define(eq=False)
class RecordAdapter(TypeAdapter):
    """An object with known keys: attrs classes, dataclasses, named tuples, `TypedDict`. Other keys are refused.

    Attributes:
        name: Under which it stands in a schema's `$defs` where it is made of itself.
        cls: The class, or `dict` for a `TypedDict`.
        notes: What the schema says of it beside.
        hashes: Whether instances can stand in a set.
        is_generic: Whether instances of different types share the class.
        members: Its fields; set once they are read.
    """

    name: str
    cls: type[Any]
    notes: JsonMapping
    hashes: bool
    is_generic: bool
    members: tuple[Member, ...] = field(init=False)

    KINDS = OBJECTS

    def is_hashable(self) -> bool:
        """As the class is."""
        return self.hashes

    def parts(self) -> Sequence[TypeAdapter]:
        """The fields'."""
        return [each.adapter for each in self.members]

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """An object with the fields as properties and no others."""
        properties = {each.key: {**writer.write(each.adapter), **each.notes} for each in self.members}
        required = [each.key for each in self.members if each.required]
        schema: JsonSchema = {**self.notes, "type": "object", "properties": properties}
        if required:
            schema["required"] = required
        return {**schema, "additionalProperties": False}


# Types made of one or several others ----------------------------------------------------------------------------------


@frozen
class Tag:
    """The field by whose value the members of a union are distinguished.

    Attributes:
        key: Its key, the same in all.
        members: Value -> the member that has it.
    """

    key: str
    members: Mapping[str, TypeAdapter]


@frozen(eq=False)
class UnionAdapter(TypeAdapter):
    """`X | Y`, `Optional[X]`.

    JSON is of the first member that takes it, in the order in which they are written. Where all members that are
    objects have a field of one key with text literals of their own, that field decides: it has to be there.

    Attributes:
        members: Two or more.
    """

    members: tuple[TypeAdapter, ...]

    def kinds(self) -> Kinds:
        """Those of all members."""
        return frozenset(kind for each in self.members for kind in each.kinds())

    def is_hashable(self) -> bool:
        """If all members are."""
        return all(each.is_hashable() for each in self.members)

    def parts(self) -> Sequence[TypeAdapter]:
        """The members."""
        return self.members

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """`anyOf` of the members' schemas; the tag is required in each."""
        tag = self.tag()
        tagged = [] if tag is None else list(tag.members.values())
        schemas: list[JsonSchema] = []
        for member in self.members:
            schema = writer.write(member)
            if tag is not None and any(member is each for each in tagged):
                schema = _requiring(tag.key, schema)
            if schema not in schemas:
                schemas.append(schema)
        return {"anyOf": schemas} if len(schemas) > 1 else schemas[0]

    def tag(self) -> Tag | None:
        """What distinguishes the members that are objects, or `None`."""
        objects = [each for each in self.members if each.kinds() & OBJECTS]
        records = [record for each in objects if isinstance(record := bare(each), RecordAdapter)]
        if len(records) < 2 or len(records) < len(objects):
            return None
        for key in [each.key for each in records[0].members]:
            options = [_options(each, key) for each in records]
            values = [value for each in options for value in each]
            if all(options) and len(set(values)) == len(values):
                pairs = zip(objects, options, strict=True)
                return Tag(key, {value: member for member, each in pairs for value in each})
        return None


def _options(record: RecordAdapter, key: str) -> list[str]:
    """The text literals that a field allows, if it allows nothing else."""
    for member in record.members:
        if member.key == key and isinstance(found := bare(member.adapter), ChoiceAdapter) and found.kinds() == TEXTS:
            return [each.json for each in found.choices]
    return []


def _requiring(key: str, schema: JsonSchema) -> JsonSchema:
    required = schema.get("required", ())
    return schema if key in required else {**schema, "required": [*required, key]}


class WrappedAdapter(TypeAdapter):
    """An adapter that differs from another in one thing.

    Attributes:
        inner: The other.
    """

    __slots__ = ()

    inner: TypeAdapter

    def kinds(self) -> Kinds:
        """As the other."""
        return self.inner.kinds()

    def is_hashable(self) -> bool:
        """As the other."""
        return self.inner.is_hashable()

    def parts(self) -> Sequence[TypeAdapter]:
        """The other."""
        return (self.inner,)

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """As the other."""
        return writer.write(self.inner)


@define(eq=False)
class AliasAdapter(WrappedAdapter):
    """A type alias that is made of itself: `type Json = str | list[Json]`.

    Attributes:
        name: Under which it stands in a schema's `$defs`.
        inner: What it stands for; set once that is read.
    """

    name: str
    inner: TypeAdapter = field(init=False)

    def kinds(self) -> Kinds:
        """As what it stands for; any while that is being read."""
        return self.inner.kinds() if self.is_read() else ALL_KINDS

    def is_hashable(self) -> bool:
        """As what it stands for; it may turn out so while that is being read."""
        return not self.is_read() or self.inner.is_hashable()

    def is_read(self) -> bool:
        """Whether it is known what it stands for."""
        return hasattr(self, "inner")


@frozen(eq=False)
class NotedAdapter(WrappedAdapter):
    """An adapter with something that its schema says beside: a description, examples.

    Attributes:
        inner: What it is noted on.
        notes: The keywords.
    """

    inner: TypeAdapter
    notes: JsonMapping

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """The other's, with the notes."""
        return {**writer.write(self.inner), **self.notes}


@frozen(eq=False)
class Check:
    """One constraint, as it is put on the values of one type.

    Attributes:
        text: The constraint: `"must be at least 1"`.
        accepts: Whether a Python value meets it; may raise for one that it can't be asked of.
        keywords: What the schema says of it; `{}` where JSON Schema has no words for it.
    """

    text: str
    accepts: Callable[[Any], bool]
    keywords: JsonSchema


@frozen(eq=False)
class ConstrainedAdapter(WrappedAdapter):
    """An adapter of which only some values are taken.

    Attributes:
        inner: Of the values; itself not constrained.
        checks: What is asked of them.
    """

    inner: TypeAdapter
    checks: tuple[Check, ...]

    @classmethod
    def of(cls, adapter: TypeAdapter, check: Check) -> ConstrainedAdapter:
        """`adapter` with one check more."""
        if isinstance(adapter, ConstrainedAdapter):
            return cls(adapter.inner, (*adapter.checks, check))
        return cls(adapter, (check,))

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """The other's, with the keywords of the checks; exactly, a format for those on text that have none."""
        schema = with_keywords(writer.write(self.inner), (each.keywords for each in self.checks))
        is_text = self.inner is TEXT or isinstance(self.inner, TextAdapter)
        if writer.exact and is_text and not all(each.keywords for each in self.checks):
            schema["format"] = f"checked {id(self)}"
            writer.formats[schema["format"]] = self._reads
        return schema

    def _reads(self, text: str) -> bool:
        try:
            value = self.inner.notation.read(self.inner.cls, text) if isinstance(self.inner, TextAdapter) else text
            return all(each.accepts(value) for each in self.checks)
        except Exception:  # noqa: BLE001  (text that is none of the type's, and what can't be compared)
            return False


def with_keywords(schema: JsonSchema, more: Iterable[JsonSchema]) -> JsonSchema:
    """`schema` with more keywords; those that are there with another value stand under `allOf`."""
    merged = dict(schema)
    aside: list[JsonSchema] = []
    for keywords in more:
        if any(merged.get(name, value) != value for name, value in keywords.items()):
            aside.append(dict(keywords))
        else:
            merged.update(keywords)
    return {**merged, "allOf": [*merged.get("allOf", ()), *aside]} if aside else merged


def bare(adapter: TypeAdapter) -> TypeAdapter:
    """What is behind notes and checks."""
    while isinstance(adapter, NotedAdapter | ConstrainedAdapter):
        adapter = adapter.inner
    return adapter


# Classes of others ----------------------------------------------------------------------------------------------------


@frozen(eq=False)
class ForeignAdapter(TypeAdapter):
    """A class that others know how to make: by hooks of cattrs with a schema beside, or a pydantic or msgspec model.

    Attributes:
        annotation: The class, perhaps with arguments.
        cls: The class.
        given: Its schema.
    """

    annotation: Any
    cls: type[Any]
    given: JsonMapping

    def kinds(self) -> Kinds:
        """Objects, if its schema says so; else any."""
        return OBJECTS if self.given.get("type") == "object" else ALL_KINDS

    def is_hashable(self) -> bool:
        """As the class is."""
        return issubclass(self.cls, Hashable)

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """As it was given; what it defines beside is named anew among the definitions."""
        definitions: JsonMapping = self.given.get("$defs", {})
        if not definitions:
            return dict(self.given)
        names = {name: writer.reserve(name) for name in definitions}
        written = cast("JsonSchema", _renamed({**self.given, "$defs": {}}, names))
        del written["$defs"]
        writer.definitions.update({names[name]: _renamed(each, names) for name, each in definitions.items()})
        return written


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """A schema whose references lead to definitions of other names."""
    if isinstance(schema, list):
        return [_renamed(each, names) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _renamed(each, names) for key, each in cast("dict[str, Any]", schema).items()}
    name = str(renamed.get("$ref", "")).removeprefix("#/$defs/")
    return {**renamed, "$ref": f"#/$defs/{names[name]}"} if name in names else renamed
