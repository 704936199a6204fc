"""Values that a schema forbids: each of them for sure, and one for every rule."""

from __future__ import annotations

from hypothesis import given, settings

from pegboard.schema.json import json_text
from pegboard.schema.references import References, compiled
from pegboard.schema.types import schema_of
from pegboard.testing.breach import Breaches
from pegboard.testing.sample import NoSampleError, Samples
from schema_strategies import SCHEMAS
from strategies import type_cases


def breaches_of(schema) -> list:
    samples = Samples(References(schema), compiled(json_text(schema)).is_valid)
    return list(Breaches(samples).of(schema, samples.one(schema)))


def rules(schema) -> set:
    return {(breach.rule, *breach.path) for breach in breaches_of(schema)}


def check_refused(schema) -> None:
    judge = compiled(json_text(schema))
    try:
        found = breaches_of(schema)
    except NoSampleError:
        return
    for breach in found:
        assert not judge.is_valid(breach.value), breach


@given(SCHEMAS)
@settings(max_examples=80, deadline=None)
def test_no_breach_fits(schema) -> None:
    """Whatever stands beside the rule that was broken."""
    check_refused(schema)


@given(type_cases())
@settings(max_examples=40, deadline=None)
def test_no_breach_fits_a_derived_schema(case) -> None:
    check_refused(schema_of(case.annotation))


def test_an_option_that_happens_to_be_ours_isnt_forbidden() -> None:
    check_refused({"enum": ["no such option"]})


def test_every_bound_is_broken_a_little() -> None:
    found = breaches_of({"type": "integer", "minimum": 2, "maximum": 8, "multipleOf": 2})
    assert {1, 9} <= {breach.value for breach in found if breach.rule in ("minimum", "maximum")}
    assert ("multipleOf",) in {(breach.rule, *breach.path) for breach in found}


def test_bounds_past_which_a_step_of_one_is_too_small_are_broken_too() -> None:
    check_refused({"type": "number", "minimum": -1e300, "maximum": 1e300})
    assert {("minimum",), ("maximum",)} <= rules({"type": "number", "minimum": -1e300, "maximum": 1e300})


def test_exclusive_bounds_are_broken_by_themselves() -> None:
    found = breaches_of({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.5})
    assert {0, 1} <= {breach.value for breach in found if breach.rule.startswith("exclusive")}


def test_lengths_are_broken_by_one() -> None:
    found = breaches_of({"type": "string", "minLength": 3, "maxLength": 5})
    assert {"aa", "aaaaaa"} <= {breach.value for breach in found if breach.rule.endswith("Length")}


def test_rules_of_objects_are_broken_each_at_its_place() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"b": {"const": 1}}, "required": ["b"]}},
        "required": ["a"],
        "additionalProperties": False,
        "minProperties": 1,
    }
    wanted = {("required", "a"), ("required", "a", "b"), ("const", "a", "b"), ("additionalProperties", "no_such_key")}
    assert wanted | {("minProperties",)} <= rules(schema)


def test_an_unknown_key_may_fit_a_pattern_and_is_left_alone() -> None:
    schema = {"type": "object", "patternProperties": {"^no": {}}, "additionalProperties": False}
    assert "additionalProperties" not in {rule for rule, *_ in rules(schema)}


def test_rules_of_arrays_are_broken_each_at_its_place() -> None:
    schema = {
        "type": "array",
        "prefixItems": [{"type": "integer"}],
        "items": {"type": "string"},
        "minItems": 2,
        "maxItems": 3,
        "uniqueItems": True,
    }
    assert {("minItems",), ("maxItems",), ("uniqueItems",), ("type", 0), ("type", 1)} <= rules(schema)


def test_an_alternative_is_broken_where_no_other_takes_values_of_its_kind() -> None:
    schema = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}, {"type": "string", "maxLength": 2}]}
    found = rules(schema)
    assert ("minimum",) in found
    assert ("maxLength",) not in found


def test_a_breach_says_where_and_how() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}
    (breach,) = (each for each in breaches_of(schema) if each.rule == "minimum")
    assert str(breach) == "a: number 0, and the schema's 'minimum' forbids it"


def test_a_recursive_schema_ends() -> None:
    node = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/n"}}}
    assert ("type", "v") in rules({"$ref": "#/$defs/n", "$defs": {"n": node}})


def test_a_reference_of_an_older_draft_hides_what_stands_beside_it() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/a",
        "minLength": 9,
        "definitions": {"a": {"type": "string"}},
    }
    assert {rule for rule, *_ in rules(schema)} == {"type"}


def test_what_takes_everything_has_no_breach() -> None:
    assert rules({"type": "object", "properties": {"a": True}, "required": ["a"]}) & {("type", "a")} == set()
    assert ("required", "a") in rules({"type": "object", "properties": {"a": True}, "required": ["a"]})
