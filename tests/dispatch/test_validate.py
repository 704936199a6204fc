from __future__ import annotations

import json

import pytest

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
