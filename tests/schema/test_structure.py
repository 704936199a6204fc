from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import pathlib
import re
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Self, TypedDict, TypeVar

import attrs
import pytest
from attrs import field, frozen, validators
from typing_extensions import TypeAliasType

from pegboard import schema_of
from pegboard.json import StructureError
from pegboard.schema.converter import converter
from pegboard.schema.structure import strict_structurer, structure
from pegboard.tools import json_or_text
from strategies import Colour, Level, Marker, Mixed, Nested, Node, UserId

T = TypeVar("T")


@frozen
class Filter:
    field: str
    op: Literal["eq", "lt"]
    value: float = 0.5


class Point(NamedTuple):
    x: int
    y: int = 0


class Words(TypedDict):
    first: str
    second: NotRequired[list[str]]


class Dated(TypedDict):
    when: dt.date


@frozen
class Box(Generic[T]):
    item: T


@frozen
class Cat:
    kind: Literal["cat"] = "cat"
    lives: int = 9


@frozen
class Dog:
    kind: Literal["dog"] = "dog"


@frozen
class Predicate:
    func: Any


Parts = TypeAliasType("Parts", "str | tuple[Parts, ...]")
LONG = "9" * 5000
Empty = attrs.make_class("Empty", {})
Wide = attrs.make_class("Wide", {f"f{number}": field(type=int, default=0) for number in range(25)})


def refused(annotation, value):
    with pytest.raises(StructureError) as caught:
        strict_structurer(annotation)(value)
    return caught.value.path, caught.value.reason


# --- into Python ---


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        *((str, "a"), (bool, True), (None, None), (Any, [1]), (object, {}), (list, [1]), (dict, {"a": 1})),
        *((Literal["a", "b"], "a"), (Literal["a", True], True), (str | None, "a"), (Words, {"first": "a"})),
        *((list[str], ["a"]), (Sequence[bool], [True]), (dict[str, Any], {"a": 1})),
        *((Mapping[str, list[str]], {"a": ["b"]}), (dict[Literal["a"], str], {"a": "b"})),
        *((Annotated[str, Marker(min_length=1, pattern="^a")], "a"), (Annotated[str, "text"], "a")),
        *((dict[Annotated[str, Marker(min_length=1)], str], {"a": "b"}), (Annotated[str, {"examples": []}], "a")),
    ],
)
def test_types_of_json_itself_need_no_conversion(annotation, value):
    assert structure(value, annotation) is value


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, 1.0, 1),
        (float, 3, 3.0),
        (Literal[1], 1.0, 1),
        (Level, 2.0, Level.HIGH),
        (Literal[Colour.RED, "x"], "red", Colour.RED),
        (list[float], [1], [1.0]),
        (list[float], (1,), [1.0]),
        (set[int], [1, 2.0], {1, 2}),
        (dict[int, str], {"-1": "a"}, {-1: "a"}),
        (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
        (dict[Literal[1, "a"], int], {"1": 1, "a": 2}, {1: 1, "a": 2}),
        (dict[dt.date, int], {"2024-02-29": 1}, {dt.date(2024, 2, 29): 1}),
        (dict[UserId, int], {"ann": 1}, {UserId("ann"): 1}),
        (dict[Annotated[int, Marker(ge=1)], int], {"1": 1}, {1: 1}),
        (Filter, {"field": "a", "op": "eq"}, Filter("a", "eq")),
        (Filter, {"field": "a", "op": "eq", "value": 2}, Filter("a", "eq", 2.0)),
        (Dated, {"when": "2024-02-29"}, {"when": dt.date(2024, 2, 29)}),
        (Box[int], {"item": 1.0}, Box(1)),
        (Box, {"item": [1]}, Box([1])),
        (Nested, [1.0, [2]], [1, [2]]),
        (Cat | Dog, {"kind": "dog"}, Dog()),
        (Filter | Words, {"first": "a"}, {"first": "a"}),
        (uuid.UUID, "12345678-1234-1234-1234-123456789ABC", uuid.UUID("12345678-1234-1234-1234-123456789abc")),
        (bytearray, "aGk=", bytearray(b"hi")),
        (re.Pattern, "a+", re.compile("a+")),
        (set[Parts], ["a", ["b", ["c"]]], {"a", ("b", ("c",))}),
        (Annotated[str, Predicate(str.islower)] | dt.date, "2024-02-29", dt.date(2024, 2, 29)),
    ],
)
def test_values_are_structured(annotation, value, expected):
    made = strict_structurer(annotation)(value)

    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "value", "path", "reason"),
    [
        (int, "42", (), 'must be an integer, got string "42"'),
        (int, True, (), "must be an integer, got boolean true"),
        (int, 1.5, (), "must be an integer, got number 1.5"),
        (float, "1", (), 'must be a number, got string "1"'),
        (float, float("inf"), (), "must be a finite number, got Infinity"),
        (float, 10**400, (), "must be a number that fits a 64-bit float"),
        (str, b"a", (), "must be JSON (null, boolean, number, string, list, dict), got a Python bytes"),
        (Literal[1], True, (), "must be 1"),
        (Colour, "blue", (), 'must be one of "red", "green"'),
        (list[int], [1, "a"], (1,), 'must be an integer, got string "a"'),
        (tuple[int, str], [1], (), "must have at least 2 items, got 1"),
        (tuple[int, str], [1, 2], (1,), "must be a string, got number 2"),
        (set[int], [1, 1.0], (), "must not hold the same item twice"),
        (set[int | bool], [1, True], (), "must not hold the same item twice"),
        (set[pathlib.PurePosixPath], ["a", "a/"], (), "must not hold the same item twice"),
        (dict[str, int], {"a": "x"}, ("a",), 'must be an integer, got string "x"'),
        (dict[int, int], {"01": 1}, (), 'key "01": must match the pattern "^(?:0|-?[1-9][0-9]*)$", got "01"'),
        (dict[int, int], {LONG: 1}, (LONG,), f'the key must be an integer with fewer digits, got "{LONG[:60]}..."'),
        (dict[Colour, int], {"x": 1}, (), 'key "x": must be one of "red", "green"'),
        (dict[Annotated[int, Marker(ge=1)], int], {"0": 1}, ("0",), "the key must be at least 1"),
        (dict[pathlib.PurePosixPath, int], {"a": 1, "a/": 2}, (), "must not hold two keys that mean the same"),
        (Filter, {"field": "a"}, ("op",), "required, missing"),
        (Filter, {"field": "a", "op": "eq", "x": 1}, ("x",), "unknown key (known: field, op, value)"),
        (Filter, {"field": "a", "op": "x"}, ("op",), 'must be one of "eq", "lt"'),
        (list[Filter], [{"field": 1, "op": "eq"}], (0, "field"), "must be a string, got number 1"),
        (Node, {"value": 1, "next": {"value": "a"}}, ("next", "value"), 'must be an integer, got string "a"'),
        (int | None, "a", (), 'must be an integer, got string "a"'),
        (list[int] | tuple[int] | UserId, 1, (), "must be an array or a string, got number 1"),
        (Nested | None, "a", (), 'must be an integer or an array, got string "a"'),
        (Annotated[str, Predicate(str.islower)], "A", (), "must pass str.islower"),
        (Empty, {"x": 1}, ("x",), "unknown key (no keys are known here)"),
        (Wide, {"z": 1}, ("z",), "unknown key (known: " + ", ".join(f"f{n}" for n in range(20)) + " and 5 more)"),
        (Cat | Dog, {}, ("kind",), 'required, missing (one of "cat", "dog")'),
        (Cat | Dog, {"kind": "cow"}, ("kind",), 'must be one of "cat", "dog"'),
        (Cat | Dog, {"kind": "cat", "lives": "x"}, ("lives",), 'must be an integer, got string "x"'),
        (Filter | Point, {"x": "a"}, ("x",), 'must be an integer, got string "a"'),
        (Annotated[float, Marker(multiple_of=0.1)], 0.25, (), "must be a multiple of 0.1, got 0.25"),
        (Annotated[bytes, Marker(max_length=1)], "aGk=", (), "must have at most 1 byte"),
        (Annotated[str, Marker(pattern="(?=a)")], "b", (), "must match the pattern (?=a)"),
        (Annotated[str, {"type": ["string", "integer"]}], 5, (), "must be a string, got number 5"),
        (Annotated[dt.date, Marker(ge=dt.date(2024, 1, 1))], "2023-12-31", (), "must be at least 2024-01-01"),
        (Annotated[dt.date, Marker(ge=1)], "2023-12-31", (), "must be at least 1"),
        (Annotated[decimal.Decimal, Marker(multiple_of=0.5)], "0.7", (), "must be a multiple of 0.5"),
        (Annotated[str, Marker(lt="m")], "z", (), "must be less than m"),
        (dt.date, "2024-02-30", (), 'must be a date such as 2024-02-29, got "2024-02-30"'),
        (dt.date | uuid.UUID, "x", (), 'must be a date such as 2024-02-29, got "x"; or must be a UUID, got "x"'),
        (Dated, {"when": "x"}, ("when",), 'must be a date such as 2024-02-29, got "x"'),
        (Dated | dict[str, int], {"when": "x"}, ("when",), 'must be a date such as 2024-02-29, got "x"'),
        (list[dt.date], ["2024-02-29", "x"], (1,), 'must be a date such as 2024-02-29, got "x"'),
        (uuid.UUID, "{12345678-1234-1234-1234-123456789abc}", (), None),
        (decimal.Decimal, "NaN", (), None),
        (decimal.Decimal, "1e" + "9" * 30, (), None),
        (bytes, "é", (), 'must be base64, got "é"'),
        (re.Pattern, "(", (), 'must be a regular expression, got "("'),
    ],
)
def test_wrong_values_are_refused_with_a_path(annotation, value, path, reason):
    found_path, found = refused(annotation, value)

    assert found_path == path
    assert found == reason or reason is None


def test_the_first_member_of_a_union_that_accepts_a_value_structures_it():
    assert type(strict_structurer(int | float)(1.0)) is int
    assert type(strict_structurer(float | int)(1)) is float
    assert strict_structurer(uuid.UUID | str)("x") == "x"
    assert strict_structurer(Point | Cat)({}) == Cat()


def test_a_union_skips_a_member_that_cannot_represent_the_number():
    assert strict_structurer(float | int)(10**400) == 10**400


def test_set_items_that_compare_by_identity_are_compared_as_json():
    @attrs.frozen(eq=False)
    class Same:
        x: int

    assert refused(set[Same], [{"x": 1}, {"x": 1}])[1] == "must not hold the same item twice"
    assert len(strict_structurer(set[Same])([{"x": 1}, {"x": 2}])) == 2


def test_items_that_turn_out_unhashable_are_refused():
    @frozen
    class Holder:
        items: list[int]

    assert refused(set[Holder], [{"items": [1]}]) == ((), "must be an array of hashable items")


def test_nothing_but_a_structure_error_leaves_a_structurer():
    class DerivedDict(dict):
        pass

    wanted = "must be JSON (null, boolean, number, string, list, dict)"
    assert refused(dict[str, int], DerivedDict()) == ((), f"{wanted}, got a Python DerivedDict")
    assert refused(list[int], {1, 2}) == ((), f"{wanted}, got a Python set")


def test_too_deep_nesting_is_refused():
    value: Any = {"value": 1}
    for _ in range(100_000):
        value = {"value": 1, "next": value}

    assert refused(Node, value) == (("next",) * 64, "must not be nested more than 64 levels deep")
    while value:  # taken apart by hand: it is too deep for the interpreter to do it
        value = value.get("next")


@frozen
class Numbered:
    inner: Numbered | Worded | None
    x: int


@frozen
class Worded:
    inner: Numbered | Worded | None
    x: str


def chain(innermost, levels=60):
    value: Any = {"inner": innermost, "x": "a"}
    for _ in range(levels):
        value = {"inner": value, "x": "a"}
    return value


def test_a_recursive_union_takes_linear_time():
    """Members that differ only behind the field of their own type: tried level by level, this would never end."""
    made = strict_structurer(Numbered | Worded)(chain(None))

    assert made.inner.inner.x == "a"
    assert refused(Numbered | Worded, chain(3))[0] == ("inner",) * 61


# --- what constructors raise ---


def parsed(value: str) -> int:
    return int(value)


@frozen
class Checked:
    even: int = field(default=0)
    parsed: int = field(default="0", converter=parsed)
    own: int = field(default=0, validator=validators.instance_of(int))
    strange: int = field(default=0, converter=attrs.Converter(lambda value, _self: value, takes_self=True))
    _hidden: int = field(default=0)

    @even.validator
    def _is_even(self, attribute, value):
        if value % 2:
            raise ValueError("must be even")

    @_hidden.validator
    def _is_small(self, attribute, value):
        if value > 9:
            raise LookupError("secret")

    def __attrs_post_init__(self):
        if self.even > 100:
            raise ValueError
        if self.own > 100:
            raise ValueError("a" * 300)


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"even": 1}, ("even",), "must be even"),
        ({"parsed": "x"}, (), "invalid literal for int() with base 10: 'x'"),
        ({"hidden": 10}, ("hidden",), "Checked refused the value (LookupError)"),
        ({"even": 102}, (), "Checked refused the value (ValueError)"),
        ({"even": 2, "parsed": "1", "own": 101, "strange": 1, "hidden": 1}, (), "a" * 200 + "..."),
    ],
)
def test_constructor_errors_are_reported_at_the_field(value, path, reason):
    assert refused(Checked, value) == (path, reason)


def test_a_class_that_is_made_otherwise_may_refuse_its_fields():
    @frozen
    class Rare:
        x: int

        def __new__(cls, x):
            if x > 1:
                raise ValueError("must be rare")
            return super().__new__(cls)

    assert strict_structurer(Rare)({"x": 1}) == Rare(1)
    assert refused(Rare, {"x": 2}) == ((), "must be rare")


def test_a_validator_of_attrs_names_the_field_in_its_error():
    @frozen
    class Strange:
        x: object = field(validator=validators.instance_of(int))

    path, reason = refused(list[Strange], [{"x": "a"}])

    assert path == (0, "x")
    assert reason.startswith("'x' must be <class 'int'>")


def test_a_class_derived_from_text_may_refuse_it():
    class Code(str):
        __slots__ = ()

        def __new__(cls, text):
            if not text.isupper():
                raise ValueError("must be upper case")
            return super().__new__(cls, text)

    assert refused(list[Code], ["A", "b"]) == ((1,), "must be upper case")


def test_an_interrupt_is_not_caught():
    @frozen
    class Slow:
        x: int

        def __attrs_post_init__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        strict_structurer(Slow)({"x": 1})


def test_fields_by_keyword_and_in_another_order():
    @dataclasses.dataclass
    class Other:
        a: int = dataclasses.field(kw_only=True)
        b: int
        c: dataclasses.InitVar[int]

        def __post_init__(self, c):
            self.sum = self.a + self.b + c

    made = strict_structurer(Other)({"a": 1, "b": 2, "c": 3})

    assert (made.a, made.b, made.sum) == (1, 2, 6)
    assert json_or_text(made) == {"a": 1, "b": 2}


def test_a_handwritten_constructor_may_take_more_than_the_fields():
    @attrs.frozen(init=False)
    class Own:
        x: int

        def __init__(self, x, *, note="", **others):
            self.__attrs_init__(x + len(note) + len(others))

    assert strict_structurer(Own)({"x": 1}) == strict_structurer(Own)({"x": 1.0})


def test_several_threads_may_make_the_hooks_of_a_class_at_once():
    @frozen
    class Shared:
        inner: list[Self]

    found = []
    threads = [
        threading.Thread(target=lambda: found.append(strict_structurer(Shared)({"inner": []}))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [Shared([])] * 8


# --- back to JSON ---


def test_enums_of_mixed_values_round_trip():
    value = strict_structurer(Mixed | list[Mixed])(["t", 3, False, None])

    assert value == [Mixed.TEXT, Mixed.NUMBER, Mixed.FLAG, Mixed.NOTHING]
    assert json_or_text(value) == ["t", 3, False, None]


# --- classes of one's own ---


class Money:
    def __init__(self, text):
        self.amount, self.currency = text.split()

    def is_euro(self):
        return self.currency == "EUR"


@frozen
class WithSchema:
    json_schema: dict[str, Any] = field(eq=id)


@pytest.fixture
def _money():
    converter().register_structure_hook(Money, lambda value, _: Money(value))
    converter().register_unstructure_hook(Money, lambda money: f"{money.amount} {money.currency}")


@pytest.mark.usefixtures("_money")
def test_classes_with_hooks_are_structured():
    annotation = Annotated[Money, WithSchema({"type": "string", "examples": ["5 EUR"]})]

    assert schema_of(annotation) == {"type": "string", "examples": ["5 EUR"]}
    made = strict_structurer(list[annotation])(["5 EUR"])

    assert (made[0].amount, made[0].currency) == ("5", "EUR")
    assert json_or_text(made) == ["5 EUR"]
    assert refused(list[annotation], ["5"])[0] == (0,)
    assert json_or_text(made[0]) == "5 EUR"
    assert refused(dict[str, annotation] | int, "x") == ((), 'must be an object or an integer, got string "x"')
    assert refused(Annotated[annotation, Predicate(Money.is_euro)], "5 USD")[1] == "must pass Money.is_euro"
    assert json_or_text({made[0]}) == ["5 EUR"]
    assert refused(tuple[annotation, int] | annotation, {})[0] == ()
    assert refused(Annotated[list[annotation] | annotation, Marker(min_length=1)], [])[0] == ()


@pytest.mark.usefixtures("_money")
def test_a_hook_may_raise_its_own_error():
    def refuse(_value, _cls):
        raise StructureError("must be rich", ("amount",))

    converter().register_structure_hook(Money, refuse)

    assert refused(list[Annotated[Money, {"type": "string"}]], ["5 EUR"]) == ((0, "amount"), "must be rich")


def test_the_result_of_an_unstructure_hook_is_converted_further():
    class Wrapped:
        def __init__(self, value):
            self.value = value

    converter().register_structure_hook(Wrapped, lambda value, _: Wrapped(value))
    converter().register_unstructure_hook(Wrapped, lambda wrapped: dt.date(2024, 2, 29))

    assert json_or_text(Wrapped("a")) == "2024-02-29"


@pytest.mark.parametrize("name", ["Odd", "odd name", 'a"b'])
def test_fields_may_have_names_used_in_generated_code(name):
    names = ("converter", "cl", "attrs", "typevar_map", "o", "res", "errors", "instance")
    cls = attrs.make_class(name, {each: attrs.field(type=int, validator=validators.ge(0)) for each in names})
    value = dict.fromkeys(names, 1)

    made = strict_structurer(cls)(value | {"cl": 2.0})

    assert made == cls(**value | {"cl": 2})
    assert json_or_text(made) == value | {"cl": 2}
    assert structure(value, cls) == cls(**value)


def test_errors_of_a_class_with_an_odd_name_have_a_path():
    def refuse(_self, _attribute, _value):
        raise ValueError("no")

    cls = attrs.make_class("odd name", {"x": attrs.field(type=int, validator=refuse)})
    assert refused(cls, {"x": 1}) == (("x",), "no")
