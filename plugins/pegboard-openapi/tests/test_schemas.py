"""Schemas as JSON Schema: references, recursion, and what older versions wrote otherwise."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import pytest

from pegboard.schema import Validator


def schema_of(api, schema, version="3.1.0", schemas=None):
    """The schema of a body, the definitions, and what was reported."""
    content = api.document(api.operation("post", **api.body(schema)), version, components={"schemas": schemas or {}})
    tools, problems = api.tools_of(content)
    if "x" not in tools:
        return None, {}, problems
    whole = tools["x"].spec.input_schema
    return whole["properties"]["body"], whole.get("$defs", {}), problems


def test_recursion(api):
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/components/schemas/Node"}, "other": {"type": "string"}},
    }
    schema, definitions, problems = schema_of(api, {"$ref": "#/components/schemas/Node"}, schemas={"Node": node})
    assert (schema, problems) == ({"$ref": "#/$defs/Node"}, [])
    assert definitions["Node"]["properties"]["next"] == {"$ref": "#/$defs/Node"}


def test_only_what_is_reached_is_defined_and_names_are_distinct(api):
    schemas = {
        "A": {"properties": {"b": {"$ref": "#/components/schemas/B~1x"}, "c": {"$ref": "#/components/schemas/B x"}}}
    }
    schemas |= {"B/x": {"type": "string"}, "B x": {"type": "integer"}, "Unused": {}}
    _, definitions, _ = schema_of(api, {"$ref": "#/components/schemas/A"}, schemas=schemas)
    assert set(definitions) == {"A", "B_1x", "B_x"}


@pytest.mark.parametrize(
    ("schema", "accepts", "refuses"),
    [
        ({"type": "string", "nullable": True}, [None, "a"], [1]),
        ({"type": "string", "enum": ["a"], "nullable": True}, [None, "a"], ["b"]),
        ({"allOf": [{"$ref": "#/components/schemas/S"}], "nullable": True}, [None, "a"], [1]),
        ({"type": "string", "nullable": False}, ["a"], [None]),
        ({"nullable": True}, [None, 1], []),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, [1.1], [1]),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": False}, [1], [2]),
        ({"type": "object", "properties": {"id": {"readOnly": True}}, "required": ["id"]}, [{}], []),
    ],
)
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_keywords_of_3_0(api, schema, accepts, refuses, version):
    part, definitions, problems = schema_of(api, schema, version, {"S": {"type": "string"}})
    validator = Validator({**part, "$defs": definitions})
    assert all(map(validator.accepts, accepts))
    assert not any(map(validator.accepts, refuses))
    later = version != "3.0.3" and not {"nullable", "exclusiveMinimum", "exclusiveMaximum"}.isdisjoint(schema)
    assert bool(problems) == later
    assert not later or "of an earlier version, was repaired in POST /x" in problems[0]


def test_siblings_of_a_reference_count_since_3_1(api):
    schema = {"$ref": "#/components/schemas/S", "maxLength": 2, "description": "Short."}
    schemas = {"S": {"type": "string"}}
    assert schema_of(api, schema, "3.0.3", schemas)[0] == {"$ref": "#/$defs/S", "description": "Short."}
    assert schema_of(api, schema, "3.1.0", schemas)[0] == {**schema, "$ref": "#/$defs/S"}


def test_recursive_references_of_2019(api):
    filters = {"type": "array", "items": {"$recursiveRef": "#"}}
    schemas = {"Filter": {"$recursiveAnchor": True, "type": "object", "properties": {"filters": filters}}}
    _, definitions, problems = schema_of(api, {"$ref": "#/components/schemas/Filter"}, schemas=schemas)
    assert definitions["Filter"]["properties"]["filters"]["items"] == {"$ref": "#/$defs/Filter"}
    assert len(problems) == 2


def test_other_leftovers(api):
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "required": True, "description": {"$ref": "#/x"}, "examples": {"a": {}}},
            "b": {"type": "array", "items": [{"type": "integer"}]},
        },
        "discriminator": {"propertyName": "a"},
        "xml": {"name": "a"},
        "x-internal": True,
        "example": {},
    }
    part, _, problems = schema_of(api, schema)
    assert part["properties"] == {"a": {"type": "string"}, "b": {"type": "array", "prefixItems": [{"type": "integer"}]}}
    assert set(part) == {"type", "properties"}
    assert len(problems) == 4


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/components/schemas/Nothing"},
        {"type": "nosuch"},
        {"properties": {"a": {"$ref": "#/components/schemas/Bad"}}},
        {"$recursiveRef": "#"},
        {"enum": ["x" * 600_000]},
        {"items": 7},
        7,
    ],
)
def test_a_bad_schema_costs_only_its_operation(api, schema):
    paths = {**api.operation(), **api.operation("post", "/y", "y", **api.body(schema))}
    schemas = {"Bad": {"properties": {"a": {"$ref": "#/nowhere"}}}}
    tools, problems = api.tools_of(api.document(paths, components={"schemas": schemas}))
    assert list(tools) == ["x"]
    assert "POST /y is left out: " in problems[0]


def test_a_schema_of_100_kilobytes_is_fine(api):
    part, _, problems = schema_of(
        api, {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(3_500)}}
    )
    assert (len(part["properties"]), problems) == (3_500, [])
