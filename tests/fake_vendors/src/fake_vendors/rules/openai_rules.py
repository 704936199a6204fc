"""What OpenAI's API says no to, of tool lists that its SDK lets pass: `chat`, `responses`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fake_vendors.rules.schema_places import Faults, Place, keyword_faults, name_faults, places, tool_schema_faults

MOST_TOOLS: Final = 128
MOST_DESCRIPTION: Final = 1_024
NAME: Final = r"[A-Za-z0-9_-]{1,64}"

_NOT_AT_THE_ROOT: Final = frozenset({"oneOf", "anyOf", "allOf", "enum", "not", "$ref"})
_NOT_STRICT: Final = frozenset(
    {
        *("allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
        *("patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"),
        *("unevaluatedItems", "uniqueItems", "contains", "minContains", "maxContains", "prefixItems"),
    }
)
_STRICT_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_MOST_LEVELS: Final = 10
_MOST_VALUES: Final = 1_000
_MOST_CHARACTERS: Final = 120_000


def chat(tools: Sequence[dict[str, Any]]) -> Faults:
    """Of a chat completion's `tools`."""
    functions = [(tool.get("function") or tool.get("custom") or {}, tool["type"]) for tool in tools]
    found = _list_faults([function for function, _ in functions])
    for function, kind in functions:
        name = function.get("name")
        if len(function.get("description", "")) > MOST_DESCRIPTION:
            found.append(f"{name}: its description has more than {MOST_DESCRIPTION} characters")
        if kind == "function":
            found += _function_faults(function)
    return found


def responses(tools: Sequence[dict[str, Any]]) -> Faults:
    """Of a response's `tools`, those in namespaces too."""
    flat = [each for tool in tools for each in (tool, *(tool.get("tools", ()) if tool["type"] == "namespace" else ()))]
    named = [tool for tool in flat if tool["type"] in ("function", "custom")]
    found = _list_faults(named)
    found += [f"{tool.get('name')}: a namespace needs a description" for tool in flat if _is_mute(tool)]
    for tool in named:
        found += _function_faults(tool) if tool["type"] == "function" else []
    deferred = [tool.get("name", tool["type"]) for tool in flat if tool.get("defer_loading")]
    if deferred and not any(tool["type"] == "tool_search" for tool in tools):
        found.append(f"{', '.join(deferred)}: deferred, and no tool_search to find it with")
    return found


def _is_mute(tool: dict[str, Any]) -> bool:
    return tool["type"] == "namespace" and not tool.get("description")


def _list_faults(named: Sequence[dict[str, Any]]) -> Faults:
    found = name_faults([each.get("name", "") for each in named], NAME)
    if len(named) > MOST_TOOLS:
        found.append(f"{len(named)} tools, of at most {MOST_TOOLS}")
    return found


def _function_faults(function: dict[str, Any]) -> Faults:
    schema = function.get("parameters")
    if schema is None:
        return [f"{function['name']}: strict without parameters"] if function.get("strict") else []
    found = tool_schema_faults(schema, _NOT_AT_THE_ROOT)
    if not found:
        found = _plain_faults(schema)
        found += strict_faults(schema) if function.get("strict") else []
    return [f"{function['name']}{fault}" for fault in found]


def _plain_faults(schema: dict[str, Any]) -> Faults:
    found = [": its root has no properties"] if "properties" not in schema else []
    found += [f"{place.path}: an array needs items" for place in places(schema) if _lacks_items(place)]
    return found


def _lacks_items(place: Place) -> bool:
    return place.is_array and "items" not in place.words


def strict_faults(schema: dict[str, Any]) -> Faults:
    """Of a schema that a model shall be held to."""
    found = keyword_faults(schema, _NOT_STRICT, "isn't for strict schemas")
    every = list(places(schema))
    for place in every:
        found += [f"{place.path}: {fault}" for fault in _strict_place(place)]
    if (level := max(place.level for place in every)) > _MOST_LEVELS:
        found.append(f": {level} levels, of at most {_MOST_LEVELS}")
    if (values := sum(len(place.words.get("enum", ())) for place in every)) > _MOST_VALUES:
        found.append(f": {values} values in enums, of at most {_MOST_VALUES}")
    if (characters := sum(map(_characters, every))) > _MOST_CHARACTERS:
        found.append(f": {characters} characters in names and values, of at most {_MOST_CHARACTERS}")
    return found


def _strict_place(place: Place) -> Faults:
    words = place.words
    if isinstance(place.schema, bool):
        return [] if place.path.endswith("/additionalProperties") else ["a boolean is no strict schema"]
    found: Faults = []
    if not words.keys() & {"type", "anyOf", "$ref", "enum", "const"}:
        found.append("must say a type")
    if place.is_object:
        if words.get("additionalProperties") is not False:
            found.append("must be closed")
        if set(words.get("required", ())) != set(words.get("properties", {})):
            found.append("must require just its properties")
    if place.is_array and not isinstance(words.get("items"), dict):
        found.append("must say a schema of its items")
    if "$ref" in words and len(words) > 1 and place.path:
        found.append("a $ref stands alone")
    if "format" in words and words["format"] not in _STRICT_FORMATS:
        found.append(f"there is no format {words['format']!r}")
    return found


def _characters(place: Place) -> int:
    words = place.words
    names = [*words.get("properties", ()), *words.get("$defs", ()), *words.get("definitions", ())]
    values = [each for each in (*words.get("enum", ()), words.get("const")) if isinstance(each, str)]
    return sum(map(len, (*names, *values)))
