from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, NamedTuple, Self

import pytest
from annotated_types import Ge, Predicate
from attrs import Factory, field as attrs_field, frozen
from hypothesis import HealthCheck, given, settings, strategies as st

from pegboard import Tool, ToolContext
from pegboard.json import StructureError
from pegboard.schema.conversion import as_structure_error, straight_binder, structure_hook
from pegboard.schema.types import adapter_of
from pegboard.tools import json_or_text
from strategies import EACH_KIND, mutated, type_cases

wide = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])


def outcome(hook, value):
    """What a hook makes of a value, or the error's text and path."""
    try:
        made = hook(value)
    except Exception as error:  # noqa: BLE001
        error = as_structure_error(error)
        return StructureError, str(error)
    return type(made), made


DECLINED = object()


@wide
@given(st.data(), st.lists(st.sampled_from(EACH_KIND) | type_cases(), min_size=1, max_size=3))
def test_a_straight_binder_gives_what_the_hooks_give_or_declines(data, cases):
    adapters = {f"p{number}": adapter_of(case.annotation) for number, case in enumerate(cases)}
    bind = straight_binder(adapters, lambda *_: DECLINED, data.draw(st.sampled_from([None, "context"])))
    for change in (lambda value: value, lambda value: data.draw(mutated(value))):
        given = {key: change(json_or_text(data.draw(case.values))) for key, case in zip(adapters, cases, strict=True)}
        given = {key: value for key, value in given.items() if data.draw(st.booleans())}
        outcomes = {key: outcome(structure_hook(adapters[key]), value) for key, value in given.items()}
        if bind is None:  # making a value runs its author's code
            return
        bound = bind("the context", given)
        if any(kind is StructureError for kind, _ in outcomes.values()):
            assert bound is DECLINED
        else:
            args, values = bound
            assert args == ()
            assert values.pop("context", "the context") == "the context"
            assert {key: (type(value), value) for key, value in values.items()} == outcomes


@dataclass
class Option:
    """An option, perhaps of others."""

    name: str
    size: float = 1.5
    values: list[int] = field(default_factory=list)
    inner: Option | None = None


@pytest.mark.parametrize("left_out", [{"name": "a"}, {"name": "a", "inner": {"name": "b", "size": 2, "values": [3]}}])
def test_what_is_left_out_has_the_default_of_a_dataclass(left_out):
    bind, inner = straight_binder({"option": adapter_of(Option)}, lambda *_: DECLINED, None), left_out.get("inner")
    first, second = (bind(None, {"option": left_out})[1]["option"] for _ in range(2))
    assert first == Option("a", inner=inner and Option("b", 2.0, [3]))
    assert first.values is not second.values


made = []


def note(value: int) -> int:
    if value < 0:
        raise ValueError("negative")
    made.append(value)
    return value


@frozen
class Noted:
    number: int

    def __attrs_post_init__(self) -> None:
        note(self.number)


@dataclass
class NotedData:
    number: int

    def __post_init__(self) -> None:
        note(self.number)


@dataclass
class OwnConstructor:
    number: int

    def __init__(self, number: int) -> None:
        self.number = note(number)


@frozen
class Validated:
    number: int = attrs_field(validator=lambda _self, _field, value: note(value) and None)


class OwnNumber(int):
    def __new__(cls, value: int) -> Self:
        return super().__new__(cls, note(value))


class Noting(type):
    def __call__(cls, number: int) -> object:
        return super().__call__(note(number))


@frozen
class NotedByItsMetaclass(metaclass=Noting):
    number: int


@dataclass
class NotedWhenSet:
    number: int

    def __setattr__(self, name: str, value: int) -> None:
        object.__setattr__(self, name, note(value))


@frozen
class NotedDefault:
    number: int
    twice: int = attrs_field(default=Factory(lambda self: note(self.number), takes_self=True))


@dataclass
class NotedFactory:
    number: int
    values: list[int] = field(default_factory=lambda: [note(3)])


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        *((each, {"number": 3}) for each in (NotedByItsMetaclass, NotedWhenSet, NotedDefault)),
        (NotedFactory, {"number": 1}),
        (list[NotedFactory], [{"number": 1}]),
        (Annotated[int, Predicate(note)], 3),
    ],
)
def test_no_author_sees_a_value_made_twice_where_another_argument_is_refused(annotation, value):
    def function(value, day):
        raise AssertionError

    function.__annotations__ = {"value": annotation, "day": date}
    tool = Tool.from_function(function, name="t", description="T.")
    made.clear()
    with pytest.raises(StructureError, match="day: must be a date"):
        tool.handler.make_binder()(ToolContext(), {"value": value, "day": "2024-02-30"})
    assert made == [3]


@frozen
class Harmless:
    """A class whose default runs no code of its author."""

    number: int
    values: list[int] = attrs_field(factory=list[int])


@dataclass(frozen=True)
class HarmlessData:
    number: int
    values: list[int] = field(default_factory=list)


@pytest.mark.parametrize("annotation", [Harmless, HarmlessData, date, Annotated[int, Ge(3)]])
def test_what_runs_no_code_of_its_author_is_bound_by_straight_code(annotation):
    assert straight_binder({"value": adapter_of(annotation)}, lambda *_: DECLINED, None) is not None


@pytest.mark.parametrize(
    ("wrap", "value", "expected"),
    [
        (lambda item: list[item], lambda item: [item(1), item(2), item(-1)], [1, 2]),
        (
            lambda item: NamedTuple("Both", [("a", item), ("b", item)]),
            lambda item: {"a": item(1), "b": item(-1)},
            [1],
        ),
        (
            lambda item: NamedTuple("In", [("a", dict[str, item]), ("b", item)]),
            lambda item: {"a": {"": item(1)}, "b": item(-1)},
            [1],
        ),
    ],
)
@pytest.mark.parametrize("item", [Noted, NotedData, OwnConstructor, Validated, OwnNumber])
def test_no_author_sees_a_value_made_twice_where_another_is_refused(item, wrap, value, expected):
    made.clear()
    hook = structure_hook(adapter_of(wrap(item)))
    with pytest.raises(StructureError, match="negative"):
        hook(value(lambda number: number if item is OwnNumber else {"number": number}))
    assert made == expected


@pytest.mark.parametrize("item", [Noted, NotedData, OwnConstructor, Validated, OwnNumber])
def test_no_author_sees_an_argument_made_twice_where_another_is_refused(item):
    def probe(first: item, last: item) -> None:
        """Does nothing."""

    probe.__annotations__ = {"first": item, "last": item}
    made.clear()
    arguments = {
        key: number if item is OwnNumber else {"number": number} for key, number in (("first", 1), ("last", -1))
    }
    assert "negative" in Tool.from_function(probe, flatten=False).check(arguments)[0]
    assert made == [1]


def test_an_unvalidated_value_is_refused_by_the_exceptions_class():
    with pytest.raises(StructureError, match=r"^\[1\]: can't be structured \(TypeError\)$"):
        structure_hook(adapter_of(list[int]))([1, []])


PROGRAM = """
import asyncio, sys
from attrs import frozen
from pegboard import ToolRegistry, tool

@frozen
class Point:
    x: float

@tool
async def far(points: list[Point]) -> int:
    "Counts."
    return len(points)

registry = ToolRegistry()
registry.register(far)
assert asyncio.run(registry.call("far", '{"points": [{"x": 1}]}')).structured_content == {"result": 1}
print("cattrs" in sys.modules)
"""


def test_a_program_whose_types_are_straight_does_not_import_cattrs():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False"]
