"""The ready dialects.

What each provider takes is known from its SDK's types and its pages and error reports. A host that knows better
makes its own: `attrs.evolve(OPENAI_STRICT, steps=limited(OPENAI_STRICT.steps, Counts(levels=5)))`.
"""

from __future__ import annotations

from typing import Final

from pegboard.request.dialects.any_of_alone import any_of_alone
from pegboard.request.dialects.any_value import any_value
from pegboard.request.dialects.arrays_need_items import arrays_need_items
from pegboard.request.dialects.boolean_schemas import boolean_schemas
from pegboard.request.dialects.bounds_into_description import least_items, whole_bounds
from pegboard.request.dialects.close_objects import close_objects
from pegboard.request.dialects.const_to_enum import const_to_enum
from pegboard.request.dialects.dialect import Dialect
from pegboard.request.dialects.drop_keywords import only_keywords
from pegboard.request.dialects.formats import formats
from pegboard.request.dialects.free_form_maps import free_form_maps
from pegboard.request.dialects.inline_references import inline_references
from pegboard.request.dialects.limits import LIMITS, Within
from pegboard.request.dialects.merge_all_of import merge_all_of
from pegboard.request.dialects.modern_draft import modern_draft
from pegboard.request.dialects.named_definitions import named_definitions
from pegboard.request.dialects.nullable import nullable
from pegboard.request.dialects.one_of_to_any_of import one_of_to_any_of
from pegboard.request.dialects.pattern_properties import pattern_properties
from pegboard.request.dialects.patterns import patterns
from pegboard.request.dialects.property_names import ANTHROPIC_NAME, GEMINI_NAME, property_names
from pegboard.request.dialects.references_alone import references_alone
from pegboard.request.dialects.require_all import require_all
from pegboard.request.dialects.required_properties import required_properties
from pegboard.request.dialects.root_object import root_object
from pegboard.request.dialects.step import Step
from pegboard.request.dialects.string_enums import plain_enums, string_enums
from pegboard.request.dialects.tuple_items import tuple_items
from pegboard.request.dialects.type_lists import type_lists
from pegboard.request.dialects.typed_values import simple_enums, typed_enums, typed_values
from pegboard.request.dialects.unevaluated import unevaluated
from pegboard.request.dialects.upper_case_types import upper_case_types
from pegboard.request.dialects.well_formed import well_formed

_SHAPE: Final = ("type", "properties", "required", "items", "enum", "anyOf", "description", "title")
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_UNIONS: Final = ("anyOf", "oneOf", "allOf")
_FORMATS: Final = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")

_READ: Final[tuple[Step, ...]] = (modern_draft, well_formed)
_SIMPLE: Final[tuple[Step, ...]] = (
    merge_all_of,
    unevaluated,
    pattern_properties,
    const_to_enum,
    root_object(*_UNIONS, "enum", "not"),
    any_of_alone,
    required_properties,
)


PLAIN: Final = Dialect("plain")
"""Nothing is rewritten."""

OPENAI: Final = Dialect(
    "openai", (*_READ, root_object(*_UNIONS, "enum", "const", "not"), arrays_need_items, named_definitions)
)
"""OpenAI's functions, not strict: any schema with a plain root, whose arrays name their items."""

OPENAI_STRICT: Final = Dialect(
    "openai-strict",
    (
        *_READ,
        boolean_schemas,
        named_definitions,
        one_of_to_any_of,
        *_SIMPLE,
        tuple_items(closed=True),
        typed_enums,
        simple_enums,
        typed_values,
        only_keywords(
            {*_SHAPE, *_BOUNDS, "$ref", "$defs", "additionalProperties", "pattern", "format", "minItems", "maxItems"}
        ),
        formats(_FORMATS),
        patterns(),
        any_of_alone,
        arrays_need_items,
        typed_values,
        references_alone,
        free_form_maps,
        close_objects,
        require_all,
        named_definitions,
        Within(LIMITS["openai-strict"]),
    ),
)
"""OpenAI's strict functions: closed objects that require everything; recursion stays."""

ANTHROPIC: Final = Dialect(
    "anthropic", (*_READ, root_object(*_UNIONS), named_definitions, property_names(ANTHROPIC_NAME))
)
"""Anthropic's tools, not strict: draft 2020-12 with a plain root."""

_ANTHROPIC_STRICT: Final[tuple[Step, ...]] = (
    *_READ,
    boolean_schemas,
    inline_references("refuse"),
    one_of_to_any_of,
    *_SIMPLE,
    tuple_items(closed=True),
    typed_enums,
    simple_enums,
    typed_values,
    only_keywords({*_SHAPE, "additionalProperties", "pattern", "format", "minItems", "default"}),
    least_items(1),
    formats((*_FORMATS, "uri")),
    patterns(word_bounds=False),
    any_of_alone,
    arrays_need_items,
    typed_values,
    free_form_maps,
    close_objects,
    property_names(ANTHROPIC_NAME),
)

ANTHROPIC_STRICT: Final = Dialect("anthropic-strict", (*_ANTHROPIC_STRICT, Within(LIMITS["anthropic-strict"])))
"""Anthropic's strict tools: closed objects without bounds or recursion; what is optional stays so."""

_GEMINI_READS: Final = {
    *_SHAPE,
    *("$ref", "$defs", "format", "prefixItems", "minItems", "maxItems", "minimum", "maximum"),
    *("additionalProperties", "propertyOrdering"),
}

GEMINI_JSON_SCHEMA: Final = Dialect(
    "gemini",
    (
        *_READ,
        boolean_schemas,
        inline_references("keep_optional"),
        one_of_to_any_of,
        *_SIMPLE,
        whole_bounds,
        typed_enums,
        plain_enums,
        only_keywords(_GEMINI_READS),
        any_of_alone,
        arrays_need_items,
        references_alone,
        property_names(GEMINI_NAME),
        named_definitions,
    ),
)
"""Gemini's `parametersJsonSchema` (`google.genai.types.JSONSchema`): recursion only below optional properties."""

GEMINI_SCHEMA: Final = Dialect(
    "gemini-schema",
    (
        *_READ,
        boolean_schemas,
        inline_references("loosen"),
        one_of_to_any_of,
        *_SIMPLE,
        tuple_items(),
        whole_bounds,
        typed_enums,
        arrays_need_items,
        any_value,
        only_keywords(
            {
                *_SHAPE,
                *(
                    "default",
                    "format",
                    "pattern",
                    "minLength",
                    "maxLength",
                    "minItems",
                    "maxItems",
                    "minimum",
                    "maximum",
                ),
                *("minProperties", "maxProperties", "propertyOrdering"),
            }
        ),
        type_lists,
        any_of_alone,
        nullable,
        string_enums,
        formats(("date-time", "int32", "int64", "float", "double")),
        property_names(GEMINI_NAME),
        upper_case_types,
    ),
)
"""Gemini's older `parameters` (`google.genai.types.Schema`); no JSON Schema: types in capitals, `nullable`."""

BEDROCK: Final = Dialect("bedrock", (*_READ, inline_references("keep"), root_object(*_UNIONS), named_definitions))
"""Bedrock Converse, whatever the model: references written out, a plain root.

Which names of properties are taken depends on the model; `property_names` is the step for that.
"""

BEDROCK_STRICT: Final = Dialect("bedrock-strict", (*_ANTHROPIC_STRICT, Within(LIMITS["bedrock-strict"])))
"""Bedrock's strict tools, which Anthropic judges."""

OLLAMA: Final = Dialect(
    "ollama",
    (
        *_READ,
        boolean_schemas,
        inline_references("loosen"),
        one_of_to_any_of,
        *_SIMPLE,
        tuple_items(),
        typed_enums,
        only_keywords(_SHAPE),
        any_of_alone,
    ),
)
"""Ollama, whose templates show a model little more than names, types and descriptions."""
