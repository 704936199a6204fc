"""Objects: closed, required, named; and arguments without the nulls of a strict schema."""

from __future__ import annotations

import re
from typing import Any, Final

from attrs import define, field

from pegboard.dialects.dialect import Place, Step, described, distinct, everywhere, told, without
from pegboard.dialects.values import or_null
from pegboard.schema.json import is_array, is_object, json_faults
from pegboard.schema.messages import SchemaSearch
from pegboard.schema.references import References
from pegboard.typing import JsonObject, JsonSchema


@everywhere
def close_objects(schema: JsonSchema, place: Place) -> JsonSchema:
    """Closes every object: `"additionalProperties": false`, and `properties` where there are none.

    That an object said nothing of other keys is lost by it; one that welcomes them is for `open_objects`, which
    comes before.
    """
    if not is_object_schema(schema) or (schema.get("additionalProperties") is False and "properties" in schema):
        return schema
    if "additionalProperties" not in schema:
        place.lost("additionalProperties", "closed: no other keys can be given")
    return (
        {"properties": {}, **schema, "additionalProperties": False}
        if "properties" not in schema
        else {
            **schema,
            "additionalProperties": False,
        }
    )


def is_object_schema(schema: JsonSchema) -> bool:
    """Whether a schema is one for objects, among others maybe."""
    types: Any = schema.get("type")
    return types == "object" or "properties" in schema or (isinstance(types, list) and "object" in types)


@everywhere
def open_objects(schema: JsonSchema, place: Place) -> JsonSchema:
    """Refuses objects that welcome other keys than they name: closed, they couldn't be filled.

    Those are objects with `additionalProperties` that isn't false, and, below the root, open ones that name none. An
    open root that names none is a tool without parameters.
    """
    if not is_object_schema(schema) or schema.get("additionalProperties") is False:
        return schema
    if "additionalProperties" in schema:
        place.refused("additionalProperties", "keys of any name can't be told strictly")
    elif not schema.get("properties") and not place.is_root:
        place.refused("properties", "an object of which no key is named can't be told strictly")
    return schema


@everywhere
def pattern_properties(schema: JsonSchema, place: Place) -> JsonSchema:
    """Lets any other key hold what a pattern's keys may hold, and tells the patterns in the description.

    Leaving patterns out alone would refuse their keys wherever `additionalProperties` is false.
    """
    patterns = schema.get("patternProperties")
    if patterns is None:
        return schema
    rest = schema.get("additionalProperties", True)
    new = described(without(schema, ("patternProperties", "additionalProperties")), told("patternProperties", schema))
    if patterns:
        place.lost("patternProperties", "which keys hold what is moved into the description")
    members: list[Any] = distinct([*patterns.values(), *([] if isinstance(rest, bool) else [rest])])
    if rest is True or {} in members:
        return {**new, "additionalProperties": True}
    if not members:
        return {**new, "additionalProperties": rest}
    return {**new, "additionalProperties": members[0] if len(members) == 1 else {"anyOf": members}}


def property_names(pattern: str) -> Step:
    """The step that leaves out optional properties whose names a provider doesn't take, and refuses required ones.

    A request with such a name fails as a whole, with all its other tools.

    Args:
        pattern: What a whole name has to match.
    """
    takes = re.compile(pattern).fullmatch

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        properties: dict[str, Any] = schema.get("properties", {})
        if all(map(takes, properties)):
            return schema
        strange = [name for name in properties if takes(name) is None]
        for name in strange:
            _take_down(name, place.below(("properties", name)), required=name in schema.get("required", ()))
        new = {**schema, "properties": without(properties, strange)}
        if "required" in schema:
            new["required"] = [name for name in schema["required"] if name not in strange]
        return new

    return everywhere(visit)


def _take_down(name: str, place: Place, *, required: bool) -> None:
    if required:
        place.refused("properties", f"the provider takes no property named {name!r}, and it is required")
    else:
        place.lost("properties", f"the provider takes no property named {name!r}; left out")


@everywhere
def require_all(schema: JsonSchema, place: Place) -> JsonSchema:
    """Requires every property; one that was optional may be null instead (`without_added_nulls` is the way back)."""
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
    """Names what is required among the properties, too; nothing is lost.

    A provider that reads nothing but `properties` refuses a name in `required` that isn't there (Gemini), or once the
    object is closed, no call would fit.
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


MOST_STEPS: Final = 20_000
"""Pairs of schema and value to look at; beyond, arguments stay as they are."""


def without_added_nulls(arguments: JsonObject, schema: JsonSchema) -> JsonObject:
    """A strict call's arguments as the tool's own schema means them.

    Takes away the members that are null where the schema doesn't take null and doesn't require the property: a
    strict dialect asks for every property, and null is how the model leaves one out. Of alternatives, the first that
    the arguments then fit decides.

    Args:
        arguments: The model's, parsed; left as they are. What is no JSON, or nested too deep, is given back.
        schema: The tool's own input schema, not the rewritten one.

    Returns:
        The arguments themselves where nothing has to go, else a copy without those members.
    """
    if json_faults(arguments) or not _holds_null(arguments):
        return arguments
    try:
        return _Giving(SchemaSearch(References(schema))).given(arguments, schema)
    except (AttributeError, KeyError, TypeError, ValueError):
        return arguments  # a schema that isn't one; whoever judges the call says so


def _holds_null(value: Any) -> bool:
    if is_object(value):
        return any(map(_holds_null, value.values()))
    return any(map(_holds_null, value)) if is_array(value) else value is None


@define
class _Giving:
    """One look at arguments; each pair of schema and value is looked at once."""

    search: SchemaSearch
    left: int = MOST_STEPS
    _known: dict[tuple[int, int], tuple[Any, Any]] = field(factory=dict[tuple[int, int], tuple[Any, Any]], init=False)

    def given(self, value: Any, schema: Any) -> Any:
        """`value` without what one schema shows to be added."""
        if not is_object(schema) or not (is_object(value) or is_array(value)) or not value:
            return value
        key = (id(schema), id(value))
        if key in self._known:
            return self._known[key][1]
        self.left -= 1
        if self.left < 0:
            return value
        self._known[key] = (value, value)  # for a schema within itself; it keeps the value alive, too
        given = self._in_place(self._below(value, schema), schema)
        self._known[key] = (value, given)
        return given

    def _below(self, value: Any, schema: JsonSchema) -> Any:
        return self._members(value, schema) if is_object(value) else self._items(value, schema)

    def _members(self, value: JsonObject, schema: JsonSchema) -> JsonObject:
        properties: JsonObject = schema.get("properties", {})
        required: list[str] = schema.get("required", [])
        new: JsonObject = {}
        for name, item in value.items():
            rule: Any = properties.get(name, schema.get("additionalProperties"))
            added = item is None and name in properties and name not in required and not self.search.fits(rule, None)
            if not added:
                new[name] = self.given(item, rule)
        return new if len(new) < len(value) or any(new[name] is not value[name] for name in new) else value

    def _items(self, value: list[Any], schema: JsonSchema) -> list[Any]:
        first: Any = schema.get("prefixItems", schema.get("items"))
        listed: list[Any] = first if is_array(first) else []
        rest = schema.get("additionalItems") if is_array(schema.get("items")) else schema.get("items")
        new = [self.given(item, listed[at] if at < len(listed) else rest) for at, item in enumerate(value)]
        return new if any(one is not other for one, other in zip(new, value, strict=True)) else value

    def _in_place(self, value: Any, schema: JsonSchema) -> Any:
        for target in self.search.references.targets(schema):
            value = self.given(value, target)
        for part in schema.get("allOf", ()):
            value = self.given(value, part)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                value = self._alternative(value, schema[keyword])
        if "if" in schema:
            value = self.given(value, schema.get("then" if self.search.fits(schema["if"], value) else "else"))
        return value

    def _alternative(self, value: Any, members: list[Any]) -> Any:
        for member in members:
            given = self.given(value, member)
            if self.search.fits(member, given):
                return given
        return value


__all__ = [
    "MOST_STEPS",
    "close_objects",
    "is_object_schema",
    "open_objects",
    "pattern_properties",
    "property_names",
    "require_all",
    "required_properties",
    "without_added_nulls",
]
