"""What a schema hints of a value."""

from __future__ import annotations

import pytest

from pegboard.cli.hint import ALL_TYPES, Hint, json_type


def hint(schema, root=None) -> Hint:
    return Hint(schema, schema if root is None else root)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.0, "number"),
        ("", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_the_type_of_a_value(value, name):
    assert json_type(value) == name


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "integer"}, {"integer"}),
        ({"type": ["integer", "null", 3]}, {"integer", "null"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"string", "null"}),
        ({"oneOf": [{"const": 1}, {"enum": ["a", None]}]}, {"integer", "string", "null"}),
        ({"properties": {}}, {"object"}),
        ({"items": True}, {"array"}),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "number"}}}, {"number"}),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"$ref": "#/$defs/n"}}}, set()),
        ({"$ref": "http://elsewhere"}, set()),
        ({"$ref": "#/nowhere"}, set()),
        ({"$ref": "#/anyOf/1", "anyOf": [{"type": "null"}, {"type": "string"}]}, {"null", "string"}),
        ({}, ALL_TYPES),
        (True, ALL_TYPES),
        (False, set()),
        (3, set()),
    ],
)
def test_the_types_that_a_schema_allows(schema, types):
    assert hint(schema).types == types


def test_a_reference_has_its_signs_unescaped():
    root = {"a/b": {"c~d": {"type": "boolean"}}}
    assert hint({"$ref": "#/a~1b/c~0d"}, root).types == {"boolean"}


def test_a_tangle_of_references_ends():
    many = {"anyOf": [{"anyOf": [{"type": "string"}] * 50}] * 50}
    assert hint(many).types == {"string"}


def test_the_values_that_are_named():
    assert hint({"anyOf": [{"enum": [1, "a"]}, {"const": None}, {"type": "string"}]}).members == (1, "a", None)


def test_properties_of_all_parts_the_first_counts():
    schema = {
        "anyOf": [
            {"properties": {"a": {"type": "string"}, "b": True}, "required": ["a"]},
            {"properties": {"a": {"type": "null"}}, "required": ["c", 3]},
        ]
    }
    assert {name: below.types for name, below in hint(schema).properties.items()} == {"a": {"string"}, "b": ALL_TYPES}
    assert hint(schema).required == {"a", "c"}


def test_a_property_that_is_not_named():
    assert hint({"additionalProperties": {"type": "integer"}}).child("x").types == {"integer"}
    assert hint({"type": "object"}).child("x").is_open
    assert hint({"type": "string"}).child("x").types == set()
    assert hint({"type": "object", "additionalProperties": False}).child("x").types == set()


def test_items_by_place():
    schema = {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
    assert hint(schema).item(0).types == {"string"}
    assert hint(schema).item(1).types == {"integer"}
    assert hint({"type": "array"}).item(0).is_open
    assert hint({"type": "string"}).item(0).types == set()


def test_what_stands_under_a_keyword():
    assert hint({"description": "outer", "anyOf": [{"description": "inner"}]}).says("description") == "outer"
    assert hint({"anyOf": [{"description": "inner"}]}).says("description") == "inner"
    assert hint({}).says("description") is None
