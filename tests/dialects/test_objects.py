from __future__ import annotations

import copy

import pytest

from pegboard.dialects.values import (
    _Giving,
    close_objects,
    open_objects,
    pattern_properties,
    property_names,
    require_all,
    required_properties,
    without_added_nulls,
)
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


CASES_CLOSE_OBJECTS = {
    "open": (
        {"type": "object", "properties": {"a": {"type": ["object", "null"]}}},
        {
            "type": "object",
            "properties": {"a": {"properties": {}, "type": ["object", "null"], "additionalProperties": False}},
            "additionalProperties": False,
        },
        ["/properties/a additionalProperties", " additionalProperties"],
    ),
    "welcoming": (
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "properties": {}, "additionalProperties": False},
        [],
    ),
    "closed": (
        {"properties": {}, "additionalProperties": False},
        {"properties": {}, "additionalProperties": False},
        [],
    ),
    "no object": ({"type": ["string", "null"]}, {"type": ["string", "null"]}, []),
}


@pytest.mark.parametrize("case", CASES_CLOSE_OBJECTS)
def test_cases_close_objects(case, apply):
    schema, expected, changes = CASES_CLOSE_OBJECTS[case]
    assert apply(close_objects, schema) == (expected, changes)


CASES_OPEN_OBJECTS = {
    "a map": (
        {"properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}},
        {"properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}},
        ["/properties/a additionalProperties!"],
    ),
    "any object": (
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        ["/properties/a properties!"],
    ),
    "no parameters": ({"type": "object"}, {"type": "object"}, []),
    "closed": (
        {"type": "object", "additionalProperties": False},
        {"type": "object", "additionalProperties": False},
        [],
    ),
    "no object": ({"type": "string"}, {"type": "string"}, []),
}


@pytest.mark.parametrize("case", CASES_OPEN_OBJECTS)
def test_cases_open_objects(case, apply):
    schema, expected, changes = CASES_OPEN_OBJECTS[case]
    assert apply(open_objects, schema) == (expected, changes)


CASES_PATTERN_PROPERTIES = {
    "beside closed": (
        {"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False},
        {"description": 'Keys matching ^x hold {"type":"string"}.', "additionalProperties": {"type": "string"}},
        [" patternProperties"],
    ),
    "several": (
        {
            "patternProperties": {"^x": {"type": "string"}, "^y": {"type": "null"}},
            "additionalProperties": {"type": "null"},
        },
        {
            "description": 'Keys matching ^x hold {"type":"string"}. Keys matching ^y hold {"type":"null"}.',
            "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        [" patternProperties"],
    ),
    "open": (
        {"patternProperties": {"^x": {"type": "string"}}},
        {"description": 'Keys matching ^x hold {"type":"string"}.', "additionalProperties": True},
        [" patternProperties"],
    ),
    "none": ({"patternProperties": {}, "additionalProperties": False}, {"additionalProperties": False}, []),
}


@pytest.mark.parametrize("case", CASES_PATTERN_PROPERTIES)
def test_cases_pattern_properties(case, apply):
    schema, expected, changes = CASES_PATTERN_PROPERTIES[case]
    assert apply(pattern_properties, schema) == (expected, changes)


STEP = property_names(r"[A-Za-z0-9_.-]{1,64}")

CASES_PROPERTY_NAMES = {
    "optional": (
        {"properties": {"a b": {}, "c": {}}, "required": ["c"]},
        {"properties": {"c": {}}, "required": ["c"]},
        ["/properties/a b properties"],
    ),
    "required": (
        {"properties": {"a/b": {}}, "required": ["a/b"]},
        {"properties": {}, "required": []},
        ["/properties/a~1b properties!"],
    ),
    "below": (
        {"items": {"properties": {"x" * 65: {}}}},
        {"items": {"properties": {}}},
        [f"/items/properties/{'x' * 65} properties"],
    ),
    "fitting": ({"properties": {"a.b-c_D9": {}}}, {"properties": {"a.b-c_D9": {}}}, []),
}


@pytest.mark.parametrize("case", CASES_PROPERTY_NAMES)
def test_cases_property_names(case, apply):
    schema, expected, changes = CASES_PROPERTY_NAMES[case]
    assert apply(STEP, schema) == (expected, changes)


def test_a_narrower_pattern_takes_fewer_names(apply):
    schema = {"properties": {"a-b": {}, "9a": {}, "_a9": {}}}
    assert apply(property_names(r"[A-Za-z_][A-Za-z0-9_]{0,63}"), schema)[0] == {"properties": {"_a9": {}}}


CASES_REQUIRE_ALL = {
    "optional": (
        {"properties": {"a": {"type": "string"}, "b": {"type": "null"}, "c": {"type": "integer"}}, "required": ["c"]},
        {
            "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "null"}, "c": {"type": "integer"}},
            "required": ["a", "b", "c"],
        },
        [],
    ),
    "required": (
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        [],
    ),
    "no such property": ({"properties": {}, "required": ["a"]}, {"properties": {}, "required": []}, [" required!"]),
    "no object": ({"type": "string"}, {"type": "string"}, []),
}


@pytest.mark.parametrize("case", CASES_REQUIRE_ALL)
def test_cases_require_all(case, apply):
    schema, expected, changes = CASES_REQUIRE_ALL[case]
    assert apply(require_all, schema) == (expected, changes)


CASES_REQUIRED_PROPERTIES = {
    "all are there": ({"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"a": TEXT}, "required": ["a"]}),
    "nothing is required": ({"properties": {"a": TEXT}}, {"properties": {"a": TEXT}}),
    "one is missing": (
        {"properties": {"a": TEXT}, "required": ["b", "a"]},
        {"properties": {"a": TEXT, "b": {}}, "required": ["b", "a"]},
    ),
    "no properties": ({"required": ["a"]}, {"required": ["a"], "properties": {"a": {}}}),
    "others have a type": (
        {"required": ["a"], "additionalProperties": TEXT},
        {"required": ["a"], "additionalProperties": TEXT, "properties": {"a": TEXT}},
    ),
    "no others are taken": (
        {"required": ["a"], "additionalProperties": False},
        {"required": ["a"], "additionalProperties": False, "properties": {"a": {}}},
    ),
    "deep inside": (
        {"items": {"anyOf": [{"required": ["a"]}]}},
        {"items": {"anyOf": [{"required": ["a"], "properties": {"a": {}}}]}},
    ),
    "a property of that name": ({"properties": {"required": TEXT}}, {"properties": {"required": TEXT}}),
}


@pytest.mark.parametrize("case", CASES_REQUIRED_PROPERTIES)
def test_cases_required_properties(case, apply):
    schema, expected = CASES_REQUIRED_PROPERTIES[case]
    assert apply(required_properties, schema) == (expected, [])
