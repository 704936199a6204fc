"""Classes of others: by hooks of cattrs, and the models of pydantic and msgspec."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, NewType, TypeVar

import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from attrs import Factory, field, frozen

from pegboard import ToolRegistry, schema_of, tool
from pegboard.errors import DefinitionError
from pegboard.json import StructureError
from pegboard.schema.converter import (
    Allowed,
    Count,
    UnreadError,
    converter,
    json_key,
    read_by,
    read_record,
    read_table,
    tagged,
)
from pegboard.schema.structure import structure
from pegboard.schema.types import Property, object_schema
from pegboard.tools import json_or_text

T = TypeVar("T")


class Money: ...


class Person(pydantic.BaseModel):
    """Somebody."""

    name: str = pydantic.Field(min_length=1, alias="fullName")
    born: dt.date | None = None
    friends: list[Person] = []

    @pydantic.field_validator("name")
    @classmethod
    def _is_no_robot(cls, name: str) -> str:
        if name == "robot":
            raise ValueError("robots have no name")
        return name


class Address(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    street: str
    at: dt.datetime | None = None
    key: uuid.UUID | None = None


class Strictly(pydantic.BaseModel):
    """Its fields take values of these types, and from JSON alone what they are written as."""

    model_config = pydantic.ConfigDict(strict=True)
    day: dt.date
    at: dt.datetime
    key: uuid.UUID
    numbers: set[int]
    pair: tuple[int, str]
    data: bytes
    price: decimal.Decimal
    whole: int


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Kennel(pydantic.BaseModel):
    pet: Cat | Dog = pydantic.Field(discriminator="kind")
    where: Address


class Box(pydantic.BaseModel, Generic[T]):
    item: T


class Point(msgspec.Struct, frozen=True):
    x: int
    y: Annotated[int, msgspec.Meta(ge=0)] = 0


class Tree(msgspec.Struct, forbid_unknown_fields=True):
    size: int
    parts: list[Tree] = []


class Checked(msgspec.Struct):
    even: int

    def __post_init__(self) -> None:
        if self.even % 2:
            raise ValueError("must be even")


class Stored(msgspec.Struct):
    key: uuid.UUID
    at: dict[str, list[dt.date | None]] = {}


class Rows(msgspec.Struct):
    rows: dict[int, str]


class Crate(msgspec.Struct, Generic[T]):
    item: T


class Written(pydantic.BaseModel):
    a: int = pydantic.Field(serialization_alias="aa")
    b: int = pydantic.Field(validation_alias=pydantic.AliasChoices("b", "B"), serialization_alias="bb")
    where: Path = Path("here")
    hidden: str = pydantic.Field(exclude=True)
    when: dt.datetime
    day: dt.date

    @pydantic.field_serializer("when")
    def _seconds(self, when: dt.datetime) -> int:
        return int(when.timestamp())

    @pydantic.field_serializer("day")
    def _unannotated(self, day):
        return [day.year]

    @pydantic.computed_field
    def total(self) -> int:
        return self.a + self.b


@pydantic.dataclasses.dataclass
class Stock(Generic[T]):
    item: T
    count: int = pydantic.Field(default=1, ge=1, alias="howMany")
    tags: list[str] = pydantic.Field(default_factory=list)
    parts: list[Stock[T]] = pydantic.Field(default_factory=list)


class Worded(pydantic.BaseModel):
    count: int

    @pydantic.model_serializer
    def _worded(self) -> str:
        return f"{self.count} pieces"


BOB = {"fullName": "Bob", "born": None, "friends": []}
STOCK = {"item": 1, "howMany": 1, "tags": [], "parts": []}
KEY = "12345678-1234-1234-1234-123456789abc"
WRONG = "must have the format"
ROBOT = "Value error, robots have no name"


def refused(annotation: Any, value: Any) -> str:
    with pytest.raises(StructureError) as caught:
        structure(value, annotation)
    return str(caught.value)


@pytest.mark.parametrize("decorate", [frozen, dataclasses.dataclass])
def test_a_registered_hook_wins_over_fields_if_a_schema_is_given(decorate):
    class Sum:
        cents: int

    cls: Any = decorate(Sum)
    annotation = Annotated[cls, {"type": "string"}]
    with pytest.raises(DefinitionError, match=r"the schema in Annotated allows only .* register a hook for it"):
        schema_of(annotation)

    converter().register_structure_hook(cls, lambda text, _: cls(cents=int(text)))
    converter().register_unstructure_hook(cls, lambda each: str(each.cents))

    assert schema_of(annotation) == {"type": "string"}
    assert structure("5", annotation).cents == 5
    assert json_or_text([cls(cents=7)]) == ["7"]
    assert structure({"cents": 5}, cls).cents == 5


def test_a_class_without_a_schema_is_refused_with_a_hint():
    converter().register_structure_hook(Money, lambda _text, _: Money())
    with pytest.raises(DefinitionError, match=r"register a hook with pegboard\.schema\.converter") as caught:
        schema_of(Money, tool="pay", path="amount")
    assert caught.value.parameter == "amount"


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (
            Person,
            {"fullName": "Ann", "born": "2024-02-29", "friends": [{"fullName": "Bob", "born": None, "friends": []}]},
        ),
        (Address, {"street": "Elm", "at": "2024-02-29T13:30:00", "key": "12345678-1234-1234-1234-123456789abc"}),
        (
            Strictly,
            {
                "day": "2024-02-29",
                "at": "2024-02-29T13:30:00Z",
                "key": "12345678-1234-1234-1234-123456789abc",
                "numbers": [1, 2],
                "pair": [1, "a"],
                "data": "aa",
                "price": "1.5",
                "whole": 1.0,
            },
        ),
        (Kennel, {"pet": {"kind": "dog"}, "where": {"street": "Elm", "at": None, "key": None}}),
        (Box[int], {"item": 3}),
        (list[Person | None], [None, {"fullName": "Ann", "born": None, "friends": []}]),
        (Cat | Dog, {"kind": "dog"}),
        (Stock[int], {"item": 1, "howMany": 2, "tags": ["a"], "parts": []}),
        (list[Stock[int]], [{"item": 1, "howMany": 2, "tags": [], "parts": [{**STOCK, "item": 3}]}]),
        (Point, {"x": 1, "y": 2}),
        (Tree, {"size": 1, "parts": [{"size": 2, "parts": []}]}),
        (Crate[int], {"item": 3}),
        (Rows, {"rows": {"1": "a", "-20": "b"}}),
        (dict[str, Point], {"a": {"x": 1, "y": 0}}),
    ],
)
def test_models_are_structured_and_written_back(annotation, value):
    made = structure(value, annotation)

    assert json_or_text(made) == value
    assert structure(value, annotation) == made


def test_definitions_of_models_are_inlined_unless_recursive():
    assert "$ref" not in str(schema_of(Kennel))
    assert "discriminator" not in str(schema_of(Kennel))
    assert schema_of(list[Person])["items"]["properties"]["friends"]["items"] == {"$ref": "#/$defs/Person"}
    assert schema_of(Tree)["properties"]["parts"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema_of(Tree)["type"] == "object"


def test_models_with_the_same_name_have_separate_definitions():
    other = pydantic.create_model("Tree", leaf=(str, ...), parts=(list["Tree"], []))
    schema = schema_of(tuple[Tree, other, list[Tree], dict[str, other]])

    assert {name: next(iter(each["properties"])) for name, each in schema["$defs"].items()} == {
        "Tree": "size",
        "Tree_2": "leaf",
    }
    assert structure([{"size": 1}, {"leaf": "a", "parts": [{"leaf": "b"}]}], tuple[Tree, other])[1].parts[0].leaf == "b"


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (Person, {"fullName": ""}, "fullName: must have at least 1 character, got 0"),
        (Person, {"fullName": 5}, "fullName: must be a string, got number 5"),
        (Person, {"fullName": "robot"}, f"fullName: {ROBOT}"),
        (Person, {"fullName": "Ann", "born": "1708300800"}, f'born: {WRONG} "date" of JSON Schema, got "1708300800"'),
        (
            list[Address],
            [{"street": "Elm", "key": "1" * 32}],
            f'[0].key: {WRONG} "uuid" of JSON Schema, got "{"1" * 32}"',
        ),
        (Stored, {"key": "1" * 32}, f'key: {WRONG} "uuid" of JSON Schema, got "{"1" * 32}"'),
        (
            Stored,
            {"key": KEY, "at": {"a": [None, "2024-02"]}},
            f'at.a[1]: {WRONG} "date" of JSON Schema, got "2024-02"',
        ),
        (
            pydantic.create_model("Stored", days=dict[dt.date, int]),
            {"days": {"5": 1}},
            f'days: {WRONG} "date" of JSON Schema, got "5"',
        ),
        (list[Person], [{**BOB, "friends": [{"fullName": "robot"}]}], f"[0].friends[0].fullName: {ROBOT}"),
        (Address, {"street": "Elm", "x": 1}, "x: unknown key (known: street, at, key)"),
        (Stock[int], {"item": "1"}, 'item: must be an integer, got string "1"'),
        (Stock[str], {"item": "1", "howMany": 0}, "howMany: must be at least 1, got 0"),
        (Point, {"x": "1"}, 'x: must be an integer, got string "1"'),
        (Point, {"x": 1, "y": -1}, "y: must be at least 0, got -1"),
        (Checked, {"even": 3}, "(root): must be even"),
        (Rows, {"rows": {"x": "a"}}, "(root): Expected `int`, got `str` - at `key` in `$.rows`"),
    ],
)
def test_errors_of_models_have_a_path(annotation, value, message):
    assert refused(annotation, value) == message


def test_models_accept_whole_floats_as_integers():
    assert structure({"item": 3.0}, Box[int]) == Box[int](item=3)
    assert structure({"x": 1.0}, Point) == Point(1)


def test_integer_keys_of_models_have_one_spelling():
    cls = pydantic.create_model("Rows", rows=dict[int, str])

    assert structure({"rows": {"1": "a", "-20": "b", "0": "c"}}, cls).rows == {1: "a", -20: "b", 0: "c"}
    for text in ("01", "-0", "+1", " 1", "1.0"):
        assert refused(cls, {"rows": {"1": "a", text: "b"}}).startswith("rows")


def test_a_model_without_a_schema_is_refused():
    class Odd(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
        money: Money

    class Strange(msgspec.Struct):
        money: Money

    bases = pydantic.BaseModel, msgspec.Struct
    for cls, cause in (*((cls, "Money") for cls in (Odd, Strange)), *((cls, "subclass") for cls in bases)):
        with pytest.raises(DefinitionError, match=rf"has no JSON Schema: .*{cause}"):
            schema_of(cls)


def test_models_are_parameters_and_results_of_tools():
    @tool
    def marry(one: Person, other: Person | None = None) -> Person:
        """Marries."""
        return one.model_copy(update={"friends": [other] if other else []})

    @tool
    def move(point: Point, by: int) -> Point:
        """Moves."""
        return Point(point.x + by, point.y)

    registry = ToolRegistry()
    registry.register(marry, move)

    married = registry.call_sync("marry", {"one": {"fullName": "Ann"}, "other": {"fullName": "Bob"}})
    assert married.structured_content["friends"][0]["fullName"] == "Bob"
    assert registry.call_sync("move", {"point": {"x": 1}, "by": 2}).structured_content == {"x": 3, "y": 0}
    assert registry.call_sync("move", {"point": {"x": "1"}, "by": 2}).kind == "invalid_arguments"
    assert registry.call_sync("marry", {"one": {"fullName": "robot"}}).kind == "invalid_arguments"


def test_a_model_with_a_different_output_form_is_a_result():
    @tool
    def echo(one: Written, two: list[Worded]) -> tuple[Written, list[Worded]]:
        """Echoes."""
        return one, two

    @tool
    def single(one: Written) -> Written:
        """Echoes."""
        return one

    registry = ToolRegistry()
    registry.register(echo, single)
    given = {"a": 1, "b": 2, "hidden": "x", "when": "2024-02-29T13:30:00Z", "day": "2024-02-29"}
    written = {"aa": 1, "bb": 2, "where": "here", "when": 1709213400, "day": [2024], "total": 3}

    assert registry.call_sync("single", given).structured_content == written
    result = registry.call_sync("echo", {"one": given, "two": [{"count": 5}]}).structured_content
    assert result == {"result": [written, ["5 pieces"]]}
    schema = schema_of(Written, written=True)["properties"]
    assert list(schema) == list(written)
    assert (schema["where"]["type"], schema["when"]["type"]) == ("string", "integer")


def test_a_default_model_is_shown_if_its_output_is_valid_input():
    born = Property("one", Person | None, default=Person(fullName="Ann"))
    other = Property("two", Worded | None, default=Worded(count=5))

    properties = object_schema([born, other])["properties"]

    assert properties["one"]["default"] == {"fullName": "Ann", "born": None, "friends": []}
    assert "default" not in properties["two"]


@frozen
class Leaf:
    type: ClassVar = "leaf"
    size: Count = 0


@frozen
class Branch:
    type: ClassVar = "branch"
    leaves: tuple[Leaf, ...]
    note: str | None = None


@frozen
class Cost:
    cents: int


@frozen
class Plant:
    name: str
    kind: Literal["oak", "elm"] = "oak"
    old: bool = False
    facts: Mapping[str, Any] = field(factory=dict)
    price: Cost | None = None
    part: Leaf | Branch = field(default=Factory(Leaf), metadata=json_key("mainPart"))
    secret: object = field(default="kept", metadata=json_key(""))


def money(data: Mapping[str, Any]) -> Cost:
    if not isinstance(data.get("cents"), int):
        raise ValueError("cents: no money")  # noqa: TRY004  (as readers of data do)
    return Cost(data["cents"])


read_by(Leaf | Branch, tagged(Leaf, Branch))


read_by(Cost, money)


def test_missing_and_null_take_the_default_and_other_keys_are_ignored():
    assert read_record(Plant, {"name": "a"}, "tree") == Plant("a")
    assert read_record(Plant, {"name": "a", "kind": None, "facts": None, "x": 1, "secret": "y"}, "tree") == Plant("a")


def test_values_are_read_by_their_types():
    data = {
        "name": "a",
        "kind": "elm",
        "old": True,
        "facts": {"b": [1]},
        "price": {"cents": 5},
        "mainPart": {"type": "branch", "leaves": [{"size": 1}, {}], "note": "n"},
    }
    branch = Branch((Leaf(1), Leaf()), "n")
    assert read_record(Plant, data, "tree") == Plant("a", "elm", True, {"b": [1]}, Cost(5), branch)  # noqa: FBT003


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "tree: must be an object, got NoneType"),
        ([], "tree: must be an object, got list"),
        ({}, "name: missing"),
        ({"name": 1}, "name: must be a string, got int"),
        ({"name": "a", "kind": "ash"}, "kind: must be one of oak, elm, got 'ash'"),
        ({"name": "a", "kind": []}, "kind: must be a string, got list"),
        ({"name": "a", "old": 1}, "old: must be a boolean, got int"),
        ({"name": "a", "facts": []}, "facts: must be an object, got list"),
        ({"name": "a", "price": 5}, "price: must be an object, got int"),
        ({"name": "a", "price": {}}, "price.cents: no money"),
        ({"name": "a", "mainPart": {}}, "mainPart.type: missing"),
        ({"name": "a", "mainPart": {"type": 1}}, "mainPart.type: must be a string, got int"),
        ({"name": "a", "mainPart": {"type": "root"}}, "mainPart.type: must be one of leaf, branch, got 'root'"),
        ({"name": "a", "mainPart": {"type": "leaf", "size": -1}}, "mainPart.size: must be 0 or above, got -1"),
        ({"name": "a", "mainPart": {"type": "leaf", "size": True}}, "mainPart.size: must be a whole number, got bool"),
        ({"name": "a", "mainPart": {"type": "branch"}}, "mainPart.leaves: missing"),
        ({"name": "a", "mainPart": {"type": "branch", "leaves": "ab"}}, "mainPart.leaves: must be an array, got str"),
        (
            {"name": "a", "mainPart": {"type": "branch", "leaves": [{}, {"size": "1"}]}},
            "mainPart.leaves[1].size: must be a whole number, got str",
        ),
    ],
)
def test_wrong_data_is_named_by_path(data, message):
    with pytest.raises(ValueError, match=":") as caught:
        read_record(Plant, data, "tree")
    assert str(caught.value) == message
    assert not isinstance(caught.value, UnreadError)


@frozen
class ShelfSettings:
    folder: str
    most: Annotated[int, Allowed("from 1 to 9", lambda number: 0 < number < 10)] = 5
    from_: str | None = field(default=None, metadata=json_key("from"))
    clock: Any = field(default=None, metadata=json_key(""))


def test_a_table_of_settings_is_read_by_its_class():
    assert read_table(ShelfSettings, {"folder": "a", "from": "b"}, "plugins.shelf") == ShelfSettings("a", from_="b")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], "plugins.shelf: must be a table, got list"),
        ({}, "plugins.shelf.folder: missing"),
        ({"foldr": "a"}, "plugins.shelf.foldr: unknown key. Did you mean 'folder'?"),
        ({"clock": 1}, "plugins.shelf.clock: unknown key. There are folder, most, from."),
        ({"folder": 1}, "plugins.shelf.folder: must be a string, got int"),
        ({"folder": "a", "most": 10}, "plugins.shelf.most: must be from 1 to 9, got 10"),
        ({"folder": "a", "most": True}, "plugins.shelf.most: must be a whole number, got bool"),
    ],
)
def test_a_wrong_setting_is_named_with_its_table(table, message):
    with pytest.raises(ValueError, match=":") as caught:
        read_table(ShelfSettings, table, "plugins.shelf")
    assert str(caught.value) == message


# --- declarations of one library in a class of another ---


@frozen
class OfAttrs:
    count: int = pydantic.Field(3)


@dataclasses.dataclass
class OfDataclass:
    count: int = field(default=3)


class OfTuple(NamedTuple):
    count: int = dataclasses.field(default=3)


class OfStruct(msgspec.Struct):
    count: int = pydantic.Field(3)


class OfModel(pydantic.BaseModel):
    count: int = msgspec.field(default=3)


@dataclasses.dataclass
class OfFactory:
    count: int = Factory(int)


@pytest.mark.parametrize("cls", [OfAttrs, OfDataclass, OfTuple, OfStruct, OfModel, OfFactory])
def test_a_default_declared_for_another_library_is_refused(cls):
    with pytest.raises(DefinitionError, match=r"its default is .*, which .* doesn't read") as caught:
        schema_of(cls, path="box")
    assert caught.value.parameter == "box.count"


class MarkedStruct(msgspec.Struct):
    names: list[Annotated[str, pydantic.AfterValidator(str.strip)]]


class BoundStruct(msgspec.Struct):
    count: Annotated[int, pydantic.Field(ge=0)]


class DigitsStruct(msgspec.Struct):
    price: Annotated[decimal.Decimal, pydantic.Field(max_digits=3)]


class FilledStruct(msgspec.Struct):
    count: Annotated[int, pydantic.Field(default=3)]


class MarkedModel(pydantic.BaseModel):
    count: Annotated[int, msgspec.Meta(ge=0)]


class OuterModel(pydantic.BaseModel):
    inner: list[MarkedModel]


@pytest.mark.parametrize("cls", [MarkedStruct, BoundStruct, DigitsStruct, FilledStruct, MarkedModel, OuterModel])
def test_a_constraint_that_the_models_library_ignores_is_refused(cls):
    with pytest.raises(DefinitionError, match="in Annotated isn't applied by the library of"):
        schema_of(cls)


class Missing(enum.Enum):
    UNSET = 0


class MarkingStruct(msgspec.Struct, rename="camel"):
    line_count: int = Missing.UNSET
    kind: Missing = Missing.UNSET
    size: int = 3


class MarkingModel(pydantic.BaseModel):
    lineCount: int = Missing.UNSET  # noqa: N815
    kind: Missing = Missing.UNSET
    size: int = 3


class OfMarkingStructs(msgspec.Struct):
    parts: list[MarkingStruct]


class OfMarkingModels(pydantic.BaseModel):
    parts: list[MarkingModel]


@pytest.mark.parametrize("cls", [OfMarkingStructs, OfMarkingModels])
def test_the_marker_of_a_missing_value_is_no_default_of_another_type(cls):
    fields = schema_of(cls)["properties"]["parts"]["items"]["properties"]
    assert {key: each.get("default") for key, each in fields.items()} == {"lineCount": None, "kind": 0, "size": 3}


Cents = NewType("Cents", int)
Price = NewType("Price", Money)


def test_a_hook_for_a_new_type_is_used():
    assert structure([5], list[Cents]) == [5]
    hooked = NewType("hooked", int)
    converter().register_structure_hook(hooked, lambda value, _: value * 100)
    assert schema_of(hooked) == {"type": "integer"}
    assert structure({"a": [5]}, dict[str, list[hooked]]) == {"a": [500]}
    with pytest.raises(StructureError):
        structure("5", hooked)


def test_a_hook_for_a_new_type_may_have_its_own_schema():
    converter().register_structure_hook(Price, lambda value, _: f"{value} EUR")
    assert structure("5", Annotated[Price, {"type": "string"}]) == "5 EUR"


class Plain(pydantic.BaseModel):
    size: int


class Ignoring(Plain, extra="ignore"): ...


class Allowing(Plain, extra="allow"): ...


class Forbidding(Plain, extra="forbid"): ...


class Struct(msgspec.Struct):
    size: int


class Closed(Struct, forbid_unknown_fields=True): ...


@pydantic.dataclasses.dataclass(config={"extra": "ignore"})
class IgnoringData:
    size: int


class Plains(pydantic.BaseModel):
    parts: list[Plain] = []
    forbidding: list[Forbidding] = []


@pytest.mark.parametrize(
    ("cls", "value", "is_refused"),
    [
        (Plain, {"size": 1, "other": 2}, True),
        (Forbidding, {"size": 1, "other": 2}, True),
        *((each, {"size": 1, "other": 2}, False) for each in (Ignoring, Allowing, IgnoringData)),
        (Plains, {"parts": [{"size": 1, "other": 2}]}, False),
        (Plains, {"forbidding": [{"size": 1, "other": 2}]}, True),
        (Struct, {"size": 1, "other": 2}, False),
        (Closed, {"size": 1, "other": 2}, True),
    ],
)
def test_whether_an_unknown_key_is_refused_depends_on_the_model(cls, value, is_refused):
    if is_refused:
        with pytest.raises(StructureError, match=r"unknown key|unexpected"):
            structure(value, cls)
    else:
        assert ("other" in str(structure(value, cls))) is (cls is Allowing)
