from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import typing
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, NewType, NotRequired, Self, TypedDict

import annotated_types
import attrs
import jsonschema_rs
import msgspec
import pydantic
import pytest
import typing_extensions
from attrs import converters, field, frozen, validators
from typing_extensions import TypeAliasType

from pegboard import schema_of
from pegboard.errors import DefinitionError, SchemaError
from pegboard.schema import compiled, types
from pegboard.schema.types import Property, object_schema
from strategies import Level, Marker, Nested

T = typing.TypeVar("T")
Bound = typing.TypeVar("Bound", bound=str)
Constrained = typing.TypeVar("Constrained", int, str)
Defaulted = typing_extensions.TypeVar("Defaulted", default=bool)
NONE = type(None)
INTEGER = {"type": "integer"}
TEXT = {"type": "string"}
MAPPING = {"type": "object", "additionalProperties": True}


class Colour(enum.Enum):
    """What a thing looks like."""

    RED = "red"
    GREEN = "green"


class Right(enum.Flag):
    READ = 1
    WRITE = 4


class UserName(str):
    __slots__ = ()


UserId = NewType("UserId", int)
Pair = TypeAliasType("Pair", tuple[T, T], type_params=(T,))
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | None")


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (object, {}),
        (UserName, TEXT),
        (typing.LiteralString, TEXT),
        (Final[int], INTEGER),
        (Final, {}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Literal["a", 1, True], {"enum": ["a", 1, True]}),
        (Literal[Colour.RED, "red"], {"type": "string", "const": "red"}),
        (Colour, {"type": "string", "enum": ["red", "green"], "description": "What a thing looks like."}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (list, {"type": "array"}),
        (Sequence[int], {"type": "array", "items": INTEGER}),
        (Iterable[int], {"type": "array", "items": INTEGER}),
        (typing.List[int], {"type": "array", "items": INTEGER}),  # noqa: UP006  (people write it)
        (tuple, {"type": "array"}),
        (tuple[()], {"type": "array", "maxItems": 0}),
        (frozenset[str], {"type": "array", "items": TEXT, "uniqueItems": True}),
        (dict, MAPPING),
        (Mapping[Any, int], {**MAPPING, "additionalProperties": INTEGER}),
        (dict[Literal["a", 1], Any], {**MAPPING, "propertyNames": {"enum": ["a", "1"]}}),
        (dict[int, Any], {**MAPPING, "propertyNames": {"pattern": "^(?:0|-?[1-9][0-9]*)$"}}),
        (dict[uuid.UUID, Any], {**MAPPING, "propertyNames": {"format": "uuid"}}),
        (dict[Annotated[str, Marker(min_length=2), "a key"], Any], {**MAPPING, "propertyNames": {"minLength": 2}}),
        (dict[UserName, Any], MAPPING),
        (str | int, {"anyOf": [TEXT, INTEGER]}),
        (typing.Optional[int], {"anyOf": [INTEGER, {"type": "null"}]}),  # noqa: UP045  (people write it)
        (list[int | str], {"type": "array", "items": {"anyOf": [INTEGER, TEXT]}}),
        (list[str | int], {"type": "array", "items": {"anyOf": [TEXT, INTEGER]}}),
        (pathlib.Path | str, TEXT),
    ],
)
def test_types_have_schemas(annotation, schema):
    """And those that the page of types tells, which is held to it in tests/meta."""
    assert schema_of(annotation) == schema


def test_literals_that_are_equal_in_python_are_distinct():
    assert schema_of(Literal[1]) == {"type": "integer", "const": 1}
    assert schema_of(Literal[True]) == {"type": "boolean", "const": True}
    assert schema_of(list[Literal[True]])["items"] == {"type": "boolean", "const": True}


# --- classes ---


@frozen
class Filter:
    """A condition.

    More about it.

    Attributes:
        field: The column.
        op: How to compare.
    """

    field: str
    op: Annotated[Literal["eq", "lt"], "The operator."] = "eq"
    value: float = field(default=0.5, metadata={"description": "What to compare with."})


FILTER = {
    "description": "A condition.",
    "type": "object",
    "properties": {
        "field": {"type": "string", "description": "The column."},
        "op": {"type": "string", "enum": ["eq", "lt"], "description": "The operator.", "default": "eq"},
        "value": {"type": "number", "description": "What to compare with.", "default": 0.5},
    },
    "required": ["field"],
    "additionalProperties": False,
}


def test_an_attrs_class_is_an_object_with_descriptions_and_defaults():
    assert schema_of(Filter) == FILTER
    assert schema_of(list[Filter]) == {"type": "array", "items": FILTER}


@frozen
class Hidden:
    _private: int
    renamed: int = field(alias="other", default=1)
    made: int = field(init=False, default=1)
    tags: list[str] = field(factory=list)
    number: float = math.nan
    own: int = attrs.Factory(lambda self: self.renamed, takes_self=True)
    random: uuid.UUID = field(factory=uuid.uuid4)
    wrong: int = None
    late: int = field(default=2, kw_only=True)


def test_fields_have_the_constructors_names_and_valid_defaults():
    properties = schema_of(Hidden)["properties"]

    assert list(properties) == ["private", "other", "tags", "number", "own", "random", "wrong", "late"]
    assert schema_of(Hidden)["required"] == ["private"]
    defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    assert defaults == {"other": 1, "tags": [], "late": 2}


@dataclasses.dataclass
class Job:
    name: str
    passed: dataclasses.InitVar[int]
    shared: ClassVar[int] = 0
    _: dataclasses.KW_ONLY
    tags: list[str] = dataclasses.field(default_factory=list, metadata={"description": "Labels."})
    state: int = dataclasses.field(init=False, default=0)
    other: object = dataclasses.field(default_factory=object)


def test_a_dataclass_is_an_object_of_its_constructors_parameters():
    assert schema_of(Job) == {
        "type": "object",
        "properties": {
            "name": TEXT,
            "passed": INTEGER,
            "tags": {"type": "array", "items": TEXT, "description": "Labels.", "default": []},
            "other": {},
        },
        "required": ["name", "passed"],
        "additionalProperties": False,
    }


def test_a_named_tuple_is_an_object_by_its_names():
    assert schema_of(collections.namedtuple("Bare", "a"))["properties"] == {"a": {}}  # noqa: PYI024  (people write it)


class Base(TypedDict):
    a: int
    b: NotRequired[str]


class Extended(Base, total=False):
    c: typing.Required[Annotated[int, "The third."]]
    d: Annotated[NotRequired[int], "The fourth."]
    e: typing_extensions.ReadOnly[int]


class Foreign(typing_extensions.TypedDict, total=False):
    a: typing_extensions.Required[int]
    b: int


def test_a_typed_dict_has_required_keys():
    assert schema_of(Extended) == {
        "type": "object",
        "properties": {
            "a": INTEGER,
            "b": TEXT,
            "c": {"type": "integer", "description": "The third."},
            "d": {"type": "integer", "description": "The fourth."},
            "e": INTEGER,
        },
        "required": ["a", "c"],
        "additionalProperties": False,
    }
    assert schema_of(Foreign)["required"] == ["a"]


@frozen
class Box(Generic[T]):
    item: T
    more: list[T] = field(factory=list)


@frozen
class Boxes(Box[list[T]], Generic[T]):
    first: T = field(kw_only=True)


class Keyed(TypedDict, Generic[T]):
    a: T


class OfText(Keyed[str]):
    b: int


@frozen
class Held(Generic[Bound, Constrained, Defaulted]):
    a: Bound
    b: Constrained
    c: Defaulted


def types_of(annotation):
    return {name: schema.get("type") for name, schema in schema_of(annotation)["properties"].items()}


def test_type_variables_are_replaced_by_arguments():
    assert types_of(Box[int]) == {"item": "integer", "more": "array"}
    assert types_of(Boxes[int]) == {"item": "array", "more": "array", "first": "integer"}
    assert schema_of(Boxes[int])["properties"]["more"]["items"] == {"type": "array", "items": INTEGER}
    assert types_of(Keyed[int]) == {"a": "integer"}
    assert types_of(OfText) == {"a": "string", "b": "integer"}
    assert schema_of(Pair[int])["prefixItems"] == [INTEGER, INTEGER]


def test_unbound_type_variables_mean_their_bounds():
    properties = schema_of(Held)["properties"]

    assert properties == {"a": TEXT, "b": {"anyOf": [INTEGER, TEXT]}, "c": {"type": "boolean"}}
    assert schema_of(Box)["properties"]["item"] == {}


def parsed(value: str) -> int:
    return int(value)


def unresolved(value: Nowhere) -> int:  # noqa: F821  (that is the point)
    return value


@frozen
class Converted:
    plain: int = field(converter=parsed)
    maybe: int | None = field(converter=converters.optional(parsed), default=None)
    by_class: tuple[int, ...] = field(converter=tuple, default=())
    unknown: int = field(converter=unresolved, default=0)
    checked: int = field(converter=abs, validator=validators.ge(0), default=0)


def test_an_annotated_converter_decides_the_type_of_its_field():
    properties = schema_of(Converted)["properties"]

    assert properties["plain"] == TEXT
    assert properties["maybe"]["anyOf"] == [TEXT, {"type": "null"}]
    assert properties["by_class"]["items"] == INTEGER
    assert properties["unknown"] == {"type": "integer", "default": 0}
    assert properties["checked"] == {"type": "integer", "default": 0}  # its validator is asked of another value


# --- tags ---


@frozen
class Cat:
    kind: Literal["cat", "kitten"] = "cat"
    lives: int = 9


@frozen
class Dog:
    kind: Literal["dog"] = "dog"


def test_a_union_whose_members_have_a_tag_requires_it():
    cat, dog, null = schema_of(Cat | Dog | None)["anyOf"]

    assert cat["required"] == dog["required"] == ["kind"]
    assert dog["properties"]["kind"] == {"type": "string", "const": "dog", "default": "dog"}
    assert null == {"type": "null"}
    assert "required" not in schema_of(Cat)


def test_a_union_with_an_object_that_has_no_tag_requires_none():
    members = schema_of(Cat | Dog | Filter)["anyOf"]

    assert "required" not in members[0]


# --- types made of themselves ---


@frozen
class Node:
    value: int
    next: Node | None = None


@frozen
class Left:
    right: Right2 | None = None


@frozen
class Right2:
    left: Left | None = None


@frozen
class Team:
    friends: frozenset[Team] = frozenset()


Marked = TypeAliasType("Marked", "list[Marked] | Annotated[int | None, 'one'] | Annotated[str | None, 'two']")


@frozen
class Owner:
    same: Self | None = None


def test_a_recursive_type_is_a_definition_and_written_out_at_the_root():
    schema = schema_of(Node)

    body = {
        "type": "object",
        "properties": {
            "value": INTEGER,
            "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None},
        },
        "required": ["value"],
        "additionalProperties": False,
    }
    assert schema == {**body, "$defs": {"Node": body}}
    assert schema_of(Annotated[Node, "A node."]) == {**body, "description": "A node.", "$defs": {"Node": body}}
    assert schema_of(list[Node]) == {"type": "array", "items": {"$ref": "#/$defs/Node"}, "$defs": {"Node": body}}


def test_mutually_recursive_types_are_definitions_in_either_order():
    assert list(schema_of(Left)["$defs"]) == ["Left", "Right2"]
    assert list(schema_of(Right2)["$defs"]) == ["Right2", "Left"]


def test_recursion_by_name_self_or_alias_is_a_definition():
    assert schema_of(Owner)["properties"]["same"]["anyOf"][0] == {"$ref": "#/$defs/Owner"}
    assert schema_of(Team)["properties"]["friends"]["items"] == {"$ref": "#/$defs/Team"}
    assert schema_of(Marked)["anyOf"][0] == {"type": "array", "items": {"$ref": "#/$defs/Marked"}}
    assert schema_of(Json)["$defs"]["Json"]["anyOf"][0]["additionalProperties"] == {"$ref": "#/$defs/Json"}


def test_two_classes_of_one_name_have_two_definitions():
    first = Node

    def another():
        @frozen
        class Node:
            inner: list[Self]

        return Node

    second = another()
    schema = object_schema([Property("a", first), Property("b", second), Property("c", first)])

    assert list(schema["$defs"]) == ["Node", "Node_2"]
    assert schema["properties"]["a"] == schema["properties"]["c"] == {"$ref": "#/$defs/Node"}
    assert schema["properties"]["b"] == {"$ref": "#/$defs/Node_2"}
    assert schema["$defs"]["Node_2"]["properties"]["inner"]["items"] == {"$ref": "#/$defs/Node_2"}


def test_definitions_of_schemas_in_annotated_are_at_the_root_each_under_a_name_of_its_own():
    def of(part):
        return {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": part}}

    texts, numbers = Annotated[dict, of({"type": "string"})], Annotated[dict, of({"type": "integer"})]
    schema = object_schema([Property("a", texts), Property("b", list[numbers]), Property("c", numbers)])

    assert schema["$defs"] == {"N": {"type": "string"}, "N_2": {"type": "integer"}}
    assert schema["properties"]["c"] == schema["properties"]["b"]["items"]
    assert jsonschema_rs.is_valid(schema, {"a": {"n": "x"}, "b": [{"n": 1}], "c": {"n": 2}})
    assert not jsonschema_rs.is_valid(schema, {"a": {"n": "x"}, "b": [{"n": "y"}], "c": {"n": 2}})


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("N", "#/$defs/N"),
        ("N", "#/%24defs/N"),
        ("N", "#/$defs/N/properties/q"),
        ("N/", "#/$defs/N~1"),
        ("N/", "#/$defs/N~1/properties/q"),
        ("N ~", "#/$defs/N%20~0"),
        ("5%", "#/$defs/5%25"),
        ("5%", "#/$defs/5%"),
    ],
)
def test_a_reference_follows_its_definition_to_another_name_however_it_is_written(name, reference):
    def of(kind):
        definition = {"type": [kind, "object"], "properties": {"q": {"type": kind}}}
        return {"properties": {"n": {"$ref": reference}}, "$defs": {name: definition, "true": True}}

    texts, numbers = Annotated[dict, of("string")], Annotated[dict, of("integer")]
    schema = object_schema([Property("a", texts), Property("b", numbers)])

    assert list(schema["$defs"]) == [name, "true", f"{name}_2", "true_2"]
    accepts = compiled(json.dumps(schema)).is_valid
    assert accepts({"a": {"n": "x"}, "b": {"n": 1}})
    assert not accepts({"a": {"n": "x"}, "b": {"n": "x"}})


@pytest.mark.parametrize("reference", ["#/$defs/N/properties/q", "#/$defs/q~1"])
def test_a_schema_in_annotated_may_be_a_reference_to_a_part_of_a_definition_or_an_escaped_one(reference):
    texts = {"type": "object", "properties": {"a": {"type": "string"}}}
    given = {"$ref": reference, "$defs": {"N": {"properties": {"q": texts}}, "q/": texts, "q": {"maxProperties": 0}}}
    schema = schema_of(Annotated[dict, given])
    assert jsonschema_rs.is_valid(schema, {"a": "x"})
    assert not jsonschema_rs.is_valid(schema, {"a": 1})


def test_a_recursive_generic_type_is_named_by_its_arguments():
    assert list(schema_of(Tree[int])["$defs"]) == ["Tree_int"]


@frozen
class Tree(Generic[T]):
    value: T
    children: list[Tree[T]] = field(factory=list)


# --- objects of parameters ---


def test_the_object_of_a_parameter_list():
    schema = object_schema(
        [
            Property("query", str, "What to look for."),
            Property("limit", Annotated[int, Marker(ge=1), "The type's own."], "The parameter's own.", 10),
            Property("ratio", float, default=math.nan),
            Property("when", dt.date, default=dt.date(2024, 2, 29)),
        ]
    )

    assert schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {"type": "integer", "minimum": 1, "description": "The parameter's own.", "default": 10},
            "ratio": {"type": "number"},
            "when": {"type": "string", "format": "date", "default": "2024-02-29"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert list(schema["properties"]) == ["query", "limit", "ratio", "when"]


def test_other_keys_are_allowed_by_their_type():
    assert object_schema([]) == {"type": "object", "properties": {}, "additionalProperties": False}
    assert object_schema([], additional=int)["additionalProperties"] == INTEGER
    assert object_schema([], additional=Any)["additionalProperties"] is True
    assert object_schema([], additional=Node)["$defs"].keys() == {"Node"}


def test_the_definitions_of_all_parameters_are_at_the_root():
    schema = object_schema([Property("node", Node, "A node."), Property("left", Left), Property("more", list[Node])])

    assert list(schema["$defs"]) == ["Node", "Left", "Right2"]
    assert schema["properties"]["node"] == {"$ref": "#/$defs/Node", "description": "A node."}
    assert jsonschema_rs.meta.is_valid(schema)


def test_a_refused_parameter_is_named():
    with pytest.raises(DefinitionError) as caught:
        object_schema([Property("fine", int), Property("bad", list[complex])], tool="work")

    assert caught.value.parameter == "bad[]"


@pytest.mark.parametrize("default", [None, "x", [], {}, object(), {1, 2}, Filter("f")])
def test_a_parameter_with_any_default_is_optional(default):
    schema = object_schema([Property("x", Any, default=default)])

    assert "required" not in schema


class Unset(enum.Enum):
    UNSET = 0


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        *((int, each) for each in (1.5, True, Unset.UNSET)),
        (Any, Unset.UNSET),
        (str, b"bytes"),
        (Literal["a", "b"], "c"),
        (list[int], ["a"]),
        (Annotated[int, Marker(ge=1)], 0),
        (Annotated[str, annotated_types.Predicate(str.islower)], "B"),
        (Annotated[str, pydantic.AfterValidator(int)], "a"),
    ],
)
def test_a_default_that_its_type_refuses_is_not_written(annotation, default):
    schema = object_schema([Property("x", annotation, default=default)])
    assert "default" not in schema["properties"]["x"]
    assert "required" not in schema


class OfModel(pydantic.BaseModel):
    bad: int = 1.5
    low: Annotated[int, pydantic.Field(ge=1)] = 0
    unset: int = Unset.UNSET
    nan: float = float("nan")
    good: int | None = None
    marker: Unset = Unset.UNSET


class OfStruct(msgspec.Struct):
    bad: int = 1.5
    good: int | None = None
    marker: Unset = Unset.UNSET


@pytest.mark.parametrize("cls", [OfModel, OfStruct])
def test_a_default_of_a_model_that_its_type_refuses_is_not_written(cls):
    properties = schema_of(list[cls])["items"]["properties"]
    assert {name: each["default"] for name, each in properties.items() if "default" in each} == {
        "good": None,
        "marker": 0,
    }


class Branch(pydantic.BaseModel):
    weight: float = float("nan")
    pair: list[float] = [1.0, float("inf")]
    name: str = "x"
    branches: list[Branch] = []


def test_a_default_without_json_takes_no_other_away_in_a_recursive_model():
    schema = schema_of(Branch)
    for each in (schema, schema["$defs"]["Branch"]):
        has = {name: part["default"] for name, part in each["properties"].items() if "default" in part}
        assert has == {"name": "x", "branches": []}


@pytest.mark.parametrize(
    ("annotation", "default", "written"),
    [
        (float, 3, 3),
        (Unset, Unset.UNSET, 0),
        (int, Level.LOW, 1),
        (Sequence[str], ("a",), ["a"]),
        (tuple[int, ...], (1, 2), [1, 2]),
        (Annotated[int, Marker(ge=1)] | None, 1, 1),
        (Filter, Filter("f"), {"field": "f", "op": "eq", "value": 0.5}),
    ],
)
def test_a_default_that_its_type_accepts_is_written(annotation, default, written):
    assert object_schema([Property("x", annotation, default=default)])["properties"]["x"]["default"] == written


@pytest.mark.parametrize("default", ["x" * 9_999, 10**5000, [[0] * 99] * 99], ids=range(3))
def test_a_default_that_is_long_is_not_written(default):
    assert object_schema([Property("x", Any, default=default)])["properties"]["x"] == {}
    assert object_schema([Property("x", Any, default="x" * 9_998)])["properties"]["x"] == {"default": "x" * 9_998}


def test_the_default_of_a_set_is_sorted():
    words = {"b", "a", "c"}

    assert object_schema([Property("x", set[str], default=words)])["properties"]["x"]["default"] == ["a", "b", "c"]


def test_a_returned_schema_can_be_changed():
    schema_of(Filter)["title"] = "changed"
    object_schema([Property("x", Filter, "d")])["properties"]["x"]["title"] = "changed"

    assert schema_of(Filter) == FILTER


def test_the_cache_of_types_is_bounded(monkeypatch):
    """Functions that make tools may make types at each call: what is kept of them has a limit."""
    monkeypatch.setattr(types, "_MOST_CACHED", 3)
    monkeypatch.setattr(types, "_cache", {})

    for number in range(10):
        assert schema_of(Literal[number]) == {"type": "integer", "const": number}

    assert len(types._cache) <= 3


def test_schemas_are_the_same_in_every_process():
    code = (
        "import json, sys; sys.path.insert(0, 'tests'); "
        "from strategies import EACH_KIND; from pegboard import schema_of; "
        "print(json.dumps([schema_of(case.annotation) for case in EACH_KIND]))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    ]

    assert runs[0] == runs[1]


def test_schemas_and_structurers_load_no_heavy_library():
    code = (
        "import sys; from pegboard.schema.structure import strict_structurer; "
        "from pegboard import schema_of; "
        "heavy = {'cattrs', 'jsonschema', 'pydantic', 'msgspec'}; "
        "light = {'jsonschema_rs', 'typing_extensions', 'asyncio', 'decimal', 'uuid', 'fractions'}; "
        "types = [int, dict[str, list[int] | None], tuple[int]]; "
        "print([schema_of(each) for each in types] and (heavy | light) & sys.modules.keys()); "
        "print([strict_structurer(each) for each in types] and heavy & sys.modules.keys())"
    )

    assert subprocess.check_output([sys.executable, "-c", code]) == b"set()\nset()\n"


# --- what has no schema ---

Endless = TypeAliasType("Endless", "Endless | int")
Lost = TypeAliasType("Lost", "list[Nowhere]")  # noqa: F821  (that is the point)


class Empty(enum.Enum):
    pass


class Odd(enum.Enum):
    PAIR = (1, 2)


@dataclasses.dataclass
class Unhashable:
    name: str


class Duck:
    ge = 1


class Shape(ABC):
    @abstractmethod
    def area(self) -> float: ...


@frozen
class AbstractShape(Shape):
    size: int


@frozen
class Unresolved:
    x: Nowhere  # noqa: F821  (that is the point)


class Custom:
    def __init__(self, value):
        self.value = value


@frozen(init=False)
class OwnInit:
    x: int

    def __init__(self, other):
        self.__attrs_init__(other)


@frozen
class Outer:
    inner: list[dict[str, Custom]]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Right, "Right is a Flag, which has no JSON form. Use a list of an Enum's members"),
        (complex, "complex has no JSON Schema. Pass input_schema=..., or use a class of attrs"),
        (Callable[[int], int], "or use the name of the function (Literal or an enum) instead."),
        (collections.deque[int], "deque[int] has no JSON Schema. Pass input_schema=..., or use a list instead."),
        (Custom, "Custom has no JSON Schema. Pass input_schema=..., or use a class of attrs"),
        (collections.defaultdict[str, int], "or use a dict instead."),
        (type[int], "type[int] has no JSON Schema"),
        (typing.NoReturn, "NoReturn has no JSON Schema"),
        (json, "has no JSON Schema"),
        (re.Pattern[bytes], "Pattern[bytes] has no JSON Schema"),
        (AbstractShape, "AbstractShape is abstract. Use a union of its concrete subclasses."),
        (Unresolved, "the fields of Unresolved can't be read: name 'Nowhere' is not defined."),
        (OwnInit, "its constructor takes (other), its fields are (x)"),
        (list["Nowhere"], "isn't resolved"),  # noqa: F821
        (Self, "Self has no JSON Schema"),
        (Endless, "Endless is an alias of itself"),
        (Lost, "Lost can't be resolved: name 'Nowhere' is not defined"),
        (dict[tuple[int, int], int], "its keys can't be written as text"),
        (dict[Literal[1, "1"], int], "its keys can't be written as text"),
        (dict[None, int], "its keys can't be written as text"),
        (dict[Annotated[float, Marker(ge=1)], int], "its keys can't be written as text"),
        *((each, "the items of a set must be hashable") for each in (set[list[int]], set[dict[str, int]])),
        *((each, "the items of a set must be hashable") for each in (set[Nested], set, set[Unhashable])),
        (tuple[int, *tuple[str, ...]], "a tuple of fixed and other items"),
        (Literal[b"x"], "b'x' has no JSON form"),
        (Empty, "Empty has no values"),
        (Odd, "<Odd.PAIR: (1, 2)> has no JSON form"),
        (Annotated[typing.Any, Marker(ge=1)], "doesn't apply to Any"),
        (Annotated[bool, Marker(ge=1)], "doesn't apply to bool"),
        (Annotated[int, Marker(min_length=1)], "doesn't apply to int"),
        (Annotated[int, Marker(pattern="a")], "doesn't apply to int"),
        (Annotated[bool, Marker(multiple_of=2)], "doesn't apply to bool"),
        (Annotated[Literal["a"], Marker(min_length=2)], "leaves no value"),
        (Annotated[int, Marker(ge=5, le=3)], "leaves no value"),
        (Annotated[int, Marker(gt=3), Marker(lt=4)], "leaves no value"),
        (Annotated[int, Marker(ge=11, le=19, multiple_of=10)], "leaves no value"),
        (Annotated[float, Marker(ge=3), Marker(lt=3)], "leaves no value"),
        (Annotated[str, Marker(min_length=3, max_length=2)], "leaves no value"),
        (Annotated[list[int], Marker(max_length=2), Marker(min_length=3)], "leaves no value"),
        (Annotated[dict[str, int], Marker(max_length=2), Marker(min_length=3)], "leaves no value"),
        (Annotated[tuple[int, int], Marker(min_length=3)], "leaves no value"),
        (Annotated[str, Marker(pattern="(")], "the pattern '(' can't be compiled"),
        (Annotated[bool, Duck()], "Duck doesn't apply to"),
        (Annotated[Custom, {"type": "string"}], "Custom has no JSON Schema"),
    ],
)
def test_types_without_a_schema_are_refused_with_a_hint(annotation, message):
    with pytest.raises(DefinitionError) as caught:
        schema_of(annotation, tool="work", path="thing")

    assert str(caught.value).startswith("tool 'work': 'thing")
    assert message in str(caught.value)
    assert caught.value.tool == "work"
    assert caught.value.hint


def test_the_refusal_names_the_path_of_the_part_at_fault():
    with pytest.raises(DefinitionError) as caught:
        schema_of(list[Outer], tool="work", path="things")

    assert caught.value.parameter == "things[].inner[].*"
    assert caught.value.annotation is Custom


def test_an_invalid_schema_in_annotated_is_refused():
    with pytest.raises(SchemaError, match="the schema in Annotated of thing is refused"):
        schema_of(Annotated[int, {"minimum": "x"}], tool="work", path="thing")
