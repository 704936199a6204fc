"""Schema dialects, for authors of exporters: JSON Schemas rewritten for what a provider takes.

A `Dialect` is a row of steps; each step is a function here, usable in a dialect of one's own.
"""

from __future__ import annotations

from typing import Final

from pegboard.dialects.combinators import isolate_any_of, merge_all_of, one_of_to_any_of, root_object
from pegboard.dialects.dialect import PLAIN, Change, Dialect, Place, Rewritten, Step, deep_copy, everywhere
from pegboard.dialects.keywords import (
    Counts,
    Within,
    counts_of,
    formats,
    least_items,
    modern_draft,
    only_keywords,
    patterns,
    well_formed,
    whole_bounds,
)
from pegboard.dialects.references import inline_references, isolate_references, named_definitions
from pegboard.dialects.values import (
    any_value,
    arrays_need_items,
    boolean_schemas,
    close_objects,
    const_to_enum,
    nullable,
    open_objects,
    pattern_properties,
    plain_enums,
    property_names,
    require_all,
    required_properties,
    simple_enums,
    string_enums,
    tuple_items,
    type_lists,
    typed_enums,
    typed_values,
    unevaluated,
    without_added_nulls,
)
from pegboard.schema.references import NOTES

__all__ = [
    "BOUNDS",
    "FORMATS",
    "NOTES",
    "PLAIN",
    "READ",
    "SHAPE",
    "SIMPLE",
    "UNIONS",
    "Change",
    "Counts",
    "Dialect",
    "Place",
    "Rewritten",
    "Step",
    "Within",
    "any_value",
    "arrays_need_items",
    "boolean_schemas",
    "close_objects",
    "const_to_enum",
    "counts_of",
    "deep_copy",
    "everywhere",
    "formats",
    "inline_references",
    "isolate_any_of",
    "isolate_references",
    "least_items",
    "merge_all_of",
    "modern_draft",
    "named_definitions",
    "nullable",
    "one_of_to_any_of",
    "only_keywords",
    "open_objects",
    "pattern_properties",
    "patterns",
    "plain_enums",
    "property_names",
    "require_all",
    "required_properties",
    "root_object",
    "simple_enums",
    "string_enums",
    "tuple_items",
    "type_lists",
    "typed_enums",
    "typed_values",
    "unevaluated",
    "well_formed",
    "whole_bounds",
    "without_added_nulls",
]

SHAPE: Final = ("type", "properties", "required", "items", "enum", "anyOf", "description", "title")
"""The keywords that every provider reads."""

BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
UNIONS: Final = ("anyOf", "oneOf", "allOf")
FORMATS: Final = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
READ: Final[tuple[Step, ...]] = (modern_draft, well_formed)
"""What a dialect begins with: draft 2020-12, without what is not valid by it."""

SIMPLE: Final[tuple[Step, ...]] = (
    merge_all_of,
    unevaluated,
    pattern_properties,
    const_to_enum,
    root_object(*UNIONS, "enum", "not"),
    isolate_any_of,
    required_properties,
)
"""One schema a value, for providers that read few keywords: no `allOf`, patterns, `const`; a plain root."""
