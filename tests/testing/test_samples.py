"""Values made from schemas: they all fit, include the bounds, and are deterministic."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given

from pegboard import schema_of
from pegboard.json import json_text
from pegboard.schema import compiled
from pegboard.schema.structure import strict_structurer
from pegboard.testing import NoSampleError, Samples
from pegboard.testing.samples import _MOST_SAMPLES, MOST_CHARACTERS
from schema_strategies import SCHEMAS
from strategies import type_cases


def samples_of(schema) -> list:
    samples = Samples(schema, compiled(json_text(schema)).is_valid)
    return list(samples.of())


@given(SCHEMAS)
def test_every_sample_fits(schema) -> None:
    """They are the same each time; a schema may have none."""
    try:
        found = samples_of(schema)
    except NoSampleError:
        return
    judge = compiled(json_text(schema))
    assert found == samples_of(schema)
    assert all(judge.is_valid(value) for value in found)


@pytest.mark.slow
@given(type_cases(textual=False))
def test_a_derived_schema_gives_samples_that_its_type_takes(case) -> None:
    """Every type that pegboard supports has samples, and all of them can be structured."""
    schema = schema_of(case.annotation)
    structure = strict_structurer(case.annotation)

    for value in samples_of(schema):
        structure(value)


def test_the_bounds_of_an_array_are_among_its_samples() -> None:
    found = samples_of({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 5})
    assert {1, 5} <= set(map(len, found))


def test_items_of_a_set_are_different() -> None:
    found = samples_of({"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 3})
    assert len(set(found[0])) == 3


@pytest.mark.parametrize(
    "more",
    [
        {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "items": [{"type": "integer"}, {"type": "string"}],
            "additionalItems": False,
        },
    ],
)
def test_the_items_of_a_tuple_are_in_order(more) -> None:
    found = samples_of({"type": "array", "minItems": 2, **more})
    assert all(isinstance(first, int | float) and isinstance(second, str) for first, second in found)


def test_additional_properties_follow_their_schema() -> None:
    schema = {
        "type": "object",
        "additionalProperties": {"type": "integer"},
        "propertyNames": {"pattern": "^[0-9]+$"},
        "minProperties": 2,
    }
    assert len(samples_of(schema)[0]) == 2


@pytest.mark.parametrize(
    ("schema", "first"),
    [
        ({"type": "string", "examples": ["Oslo", "Rome"]}, ["Oslo", "Rome"]),
        # all properties, then only the required ones
        (
            {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["a"]},
            [{"a": 1, "b": 2}, {"a": 1}],
        ),
        # every option and alternative
        ({"anyOf": [{"enum": ["x", "y"]}, {"type": "null"}, {"type": "array", "maxItems": 0}]}, ["x", "y", None, []]),
        # a reference of an older draft hides its siblings
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {"a": {"$ref": "#/definitions/a", "maxLength": 1}},
                "definitions": {"a": {"type": "string", "const": "long"}},
            },
            [{"a": "long"}],
        ),
        ({"type": "string", "format": "date"}, ["2024-02-29"]),
        ({"type": "string", "contentEncoding": "base64"}, ["c2FtcGxl"]),
        ({"type": "string", "pattern": "^a{3}$"}, ["aaa"]),
        ({"type": "string", "format": "unheard-of"}, ["sample"]),
        # sizes may be written as fractions
        ({"type": "string", "maxLength": 3.0}, ["sam"]),
        ({"type": "array", "items": {"const": 1}, "minItems": 2.0}, [[1, 1]]),
        ({"type": "object", "minProperties": 2.0}, [{"sample": "sample", "other": "sample"}]),
    ],
)
def test_the_first_samples(schema, first) -> None:
    assert samples_of(schema)[: len(first)] == first


NODE = {"type": "object", "properties": {"v": {"const": 1}, "next": {"$ref": "#/$defs/n"}}, "required": ["v"]}
PARTS = {
    "allOf": [{"$ref": "#/$defs/a"}, {"properties": {"b": {"const": 2}}, "required": ["b"]}],
    "$defs": {"a": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}},
}


@pytest.mark.parametrize(
    ("schema", "sample"),
    [
        ({"type": "array", "items": {"type": "boolean"}}, []),
        ({"type": "string", "maxLength": 9, "default": "here"}, "here"),
        (PARTS, {"a": 1, "b": 2}),  # references and parts are merged
        ({"$ref": "#/$defs/n", "$defs": {"n": NODE}}, {"v": 1}),  # a recursive schema ends
        # a required entry without a property
        ({"type": "object", "required": ["a"], "additionalProperties": {"const": 5}}, {"a": 5}),
    ],
)
def test_samples_include(schema, sample) -> None:
    assert sample in samples_of(schema)


@pytest.mark.slow
def test_a_schema_with_endless_branches_has_a_bounded_number_of_samples() -> None:
    parts = {f"p{number}": {"$ref": "#/$defs/n"} for number in range(8)}
    node = {"anyOf": [{"type": "object", "properties": parts}, {"type": "array", "items": {"$ref": "#/$defs/n"}}]}
    schema = {"type": "object", "properties": {"root": {"$ref": "#/$defs/n"}}, "$defs": {"n": node}}
    assert 0 < len(samples_of(schema)) <= _MOST_SAMPLES


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "array", "items": {"type": "integer"}, "minItems": 10**9},
        {"type": "integer", "minimum": 10**400},
        {"type": "number", "multipleOf": 5e-324},
    ],
)
def test_a_schema_that_nothing_fits_or_that_is_too_large_has_no_sample(schema) -> None:
    with pytest.raises(NoSampleError):
        samples_of(schema)


def test_an_optional_property_without_a_sample_is_left_out() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"const": 1}, "b": {"type": "string", "pattern": "(?:x{2}y){3}[^\\s]q?$", "maxLength": 2}},
    }
    assert samples_of(schema)[0] == {"a": 1}


# Numbers and texts at the bounds of a schema --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "least", "most"),
    [
        ({"type": "integer", "minimum": 1.5, "maximum": 4.5}, 2, 4),
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9}, 1, 8),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, math.nextafter(0, 1), math.nextafter(1, 0)),
        ({"type": "integer", "multipleOf": 7, "minimum": 8, "maximum": 14}, 14, 14),
        ({"type": "integer"}, -(2**31), 2**31),
    ],
)
def test_the_least_and_the_most_number_are_tried(schema, least, most) -> None:
    found = samples_of(schema)
    assert (min(found), max(found)) == (least, most)


def test_exclusive_flags_of_draft_4_are_not_bounds() -> None:
    """`exclusiveMinimum: true` qualifies `minimum`."""
    draft = "http://json-schema.org/draft-04/schema#"
    assert min(samples_of({"$schema": draft, "type": "integer", "minimum": 3, "exclusiveMinimum": True})) > 3


def test_a_whole_number_is_tried_as_a_fraction() -> None:
    assert any(isinstance(value, float) for value in samples_of({"type": "integer"}))


@pytest.mark.parametrize(
    ("schema", "lengths"),
    [
        ({"minLength": 8, "maxLength": 12}, {8, 12}),
        ({}, {0, 1_000}),
        ({"minLength": 3, "maxLength": MOST_CHARACTERS + 1}, {3}),
    ],
)
def test_texts_of_the_least_and_the_most_length_are_tried(schema, lengths) -> None:
    found = {len(text) for text in samples_of({"type": "string", **schema})}
    assert lengths <= found
    assert max(found) <= MOST_CHARACTERS


@pytest.mark.parametrize("schema", [{"pattern": "^[^\\x00-\\x7f]$"}, {"minLength": MOST_CHARACTERS + 1}])
def test_a_text_that_cant_be_made_has_no_sample(schema) -> None:
    with pytest.raises(NoSampleError):
        samples_of({"type": "string", **schema})


def test_a_schema_that_no_finite_value_fits_has_none_after_a_number_of_guesses() -> None:
    parts = {name: {"$ref": "#"} for name in "abcdefghij"}
    with pytest.raises(NoSampleError):
        samples_of({"type": "object", "properties": parts, "required": [*parts]})


def test_an_array_has_the_items_that_it_must_contain() -> None:
    assert (
        samples_of({"type": "array", "items": {}, "contains": {"const": "zz"}, "minContains": 2})[0][:2] == ["zz"] * 2
    )


def test_arrays_of_long_arrays_have_no_sample_that_is_huge() -> None:
    part = {"type": "integer"}
    for _ in range(3):
        part = {"type": "array", "items": part, "minItems": 1_000}
    with pytest.raises(NoSampleError):
        samples_of(part)


# Texts that fit patterns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "^[a-z]+$",
            "^[A-Z]{3}$",
            "^[A-Z]{3}-\\d{4}$",
            "^(?:left|right|a)$",
            "sam",
            "^\\d+$",
            "^\\d{4}-\\d{2}-\\d{2}$",
        ),
        *("^#[0-9a-f]{6}$", "^[a-z][a-z0-9_]*$", "^[\\w.-]+@[\\w.-]+$", "^https?://", "^v?\\d+\\.\\d+\\.\\d+$", "^/"),
        *("^[0-9a-f]{64}$", "^\\d{1,3}%$", "^[a-z]{2}(-[A-Z]{2})?$", "^\\S+$", "^.{2,}$", "^\\d{2}:\\d{2}$", "^$"),
        *("^x", "y$", "^[xy]", "^x-\\d*$"),
    ],
)
def test_a_common_text_fits_an_ordinary_pattern(pattern) -> None:
    (found, *_) = samples_of({"type": "string", "pattern": pattern})
    assert re.search(pattern, found)
