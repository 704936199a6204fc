"""`true` and `false` where a schema stands, said as objects."""

from __future__ import annotations

from typing import Any, Final

from pegboard.request.dialects.everywhere import everywhere
from pegboard.request.dialects.keyed import without
from pegboard.request.dialects.walk import NAMED, ONE, SOME, Place
from pegboard.schema.json import is_array, is_object
from pegboard.typing import JsonSchema

_MAY_STAY: Final = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_MAY_GO: Final = (ONE | SOME | NAMED).difference(_MAY_STAY)


@everywhere
def boolean_schemas(schema: JsonSchema, place: Place) -> JsonSchema:
    """Says `true` as `{}`, and `false` by what it means: no such property, no more items, no such alternative.

    Where that can't be said it becomes `{"not": {}}`. `additionalProperties` stays as it is.
    """
    if _MAY_GO.isdisjoint(schema) or not any(_holds_boolean(keyword, rule) for keyword, rule in schema.items()):
        return schema
    new = {keyword: _said(keyword, rule) for keyword, rule in schema.items()}
    return _without_forbidden(_without_items(new), place)


def _holds_boolean(keyword: str, rule: Any) -> bool:
    if keyword not in _MAY_GO:
        return False
    if isinstance(rule, bool):
        return keyword in ONE
    if is_object(rule):
        return keyword in NAMED and any(isinstance(part, bool) for part in rule.values())
    return is_array(rule) and keyword in SOME and any(isinstance(part, bool) for part in rule)


def _said(keyword: str, rule: Any) -> Any:
    """The rule of one keyword without booleans, but for those that the object or array itself has to answer to."""
    if keyword in _MAY_STAY or (keyword == "items" and rule is False):
        return rule
    if keyword in ONE and isinstance(rule, bool):
        return _plain(rule)
    if keyword in SOME and is_array(rule):
        return _listed(keyword, rule)
    if keyword in NAMED and is_object(rule) and any(isinstance(part, bool) for part in rule.values()):
        stays = keyword == "properties"
        return {name: part if part is False and stays else _plain(part) for name, part in rule.items()}
    return rule


def _plain(part: Any) -> Any:
    return ({} if part else {"not": {}}) if isinstance(part, bool) else part


def _listed(keyword: str, rule: list[Any]) -> list[Any]:
    if not any(isinstance(part, bool) for part in rule):
        return rule
    possible = [part for part in rule if part is not False] if keyword in ("anyOf", "oneOf") else rule
    return [_plain(part) for part in possible] or [{"not": {}}]


def _without_items(schema: JsonSchema) -> JsonSchema:
    if schema.get("items") is not False:
        return schema
    most = len(schema.get("prefixItems", ()))
    return {**without(schema, {"items"}), "maxItems": min(schema.get("maxItems", most), most)}


def _without_forbidden(schema: JsonSchema, place: Place) -> JsonSchema:
    """Without the properties that must not be given; where other keys are welcome, that is lost."""
    properties: dict[str, Any] = schema.get("properties", {})
    forbidden = [name for name, part in properties.items() if part is False]
    if not forbidden:
        return schema
    if schema.get("additionalProperties") is not False or "patternProperties" in schema:
        place.lost("properties", f"that {', '.join(forbidden)} must not be given is left out")
    new = {**schema, "properties": without(properties, forbidden)}
    if "required" in new:
        new["required"] = [name for name in new["required"] if name not in forbidden]
    return new
