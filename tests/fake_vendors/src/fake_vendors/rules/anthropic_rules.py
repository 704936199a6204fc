"""What Anthropic's API says no to, of tool lists that its SDK lets pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from fake_vendors.rules.schema_places import (
    Faults,
    cycles,
    example_faults,
    keyword_faults,
    name_faults,
    places,
    property_faults,
    tool_schema_faults,
    types_of,
)

NAME: Final = r"[A-Za-z0-9_-]{1,64}"
PROPERTY: Final = r"[A-Za-z0-9_.-]{1,64}"
MOST_STRICT: Final = 20
MOST_OPTIONAL: Final = 24
MOST_UNIONS: Final = 16

_NOT_AT_THE_ROOT: Final = frozenset({"oneOf", "anyOf", "allOf", "$ref"})
_NOT_STRICT: Final = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("maxItems", "uniqueItems", "contains", "minContains", "maxContains", "prefixItems", "unevaluatedItems"),
        *("minProperties", "maxProperties", "patternProperties", "propertyNames", "unevaluatedProperties"),
        *("oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
    }
)
_STRICT_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)


def messages(tools: Sequence[dict[str, Any]]) -> Faults:
    """Of a message request's `tools`; hosted ones are left to the SDK's types."""
    own = [tool for tool in tools if tool.get("type") in (None, "custom")]
    names = [tool.get("name", "") for tool in tools if "name" in tool]
    found = name_faults(names, NAME)
    for tool in own:
        found += [f"{tool['name']}{fault}" for fault in _tool_faults(tool)]
    found += _deferred_faults(tools)
    return found + count_faults([tool["input_schema"] for tool in own if tool.get("strict")])


def _tool_faults(tool: dict[str, Any]) -> Faults:
    schema = tool["input_schema"]
    if found := tool_schema_faults(schema, _NOT_AT_THE_ROOT):
        return found
    found += property_faults(schema, PROPERTY)
    for number, example in enumerate(tool.get("input_examples", ())):
        found += [f": example {number} isn't valid: {fault}" for fault in example_faults(schema, example)]
    return found + (strict_faults(schema) if tool.get("strict") else [])


def _deferred_faults(tools: Sequence[dict[str, Any]]) -> Faults:
    deferred = [tool["name"] for tool in tools if tool.get("defer_loading")]
    if not deferred:
        return []
    found: Faults = []
    if not any(str(tool.get("type", "")).startswith("tool_search_tool_") for tool in tools):
        found.append(f"{', '.join(deferred)}: deferred, and no search tool to find it with")
    if len(deferred) == len(tools):
        found.append("all tools are deferred")
    return found


def strict_faults(schema: dict[str, Any]) -> Faults:
    """Of a schema that a model shall be held to."""
    found = keyword_faults(schema, _NOT_STRICT, "isn't for strict schemas")
    found += cycles(schema)
    for place in places(schema):
        words = place.words
        if place.is_object and words.get("additionalProperties") is not False:
            found.append(f"{place.path}: must be closed")
        for name in words.get("required", ()) if place.is_object else ():
            if name not in words.get("properties", {}):
                found.append(f"{place.path}: {name!r} is required and can't be given")
        if words.get("minItems", 0) > 1:
            found.append(f"{place.path}: minItems may be 0 or 1")
        if re.search(r"\(\?(=|!|<=|<!)|\\[1-9b]", str(words.get("pattern", ""))):
            found.append(f"{place.path}: a pattern must not look around or back")
        if any(isinstance(each, dict | list) for each in (*words.get("enum", ()), words.get("const"))):
            found.append(f"{place.path}: values must be scalars")
        if "format" in words and words["format"] not in _STRICT_FORMATS:
            found.append(f"{place.path}: there is no format {words['format']!r}")
        if any("$ref" in each for each in words.get("allOf", ()) if isinstance(each, dict)):
            found.append(f"{place.path}: no reference in an allOf")
    return found


def count_faults(strict: Sequence[dict[str, Any]]) -> Faults:
    """Of all strict schemas of one request together."""
    every = [place for schema in strict for place in places(schema)]
    optional = sum(len(set(each.words.get("properties", ())) - set(each.words.get("required", ()))) for each in every)
    unions = sum("anyOf" in each.words or len(types_of(each.schema)) > 1 for each in every)
    counted = (
        (len(strict), MOST_STRICT, "strict tools"),
        (optional, MOST_OPTIONAL, "optional parameters in strict tools"),
        (unions, MOST_UNIONS, "unions in strict tools"),
    )
    return [f"{count} {what}, of at most {most}" for count, most, what in counted if count > most]
