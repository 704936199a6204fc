from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from pegboard.json import json_text, problem
from pegboard.schema import Validator, compiled, without_added_nulls
from pegboard.schema.messages import explain
from schema_strategies import SCHEMAS, VALUES

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def problems(schema, value):
    return [problem(path, reason) for path, reason in explain(json_text(schema), value)]


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "integer"}, "25", '(root): must be an integer, got string "25"'),
        ({"type": "integer"}, True, "(root): must be an integer, got boolean true"),
        ({"type": "integer"}, 1.5, "(root): must be an integer, got number 1.5"),
        ({"type": ["string", "null"]}, 5, "(root): must be a string, got number 5"),
        ({"type": ["string", "array"]}, None, "(root): must be a string or an array, got null"),
        ({"type": "null"}, {}, "(root): must be null, got an object"),
        ({"const": "a"}, "b", '(root): must be "a"'),
        ({"const": 1}, True, "(root): must be 1"),
        ({"const": {"a": [1, {}]}}, {"a": [1, []]}, "(root): must be an object"),
        ({"const": [1, 2]}, [1], "(root): must be an array"),
        ({"enum": ["a", "b"], "type": "string"}, 5, '(root): must be one of "a", "b"'),
        ({"enum": [1, None]}, 2, "(root): must be one of 1, null"),
        ({"minimum": 1}, 0, "(root): must be at least 1, got 0"),
        ({"maximum": 100}, 5000, "(root): must be at most 100, got 5000"),
        ({"exclusiveMinimum": 1}, 1, "(root): must be more than 1, got 1"),
        ({"exclusiveMaximum": 1.5}, 1.5, "(root): must be less than 1.5, got 1.5"),
        ({"multipleOf": 0.1}, 0.25, "(root): must be a multiple of 0.1, got 0.25"),
        ({"minLength": 1}, "", "(root): must have at least 1 character, got 0"),
        ({"maxLength": 2}, "abc", "(root): must have at most 2 characters, got 3"),
        ({"pattern": "^a+$"}, "b", '(root): must match the pattern "^a+$", got "b"'),
        ({"minItems": 2}, [1], "(root): must have at least 2 items, got 1"),
        ({"maxItems": 1}, [1, 2], "(root): must have at most 1 item, got 2"),
        ({"uniqueItems": True}, [1, 1.0], "(root): must not hold the same item twice"),
        ({"items": {"type": "string"}}, ["a", 1], "[1]: must be a string, got number 1"),
        ({"prefixItems": [{}, {"const": 1}]}, [0, 0], "[1]: must be 1"),
        ({"prefixItems": [{}], "items": False}, [0, 0], "[1]: must not be given"),
        ({"contains": {"const": 1}}, [2], "(root): must contain at least 1 matching item, got 0"),
        (
            {"contains": {"const": 1}, "maxContains": 1},
            [1, 1],
            "(root): must contain at most 1 matching item, got 2",
        ),
        ({"required": ["query"]}, {}, "query: required, missing"),
        ({"minProperties": 1}, {}, "(root): must have at least 1 key, got 0"),
        ({"maxProperties": 0}, {"a": 1}, "(root): must have at most 0 keys, got 1"),
        ({"properties": {"a": {"const": 1}}}, {"a": 2}, "a: must be 1"),
        ({"properties": {"a": False}}, {"a": 2}, "a: must not be given"),
        ({"patternProperties": {"^x": {"const": 1}}}, {"y": 2, "x": 2}, "x: must be 1"),
        ({"properties": {"a": {}, "b": {}}, "additionalProperties": False}, {"c": 1}, "c: unknown key (known: a, b)"),
        ({"additionalProperties": False}, {"c": 1}, "c: unknown key (no keys are known here)"),
        ({"patternProperties": {"^x": {}}, "additionalProperties": {"const": 1}}, {"x": 5, "c": 2}, "c: must be 1"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, '(root): key "ab": must have at most 1 character, got 2'),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, 'b: required together with "a", missing'),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, "b: required, missing"),
        ({"not": {"type": "null"}}, None, '(root): must not fit {"type":"null"}'),
        ({"if": {"type": "string"}, "then": {"minLength": 1}}, "", "(root): must have at least 1 character, got 0"),
        ({"if": {"type": "string"}, "else": {"const": 1}}, 2, "(root): must be 1"),
        ({"allOf": [{"minimum": 1}, {"minimum": 1}]}, 0, "(root): must be at least 1, got 0"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}}, 2, "(root): must be 1"),
        ({"oneOf": [{}, {"type": "string"}]}, "a", "(root): must fit exactly one of 2 alternatives, fits 2"),
        ({"$schema": DRAFT_7, "items": [{"const": 1}], "additionalItems": False}, [2], "[0]: must be 1"),
        ({"$schema": DRAFT_7, "items": [{}], "additionalItems": {"const": 1}}, [1, 2], "[1]: must be 1"),
        ({"$schema": DRAFT_7, "dependencies": {"a": ["b"]}}, {"a": 1}, 'b: required together with "a", missing'),
        ({"$schema": DRAFT_7, "dependencies": {"a": {"required": ["b"]}}}, {"a": 1}, "b: required, missing"),
    ],
)
def test_each_keyword_has_a_message(schema, value, text):
    assert not compiled(json.dumps(schema)).is_valid(value)
    assert problems(schema, value) == [text]


def test_an_unknown_key_is_told_the_patterns():
    schema = {"patternProperties": {"^a": {}}, "additionalProperties": False}
    assert problems(schema, {"c": 1}) == ["c: unknown key (known: any that matches ^a)"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"a": False}}, {}),
        ({"$schema": DRAFT_7, "items": [{}, {}], "additionalItems": False}, [1]),
        ({"$schema": DRAFT_7, "items": {"const": 1}, "additionalItems": False}, [1, 1]),
        ({"$schema": DRAFT_7, "$ref": "#/definitions/a", "minimum": 5, "definitions": {"a": {}}}, 1),
        ({"if": {"type": "string"}, "then": False}, 1),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, 1),
        ({"not": {"type": "string"}, "contains": {"const": 1}}, [1]),
        ({"$ref": "#/$defs/gone"}, 1),
        ({"pattern": "^a", "not": {"pattern": "^b"}}, "a"),
        ({"const": {"a": [1, {"b": None}]}}, {"a": (1.0, {"b": None})}),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}),
        ({"propertyNames": {"maxLength": 1}, "additionalProperties": False, "properties": {"a": {}}}, {"a": 1}),
        ({"anyOf": [{"$ref": "#/$defs/a"}, {"const": 1}], "$defs": {"a": {"$ref": "#/$defs/a"}}}, 1),
    ],
)
def test_fitting_values_have_no_problems(schema, value):
    assert problems(schema, value) == []


FILTER = {
    "type": "object",
    "properties": {"value": {"type": "number"}},
    "required": ["value"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("alternatives", "value", "text"),
    [
        ([{"type": "array", "items": FILTER}, {"type": "null"}], [{"value": "x"}], "[0].value: must be a number"),
        ([{"type": "string"}, {"type": "null"}], 5, "(root): must be a string, got number 5"),
        ([{"type": "null"}, {"const": None}], 5, "(root): must be null"),
        ([{"type": "string"}, {"type": "integer"}], 1.5, "(root): must be a string or an integer, got number 1.5"),
        ([{"const": "auto"}, {"type": "integer"}], "x", '(root): must be "auto" or an integer, got string "x"'),
        ([{"enum": ["auto"]}, {"type": "string", "minLength": 3}], "ab", "(root): must have at least 3 characters"),
        ([{"minimum": 10}, {"maximum": 1}], 5, "(root): must be at least 10, got 5; or must be at most 1, got 5"),
        ([FILTER, {"type": "object", "required": ["a", "b"]}], {"valu": 1}, "value: required, missing"),
        ([FILTER, {"type": "string"}], {"value": "x"}, "value: must be a number"),
    ],
)
def test_of_alternatives_the_nearest_is_described(alternatives, value, text):
    assert problems({"anyOf": alternatives}, value)[0].startswith(text)
    assert problems({"oneOf": alternatives}, value)[0].startswith(text)


def shape(kind, **properties):
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, **properties},
        "required": ["kind", *properties],
        "additionalProperties": False,
    }


TAGGED = {
    "anyOf": [{"$ref": "#/$defs/circle"}, shape("square", side={"type": "number"})],
    "$defs": {"circle": shape("circle", radius={"type": "number"}, unit={"type": "string"})},
}


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ({"kind": "circle"}, ["radius: required, missing", "unit: required, missing"]),
        ({"kind": "square", "side": "1", "x": 1}, ["side: must be a number", "x: unknown key (known: kind, side)"]),
        ({"kind": "line", "side": 1}, ['kind: must be one of "circle", "square"']),
        ({"side": 1}, ['kind: required, missing (one of "circle", "square")']),
    ],
)
def test_a_tag_selects_the_alternative(value, texts):
    found = problems(TAGGED, value)
    assert len(found) == len(texts)
    assert all(each.startswith(text) for each, text in zip(found, texts, strict=True))


def test_a_property_of_only_some_alternatives_is_not_a_tag():
    first = {"properties": {"a": True, "mode": {"const": "x"}, "size": {"minimum": 2}}}
    second = {"properties": {"mode": {"const": "y"}, "shape": {"const": "z"}, "size": {"minimum": 3}}}
    assert problems({"anyOf": [first, second]}, {"size": 1, "mode": "x"}) == ["size: must be at least 2, got 1"]
    assert problems({"anyOf": [second, first]}, {"size": 1}) == [
        "size: must be at least 3, got 1; or must be at least 2, got 1"
    ]


def test_a_recursive_union_is_diagnosed_in_few_steps():
    """Listing the errors of every branch of every level would take 5**30 steps here."""
    operation = {
        "type": "object",
        "properties": {"left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"}},
        "required": ["op", "left"],
        "additionalProperties": False,
    }
    branches = [{**operation, "properties": {"op": {"const": op}, **operation["properties"]}} for op in "abcd"]
    schema = {"$ref": "#/$defs/e", "$defs": {"e": {"anyOf": [*branches, {"type": "number"}]}}}
    value = "bad"
    for _ in range(30):
        value = {"op": "d", "left": value}
    assert [len(path) for path, _ in explain(json_text(schema), value, steps=10_000)] == [30]


@pytest.mark.parametrize(
    ("schema", "value", "steps"),
    [
        ({"items": {"properties": {f"p{index}": {} for index in range(200)}}}, [{str(i): 1} for i in range(20)], 1000),
        ({"patternProperties": {"^a": False}}, {f"a{index}": 1 for index in range(100)}, 50),
        ({"patternProperties": {"^a": {}}, "additionalProperties": False}, {f"a{i}": 1 for i in range(100)}, 50),
        ({"additionalProperties": False}, {f"a{index}": 1 for index in range(100)}, 50),
    ],
)
def test_every_part_of_a_rule_counts_as_a_step(schema, value, steps):
    """Else a large schema times a large value would take minutes."""
    assert explain(json_text(schema), value, steps) == ()


def test_problems_found_before_the_budget_ends_are_listed():
    assert [path for path, _ in explain('{"items":{"type":"string"}}', [1, 2, 3, 4, 5], 4)] == [(0,), (1,)]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_an_alternative_with_an_unfinished_check_is_undecided(keyword):
    """A wrong answer would be: must fit exactly one of 3 alternatives, fits 2."""
    costly = {"items": {"properties": {f"p{index}": {} for index in range(100)}}, "contains": {"const": "x"}}
    schema = {keyword: [{"type": "string"}, costly, {**costly, "minItems": 1}]}
    value = [{str(index): 1} for index in range(2000)]

    assert not compiled(json.dumps(schema)).is_valid(value)
    assert explain(json_text(schema), value) == ()
    assert Validator(schema).problems(value) == ("(root): doesn't fit the schema",)


def test_a_deep_value_of_a_deep_schema_is_refused():
    """It raised a RecursionError, for which the tool was blamed."""
    inner = {"$ref": "#/$defs/node"}
    for _ in range(40):
        inner = {"allOf": [inner]}
    schema = {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": inner, "last": {"type": "string"}}}}}
    value = {"last": 5}
    for _ in range(62):
        value = {"next": value}

    assert Validator(schema).problems(value) == ("(root): doesn't fit the schema",)


def test_a_schema_that_refers_to_itself_ends():
    assert problems({"allOf": [{"$ref": "#"}], "minimum": 1}, 0) == ["(root): must be at least 1, got 0"]
    loop = {"$ref": "#/$defs/a", "required": ["b"]}
    assert problems({"anyOf": [loop, loop], "$defs": {"a": loop}}, {}) == ["b: required, missing"]


def deep(errors):
    for error in errors:
        yield tuple(error.absolute_path)
        yield from deep(error.context)


@given(SCHEMAS, VALUES)
def test_there_are_problems_exactly_if_the_validator_refuses(schema, value):
    """And only of places that jsonschema names too, in one of its branches."""
    found = explain(json_text(schema), value)
    assert bool(found) == (not compiled(json.dumps(schema)).is_valid(value))
    named = set(deep(Draft202012Validator(schema).iter_errors(value)))
    assert all(path in named or path[:-1] in named for path, _ in found)


@pytest.mark.parametrize(("count", "end"), [(20, "18 or 19, got null"), (500, "18 or 19 or 480 others, got null")])
def test_of_many_alternatives_twenty_are_named(count, end):
    (found,) = problems({"anyOf": [{"const": index} for index in range(count)]}, None)
    assert found.startswith("(root): must be 0 or 1 or ")
    assert found.endswith(end)


def test_a_long_list_of_tags_is_cut_and_counted():
    members = [{"properties": {"k": {"enum": [f"{one}-{two}" for two in range(30)]}}} for one in range(30)]
    (found,) = Validator({"anyOf": members}).problems({"k": "no"})
    assert found.startswith('k: must be one of "0-0", "0-1"')
    assert found.endswith(" and 880 more")


# Nulls of strict calls ------------------------------------------------------------------------------------------------

TEXT = {"type": "string"}
MAYBE = {"type": ["string", "null"]}


def tool(*required, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


NODE = tool(next={"$ref": "#/$defs/Node"}, name=TEXT)

ADDED_NULLS = {
    "an optional one": (tool(a=TEXT), {"a": None}, {}),
    "a required one": (tool("a", a=TEXT), {"a": None}, {"a": None}),
    "one that takes null": (tool(a=MAYBE, b={}), {"a": None, "b": None}, {"a": None, "b": None}),
    "one that nobody knows": (tool(), {"a": None}, {"a": None}),
    "below": (tool(a=tool(b=TEXT)), {"a": {"b": None}}, {"a": {}}),
    "in items": (tool(a={"items": tool(b=TEXT)}), {"a": [{"b": None}, {"b": "x"}]}, {"a": [{}, {"b": "x"}]}),
    "in first items": (
        tool(a={"prefixItems": [tool(b=TEXT)], "items": tool(c=TEXT)}),
        {"a": [{"b": None, "c": None}, {"b": None, "c": None}]},
        {"a": [{"c": None}, {"b": None}]},
    ),
    "in items of draft 7": (
        tool(a={"items": [tool(b=TEXT)], "additionalItems": tool(c=TEXT)}),
        {"a": [{"b": None}, {"c": None}]},
        {"a": [{}, {}]},
    ),
    "below other keys": ({"additionalProperties": tool(b=TEXT)}, {"x": {"b": None}}, {"x": {}}),
    "behind a reference": (
        {**NODE, "$defs": {"Node": NODE}},
        {"next": {"next": None, "name": "x"}},
        {"next": {"name": "x"}},
    ),
    "by the same schema twice": (
        {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}], "$defs": {"A": tool(a=MAYBE)}},
        {"a": None},
        {"a": None},
    ),
    "in allOf": ({"allOf": [tool(a=TEXT), tool(b=TEXT)]}, {"a": None, "b": None}, {}),
    "in the alternative that fits": (
        tool(x={"anyOf": [tool("k", k={"const": 1}, a=TEXT), tool("k", k={"const": 2}, a=MAYBE)]}),
        {"x": {"k": 2, "a": None}},
        {"x": {"k": 2, "a": None}},
    ),
    "in the first alternative": (
        {"oneOf": [tool("k", k={"const": 1}, a=TEXT), tool("k", k={"const": 2}, a=MAYBE)]},
        {"k": 1, "a": None},
        {"k": 1},
    ),
    "where no alternative fits": ({"anyOf": [tool("k", k=TEXT, a=TEXT)]}, {"k": 3, "a": None}, {"k": 3, "a": None}),
    "by a pattern": ({"patternProperties": {"^a": tool(b=TEXT)}}, {"a1": {"b": None}}, {"a1": {}}),
    "by a condition": (
        {"if": {"required": ["a"]}, "then": tool(b=TEXT), "else": tool(c=TEXT)},
        {"a": 1, "b": None, "c": None},
        {"a": 1, "c": None},
    ),
    "booleans": (tool(a=True, b=False), {"a": None, "b": None}, {"a": None}),
    "nothing null": (tool(a=TEXT), {"a": "x", "b": [1]}, {"a": "x", "b": [1]}),
    "a null in a list": (tool(a={"items": TEXT}), {"a": [None]}, {"a": [None]}),
    "no schema at all": ({"properties": 3, "required": None}, {"a": None}, {"a": None}),
}


@pytest.mark.parametrize("case", ADDED_NULLS)
def test_nulls_that_only_a_strict_schema_required_are_left_out(case):
    schema, arguments, expected = ADDED_NULLS[case]
    before = copy.deepcopy(arguments)
    assert without_added_nulls(arguments, schema) == expected
    assert arguments == before


def test_where_nothing_has_to_go_the_arguments_are_given_back():
    arguments = {"a": None, "b": {"c": [1]}}
    assert without_added_nulls(arguments, tool(a=MAYBE, b={})) is arguments


def test_values_that_arent_json_are_returned_unchanged():
    cyclic = {"a": None}
    cyclic["self"] = cyclic
    assert without_added_nulls(cyclic, tool(a=TEXT)) is cyclic


def test_a_schema_of_itself_ends():
    loop = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A", "properties": {"a": TEXT}}}}
    assert without_added_nulls({"a": None}, loop) == {}


@pytest.mark.slow
def test_beyond_the_budget_arguments_stay():
    schema = {"type": "object", "additionalProperties": tool(a=tool(b=TEXT))}
    arguments = {f"k{number}": {"a": {"b": None}} for number in range(60_000)}
    assert without_added_nulls(arguments, schema)["k59999"] == {"a": {"b": None}}
