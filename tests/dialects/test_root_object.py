from __future__ import annotations

import pytest

from pegboard.dialects.combinators import root_object

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
STEP = root_object("anyOf", "oneOf", "allOf", "enum", "const", "not")


def tool(*required, **properties):
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


CASES = {
    "plain": (tool(a=TEXT), tool(a=TEXT), []),
    "no type": ({"properties": {"a": TEXT}}, tool(a=TEXT), []),
    "an object or null": ({"type": ["object", "null"]}, {"type": "object"}, []),
    "no object": ({"type": "string"}, {"type": "object"}, [" type!"]),
    "a reference": (
        {"$ref": "#/$defs/A", "title": "t", "$defs": {"A": tool(a=TEXT)}},
        {"title": "t", **tool(a=TEXT), "$defs": {"A": tool(a=TEXT)}},
        [],
    ),
    "allOf": (
        {**tool(a=TEXT), "allOf": [tool("b", b=WHOLE), {"required": ["a"]}]},
        tool("b", "a", a=TEXT, b=WHOLE),
        [],
    ),
    "a contradiction": ({**tool(a=TEXT), "allOf": [TEXT]}, tool(a=TEXT), [" allOf"]),
    "which to give": (
        {**tool(a=TEXT, b=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {**tool(a=TEXT, b=TEXT), "description": "Needs one of: a; b."},
        [" anyOf"],
    ),
    "all need the same": (
        {**tool("c", a=TEXT, c=TEXT), "oneOf": [{"required": ["a", "c"]}, {"required": ["a"]}]},
        tool("c", "a", a=TEXT, c=TEXT),
        [" oneOf"],
    ),
    "alternatives with properties": (
        {
            "type": "object",
            "oneOf": [
                {**tool("kind", "a", kind={"const": "x"}, a=TEXT), "additionalProperties": False, "description": "X."},
                {**tool("kind", kind={"const": "y"}, b=WHOLE), "additionalProperties": False},
            ],
        },
        {
            **tool("kind", kind={"anyOf": [{"const": "x"}, {"const": "y"}]}, a=TEXT, b=WHOLE),
            "additionalProperties": False,
            "description": "X.",
        },
        [" oneOf"],
    ),
    "the root's own rule and those of all": (
        {**tool(a=WHOLE), "anyOf": [{"properties": {"a": {"minimum": 1}}}, {"properties": {"a": {"maximum": -1}}}]},
        tool(a={"type": "integer", "anyOf": [{"minimum": 1}, {"maximum": -1}]}),
        [" anyOf"],
    ),
    "the root's own rule and those of some": (
        {**tool(a=WHOLE), "anyOf": [{"properties": {"a": {"minimum": 1}}}, {}]},
        tool(a=WHOLE),
        [" anyOf"],
    ),
    "rules that contradict the root's": (
        {**tool(a=WHOLE), "anyOf": [{"properties": {"a": TEXT}}]},
        tool(a=WHOLE),
        [" anyOf"],
    ),
    "a closed root stays so": (
        {**tool(a=TEXT), "additionalProperties": False, "anyOf": [{"properties": {"b": TEXT}}, True]},
        {**tool(a=TEXT), "additionalProperties": False},
        [" anyOf"],
    ),
    "booleans": (
        {"type": "object", "anyOf": [tool(a=True, b=False), tool(b=TEXT), False]},
        tool(a={}, b=TEXT),
        [" anyOf"],
    ),
    "alternatives that are no objects": (
        {"type": "object", "anyOf": [TEXT, {"allOf": [TEXT, WHOLE]}]},
        {"type": "object"},
        [" anyOf"],
    ),
    "values": (
        {"type": "object", "enum": [{"a": 1}], "not": {"required": ["b"]}},
        {"type": "object", "description": 'One of: {"a":1}. Must not fit {"required":["b"]}.'},
        [" enum", " not"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(STEP, schema) == (expected, changes)


def test_what_is_not_unwanted_stays(apply):
    schema = {"type": "object", "anyOf": [{}], "allOf": [{}], "not": {}}
    assert apply(root_object("oneOf"), schema) == (schema, [])
    assert apply(root_object("oneOf"), {**schema, "type": ["object"]}) == (schema, [])


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"anyOf": [True, {"properties": {"b": {}}}]}, {"a": {}, "b": {}}),
        ({"anyOf": [False, {"properties": {"b": {}}}]}, {"a": {}, "b": {}}),
        (True, {"a": {}}),
    ],
    ids=["true in a union", "false in a union", "true"],
)
def test_booleans_in_all_of_are_schemas_too(part, expected, apply):
    schema = {"type": "object", "anyOf": [{"properties": {"a": {}}}], "allOf": [part]}
    assert apply(root_object("anyOf", "oneOf", "allOf"), schema)[0] == {"type": "object", "properties": expected}
