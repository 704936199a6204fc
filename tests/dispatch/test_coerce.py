from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.coerce import Coerced, coerced
from pegboard.schema.json import canonical_json
from pegboard.tools.tool import Tool
from schema_strategies import SCHEMAS, VALUES

INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
TEXTS = {"type": "array", "items": TEXT}
INTEGERS = {"type": "array", "items": INTEGER}
MAYBE_INTEGER = {"anyOf": [INTEGER, {"type": "null"}]}


def tool_for(schema, **more):
    return Tool.from_schema(
        "probe", {"type": "object", "properties": {"a": schema}, "additionalProperties": False, **more}
    )


def converted(schema, value, **more):
    """What the property `a` of this schema makes of a value."""
    return coerced(tool_for(schema, **more), {"a": value})


@pytest.mark.parametrize(
    ("schema", "value", "becomes"),
    [
        (INTEGER, "42", 42),
        (INTEGER, "-7", -7),
        (INTEGER, " 42 ", 42),
        (INTEGER, "42.0", 42.0),
        (NUMBER, "1.5", 1.5),
        (NUMBER, "1e3", 1000.0),
        (FLAG, "true", True),
        (FLAG, "false", False),
        ({"type": "null"}, "null", None),
        (MAYBE_INTEGER, "null", None),
        (MAYBE_INTEGER, "5", 5),
        ({"type": ["integer", "null"]}, "5", 5),
        (TEXT, 42, "42"),
        (TEXT, -(10**30), "-1" + "0" * 30),
        (TEXTS, '["x", "y"]', ["x", "y"]),
        (TEXTS, "[1, 2]", ["1", "2"]),
        (TEXTS, "x", ["x"]),
        (TEXTS, 1, ["1"]),
        (INTEGERS, "5", [5]),
        (INTEGERS, ["5", 6], [5, 6]),
        ({"type": "array", "prefixItems": [INTEGER], "items": TEXT}, ["1", 2], [1, "2"]),
        ({"type": "object", "properties": {"b": INTEGER}}, '{"b": "3"}', {"b": 3}),
        ({"type": "object", "additionalProperties": INTEGER}, {"x": "3"}, {"x": 3}),
        ({"enum": ["fast", "Exact"]}, "FAST", "fast"),
        ({"enum": ["fast"], "type": "string"}, "Fast", "fast"),
        ({"enum": [1, 2, "x"]}, "2", 2),
        ({"const": 3}, "3", 3),
        ({"allOf": [INTEGER, {"minimum": 1}]}, "3", 3),
        ({"$ref": "#/$defs/count"}, "3", 3),
        ({"anyOf": [{"$ref": "#/$defs/count"}, {"$ref": "#/$defs/count"}]}, "3", 3),
        ({"oneOf": [FLAG, INTEGER]}, "true", True),
        ({"anyOf": [INTEGER, NUMBER]}, "42", 42),
        ({"anyOf": [INTEGER, INTEGERS]}, "42", 42),
        ({"anyOf": [TEXTS, INTEGERS]}, "[1]", [1]),
    ],
    ids=json.dumps,
)
def test_what_is_converted(schema, value, becomes):
    result = converted(schema, value, **{"$defs": {"count": INTEGER}})
    assert result is not None
    assert repr(result.arguments) == repr({"a": becomes})
    assert result.changes


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INTEGER, "42.5"),
        (INTEGER, "forty-two"),
        (INTEGER, "0x10"),
        (INTEGER, "1,000"),
        (INTEGER, "007"),
        (INTEGER, "+5"),
        (INTEGER, "1" * 5000),
        (INTEGER, 42.5),
        (INTEGER, True),
        (INTEGER, None),
        (INTEGER, [42]),
        (INTEGER, ""),
        (NUMBER, "NaN"),
        (NUMBER, "1e400"),
        (FLAG, "True"),
        (FLAG, "yes"),
        (FLAG, 1),
        (FLAG, 0),
        (TEXT, 1.5),
        (TEXT, True),
        (TEXT, ["x"]),
        (TEXT, {}),
        (TEXTS, "[1.5]"),
        (INTEGERS, ["5", "six"]),
        ({"type": "object"}, "{'b': 3}"),
        ({"type": "object"}, '{"b": 1, "b": 2}'),
        ({"enum": ["AB", "ab"]}, "Ab"),
        ({"enum": ["fast"]}, "faster"),
        ({"anyOf": [{"const": "AB"}, {"const": "ab"}]}, "Ab"),
        ({**INTEGER, "minimum": 10}, "5"),
        ({"not": TEXT}, "5"),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_what_is_not_converted(schema, value):
    """Nothing is lost, and nothing guessed."""
    assert converted(schema, value, required=["a"]) is None


def test_null_for_what_may_be_left_out_is_left_out():
    assert converted(INTEGER, None) == Coerced({}, ("a: null -> left out",))
    assert converted(MAYBE_INTEGER, None) == Coerced({"a": None})


def test_every_change_is_told_by_its_place():
    schema = {"type": "object", "properties": {"rows": INTEGERS, "on": FLAG}}
    result = converted(schema, {"rows": ["1", 2, "3"], "on": "true"})
    assert result == Coerced(
        {"a": {"rows": [1, 2, 3], "on": True}},
        (
            'a.rows[0]: string "1" -> number 1',
            'a.rows[2]: string "3" -> number 3',
            'a.on: string "true" -> boolean true',
        ),
    )


def test_changes_without_number_are_counted():
    result = converted(INTEGERS, [str(number) for number in range(30)])
    assert (len(result.changes), result.changes[-1]) == (21, "and 10 more")


def test_a_long_value_is_told_in_few_characters():
    (change,) = converted(TEXTS, "x" * 10_000).changes
    assert len(change) < 100


def test_what_was_given_is_not_touched():
    given_arguments = {"a": {"rows": ["1"]}}
    before = copy.deepcopy(given_arguments)
    tool = tool_for({"type": "object", "properties": {"rows": INTEGERS}})
    assert coerced(tool, given_arguments).arguments == {"a": {"rows": [1]}}
    assert given_arguments == before


def test_one_place_that_cannot_be_mended_leaves_all_as_it_is():
    tool = Tool.from_schema("probe", {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}})
    assert coerced(tool, {"a": "1", "b": "x"}) is None
    assert converted(INTEGER, "1", required=["a", "b"]) is None


def test_unknown_keys_are_not_taken_away():
    assert coerced(tool_for(INTEGER), {"a": "1", "z": 1}) is None


def test_recursive_schemas_are_followed():
    node = {"type": "object", "properties": {"value": INTEGER, "next": {"$ref": "#/$defs/node"}}}
    result = converted(
        {"$ref": "#/$defs/node"},
        {"value": "1", "next": {"value": "2", "next": None}},
        **{"$defs": {"node": node}},
    )
    assert result.arguments == {"a": {"value": 1, "next": {"value": 2}}}


def test_a_value_that_would_be_wrapped_without_end_is_left():
    """An array of such arrays, and so on, never holds a string."""
    endless = {"type": "array", "items": {"$ref": "#/$defs/endless"}}
    assert converted({"$ref": "#/$defs/endless"}, "x", **{"$defs": {"endless": endless}}) is None


@pytest.mark.parametrize(
    ("draft", "becomes"),
    [
        ("http://json-schema.org/draft-07/schema#", {"a": 1}),
        ("https://json-schema.org/draft/2020-12/schema", None),
    ],
)
def test_the_draft_says_whether_anything_counts_beside_a_reference(draft, becomes):
    schema = {
        "$schema": draft,
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/count", "type": "string"}},
        "definitions": {"count": INTEGER},
    }
    result = coerced(Tool.from_schema("probe", schema), {"a": "1"})
    assert (result and result.arguments) == becomes


def test_items_as_older_drafts_have_them():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"type": "array", "items": [INTEGER], "additionalItems": TEXT}},
    }
    assert coerced(Tool.from_schema("probe", schema), {"a": ["1", 2]}).arguments == {"a": [1, "2"]}


def test_keywords_that_hold_nonsense_change_nothing():
    """A draft that doesn't know a keyword lets it hold anything."""
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"a": {"type": "integer", "prefixItems": 3, "const": {"odd": 1}, "examples": 1}},
        "required": ["b"],
    }
    assert coerced(Tool.from_schema("probe", schema), {"a": "1"}) is None


@pytest.mark.parametrize("odd", [{"a": float("nan")}, {"a": object()}, {1: "1"}])
def test_what_is_no_json_is_not_converted(odd):
    assert coerced(tool_for(INTEGER), odd) is None


def test_texts_within_texts_end():
    """Each level is read once: what it holds may be as deep as arguments may be, and no deeper."""
    text = "5"
    for _ in range(8):
        text = json.dumps([text])
    deep = {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/deep"}, INTEGER]}}
    result = converted({"$ref": "#/$defs/deep"}, text, **{"$defs": {"deep": deep}})
    assert result is None or canonical_json(result.arguments).count("[") == 8
    far = "[" * 100 + "]" * 100
    assert converted({"type": "array"}, far) is None


def test_the_budget_holds():
    """A union whose members all want to read a long text gives up; it never takes long."""
    long_text = json.dumps(["x" * 900_000])
    many = {"anyOf": [{"type": "object", "required": [f"k{number}"]} for number in range(50)]}
    assert converted(many, long_text) is None


# Laws ----------------------------------------------------------------------------------------------------------------


def spoilt(value):
    """The same JSON with some of it written as text."""
    if isinstance(value, dict):
        return st.fixed_dictionaries({key: spoilt(item) for key, item in value.items()})
    inside = st.lists(st.nothing()) if value == [] else st.just(value)
    if isinstance(value, list) and value:
        inside = st.tuples(*map(spoilt, value)).map(list)
    return inside | inside.map(json.dumps)


@given(SCHEMAS, VALUES.flatmap(spoilt))
def test_only_what_the_schema_takes_is_given_back_and_what_was_valid_is_the_same(schema, value):
    tool = tool_for(schema)
    arguments = {"a": value}
    before = copy.deepcopy(arguments)
    result = coerced(tool, arguments)
    assert arguments == before
    if tool.validator.accepts(arguments):
        assert result is not None
        assert result.arguments is arguments
        assert result.changes == ()
    elif result is not None:
        assert tool.validator.problems(result.arguments) == ()
        assert result.changes
