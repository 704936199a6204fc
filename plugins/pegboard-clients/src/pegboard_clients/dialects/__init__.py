"""Schema dialects, for authors of exporters: JSON Schemas rewritten to what a provider accepts.

A `Dialect` is a sequence of steps; each step is a function here, usable in other dialects.
"""

from __future__ import annotations

from typing import Final

from pegboard.schema import NOTES as NOTES
from pegboard_clients.dialects.combinators import (
    isolate_any_of as isolate_any_of,
    merge_all_of as merge_all_of,
    one_of_to_any_of as one_of_to_any_of,
    root_object as root_object,
)
from pegboard_clients.dialects.dialect import (
    PLAIN as PLAIN,
    Change as Change,
    Dialect as Dialect,
    Place as Place,
    Rewritten as Rewritten,
    Step as Step,
    deep_copy as deep_copy,
    everywhere as everywhere,
    step_for as step_for,
    step_if as step_if,
)
from pegboard_clients.dialects.keywords import (
    Counts as Counts,
    Within as Within,
    counts_of as counts_of,
    formats as formats,
    least_items as least_items,
    modern_draft as modern_draft,
    only_keywords as only_keywords,
    patterns as patterns,
    well_formed as well_formed,
    whole_bounds as whole_bounds,
)
from pegboard_clients.dialects.references import (
    inline_references as inline_references,
    isolate_references as isolate_references,
    named_definitions as named_definitions,
)
from pegboard_clients.dialects.values import (
    any_value as any_value,
    arrays_need_items as arrays_need_items,
    boolean_schemas as boolean_schemas,
    close_objects as close_objects,
    const_to_enum as const_to_enum,
    nullable as nullable,
    open_objects as open_objects,
    pattern_properties as pattern_properties,
    plain_enums as plain_enums,
    property_names as property_names,
    require_all as require_all,
    required_properties as required_properties,
    simple_enums as simple_enums,
    string_enums as string_enums,
    tuple_items as tuple_items,
    type_lists as type_lists,
    typed_enums as typed_enums,
    typed_values as typed_values,
    unevaluated as unevaluated,
)

SHAPE: Final = ("type", "properties", "required", "items", "enum", "anyOf", "description", "title")
"""The keywords that every provider reads."""

BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
UNIONS: Final = ("anyOf", "oneOf", "allOf")
FORMATS: Final = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
READ: Final[tuple[Step, ...]] = (modern_draft, well_formed)
"""The first steps of a dialect: draft 2020-12, without invalid parts."""

SIMPLE: Final[tuple[Step, ...]] = (
    merge_all_of,
    unevaluated,
    pattern_properties,
    const_to_enum,
    root_object(*UNIONS, "enum", "not"),
    isolate_any_of,
    required_properties,
)
"""One schema per value, for providers that read few keywords: no `allOf`, patterns, `const`; a plain root."""

SHAPED: Final[tuple[Step, ...]] = (
    *READ,
    boolean_schemas,
    inline_references("loosen"),
    one_of_to_any_of,
    *SIMPLE,
    tuple_items(),
    typed_enums,
    only_keywords(SHAPE),
    isolate_any_of,
)
"""Only the keywords that every provider reads, for servers of many models; the rest goes into descriptions."""

CLOSED: Final[tuple[Step, ...]] = (
    *READ,
    boolean_schemas,
    inline_references("refuse"),
    one_of_to_any_of,
    *SIMPLE,
    tuple_items(closed=True),
    typed_enums,
    simple_enums,
    typed_values,
    only_keywords({*SHAPE, "additionalProperties", "pattern", "format", "minItems", "default"}),
    least_items(1),
    formats((*FORMATS, "uri")),
    patterns(word_bounds=False),
    isolate_any_of,
    arrays_need_items,
    typed_values,
    open_objects,
    close_objects,
)
"""Closed objects without bounds or recursion, for providers that enforce schemas; optional properties stay optional."""
