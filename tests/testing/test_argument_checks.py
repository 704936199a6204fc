"""What a tool's check says to arguments that fit its schema, and to those that don't."""

from __future__ import annotations

from typing import Annotated

import attrs
import pytest
from annotated_types import Ge
from hypothesis import given

from pegboard import Grammar, Tool, ToolSpec, tool
from pegboard.schema.json import json_text
from pegboard.schema.references import References, compiled
from pegboard.schema.types import schema_of
from pegboard.testing.argument_checks import Findings, InvalidValues, check_arguments
from pegboard.testing.samples import NoSampleError, Samples
from pegboard.tools.typed import tool_of
from schema_strategies import SCHEMAS
from strategies import type_cases


def checked(thing: object) -> Findings:
    findings = Findings("demo")
    subject = thing if isinstance(thing, Tool) else tool_of(thing)
    check_arguments(subject, findings)
    return findings


def raw(properties: dict, **more) -> Tool:
    schema = {"type": "object", "properties": properties, **more}
    return Tool.from_schema("raw", schema, lambda arguments: None, description="Does.")


def test_a_tool_whose_schema_says_what_it_takes_passes() -> None:
    @tool
    def add(a: int, b: Annotated[int, Ge(0)] = 0) -> int:
        """Adds."""
        raise AssertionError("never run")

    findings = checked(add)
    assert findings.errors == findings.warnings == findings.notes == []
    assert findings.tried > 15


def test_a_rule_that_the_named_draft_doesnt_know_is_found() -> None:
    """Draft 4 has no "const": it stands there, and nobody reads it."""
    tool = raw({"unit": {"const": "C"}}, **{"$schema": "http://json-schema.org/draft-04/schema#"})
    (finding,) = checked(tool).errors
    assert 'takes what its input schema forbids: unit: string "no such option"' in finding
    assert "write the schema as JSON Schema 2020-12" in finding


def test_an_example_that_the_check_refuses_is_found() -> None:
    @tool(examples=[{"n": 1}, {"n": 2}], check=lambda arguments: ["n: must be odd"] if arguments["n"] % 2 == 0 else [])
    def odd(n: int) -> int:
        """Takes odd numbers."""
        return n

    (finding,) = checked(odd).errors
    assert "its own example 2 is refused (n: must be odd)" in finding


def test_a_check_that_refuses_some_of_what_fits_is_a_warning() -> None:
    @tool(check=lambda arguments: ["n: too small"] if arguments["n"] < 0 else [])
    def root(n: int) -> int:
        """Takes a root."""
        return n

    findings = checked(root)
    assert findings.errors == []
    (warning,) = findings.warnings
    assert "n: too small" in warning
    assert "say it in the schema" in warning


def test_a_check_that_refuses_all_that_fits_is_found() -> None:
    @tool(check=lambda arguments: ["n: must be a prime above 100"])
    def prime(n: int) -> int:
        """Takes a prime."""
        return n

    (finding,) = checked(prime).errors
    assert "declare an example" in finding


def test_a_type_that_refuses_what_the_schema_takes_is_a_warning() -> None:
    """A validator that JSON Schema can't say."""

    def even(_instance, _attribute, value) -> None:
        if value % 2:
            raise ValueError("must be even")

    @attrs.define
    class Pair:
        n: int = attrs.field(validator=even)

    @tool
    def halve(pair: Pair, other: int = 0) -> int:
        """Halves."""
        return pair.n // 2

    findings = checked(halve)
    assert findings.errors == []
    assert "must be even" in findings.warnings[0]


def test_a_check_that_crashes_is_found_once() -> None:
    @tool(check=lambda arguments: arguments["nosuch"])
    def crash(n: int) -> int:
        """Crashes."""
        return n

    findings = checked(crash)
    assert all("raised KeyError" in finding for finding in findings.errors)


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda problems: problems[99], "its format_validation_error raised IndexError"),
        (lambda problems: None, "its format_validation_error gave None"),
    ],
)
def test_a_wording_of_refusals_that_fails_is_found(write, told) -> None:
    @tool(format_validation_error=write)
    def add(a: int) -> int:
        """Adds."""
        return a

    (finding,) = checked(add).errors
    assert told in finding


def test_a_wording_of_refusals_that_works_is_fine() -> None:
    @tool(format_validation_error=" and ".join)
    def add(a: int) -> int:
        """Adds."""
        return a

    assert checked(add).errors == []


def test_a_schema_that_nothing_fits_is_noted() -> None:
    (note,) = checked(raw({"a": False}, required=["a"])).notes
    assert "no arguments were found that its input schema takes" in note


def test_rules_are_broken_round_an_example_where_no_sample_is_found() -> None:
    pattern = "^(?:a{2}|b)[^\\x00-\\x7f]$"
    spec = ToolSpec(
        "odd",
        "Takes odd text.",
        input_schema={"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]},
        examples=[{"a": "b\u00e9"}],
    )
    findings = checked(Tool(spec))
    assert findings.errors == []
    assert findings.tried > 5


def test_a_property_without_a_sample_is_noted() -> None:
    (note,) = checked(raw({"a": {"type": "string", "pattern": "^[^\\x00-\\x7f]$"}})).notes
    assert "no value was found for 'a'" in note


def test_freeform_and_provider_tools_are_tried_by_their_schemas() -> None:
    free = Tool.freeform("free", lambda text: text, grammar=Grammar("regex", "a+"), description="Takes text.")
    assert checked(free).errors == []
    assert checked(Tool.provider("search", "demo.search")).errors == []


def test_arguments_are_shown_cut_short() -> None:
    @tool(check=lambda arguments: ["text: too long"] if len(arguments["text"]) > 500 else [])
    def echo(text: str) -> str:
        """Echoes."""
        return text

    (warning,) = checked(echo).warnings
    assert "aaa..." in warning
    assert len(warning) < 600


# Values that a schema forbids: each of them for sure, and one for every rule -----------------------------------------


def breaches_of(schema) -> list:
    samples = Samples(References(schema), compiled(json_text(schema)).is_valid)
    return list(InvalidValues(samples).of(schema, samples.one(schema)))


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
def test_no_breach_fits(schema) -> None:
    """Whatever stands beside the rule that was broken."""
    check_refused(schema)


@given(type_cases())
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


def test_what_takes_everything_has_no_invalid() -> None:
    assert rules({"type": "object", "properties": {"a": True}, "required": ["a"]}) & {("type", "a")} == set()
    assert ("required", "a") in rules({"type": "object", "properties": {"a": True}, "required": ["a"]})
