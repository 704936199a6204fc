from __future__ import annotations

import copy

import pytest

from pegboard.dialects.objects import _Giving, without_added_nulls
from pegboard.schema.messages import SchemaSearch
from pegboard.schema.references import References

TEXT = {"type": "string"}
MAYBE = {"type": ["string", "null"]}


def tool(*required, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


NODE = tool(next={"$ref": "#/$defs/Node"}, name=TEXT)
CASES = {
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
    "below other keys": (
        {"additionalProperties": tool(b=TEXT)},
        {"x": {"b": None}},
        {"x": {}},
    ),
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
    "where no alternative fits": (
        {"anyOf": [tool("k", k=TEXT, a=TEXT)]},
        {"k": 3, "a": None},
        {"k": 3, "a": None},
    ),
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


@pytest.mark.parametrize("case", CASES)
def test_cases(case):
    schema, arguments, expected = CASES[case]
    before = copy.deepcopy(arguments)
    assert without_added_nulls(arguments, schema) == expected
    assert arguments == before


def test_where_nothing_has_to_go_the_arguments_are_given_back():
    arguments = {"a": None, "b": {"c": [1]}}
    assert without_added_nulls(arguments, tool(a=MAYBE, b={})) is arguments


def test_what_is_no_json_is_given_back():
    cyclic = {"a": None}
    cyclic["self"] = cyclic
    assert without_added_nulls(cyclic, tool(a=TEXT)) is cyclic


def test_a_schema_of_itself_ends():
    loop = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A", "properties": {"a": TEXT}}}}
    assert without_added_nulls({"a": None}, loop) == {}


def test_beyond_the_budget_arguments_stay():
    """The outermost object is still looked at."""
    schema = tool(a=tool(b=TEXT), c=TEXT)
    search = SchemaSearch(References(schema))
    assert _Giving(search, left=1).given({"a": {"b": None}, "c": None}, schema) == {"a": {"b": None}}
