from __future__ import annotations

import json

from hypothesis import given, settings

from pegboard.tools.compiled import compiled
from pegboard.tools.subschema import bare, schemas
from schema_strategies import SCHEMAS, VALUES


def test_values_that_only_look_like_schemas_are_data():
    schema = {"const": {"$ref": "#/x"}, "enum": [{"$ref": "#/x"}], "default": {"$ref": "#/x"}, "required": ["$ref"]}
    assert list(schemas(schema)) == [schema]


def test_every_schema_written_is_found():
    schema = {
        "properties": {"a": {"items": {}}, "b": True},
        "allOf": [{"not": {}}],
        "$defs": {"c": {"additionalProperties": {}}},
        "dependencies": {"d": ["e"], "f": {}},
    }
    assert len(list(schemas(schema))) == 8


def test_notes_are_taken_away_wherever_they_stand():
    noted = {"title": "T", "description": "D", "default": 1, "examples": [1], "$comment": "C", "deprecated": True}
    schema = {
        **noted,
        "properties": {"title": {**noted, "type": "string"}, "default": True},
        "$defs": {"description": {**noted, "not": {**noted}}},
        "anyOf": [{**noted, "items": {**noted}}, False],
        "dependencies": {"a": ["title"]},
        "required": ["title"],
    }
    assert bare(schema) == {
        "properties": {"title": {"type": "string"}, "default": True},
        "$defs": {"description": {"not": {}}},
        "anyOf": [{"items": {}}, False],
        "dependencies": {"a": ["title"]},
        "required": ["title"],
    }


def test_values_are_no_notes():
    schema = {"const": {"title": 1}, "enum": [{"default": 1}]}
    assert bare(schema) == schema


@settings(max_examples=100)
@given(SCHEMAS, VALUES)
def test_a_bare_schema_judges_the_same(schema, value):
    noted = {"title": "T", "default": 1, **schema}
    assert compiled(json.dumps(bare(noted))).is_valid(value) == compiled(json.dumps(schema)).is_valid(value)
