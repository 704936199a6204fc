"""The kinds of JSON values, and which of them a schema allows."""

from __future__ import annotations

import pytest

from pegboard.schema.references import References
from pegboard.testing.kind import KINDS, allowed_kinds, kind_of, kinds_of

ALL = set(KINDS)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "boolean"),
        (1, "integer"),
        (1.0, "integer"),
        (1.5, "number"),
        ("", "string"),
        ([], "array"),
        ((), "array"),
        ({}, "object"),
        (None, "null"),
    ],
)
def test_each_value_is_of_one_kind(value, kind) -> None:
    assert kind_of(value) == kind


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": ["string", "null"]}, ("string", "null")),
        ({"properties": {}}, ("object",)),
        ({"minItems": 1}, ("array",)),
        ({"maximum": 1}, ("integer",)),
        ({}, ("string",)),
    ],
)
def test_a_schema_names_or_implies_the_kinds_to_make(schema, kinds) -> None:
    assert kinds_of(schema) == kinds


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        (True, ALL),
        (False, set()),
        ({"minimum": 3}, ALL),
        ({"type": "number"}, {"number", "integer"}),
        ({"type": ["integer", "null"], "const": None}, {"null"}),
        ({"enum": ["x", 1]}, {"string", "integer"}),
        ({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/a"}]}, {"string", "array"}),
        ({"$ref": "#/$defs/loop"}, ALL),
        ({"$ref": "#/nowhere", "type": "string"}, {"string"}),
    ],
)
def test_the_kinds_that_a_schema_allows_are_known(schema, kinds) -> None:
    definitions = {"a": {"type": "array"}, "loop": {"anyOf": [{"$ref": "#/$defs/loop"}]}}
    assert allowed_kinds(References({"$defs": definitions}), schema) == kinds


def test_a_reference_of_an_older_draft_hides_what_stands_beside_it() -> None:
    root = {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "array"}}}
    assert allowed_kinds(References(root), {"$ref": "#/definitions/a", "type": "string"}) == {"array"}
