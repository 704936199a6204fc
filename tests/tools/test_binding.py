from __future__ import annotations

import datetime as dt
from typing import TypedDict, Unpack

import pytest
from hypothesis import given, strategies as st

from pegboard.schema.json import StructureError
from pegboard.tools.binding import binder_of, binder_of_one
from pegboard.tools.context import ToolContext
from pegboard.tools.signature import signature_of

CONTEXT = ToolContext()


def bound(function, arguments, *, strict=False):
    """What `function` gives, called with these arguments."""
    args, kwargs = binder_of(signature_of(function, tool="t"), strict=strict)(CONTEXT, arguments)
    return function(*args, **kwargs)


def test_arguments_that_are_json_already_are_handed_on_as_they_are():
    def function(a: list[str], b: str = "x"): ...

    arguments = {"a": ["x"]}
    args, kwargs = binder_of(signature_of(function, tool="t"))(CONTEXT, arguments)
    assert args == ()
    assert kwargs is arguments


def test_arguments_are_structured_by_their_types():
    def function(day: dt.date, days: list[dt.date] = ()):
        return day, days

    first, second = dt.date(2026, 1, 2), dt.date(2026, 1, 3)
    assert bound(function, {"day": "2026-01-02"}) == (first, ())
    assert bound(function, {"day": "2026-01-02", "days": ["2026-01-03"]}) == (first, [second])


def test_the_call_itself_stays_as_it_was():
    def function(day: dt.date, context: ToolContext): ...

    arguments = {"day": "2026-01-02"}
    binder_of(signature_of(function, tool="t"))(CONTEXT, arguments)
    assert arguments == {"day": "2026-01-02"}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"day": "never"}, ("day",)),
        ({"day": "2026-01-02", "days": ["2026-01-02", "never"]}, ("days", 1)),
        ({"day": "2026-01-02", "other": "never"}, ("other",)),
    ],
)
def test_what_the_type_refuses_is_named_with_its_path(arguments, path):
    def by_name(day: dt.date, days: list[dt.date] = (), **rest: dt.date): ...
    def by_position(day: dt.date, /, *days: dt.date, **rest: dt.date): ...

    for function in (by_name, by_position):
        with pytest.raises(StructureError) as caught:
            bound(function, arguments)
        assert caught.value.path == path


def test_a_type_judges_too_where_the_schema_is_not_its_own():
    def function(a: str):
        return a

    assert bound(function, {"a": 1}) == 1
    with pytest.raises(StructureError) as caught:
        bound(function, {"a": 1}, strict=True)
    assert caught.value.path == ("a",)


@pytest.mark.parametrize("place", ["first", "last", "keyword", "positional", "plain", "open"])
def test_the_context_is_passed_wherever_it_stands(place):
    def first(context: ToolContext, a: int):
        return context, a

    def last(a: int, context: ToolContext | None = None):
        return context, a

    def keyword(a: int, *, context: ToolContext):
        return context, a

    def positional(context: ToolContext, a: int, /):
        return context, a

    def plain(a: str, context: ToolContext):
        return context, a

    def open_ended(a: int, context: ToolContext, **rest: int):
        return context, a

    places = {"first": first, "last": last, "keyword": keyword, "positional": positional, "plain": plain}
    function = places.get(place, open_ended)
    assert bound(function, {"a": 1}) == (CONTEXT, 1)


def test_a_hidden_parameter_cannot_be_filled_by_an_other_key():
    class Thing:
        def method(self, a, context: ToolContext, **rest): ...
        def positional(self, context: ToolContext, /, **rest): ...

    for function in (Thing().method, Thing().positional):
        for name in ("self", "context"):
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
def test_a_function_of_one_thing_gets_it_in_its_own_order(name):
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
def test_every_parameter_gets_what_was_given_or_its_default(case):
    source, arguments, expected = case
    names = {}
    exec(source, names)
    assert bound(names["function"], arguments) == expected
