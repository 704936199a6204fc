"""JSON's kinds: which of them a schema allows, and which one a value is."""

from __future__ import annotations

from typing import Any, Final

from pegboard.schema.json import is_array
from pegboard.schema.references import References
from pegboard.typing import JsonSchema

KINDS: Final = ("string", "integer", "number", "boolean", "array", "object", "null")
_IMPLIED: Final = (
    ("object", ("properties", "required", "additionalProperties", "minProperties", "patternProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
    ("string", ("minLength", "maxLength", "pattern", "format", "contentEncoding")),
    ("integer", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
_NAMED: Final = (("string", str), ("number", float), ("array", (list, tuple)), ("object", dict))
_MOST_HOPS: Final = 16


def kinds_of(schema: JsonSchema) -> tuple[str, ...]:
    """The kinds to make values of: those that `type` names, or what the other keywords speak of."""
    named = schema.get("type")
    if named is not None:
        return tuple(named) if is_array(named) else (named,)
    return next(((kind,) for kind, keywords in _IMPLIED if any(each in schema for each in keywords)), ("string",))


def kind_of(value: Any) -> str:
    """The kind of a JSON value; `1.0` is an integer, as in JSON Schema."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    return next((name for name, kinds in _NAMED if isinstance(value, kinds)), "null")


def allowed_kinds(references: References, schema: JsonSchema | bool, hops: int = _MOST_HOPS) -> frozenset[str]:
    """The kinds of the values that a schema can take; all where it doesn't say.

    `integer` is within `number`, so that a schema that takes numbers takes both.
    """
    if isinstance(schema, bool):
        return frozenset(KINDS if schema else ())
    kinds = frozenset(KINDS)
    for target in references.targets(schema) if hops else ():
        if target is not None:
            kinds &= allowed_kinds(references, target, hops - 1)
    if references.legacy and "$ref" in schema:
        return kinds
    return kinds & _own_kinds(schema) & _chosen_kinds(references, schema, hops)


def _own_kinds(schema: JsonSchema) -> frozenset[str]:
    kinds = frozenset(KINDS)
    if "type" in schema:
        named = frozenset(kinds_of(schema))
        kinds &= named | {"integer"} if "number" in named else named
    if "const" in schema:
        kinds &= {kind_of(schema["const"])}
    return kinds & set(map(kind_of, schema["enum"])) if "enum" in schema else kinds


def _chosen_kinds(references: References, schema: JsonSchema, hops: int) -> frozenset[str]:
    kinds = frozenset(KINDS)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema and hops:
            each = (allowed_kinds(references, part, hops - 1) for part in schema[keyword])
            kinds &= frozenset[str]().union(*each)
    return kinds
