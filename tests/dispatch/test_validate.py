from __future__ import annotations

import itertools
import json
import threading

import pytest

from pegboard.chains import quick
from pegboard.dispatch.callbacks import ChangeArguments
from pegboard.dispatch.limits import CallError, Limits
from pegboard.dispatch.validate import MOST_OF_A_PROBLEM, revalidate, validate
from pegboard.tools.origin import Policy

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "mode": {"enum": ["fast", "exact"]},
        "filters": {"type": "array", "items": {"type": "object", "properties": {"value": {"type": "number"}}}},
    },
    "required": ["query"],
    "additionalProperties": False,
}
BAD = {"limit": 5000, "mode": "sideways", "filters": [{"value": "high"}], "extra": 1}
PLACES = ("query", "limit", "mode", "filters[0].value", "extra")


def kind_of(value):
    return type(value).__name__


def never(**_):
    raise AssertionError("the tool ran")


@pytest.mark.parametrize("given", [BAD, json.dumps(BAD)], ids=["mapping", "text"])
def test_all_errors_are_listed_each_with_its_path_and_the_tool_does_not_run(make, send, given):
    work = send(make(never, schema=SCHEMA), given)
    assert work.result.kind == "invalid_arguments"
    listed = work.result.text.splitlines()
    assert listed[0] == "Invalid arguments for probe:"
    assert listed[-1] == "Correct them and call the tool again."
    for place in PLACES:
        assert any(place in line for line in listed[1:-1]), place


@pytest.mark.parametrize("limit", ["25", True, 25.5, None])
def test_nothing_is_coerced(make, send, limit):
    assert send(make(never, schema=SCHEMA), {"query": "q", "limit": limit}).result.kind == "invalid_arguments"


@pytest.mark.parametrize(
    "odd", [float("nan"), float("inf"), {1, 2}, object(), b"bytes", "\ud800", 10**5000, {1: "a"}], ids=kind_of
)
def test_a_mapping_that_is_no_json_is_refused(make, send, odd):
    """Arguments that come as a mapping have passed no parser."""
    result = send(make(never), {"query": odd}).result
    assert result.kind == "invalid_arguments"
    assert "query" in result.text


def test_a_mapping_that_contains_itself_is_refused(make, send):
    endless = {}
    endless["self"] = endless
    assert send(make(never), endless).result.kind == "invalid_arguments"


def test_no_more_than_twenty_errors_are_listed(make, send):
    arguments = {f"extra_{number}": 1 for number in range(50)}
    result = send(make(never, schema=SCHEMA), arguments).result
    assert len([line for line in result.text.splitlines() if line.startswith("- ")]) <= 20


def test_blank_arguments_mean_none_and_are_validated(make, send):
    assert "query" in send(make(never, schema=SCHEMA), "").result.text
    assert send(make(lambda: "ran"), " ").result.text == "ran"


def test_the_tools_own_check_comes_after_the_schema(make, send):
    seen = []

    def check(arguments):
        seen.append(dict(arguments))
        return ["limit: must be odd"]

    tool = make(never, schema=SCHEMA, checks=check)
    assert "limit: must be odd" in send(tool, {"query": "q", "limit": 2}).result.text
    assert send(tool, {"query": 1}).result.kind == "invalid_arguments"
    assert seen == [{"query": "q", "limit": 2}]


@pytest.mark.parametrize("answer", [None, [], ()])
def test_a_check_that_finds_nothing_lets_the_call_through(make, send, answer):
    assert send(make(lambda: "ran", checks=lambda arguments: answer)).result.text == "ran"


def test_a_check_that_finds_without_end_is_cut(make, send):
    tool = make(never, checks=lambda arguments: [f"x{number}: no" for number in range(1000)])
    assert send(tool).result.text.count("\n- ") == 20


def test_a_check_without_end_is_left_after_twenty(make, send):
    tool = make(never, checks=lambda arguments: (f"x{number}: no" for number in itertools.count()))
    assert send(tool).result.text.count("\n- ") == 20


def test_a_check_may_give_one_text(make, send):
    assert "\n- all: wrong\n" in send(make(never, checks=lambda arguments: "all: wrong")).result.text


def test_a_problem_is_cut_short(make, send):
    """A union of a thousand words would fill pages."""
    words = {"anyOf": [{"const": f"word {number} of a sentence that has many of them"} for number in range(1000)]}
    schema = {"type": "object", "properties": {"a": words, "b": words}}
    text = send(make(never, schema=schema), {"a": "x", "b": "y"}).result.text
    assert len(text) < 3 * MOST_OF_A_PROBLEM
    assert text.count("...") == 2


# Conversions ---------------------------------------------------------------------------------------------------------


def echo(**arguments):
    return arguments


@pytest.mark.parametrize(
    ("tool_says", "registry_says", "converts"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
)
def test_conversion_is_settable_by_tool_and_by_registry(make, send, tool_says, registry_says, converts):
    tool = make(echo, schema=SCHEMA, policy=Policy(coerce=tool_says))
    work = send(tool, '{"query": "q", "limit": "5"}', limits=Limits(coerce=registry_says))
    if converts:
        assert work.result.structured_content == {"query": "q", "limit": 5}
        assert work.coercions == ('limit: string "5" -> number 5',)
        assert work.result.metadata == {"coerced": ['limit: string "5" -> number 5']}
    else:
        assert work.result.kind == "invalid_arguments"


def test_conversions_are_told_as_an_event(make, prepare):
    tool = make(echo, schema=SCHEMA)
    work, _ = prepare(tool, {"query": "q", "limit": "5"}, limits=Limits(coerce=True))
    events = []
    work.around = work.around.evolve(events=events.append)
    work.tool, work.arguments = tool, {"query": "q", "limit": "5"}
    validate(work)
    assert [event.note for event in events] == ['coerced: limit: string "5" -> number 5']


def test_what_cannot_be_converted_is_refused_as_it_was_written(make, send):
    work = send(make(never, schema=SCHEMA), {"limit": "500", "mode": "FAST"}, limits=Limits(coerce=True))
    assert 'limit: must be an integer, got string "500"' in work.result.text
    assert work.coercions == ()


def test_valid_arguments_are_not_touched(make, send):
    work = send(make(echo, schema=SCHEMA), {"query": "5"}, limits=Limits(coerce=True))
    assert (work.result.structured_content, work.coercions) == ({"query": "5"}, ())


def test_what_a_callback_changed_is_converted_too(make, send):
    tool = make(echo, schema=SCHEMA)
    change = ChangeArguments({"query": "q", "limit": "7"})
    work = send(tool, {"query": "q", "limit": "5"}, limits=Limits(coerce=True), before=[lambda *_: change])
    assert work.result.structured_content == {"query": "q", "limit": 7}
    assert work.coercions == ('limit: string "5" -> number 5', 'limit: string "7" -> number 7')


def test_what_a_callback_changed_is_judged_again_and_what_it_left_is_not(make, prepare):
    tool = make(echo, schema=SCHEMA)
    work, _ = prepare(tool, {"query": 1})
    work.tool, work.arguments = tool, {"query": 1}
    revalidate(work)
    work.changed = True
    with pytest.raises(CallError, match="query"):
        revalidate(work)
    work.arguments = {"query": "q"}
    revalidate(work)
    assert work.arguments == {"query": "q"}


def test_the_tools_own_check_sees_what_was_converted(make, send):
    seen = []
    tool = make(echo, schema=SCHEMA, checks=lambda arguments: seen.append(dict(arguments)))
    send(tool, {"query": "q", "limit": "5"}, limits=Limits(coerce=True))
    assert seen == [{"query": "q", "limit": 5}]


def test_a_tool_may_word_what_is_wrong_itself(make, send):
    tool = make(never, schema=SCHEMA, format_validation_error=lambda problems: f"{len(problems)} things are wrong")
    result = send(tool, BAD).result
    assert (result.kind, result.text) == ("invalid_arguments", "5 things are wrong")


def test_wording_that_fails_falls_back_to_ours_and_is_told_to_the_operator(make, send):
    tool = make(never, schema=SCHEMA, format_validation_error=lambda problems: 1 / 0)
    result = send(tool, BAD).result
    assert result.kind == "invalid_arguments"
    assert "limit" in result.text
    assert "ZeroDivisionError" in result.detail


# What the tool's author has written may block -------------------------------------------------------------------------


def threads_of(make, send, arguments, **facts):
    """The threads in which the functions of a tool ran; each is told its own by `note`."""
    ran = []

    def note(given):
        ran.append(threading.current_thread() is threading.main_thread())
        return ["(root): no"] if isinstance(given, dict) else "in my words"

    tool = make(echo, schema=SCHEMA, **{name: quick(note) if fast else note for name, fast in facts.items()})
    return send(tool, arguments).result, ran


@pytest.mark.parametrize("fast", [False, True])
def test_a_tools_check_runs_off_the_loop_unless_it_is_quick(make, send, fast):
    result, ran = threads_of(make, send, {"query": "q"}, checks=fast)
    assert (result.kind, ran) == ("invalid_arguments", [fast])


@pytest.mark.parametrize("fast", [False, True])
def test_a_tools_own_wording_is_made_off_the_loop_unless_it_is_quick(make, send, fast):
    result, ran = threads_of(make, send, {"query": 1}, format_validation_error=fast)
    assert (result.text, ran) == ("in my words", [fast])


def test_a_check_that_hangs_costs_its_own_call_only(make, send):
    go = threading.Event()
    tool = make(never, schema=SCHEMA, checks=lambda _arguments: go.wait())
    result = send(tool, {"query": "q"}, limits=Limits(callback_timeout=0.01)).result
    go.set()
    assert result.kind == "tool_failure"
    assert "didn't say within 0.01 s" in result.text


def test_a_wording_that_hangs_leaves_the_plain_words(make, send):
    go = threading.Event()
    tool = make(never, schema=SCHEMA, format_validation_error=lambda _problems: go.wait())
    result = send(tool, {"query": 1}, limits=Limits(callback_timeout=0.01)).result
    go.set()
    assert result.kind == "invalid_arguments"
    assert result.text.startswith("Invalid arguments for probe:\n- query:")
