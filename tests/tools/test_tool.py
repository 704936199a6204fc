from __future__ import annotations

import datetime as dt
import types

import pytest

from pegboard.tools.handler import Preview
from pegboard.tools.policy import HOST, Origin
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import LateHandler, Tool, tool_from_function


def function(day: dt.date, count: int = 1) -> dt.date:
    return day


@pytest.fixture
def made():
    return tool_from_function(function)


def test_a_tool_is_named_by_its_spec(made):
    assert made.name == "function"
    assert made.origin is HOST


def test_judges_and_binder_are_made_once(made):
    assert made.validator is made.validator
    assert made.output_validator is made.output_validator
    assert made.bind is made.bind
    assert Tool(ToolSpec("a")).output_validator is None


def test_results_are_judged_by_the_output_schema(made):
    assert made.output_validator.accepts({"result": "2026-01-02"})
    assert made.output_validator.problems({"result": 5}) == ("result: must be a string, got number 5",)


def test_the_way_back_is_there_without_a_call(made):
    assert made.unstructure(dt.date(2026, 1, 2)) == "2026-01-02"


def test_a_check_judges_structures_and_asks_the_tool(made):
    asked = []

    def own(arguments):
        asked.append(arguments)
        return (f"count: reason {index}" for index in range(30))

    made = made.evolve(checks=own)
    assert made.check({"count": "x"}) == (
        'count: must be an integer, got string "x"',
        "day: required, missing",
    )
    assert made.check({"day": "never"})[0].startswith("day: ")
    assert asked == []
    assert len(made.check({"day": "2026-01-02"})) == 20
    assert asked == [{"day": "2026-01-02"}]


def test_what_fits_has_no_problems(made):
    assert made.check({"day": "2026-01-02"}) == ()
    assert made.evolve(checks=lambda arguments: None).check({"day": "2026-01-02"}) == ()


def test_a_check_takes_any_mapping(made):
    assert made.check(types.MappingProxyType({"day": "2026-01-02"})) == ()
    assert made.check(types.MappingProxyType({"day": b""}))[0].startswith("day: must be JSON")


@pytest.mark.parametrize("handler", [None, LateHandler(lambda: None)])
def test_without_its_code_a_tool_is_checked_by_its_schema(handler):
    made = Tool(ToolSpec("a"), handler)
    assert made.check({}) == ()
    assert made.check({"x": 1}) == ("x: unknown key (none is known here)",)


def test_a_changed_tool_is_judged_anew(made):
    assert made.check({"day": "2026-01-02"}) == ()
    closed = made.with_spec(input_schema={"type": "object", "maxProperties": 0})
    assert closed.check({"day": "2026-01-02"}) == ("(root): must have at most 0 keys, got 1",)
    assert made.evolve(origin=Origin("p")).origin.plugin == "p"


def test_tools_are_told_apart_by_identity(made):
    assert made != made.evolve()
    assert made.spec == made.evolve().spec


def test_a_preview_has_a_summary_and_perhaps_details():
    assert Preview("delete a") == Preview("delete a", "")


@pytest.mark.parametrize(
    ("options", "plainly"),
    [
        ({}, True),
        ({"timeout": 3, "read_only": True}, True),
        ({"concurrency": "exclusive"}, False),
        ({"max_concurrency": 1}, False),
        ({"executor": "process"}, False),
        ({"retries": 1}, False),
        ({"long_running": True}, False),
    ],
)
def test_whatever_takes_more_than_the_handler_is_not_run_plainly(options, plainly):
    """The short way through `run` leaves all of that out."""
    assert tool_from_function(function, **options).runs_plainly is plainly
