"""Steps for `enum` and `const`, null, lists of types, tuples, and the properties of objects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from pegboard.json import is_array, is_object
from pegboard.schema import NAMED, NOTES, ONE, SOME, is_of
from pegboard.typing import JsonSchema
from pegboard_clients.dialects.combinators import same, with_notes
from pegboard_clients.dialects.dialect import (
    Place,
    Step,
    described,
    distinct,
    everywhere,
    exchanged,
    in_words,
    into_description,
    only,
    step_for,
    step_if,
    without,
)
from pegboard_clients.dialects.references import types_of

_WITHIN: Final = ("string", "number", "boolean", "object", "null")
_ALL: Final = ("string", "number", "boolean", "object", "array", "null")


@everywhere
def any_value(schema: JsonSchema, place: Place) -> JsonSchema:
    """Adds all types to a schema that names none; that loses lists nested in lists."""
    if not {"type", "anyOf", "$ref", "enum"}.isdisjoint(schema):
        return schema
    new = {**schema, "type": list(_ALL)}
    if "items" not in schema:
        place.lost("type", "any value is written as all types; nested lists are left out")
        new["items"] = {"type": list(_WITHIN)}
    return new


@everywhere
def arrays_need_items(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Adds `items` of any kind to arrays without; lossless. OpenAI and Gemini require it."""
    types: Any = schema.get("type")
    if "items" in schema or (types != "array" and not (isinstance(types, list) and "array" in types)):
        return schema
    return {**schema, "items": {}}


_MAY_STAY: Final = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_MAY_GO: Final = (ONE | SOME | NAMED).difference(_MAY_STAY)


def _have_booleans(parts: Sequence[JsonSchema]) -> bool:
    return any(_has_boolean(keyword, rule) for part in parts for keyword, rule in part.items() if keyword in _MAY_GO)


def _has_boolean(keyword: str, rule: Any) -> bool:
    if isinstance(rule, bool):
        return True
    inner: Any = rule.values() if is_object(rule) and keyword in NAMED else rule if is_array(rule) else ()
    return any(isinstance(part, bool) for part in inner)


@step_if(_have_booleans)
@everywhere
def boolean_schemas(schema: JsonSchema, place: Place) -> JsonSchema:
    """Writes `true` as `{}`, and `false` as no such property, no more items, no such alternative.

    Elsewhere, `false` becomes `{"not": {}}`. `additionalProperties` stays as it is.
    """
    if not _MAY_GO.isdisjoint(schema):
        new = {keyword: _without_booleans(keyword, rule) for keyword, rule in schema.items()}
        if any(new[keyword] is not schema[keyword] for keyword in schema):
            schema = new
    if schema.get("items") is False:
        schema = _of_most(without(schema, {"items"}))
    return _without_forbidden(schema, place)


def _without_booleans(keyword: str, rule: Any) -> Any:
    """The rule of one keyword without booleans, except for those that affect the object or array as a whole."""
    if keyword in _MAY_STAY or (keyword == "items" and rule is False):
        return rule
    if keyword in ONE and isinstance(rule, bool):
        return _plain(rule)
    if keyword in SOME and is_array(rule) and any(isinstance(part, bool) for part in rule):
        possible = [part for part in rule if part is not False] if keyword in ("anyOf", "oneOf") else rule
        return [_plain(part) for part in possible] or [{"not": {}}]
    if keyword in NAMED and is_object(rule) and any(isinstance(part, bool) for part in rule.values()):
        stays = keyword == "properties"
        return {name: part if part is False and stays else _plain(part) for name, part in rule.items()}
    return rule


def _plain(part: Any) -> Any:
    return ({} if part else {"not": {}}) if isinstance(part, bool) else part


def _of_most(schema: JsonSchema) -> JsonSchema:
    """Rules out items beyond `prefixItems`."""
    most = len(schema.get("prefixItems", ()))
    return {**schema, "maxItems": min(schema.get("maxItems", most), most)}


def _without_forbidden(schema: JsonSchema, place: Place) -> JsonSchema:
    """Drops forbidden properties; if the object allows other keys, that is a loss."""
    properties: dict[str, Any] = schema.get("properties", {})
    forbidden = [name for name, part in properties.items() if part is False]
    if not forbidden:
        return schema
    if schema.get("additionalProperties") is not False or "patternProperties" in schema:
        place.lost("properties", f"{', '.join(forbidden)} is no longer forbidden")
    new = {**schema, "properties": without(properties, forbidden)}
    if "required" in new:
        new["required"] = [name for name in new["required"] if name not in forbidden]
    return new


@step_for("const")
@everywhere
def const_to_enum(schema: JsonSchema, place: Place) -> JsonSchema:
    """Writes `const` as an `enum` of one value; lossless, unless an `enum` next to it lacks the value."""
    if "const" not in schema:
        return schema
    only = schema["const"]
    if "enum" in schema and not any(same(only, value) for value in schema["enum"]):
        place.lost("const", "contradicts the enum next to it, left out")
        return without(schema, ("const",))
    return exchanged(schema, "const", "enum", [only])


@step_for("anyOf")
@everywhere
def nullable(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Writes the alternative `{"type": "null"}` as `"nullable": true`; lossless.

    A union of one remaining alternative is replaced by it.
    """
    members: list[Any] | None = schema.get("anyOf")
    if members is None or not any(_is_null(member) for member in members):
        return schema
    others = [member for member in members if not _is_null(member)]
    if not others:
        return {**without(schema, ("anyOf",)), "type": "null"}
    rest: JsonSchema = others[0] if len(others) == 1 else {"anyOf": others}
    return {**with_notes(rest, schema, rest), **without(schema, NOTES | {"anyOf"}), "nullable": True}


def _is_null(member: JsonSchema) -> bool:
    return member.get("type") == "null"


def or_null(schema: JsonSchema) -> JsonSchema:
    """A schema that also accepts null; `schema` itself if it already does."""
    if takes_null(schema):
        return schema
    if "$ref" in schema or ("anyOf" in schema and len(without(schema, NOTES | {"anyOf"})) > 0):
        return {"anyOf": [without(schema, NOTES), {"type": "null"}], **only(schema, NOTES)}
    new = dict(schema)
    if "anyOf" in schema:
        new["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    if "type" in schema:
        types: Any = schema["type"]
        names: list[Any] = [types] if isinstance(types, str) else types
        new["type"] = [*names, *(["null"] if "null" not in names else [])]
    if "enum" in schema and None not in schema["enum"]:
        new["enum"] = [*schema["enum"], None]
    return new


def takes_null(schema: JsonSchema) -> bool:
    """Whether a schema of simple keywords (`type`, `enum`, `anyOf`) accepts null; false for a reference."""
    if "$ref" in schema:
        return False
    types: Any = schema.get("type", "null")
    names: list[Any] = [types] if isinstance(types, str) else types
    if "null" not in names or None not in schema.get("enum", (None,)):
        return False
    return "anyOf" not in schema or any(takes_null(member) for member in schema["anyOf"])


def tuple_items(*, closed: bool = False) -> Step:
    """The step that writes `prefixItems` as `items` of any of their schemas, and describes the order in words.

    Lossless if all are the same.

    Args:
        closed: Whether items beyond `prefixItems` are forbidden if there is no rule for them; else `items` accepts
            anything.
    """

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        first: list[Any] | None = schema.get("prefixItems")
        if first is None:
            return schema
        new = without(schema, ("prefixItems", "items"))
        members = list(first)
        if schema.get("maxItems", len(first) + 1) > len(first):
            if "items" in schema or not closed:
                members.append(schema.get("items", {}))
            else:
                new["maxItems"] = len(first)
        kinds = distinct(members)
        if len(kinds) > 1 or new.get("maxItems") != schema.get("maxItems"):
            place.lost("prefixItems", "the order of its items is moved into the description")
            new = described(new, in_words("prefixItems", schema))
        items: JsonSchema = {} if {} in kinds else {"anyOf": kinds}
        return {**new, "items": kinds[0] if len(kinds) == 1 else items}

    return step_for("prefixItems")(everywhere(visit))


_NUMBER: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})

KEYWORDS: Final = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}),
    "number": _NUMBER,
    "integer": _NUMBER,
    "array": frozenset(
        {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"}
    ),
    "object": frozenset(
        {"properties", "required", "additionalProperties", "patternProperties", "propertyNames"}
        | {"minProperties", "maxProperties", "dependentRequired"}
    ),
    "boolean": frozenset[str](),
    "null": frozenset[str](),
}
"""The keywords that apply to values of one type only."""

_OF_SOME_TYPE: Final = frozenset[str]().union(*KEYWORDS.values())


@everywhere
def type_lists(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Writes `{"type": ["string", "null"], ...}` as an `anyOf` of one schema per type; lossless.

    Each gets the keywords and the `enum` values of its type.
    """
    types: Any = schema.get("type")
    if not is_array(types):
        return schema
    if len(types) == 1:
        return {**schema, "type": types[0]}
    if "anyOf" in schema:
        return schema
    if "number" in types:
        types = [name for name in types if name != "integer"]
    members = [member for name in types if (member := _of_type(name, schema)) is not None]
    if len(members) <= 1:
        return {**only(schema, NOTES), **(members[0] if members else {"enum": []})}
    return without(exchanged(schema, "type", "anyOf", members), _OF_SOME_TYPE | {"enum"})


def _of_type(name: str, schema: JsonSchema) -> JsonSchema | None:
    member: JsonSchema = {"type": name, **only(schema, KEYWORDS[name])}
    if "enum" in schema:
        member["enum"] = [value for value in schema["enum"] if is_of(value, [name])]
        if not member["enum"]:
            return None
    return without(member, ("enum",)) if name == "null" else member


@step_for("enum")
@everywhere
def typed_enums(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Adds the types of the values of an `enum`; lossless."""
    if "type" in schema or not schema.get("enum"):
        return schema
    types: Any = types_of(schema, {})
    return {"type": types[0] if len(types) == 1 else types, **schema}


@everywhere
def typed_values(schema: JsonSchema, place: Place) -> JsonSchema:
    """Adds a missing type if the other keywords imply one; else refuses the schema."""
    if not {"type", "anyOf", "$ref", "enum"}.isdisjoint(schema):
        return schema
    spoken_of = [name for name in ("string", "number", "array", "object") if not KEYWORDS[name].isdisjoint(schema)]
    if len(spoken_of) == 1:
        place.lost("type", f"missing; assumed to be {spoken_of[0]}")
        return {"type": spoken_of[0], **schema}
    place.refused("type", "a value of any type has no strict form")
    return schema


@step_for("enum")
@everywhere
def simple_enums(schema: JsonSchema, place: Place) -> JsonSchema:
    """Refuses an `enum` with objects or arrays."""
    if "enum" in schema and any(isinstance(value, (dict, list)) for value in schema["enum"]):
        place.refused("enum", "objects and arrays have no strict form")
    return schema


@step_for("enum")
@everywhere
def string_enums(schema: JsonSchema, place: Place) -> JsonSchema:
    """Moves an `enum` with an empty string, or values that aren't strings, into the description."""
    if "enum" not in schema or (schema["enum"] and all(value and isinstance(value, str) for value in schema["enum"])):
        return schema
    return into_description(schema, place, ["enum"], "only strings can be listed; moved into the description")


@step_for("enum")
@everywhere
def plain_enums(schema: JsonSchema, place: Place) -> JsonSchema:
    """Moves an `enum` with booleans, objects or arrays into the description.

    `google.genai.types` on Gemini's JSON Schema: "`enum` (for strings and numbers)".
    """
    if "enum" not in schema or not any(isinstance(value, (bool, dict, list)) for value in schema["enum"]):
        return schema
    what = "only strings and numbers can be listed; moved into the description"
    return into_description(schema, place, ["enum"], what)


_ELSEWHERE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "$ref", "contains")


@step_for("unevaluatedProperties", "unevaluatedItems")
@everywhere
def unevaluated(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Writes `unevaluatedProperties` as `additionalProperties`, and `unevaluatedItems` as `items`.

    That is equivalent if no other subschema applies to the same value; otherwise it stays. If the simpler keyword is
    there, nothing is left unevaluated, and the other is dropped.
    """
    for keyword, simple in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
        if keyword in schema and simple in schema:
            schema = without(schema, (keyword,))
        elif keyword in schema and not any(other in schema for other in _ELSEWHERE):
            schema = _simply(schema, keyword, simple)
    return schema


def _simply(schema: JsonSchema, keyword: str, simple: str) -> JsonSchema:
    rule = schema[keyword]
    if keyword == "unevaluatedProperties" or not isinstance(rule, bool):
        return exchanged(schema, keyword, simple, rule)
    schema = without(schema, (keyword,))
    return schema if rule else _of_most(schema)


@everywhere
def close_objects(schema: JsonSchema, place: Place) -> JsonSchema:
    """Closes every object: `"additionalProperties": false`, and `properties` if there are none.

    It is a loss if the object left other keys open; one that explicitly allows them is refused by `open_objects`, which
    comes before.
    """
    if not is_object_schema(schema) or (schema.get("additionalProperties") is False and "properties" in schema):
        return schema
    if "additionalProperties" not in schema:
        place.lost("additionalProperties", "closed: no other keys can be given")
    first: JsonSchema = {} if "properties" in schema else {"properties": {}}
    return {**first, **schema, "additionalProperties": False}


def is_object_schema(schema: JsonSchema) -> bool:
    """Whether a schema is for objects, maybe among other types."""
    types: Any = schema.get("type")
    return types == "object" or "properties" in schema or (isinstance(types, list) and "object" in types)


@everywhere
def open_objects(schema: JsonSchema, place: Place) -> JsonSchema:
    """Refuses objects that are meant for other keys than they name: closed, they would be useless.

    These are objects with `additionalProperties` that isn't false, and open ones without properties below the root. An
    open root without properties is a tool without parameters.
    """
    if not is_object_schema(schema) or schema.get("additionalProperties") is False:
        return schema
    if "additionalProperties" in schema:
        place.refused("additionalProperties", "keys of any name have no strict form")
    elif not schema.get("properties") and not place.is_root:
        place.refused("properties", "an object without named keys has no strict form")
    return schema


@step_for("patternProperties")
@everywhere
def pattern_properties(schema: JsonSchema, place: Place) -> JsonSchema:
    """Adds the schemas of `patternProperties` to `additionalProperties`, and describes the patterns in words.

    Without, their keys would be refused wherever `additionalProperties` is false.
    """
    patterns = schema.get("patternProperties")
    if patterns is None:
        return schema
    rest = schema.get("additionalProperties", True)
    new = without(schema, ("patternProperties", "additionalProperties"))
    new = described(new, in_words("patternProperties", schema))
    if patterns:
        place.lost("patternProperties", "the patterns are moved into the description")
    members: list[Any] = distinct([*patterns.values(), *([] if isinstance(rest, bool) else [rest])])
    if rest is True or {} in members:
        rest = True
    elif members:
        rest = members[0] if len(members) == 1 else {"anyOf": members}
    return {**new, "additionalProperties": rest}


def property_names(pattern: str) -> Step:
    """The step that drops optional properties whose names don't fully match a pattern, and refuses required ones.

    A request with a name that the provider doesn't accept fails as a whole, with all its other tools.
    """
    takes = re.compile(pattern).fullmatch

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        properties: dict[str, Any] = schema.get("properties", {})
        if all(map(takes, properties)):
            return schema
        strange = [name for name in properties if takes(name) is None]
        for name in strange:
            below, fault = place.below(("properties", name)), f"the provider accepts no property named {name!r}"
            if name in schema.get("required", ()):
                below.refused("properties", f"{fault}, and it is required")
            else:
                below.lost("properties", f"{fault}; left out")
        new = {**schema, "properties": without(properties, strange)}
        if "required" in schema:
            new["required"] = [name for name in schema["required"] if name not in strange]
        return new

    return everywhere(visit)


@everywhere
def require_all(schema: JsonSchema, place: Place) -> JsonSchema:
    """Requires every property; optional ones become nullable (`without_added_nulls` is the inverse)."""
    properties: dict[str, Any] | None = schema.get("properties")
    if properties is None:
        return schema
    required: list[str] = schema.get("required", [])
    for name in required:
        if name not in properties:
            place.refused("required", f"{name} is required, but not among the properties")
    members = {name: part if name in required else or_null(part) for name, part in properties.items()}
    unchanged = schema.get("required") == list(properties) and all(
        members[name] is properties[name] for name in members
    )
    return schema if unchanged else {**schema, "properties": members, "required": list(properties)}


@everywhere
def required_properties(schema: JsonSchema, _place: Place) -> JsonSchema:
    """Adds required names that are missing in `properties`; lossless.

    A provider that reads only `properties` refuses them in `required` (Gemini); in a closed object, no call would fit.
    """
    required: list[str] | None = schema.get("required")
    if not required:
        return schema
    properties: dict[str, Any] = schema.get("properties", {})
    missing = [name for name in required if name not in properties]
    if not missing:
        return schema
    others: Any = schema.get("additionalProperties")
    rule: JsonSchema = others if is_object(others) else {}
    return {**schema, "properties": {**properties, **dict.fromkeys(missing, rule)}}
