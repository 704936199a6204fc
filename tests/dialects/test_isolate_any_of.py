from __future__ import annotations

import pytest

from pegboard.dialects.combinators import isolate_any_of

TEXT, NULL = {"type": "string"}, {"type": "null"}


def at(schema, **more):
    """A schema below the root."""
    return {"items": schema, **more}


CASES = {
    "rules go into each": (
        at({"minLength": 1, "title": "t", "anyOf": [TEXT, {"title": "u"}]}),
        at({"title": "t", "anyOf": [{"minLength": 1, "type": "string"}, {"minLength": 1, "title": "u"}]}),
        [],
    ),
    "what is ruled out goes": (
        at({"type": ["string", "null"], "anyOf": [TEXT, NULL, {"type": "integer"}]}),
        at({"anyOf": [TEXT, NULL]}),
        [],
    ),
    "all ruled out": (at({"type": "string", "anyOf": [NULL]}), at(TEXT), ["/items anyOf"]),
    "notes may stay": (at({"anyOf": [TEXT, NULL], "default": 1}), at({"anyOf": [TEXT, NULL], "default": 1}), []),
    "one is no union": (
        at({"anyOf": [{**TEXT, "description": "inner"}], "description": "outer"}),
        at({**TEXT, "description": "outer inner"}),
        [],
    ),
    "one without words": (at({"anyOf": [TEXT], "description": "outer"}), at({**TEXT, "description": "outer"}), []),
    "the same twice": (at({"anyOf": [TEXT, NULL, TEXT]}), at({"anyOf": [TEXT, NULL]}), []),
    "unions in unions": (at({"anyOf": [{"anyOf": [TEXT, NULL]}, {"anyOf": [NULL]}]}), at({"anyOf": [TEXT, NULL]}), []),
    "a union within what is moved": (
        at({"properties": {"a": {}}, "anyOf": [{"anyOf": [{"type": "object"}]}]}),
        at({"properties": {"a": {}}, "type": "object"}),
        [],
    ),
    "a reference is written out": (
        at({"minLength": 1, "anyOf": [{"$ref": "#/$defs/A"}, NULL]}, **{"$defs": {"A": TEXT}}),
        at({"anyOf": [{"minLength": 1, "type": "string"}, {"minLength": 1, "type": "null"}]}, **{"$defs": {"A": TEXT}}),
        [],
    ),
    "a reference alone stays": (at({"anyOf": [{"$ref": "#/$defs/A"}]}), at({"anyOf": [{"$ref": "#/$defs/A"}]}), []),
    "the root": ({"type": "object", "anyOf": [TEXT]}, {"type": "object", "anyOf": [TEXT]}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(isolate_any_of, schema) == (expected, changes)


def test_a_union_of_itself_ends(apply):
    union = {"anyOf": [{"$ref": "#/$defs/A"}, NULL], "minProperties": 1}
    schema = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "object", "properties": {"x": union}}}}
    spread, changes = apply(isolate_any_of, schema)
    inner = spread["$defs"]["A"]["properties"]["x"]["anyOf"][0]
    assert inner["properties"]["x"] == {"anyOf": union["anyOf"]}
    assert changes == ["/$defs/A/properties/x/anyOf/0/properties/x anyOf"]
