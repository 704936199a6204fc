"""The way back from a strict call: nulls that stand only for "not given" are taken away."""

from __future__ import annotations

from typing import Any, Final

from attrs import define, field

from pegboard.schema.json import is_array, is_object, json_faults
from pegboard.schema.messages import Diagnosis
from pegboard.schema.references import References
from pegboard.typing import JsonObject, JsonSchema

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
        return _Giving(Diagnosis(References(schema))).given(arguments, schema)
    except (AttributeError, KeyError, TypeError, ValueError):
        return arguments  # a schema that isn't one; whoever judges the call says so


def _holds_null(value: Any) -> bool:
    if is_object(value):
        return any(map(_holds_null, value.values()))
    return any(map(_holds_null, value)) if is_array(value) else value is None


@define
class _Giving:
    """One look at arguments; each pair of schema and value is looked at once."""

    search: Diagnosis
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
