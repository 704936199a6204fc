from __future__ import annotations

import datetime as dt
import functools
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypedDict, TypeVar

import attrs
import pydantic
import pytest

from pegboard import Policy, Tool, ToolAnnotations, ToolContext, ToolSpec, TypedTool, tool, tool_of
from pegboard.errors import DefinitionError, SchemaError
from pegboard.tools import tools_from

T = TypeVar("T")
U = TypeVar("U")
CONTEXT = ToolContext(call_id="c1")


@attrs.frozen
class Place:
    """Where.

    Attributes:
        city: Its name.
    """

    city: str
    day: dt.date = dt.date(2026, 1, 1)


@attrs.frozen
class Forecast:
    text: str


class Weather(TypedTool[Place, Forecast]):
    """Tell the weather.

    For one day.
    """

    title = "The weather"
    tags = ("outside",)
    read_only = True
    timeout = 5.0

    def __init__(self, mood: str = "fine") -> None:
        self.mood = mood

    def call(self, context: ToolContext, place: Place) -> Forecast:
        return Forecast(f"{place.city} {place.day:%d} {self.mood} {context.call_id}")

    def preview(self, place: Place) -> str:
        return f"look at {place.city}"

    def requires_confirmation(self, place: Place) -> bool:
        return place.city == "Hell"

    def check(self, place: Place) -> list[str]:
        return ["city: no such place"] if place.city == "Nowhere" else []


def run(made, arguments):
    assert made.check(arguments) == ()
    args, kwargs = made.bind(CONTEXT, arguments)
    return made.handler.function(*args, **kwargs)


def test_the_spec_is_derived_from_the_class():
    spec = Weather().as_tool().spec
    assert (spec.name, spec.title, spec.tags) == ("weather", "The weather", ("outside",))
    assert spec.description == "Tell the weather.\n\nFor one day."
    assert spec.annotations == ToolAnnotations(read_only_hint=True)
    assert spec.input_schema["properties"]["city"] == {"type": "string", "description": "Its name."}
    assert (spec.input_schema["required"], spec.input_schema["additionalProperties"]) == (["city"], False)
    assert spec.output_schema["required"] == ["text"]
    assert Weather().as_tool().policy == Policy(timeout=5.0)


def test_a_call_gets_its_input_as_the_type():
    made = Weather("grim").as_tool()
    assert run(made, {"city": "Rome", "day": "2026-02-03"}) == Forecast("Rome 03 grim c1")
    assert made.check({"city": "Rome", "day": "never"})[0].startswith("day: ")


def test_its_methods_get_the_input_too():
    made = Weather().as_tool()
    assert made.preview({"city": "Rome"}) == "look at Rome"
    assert (made.confirms({"city": "Hell"}), made.confirms({"city": "Rome"})) == (True, False)
    assert made.spec.requires_confirmation
    assert made.check({"city": "Nowhere"}) == ("city: no such place",)


def test_methods_handle_arguments_that_cannot_be_structured():
    made = Weather().as_tool()
    bad = {"city": "Rome", "day": "never"}
    assert made.checks(bad)[0].startswith("day: ")
    assert made.preview(bad) is None
    assert made.confirms(bad) is True


@dataclass
class Point:
    x: int


class Named(TypedDict):
    """A name."""

    name: str


@pytest.mark.parametrize(
    ("takes", "arguments", "value"),
    [
        (Point, {"x": 1}, Point(1)),
        (Named, {"name": "a"}, {"name": "a"}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Mapping[str, Any], {"a": 1}, {"a": 1}),
        (None, {}, None),
        (int, {"value": 5}, 5),
        (str, {"value": "a"}, "a"),
        (list[Point], {"value": [{"x": 1}]}, [Point(1)]),
        (dt.date, {"value": "2026-01-02"}, dt.date(2026, 1, 2)),
        (Point | None, {"value": None}, None),
        (Any, {"value": [1]}, [1]),
    ],
)
def test_fields_are_arguments_and_other_types_are_one_argument(takes, arguments, value):
    class Echo(TypedTool[takes, None]):
        def call(self, context: ToolContext, value: Any) -> Any:
            return value

    assert run(Echo().as_tool(), arguments) == value


def test_the_one_argument_is_named_in_errors():
    class Day(TypedTool[dt.date, None]):
        def call(self, context: ToolContext, day: dt.date) -> None: ...

    assert Day().as_tool().check({"day": "never"})[0].startswith("day: ")


def test_the_one_argument_has_the_name_that_a_functions_would_have():
    class Mail(TypedTool[str, str]):
        def call(self, context: ToolContext, from_: str) -> str:
            return from_

    made = Mail().as_tool()
    assert list(made.spec.input_schema["properties"]) == ["from"]
    assert run(made, {"from": "ann"}) == "ann"


class Boxed(TypedTool[list[T], U], Generic[U, T]):
    """A generic one between."""

    def call(self, context: ToolContext, items: list[T]) -> U: ...


class Mixin:
    """Something else."""


class OfPlaces(Mixin, Boxed[Forecast, Place]): ...


class Nearer(OfPlaces):
    """Nearer."""

    name = "near"
    description = "From the attribute."


def test_types_are_found_through_generic_classes():
    made = Nearer().as_tool()
    assert (made.name, made.spec.description) == ("near", "From the attribute.")
    assert made.spec.input_schema["properties"]["items"]["items"]["required"] == ["city"]
    assert made.spec.output_schema["required"] == ["text"]
    assert OfPlaces().as_tool().spec.description == "Something else."


def test_missing_types_are_refused_with_the_fix():
    class Bare(TypedTool):
        def call(self, context: ToolContext, value: int) -> int: ...

    class Half(Boxed[T, T]): ...

    for cls in (Bare, Half, Boxed, TypedTool):
        with pytest.raises(DefinitionError, match=rf"Write class {cls.__name__}\(TypedTool\[SomeInput, SomeOutput\]\)"):
            cls().as_tool()


def test_a_call_is_needed():
    class Idle(TypedTool[int, int]): ...

    class Narrow(TypedTool[int, int]):
        def call(self, value: int) -> int: ...

    for cls in (Idle, Narrow):
        with pytest.raises(DefinitionError, match=r"Write call\(self, context, input\)"):
            cls().as_tool()
    with pytest.raises(NotImplementedError):
        Idle().call(CONTEXT, 1)


def test_own_schemas_are_checked_and_the_type_validates_too():
    class Own(TypedTool[Place, Forecast]):
        input_schema = {"type": "object", "properties": {"city": {"minLength": 3}}}  # noqa: RUF012
        output_schema = None

        def call(self, context: ToolContext, place: Place) -> Forecast: ...

    made = Own().as_tool()
    assert made.spec.input_schema == Own.input_schema
    assert made.spec.output_schema is None
    assert made.check({"city": "Ur"}) == ("city: must have at least 3 characters, got 2",)
    assert made.check({"city": 5})[0].startswith("city: ")

    class Broken(Own):
        input_schema = {"type": "array"}  # noqa: RUF012

    with pytest.raises(SchemaError):
        Broken().as_tool()


def test_an_own_schema_that_forgets_the_one_argument_is_refused():
    class Own(TypedTool[int, int]):
        input_schema = {"type": "object"}  # noqa: RUF012

        def call(self, context: ToolContext, value: int) -> int: ...

    with pytest.raises(DefinitionError, match="'value': input_schema must require it"):
        Own().as_tool()


@pytest.mark.parametrize(
    ("name", "snake"),
    [("ReadFile", "read_file"), ("HTTPGet", "http_get"), ("read", "read"), ("Base64Decode", "base64_decode")],
)
def test_class_names_become_snake_case(name, snake):
    assert type(name, (Echo,), {})().as_tool().name == snake


@tool
def add(a: int, b: int) -> int:
    return a + b


def plain(a: int) -> int:
    return a


class Base:
    @tool
    def second(self, a: int) -> int:
        return a

    @tool
    def first(self, a: int) -> int:
        return a

    @tool
    def dropped(self, a: int) -> int:
        return a

    def helper(self): ...


class Derived(Base):
    @staticmethod
    @tool
    def third(a: int) -> int:
        return a

    @tool
    def first(self, a: int) -> int:
        """The derived one."""
        return -a

    def dropped(self, a: int) -> int:
        return a


class Echo(TypedTool[str, str]):
    def call(self, context: ToolContext, text: str) -> str:
        return text


class Needy(TypedTool[str, str]):
    def __init__(self, needed: int) -> None: ...

    def call(self, context: ToolContext, text: str) -> str: ...


def names(tools):
    return [each.name for each in tools]


def test_objects_without_a_tool_have_none():
    assert tool_of(plain) is None
    assert tool_of(5) is None
    assert tool_of(Base().helper) is None
    assert tool_of(Base) is None


def test_tools_and_decorated_objects_have_a_tool():
    made = Tool(ToolSpec("a"))
    assert tool_of(made) is made
    assert tool_of(add) is tool_of(add)
    assert tool_of(Echo()).name == "echo"


def test_a_method_without_an_instance_is_refused():
    with pytest.raises(DefinitionError, match=r"tool_of\(instance\.method\)"):
        tool_of(Base.first)


def test_a_method_whose_first_parameter_has_another_name_is_refused():
    class Odd:
        @tool
        def method(this, a: int): ...  # noqa: N805  (that is the point)

    with pytest.raises(DefinitionError, match="must be self or cls"):
        tool_of(Odd().method)


def test_the_tools_of_an_object_are_its_decorated_methods_as_written():
    found = tools_from(Derived())
    assert names(found) == ["second", "first", "third"]
    assert found[1].spec.description == "The derived one."
    with pytest.raises(DefinitionError, match="contains none"):
        tools_from(object())


def module(**members):
    made = types.ModuleType("made_up")
    vars(made).update(members)
    return made


def test_the_tools_of_a_module_are_those_that_it_defines():
    inside = types.FunctionType(plain.__code__, {}, "inside")
    inside.__module__ = "made_up.deeper"
    tool(inside)
    made = Tool(ToolSpec("made"))
    found = tools_from(module(add=add, inside=inside, again=inside, made=made, plain=plain, number=5))
    assert names(found) == ["inside", "made"]


def test_as_tools_accepts_every_kind_of_object():
    made = Tool(ToolSpec("made"))
    assert tools_from(made) == [made]
    assert tools_from(add) == [tool_of(add)]
    assert names(tools_from(plain)) == ["plain"]
    assert names(tools_from(functools.partial(plain))) == ["plain"]
    assert names(tools_from(Derived().third)) == ["third"]
    assert names(tools_from(Base().first)) == ["first"]
    assert names(tools_from(Base().helper)) == ["helper"]
    assert names(tools_from(Derived())) == ["second", "first", "third"]
    assert names(tools_from(module(made=made))) == ["made"]
    assert names(tools_from(Echo)) == ["echo"]
    assert names(tools_from(Echo())) == ["echo"]


def test_a_class_that_cannot_be_made_without_arguments_is_refused():
    with pytest.raises(DefinitionError, match=r"Needy can.t be made without arguments.*Register an instance"):
        tools_from(Needy)


def test_options_given_to_as_tool_override_those_of_the_class():
    made = Weather().as_tool(title="Other", read_only=False, check=lambda arguments: arguments["city"])
    assert (made.spec.title, made.spec.annotations.read_only_hint) == ("Other", False)
    assert made.check({"city": "Oslo"}) == ("Oslo",)
    with pytest.raises(DefinitionError, match="unknown option 'read_onyl'"):
        Weather().as_tool(read_onyl=True)


@pytest.mark.parametrize("name", ["read_onyl", "readonly", "requires_confirmaton", "preveiw", "inputschema"])
def test_an_attribute_that_is_nearly_an_option_is_refused(name):
    base = type("Base", (Echo,), {name: True, "client": 1, "_timeouts": 2})
    with pytest.raises(DefinitionError, match=f"unknown option '{name}'. Did you mean"):
        type("Derived", (base,), {})().as_tool()


def test_other_attributes_of_a_class_are_its_own():
    own = {"client": 1, "_timeouts": 2, "limit": 3, "session": 4, "model": 5, "names": 6}
    assert type("Own", (Echo,), own)().as_tool().name == "own"


def test_a_default_declared_for_the_whole_input_is_refused():
    class Counter(TypedTool[Annotated[int, pydantic.Field(default=3)], str]):
        def call(self, context: ToolContext, count: int) -> str:
            return f"{count}"

    with pytest.raises(DefinitionError, match="its input can't have a default"):
        Counter().as_tool()
