from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from typing import Annotated, Any, Generic, NotRequired, Optional, TypedDict, TypeVar, Unpack

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import example, given, strategies as st

from pegboard import Injected, ReadonlyContext, Tool, ToolContext, ToolRegistry, tool, tool_of
from pegboard.errors import DefinitionError, FatalToolError, MissingServiceError, ToolError
from pegboard.json import StructureError
from pegboard.tools.handler import binder_of, binder_of_one, open_services
from pegboard.tools.services import injected_kind
from pegboard.tools.signature import EMPTY, signature_of

CONTEXT = ToolContext()


def bound(function, arguments, *, strict=False):
    """What `function` gives, called with these arguments."""
    args, kwargs = binder_of(signature_of(function, tool="t"), strict=strict)(CONTEXT, arguments)
    return function(*args, **kwargs)


def test_arguments_of_json_types_are_passed_unchanged():
    def function(a: list[str], b: str = "x"): ...

    arguments = {"a": ["x"]}
    args, kwargs = binder_of(signature_of(function, tool="t"))(CONTEXT, arguments)
    assert args == ()
    assert kwargs is arguments


class Named:
    alias = "user-id"


def mails(from_: dt.date, user: Annotated[int, Named()], class_: str = "x", plain_: str = "y", **rest: dt.date):
    """Mails.

    Args:
        from_: Since when.
        user: Whose.
    """
    return from_, user, class_, plain_, rest


def test_a_parameter_may_have_another_name_for_the_model():
    """A keyword of Python's behind which an underscore stands, or what something in `Annotated` has as `alias`."""
    made = Tool.from_function(mails, permission_arguments={"from": "text"})
    properties = made.spec.input_schema["properties"]
    assert list(properties) == ["from", "user-id", "class", "plain_"]
    assert (properties["from"]["description"], properties["user-id"]["description"]) == ("Since when.", "Whose.")
    assert made.spec.input_schema["required"] == ["from", "user-id"]
    given = {"from": "2026-01-02", "user-id": 1.0, "class": "c", "more": "2026-01-03"}
    assert bound(mails, given) == (dt.date(2026, 1, 2), 1, "c", "y", {"more": dt.date(2026, 1, 3)})


@pytest.mark.parametrize(
    ("arguments", "path"), [({"from": "never", "user-id": 1}, ("from",)), ({"from_": "2026-01-02"}, ("from_",))]
)
def test_errors_use_the_name_for_the_model(arguments, path):
    with pytest.raises(StructureError) as caught:
        bound(mails, arguments)
    assert caught.value.path == path


def test_two_parameters_of_one_name_are_refused():
    def twice(from_: int, other: Annotated[int, type("Alias", (), {"alias": "from"})()]): ...

    with pytest.raises(DefinitionError, match="two parameters have this name in JSON"):
        Tool.from_function(twice)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"day": "never"}, ("day",)),
        ({"day": "2026-01-02", "days": ["2026-01-02", "never"]}, ("days", 1)),
        ({"day": "2026-01-02", "other": "never"}, ("other",)),
    ],
)
def test_values_that_a_type_refuses_have_a_path(arguments, path):
    def by_name(day: dt.date, days: list[dt.date] = (), **rest: dt.date): ...
    def by_position(day: dt.date, /, *days: dt.date, **rest: dt.date): ...

    for function in (by_name, by_position):
        with pytest.raises(StructureError) as caught:
            bound(function, arguments)
        assert caught.value.path == path


def test_a_hidden_parameter_cannot_be_filled_by_kwargs():
    class Thing:
        def method(self, a, context: ToolContext, db: Injected[int], **rest): ...
        def positional(self, context: ToolContext, db: Injected[int], /, **rest): ...

    for function in (Thing().method, Thing().positional):
        for name in ("self", "context", "db"):
            with pytest.raises(StructureError, match=f"{name}: unknown key"):
                bound(function, {"a": 1, name: 2})


class Options(TypedDict, total=False):
    """Unpacked."""

    depth: int
    day: dt.date


def test_unpacked_keys_that_are_left_out_are_not_passed():
    def function(a: int, **options: Unpack[Options]):
        return options

    def positional(a: int, /, **options: Unpack[Options]):
        return options

    for each in (function, positional):
        assert bound(each, {"a": 1}) == {}
        assert bound(each, {"a": 1, "day": "2026-01-02"}) == {"day": dt.date(2026, 1, 2)}


@pytest.mark.parametrize("name", ["input", None])
def test_a_function_with_one_parameter_gets_it_in_any_position(name):
    def context_first(context: ToolContext, it):
        return context, it

    def context_last(it, /, context: ToolContext):
        return context, it

    def keyword(*, it, context: ToolContext):
        return context, it

    def alone(it):
        return CONTEXT, it

    arguments = {"input": "text"}
    for function in (context_first, context_last, keyword, alone):
        args, kwargs = binder_of_one(signature_of(function, tool="t"), name)(CONTEXT, arguments)
        assert function(*args, **kwargs) == (CONTEXT, "text" if name else arguments)


@st.composite
def signatures(draw):
    """The source of a function that gives back what it got, and arguments for it with what they come to."""
    names = iter("abcdefgh")
    parts, given, expected = [], {}, {}

    def parameters(most, *, defaulted=False):
        for name in [next(names) for _ in range(draw(st.integers(0, most)))]:
            defaulted = defaulted or draw(st.booleans())
            parts.append(f"{name}=0" if defaulted else name)
            expected[name] = 0
            if not defaulted or draw(st.booleans()):
                given[name] = expected[name] = draw(st.integers(1, 9))
        return defaulted

    defaulted = parameters(2)
    if parts:
        parts.append("/")
    parameters(2, defaulted=defaulted)
    if draw(st.booleans()):
        parts.append("*rest")
        expected["rest"] = ()
        if draw(st.booleans()):
            given["rest"] = draw(st.lists(st.integers(), max_size=2))
            expected["rest"] = tuple(given["rest"])
        parameters(2)
    if draw(st.booleans()):
        parts.append("**more")
        expected["more"] = draw(st.dictionaries(st.sampled_from(["x", "more", "function"]), st.integers(), max_size=2))
        given.update(expected["more"])
    return f"def function({', '.join(parts)}): return locals()", given, expected


@given(signatures())
@example(("def function(**more): return locals()", {"more": 0}, {"more": {"more": 0}}))
def test_every_parameter_gets_what_was_given_or_its_default(case):
    source, arguments, expected = case
    names = {}
    exec(source, names)
    assert bound(names["function"], arguments) == expected


T = TypeVar("T")


class Database:
    """Stands for one."""


class Repository(Generic[T]): ...


DATABASE = Database()


def called(function, arguments, services=None):
    """What `function` gives as a tool's, called as dispatch calls it."""
    made = Tool.from_function(function)
    context = ToolContext(ReadonlyContext(user="ann"), tool=made.name, services=services or {})

    async def run():
        await open_services(made.handler.injects, context)
        args, kwargs = made.bind(context, arguments)
        try:
            return function(*args, **kwargs)
        finally:
            await context.internals.close_services()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (Injected[Database], Database),
        (Injected[Repository[int]], Repository[int]),
        (Annotated[Injected[Database], "more"], Database),
        (Injected[Database] | None, Database),
        (Optional[Injected[Database]], Database),  # noqa: UP045  (the other way to write it)
        (Injected[Database | None], Database),
        *((each, None) for each in (Database, Annotated[Database, "injected"], Database | None)),
        (list[Injected[Database]], None),
    ],
)
def test_the_annotation_decides_the_injected_type(annotation, kind):
    assert injected_kind(annotation) == kind


def test_a_service_that_isnt_provided_has_the_default_that_its_field_makes():
    def function(db: Annotated[Injected[Database], pydantic.Field(default_factory=lambda: "made")]) -> str:
        return f"{db}"

    assert text_of(Tool.from_function(function)) == "made"


def test_injected_parameters_are_hidden_from_the_model():
    @tool
    def function(a: int, db: Injected[Database], log: Injected[Database] | None = None): ...

    made = tool_of(function)
    assert list(made.spec.input_schema["properties"]) == ["a"]
    assert [(each.name, each.service, each.default is not EMPTY) for each in made.handler.injects] == [
        ("db", Database, False),
        ("log", Database, True),
    ]


@pytest.mark.parametrize("place", range(7))
def test_services_are_passed_in_any_position(place):
    def first(db: Injected[Database], a: int, context: ToolContext):
        return db, a, context.user

    def last(context: ToolContext, a: int, db: Injected[Database]):
        return db, a, context.user

    def keyword(a: int, *, db: Injected[Database], context: ToolContext):
        return db, a, context.user

    def positional(db: Injected[Database], a: int, context: ToolContext, /):
        return db, a, context.user

    def before_a_star(context: ToolContext, db: Injected[Database], *a: int):
        return db, a[0], context.user

    def open_ended(a: int, db: Injected[Database], context: ToolContext, **rest: int):
        return db, a, context.user

    def structured(a: Annotated[int, "x"], db: Injected[Database], context: ToolContext, day: str = "x"):
        return db, a, context.user

    function = [first, last, keyword, positional, before_a_star, open_ended, structured][place]
    arguments = {"a": [1]} if function is before_a_star else {"a": 1}
    assert called(function, arguments, {Database: DATABASE}) == (DATABASE, 1, "ann")


def test_a_parameter_with_a_default_needs_no_service():
    def by_name(a: int, db: Injected[Database] | None = None):
        return db

    def by_position(a: int, db: Injected[Database] | None = None, /):
        return db

    for function in (by_name, by_position):
        assert called(function, {"a": 1}) is None
        assert called(function, {"a": 1}, {Database: DATABASE}) is DATABASE


def test_the_handler_of_a_schema_gets_services_too():
    def handler(arguments, db: Injected[Database], note: Injected[str] = "default"):
        return arguments, db, note

    made = Tool.from_schema("t", {"type": "object"}, handler)
    context = ToolContext(services={Database: DATABASE})
    asyncio.run(open_services(made.handler.injects, context))
    args, kwargs = made.bind(context, {"a": 1})
    assert handler(*args, **kwargs) == ({"a": 1}, DATABASE, "default")


def test_arguments_are_checked_without_opening_anything():
    def function(a: int, db: Injected[Database]): ...

    made = Tool.from_function(function, examples=[{"a": 1}])
    assert made.check({"a": 1}) == ()
    assert made.check({"a": 1, "db": 1}) != ()


def test_a_missing_service_has_details_for_the_operator_only():
    def lookup(db: Injected[Database]): ...

    with pytest.raises(ToolError) as caught:
        called(lookup, {})
    assert caught.value.text == "lookup isn't set up here, so it can't run. Continue without it, or tell the user."
    assert isinstance(caught.value.__cause__, MissingServiceError)
    assert "registry.provide(Database, ...)" in str(caught.value.__cause__)


def test_a_service_that_cannot_be_opened_has_details_for_the_operator_only():
    def lookup(db: Injected[Database]): ...

    def fails():
        raise ConnectionError("postgres://user:secret@host")

    with pytest.raises(ToolError) as caught:
        called(lookup, {}, {Database: fails})
    assert caught.value.text == "lookup can't run now: a service that it needs can't be opened."
    assert caught.value.hint == "Continue without it, or tell the user."
    assert isinstance(caught.value.__cause__, ConnectionError)


@pytest.mark.parametrize("error", [ToolError("log in first"), FatalToolError("stop")])
def test_a_factory_may_raise_tool_errors(error):
    def lookup(db: Injected[Database]): ...

    def fails():
        raise error

    with pytest.raises(type(error)) as caught:
        called(lookup, {}, {Database: fails})
    assert caught.value is error


def test_the_marker_has_a_readable_repr():
    assert repr(Injected[Database]).endswith("Database, injected]")


@attrs.frozen
class Trip:
    to: str
    days: int = 1


class Stay(TypedDict):
    place: str


class Visit(pydantic.BaseModel):
    place: str = pydantic.Field(max_length=5)


def go(trip: Trip, context: ToolContext) -> str:
    return f"{trip.to}, {trip.days}"


def stay(stay: Stay) -> str:
    return stay["place"]


def visit(visit: Visit, /) -> str:
    return visit.place


def text_of(made: Tool, **arguments: Any) -> str:
    registry = ToolRegistry()
    registry.register(made)
    return registry.call_sync(made.name, arguments).text


@pytest.mark.parametrize(
    ("function", "names", "arguments", "output"),
    [
        (go, ["to", "days"], {"to": "Oslo", "days": 2}, "Oslo, 2"),
        (stay, ["place"], {"place": "Bergen"}, "Bergen"),
        (visit, ["place"], {"place": "Rome"}, "Rome"),
    ],
)
def test_the_fields_of_a_functions_one_parameter_are_its_arguments(function, names, arguments, output):
    """Unless `flatten=False` keeps them in one argument of its name."""
    made = Tool.from_function(function)
    assert list(made.spec.input_schema["properties"]) == names
    assert text_of(made, **arguments) == output
    assert Tool.from_function(function, flatten=True).spec == Tool.from_function(function).spec
    nested = Tool.from_function(function, flatten=False)
    (name,) = nested.spec.input_schema["properties"]
    assert text_of(nested, **{name: arguments}) == output


def test_a_parameter_that_is_optional_or_one_of_several_stays_an_argument():
    def maybe(trip: Trip | None) -> str:
        return str(trip)

    def later(trip: Trip = Trip("Oslo")) -> str:
        return trip.to

    def two(trip: Trip, note: str) -> str:
        return trip.to

    def plain(trip: int) -> str:
        return str(trip)

    for each in (maybe, later, two, plain):
        assert "trip" in Tool.from_function(each).spec.input_schema["properties"]
        with pytest.raises(DefinitionError, match=rf"tool '{each.__name__}': flatten=True needs .*; there is trip: "):
            Tool.from_function(each, flatten=True)


def test_errors_of_flattened_fields_are_named_by_the_field():
    @attrs.frozen
    class Day:
        date: dt.date

    def plan(day: Day) -> str:
        return str(day)

    with pytest.raises(StructureError) as caught:
        Tool.from_function(plan).handler.make_binder()(ToolContext(), {"date": "2023-02-30"})
    assert caught.value.path == ("date",)


def test_a_given_schema_says_whether_the_fields_are_the_arguments():
    """So a tool that is found late runs by the spec of one that is listed; rules name fields."""
    made = Tool.from_function(go, permission="travel", permission_arguments={"to": "text"})
    again = Tool.from_function(go, input_schema=made.spec.input_schema)
    assert text_of(again, to="Oslo") == "Oslo, 1"
    nested = Tool.from_function(go, flatten=False).spec.input_schema
    assert text_of(Tool.from_function(go, input_schema=nested), trip={"to": "Oslo"}) == "Oslo, 1"


# --- defaults that other libraries declare ---


def declaring(
    seven: int = pydantic.Field(default_factory=lambda: 7),
    items: list[int] = pydantic.Field([], description="Some."),  # noqa: B008  (as its users write it)
    word: Annotated[str, pydantic.Field(default="q", max_length=2)] = pydantic.Field(alias="w"),
    own: Annotated[int, pydantic.Field(default=3, ge=0)] = 5,
    *,
    last: Annotated[int, pydantic.Field(default=9)],
) -> str:
    items.append(1)
    return f"{seven} {items} {word} {own} {last}"


def test_a_default_that_pydantic_declares_is_used():
    made = Tool.from_function(declaring)
    properties = made.spec.input_schema["properties"]
    assert {name: each.get("default") for name, each in properties.items()} == {
        "seven": None,
        "items": [],
        "w": "q",
        "own": 5,
        "last": 9,
    }
    assert properties["items"]["description"] == "Some."
    assert "required" not in made.spec.input_schema
    for _ in range(2):  # each call has its own list
        assert text_of(made) == "7 [1] q 5 9"
    assert text_of(made, seven=1, items=[2], w="r", own=0, last=0) == "1 [2, 1] r 0 0"
    assert made.check({"own": -1, "w": "abc"})


def test_a_declaration_without_a_default_is_required():
    def function(x: int = pydantic.Field(ge=1), y: int = pydantic.Field(...)): ...

    assert Tool.from_function(function).spec.input_schema["required"] == ["x", "y"]


@pytest.mark.parametrize(
    ("default", "reason"),
    [
        (dataclasses.field(default=3), r"its default is dataclasses\.field\(\.\.\.\)"),
        (attrs.field(default=3), r"its default is attrs\.field"),
        (attrs.Factory(list), r"its default is attrs\.Factory"),
        (msgspec.field(default=3), r"its default is msgspec\.field"),
        (type("FieldInfo", (), {"__module__": "pydantic.v1.fields"})(), r"its default is pydantic\.v1\.Field"),
        (pydantic.Field(3, validate_default=True), "neither validate_default"),
        (pydantic.Field(default_factory=lambda data: data), "neither validate_default"),
        (pydantic.Field(3, validation_alias=pydantic.AliasPath("a", 0)), "validation_alias must be a string"),
    ],
)
def test_a_declaration_that_isnt_used_is_refused(default, reason):
    def function(x: int = default): ...

    with pytest.raises(DefinitionError, match=reason) as caught:
        Tool.from_function(function)
    assert caught.value.parameter == "x"


class Declared(TypedDict):
    count: Annotated[int, pydantic.Field(default=3, ge=1)]
    size: NotRequired[Annotated[int, pydantic.Field(default=4)]]


def test_a_default_that_pydantic_declares_for_an_unpacked_key_is_used():
    def function(**given: Unpack[Declared]) -> str:
        return f"{given}"

    assert text_of(Tool.from_function(function)) == "{'count': 3, 'size': 4}"
    assert text_of(Tool.from_function(function), count=1, size=2) == "{'count': 1, 'size': 2}"
