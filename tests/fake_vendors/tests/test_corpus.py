from __future__ import annotations

import pytest

from fake_vendors.rules.corpus import SPECS, UNJUDGED, arguments_of
from pegboard import Tool


def keywords_in(schema):
    """Every key that stands anywhere in a schema."""
    if isinstance(schema, dict):
        return set(schema).union(*map(keywords_in, schema.values()))
    return set().union(*map(keywords_in, schema)) if isinstance(schema, list) else set()


def test_every_kind_and_flag_is_there():
    assert {spec.kind for spec in SPECS} == {"function", "freeform", "provider"}
    assert {spec.strict for spec in SPECS} == {True, False, None}
    assert {spec.grammar and spec.grammar.syntax for spec in SPECS} == {None, "lark", "regex"}
    for flag in ("long_running", "deferred", "requires_confirmation"):
        assert {getattr(spec, flag) for spec in SPECS} == {True, False}
    for fact in ("examples", "output_schema", "provider_options", "provider_arguments", "title", "tags", "meta"):
        assert any(getattr(spec, fact) for spec in SPECS), fact
    assert not all(spec.description for spec in SPECS)
    assert not all(spec.description.isascii() for spec in SPECS)


def test_every_keyword_that_a_dialect_may_lack_is_there():
    found = keywords_in([spec.input_schema for spec in SPECS])

    assert found >= {
        "$ref", "$defs", "definitions", "$anchor", "$id", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
        "const", "enum", "prefixItems", "contains", "uniqueItems", "minItems", "maxItems", "patternProperties",
        "propertyNames",
        "additionalProperties", "unevaluatedProperties", "dependentRequired", "dependentSchemas", "minProperties",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
        "format", "contentEncoding", "default", "examples", "title", "description",
    }  # fmt: skip


@pytest.mark.slow
def test_each_spec_has_arguments_that_it_takes():
    for spec in SPECS:
        arguments = arguments_of(spec.name)
        assert bool(arguments) == (spec.name not in UNJUDGED), spec.name
        assert [problems for each in arguments if (problems := Tool(spec).validator.problems(each))] == [], spec.name
