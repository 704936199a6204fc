from __future__ import annotations

import json

import pytest
from hypothesis import given

from pegboard.errors import SchemaError
from pegboard.schema import References, check_schema, compiled, schemas, validator_of
from schema_strategies import SCHEMAS, VALUES


def chain(length, links):
    """Definitions a0 ... a<length>, each referring to the next `links` times."""
    definitions = {
        f"a{index}": {"properties": {str(link): {"$ref": f"#/$defs/a{index + 1}"} for link in range(links)}}
        for index in range(length)
    }
    return {"$ref": "#/$defs/a0", "$defs": {**definitions, f"a{length}": {"type": "string"}}}


def check_refused(schema, reason):
    with pytest.raises(SchemaError, match=reason):
        check_schema(schema, tool="t", what="schema")


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("#", "root"),
        ("", "root"),
        ("#/$defs/a~1b%25~0c", "odd"),
        ("#/prefixItems/1", "second"),
        ("#here", "anchored"),
        ("#there", "dynamic"),
        ("https://a.example/s.json", "root"),
        ("https://a.example/s.json#here", "anchored"),
    ],
)
def test_references_within_a_schema_lead_to_their_target(reference, target):
    schema = {
        "$id": "https://a.example/s.json",
        "title": "root",
        "$defs": {
            "a/b%~c": {"title": "odd"},
            "x": {"$anchor": "here", "title": "anchored"},
            "y": {"$dynamicAnchor": "there", "title": "dynamic"},
        },
        "prefixItems": [{}, {"title": "second"}],
    }
    assert References(schema).target(reference)["title"] == target


@pytest.mark.parametrize(
    "reference",
    ["https://b.example/x", "other.json", "#/$defs/gone", "#/allOf/7", f"#/allOf/{'9' * 5_000}", "#/allOf/x", "#gone"],
    ids=range(7),
)
def test_a_reference_to_nothing_in_the_schema_has_no_target(reference):
    assert References({"allOf": [{}]}).target(reference) is None


def test_the_size_counts_every_use_of_a_definition():
    check_schema(chain(3, 1), tool="t", what="schema")
    check_refused(chain(30, 2), "expands to more than 100000 schemas")


def test_a_recursive_schema_has_a_size():
    check_schema({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}, tool="t", what="schema")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
    ],
)
def test_a_schema_that_applies_itself_to_the_same_value_is_endless(schema):
    check_refused(schema, "applies itself")


def test_a_loop_in_place_is_found_next_to_one_through_properties():
    """A first walk may reach B below A and so take the loop in place between them for a harmless one."""
    schema = {
        "properties": {"x": {"$ref": "#/$defs/A"}},
        "$defs": {
            "A": {"properties": {"q": {"$ref": "#/$defs/B"}}, "allOf": [{"$ref": "#/$defs/B"}]},
            "B": {"$ref": "#/$defs/A"},
        },
    }
    check_refused(schema, "applies itself")


def test_chains_of_references_are_bounded_in_either_order():
    schema = chain(300, 1)
    check_refused(schema, "more than 100 levels")
    backwards = {"allOf": [{"$ref": f"#/$defs/a{index}"} for index in range(300, -1, -1)], "$defs": schema["$defs"]}
    check_refused(backwards, "more than 100 levels")


def test_values_that_only_look_like_schemas_are_data():
    schema = {"const": {"$ref": "#/x"}, "enum": [{"$ref": "#/x"}], "default": {"$ref": "#/x"}, "required": ["$ref"]}
    assert list(schemas(schema)) == [schema]


def test_all_subschemas_are_found():
    schema = {
        "properties": {"a": {"items": {}}, "b": True},
        "allOf": [{"not": {}}],
        "$defs": {"c": {"additionalProperties": {}}},
        "dependencies": {"d": ["e"], "f": {}},
    }
    assert len(list(schemas(schema))) == 8


def test_notes_are_removed_at_every_level():
    noted = {"title": "T", "description": "D", "default": 1, "examples": [1], "deprecated": True}
    schema = {
        **noted,
        "properties": {"title": {**noted, "type": "string"}, "default": True},
        "definitions": {"description": {**noted, "not": {**noted}}},
        "anyOf": [{**noted, "items": {**noted}}, False],
        "dependencies": {"a": ["title"]},
        "const": {"title": 1},
        "enum": [{"default": 1}],
    }
    assert json.loads(validator_of(json.dumps(schema)).schema) == {
        "properties": {"title": {"type": "string"}, "default": True},
        "definitions": {"description": {"not": {}}},
        "anyOf": [{"items": {}}, False],
        "dependencies": {"a": ["title"]},
        "const": {"title": 1},
        "enum": [{"default": 1}],
    }


@given(SCHEMAS, VALUES)
def test_a_schema_without_notes_accepts_the_same(schema, value):
    noted = {"title": "T", "default": 1, **schema}
    assert validator_of(json.dumps(noted)).accepts(value) == compiled(json.dumps(schema)).is_valid(value)
