"""Rows of steps, and sets of keywords, that the dialects of several providers share."""

from __future__ import annotations

from typing import Final

from pegboard.dialects.combinators import isolate_any_of, merge_all_of, root_object
from pegboard.dialects.dialect import Step
from pegboard.dialects.keywords import modern_draft, well_formed
from pegboard.dialects.objects import pattern_properties, required_properties
from pegboard.dialects.values import const_to_enum, unevaluated

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

__all__ = ["BOUNDS", "FORMATS", "READ", "SHAPE", "SIMPLE", "UNIONS"]
