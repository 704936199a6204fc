"""Schemas without rules that JSON Schema doesn't know how to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pegboard.request.dialects.everywhere import everywhere
from pegboard.request.dialects.keyed import distinct
from pegboard.request.dialects.walk import NAMED, ONE, SOME, Place
from pegboard.schema.json import is_array, is_object
from pegboard.typing import JsonSchema

TYPES: Final = ("string", "integer", "number", "boolean", "object", "array", "null")
"""The types of JSON Schema."""

_NOTHING: Final = object()
_SCHEMAS: Final = frozenset[type]({dict, bool})
_TEXTS: Final = frozenset[type]({str})


def _schema(rule: Any) -> Any:
    return rule if is_object(rule) or isinstance(rule, bool) else _NOTHING


def _schemas(rule: Any) -> Any:
    if not is_array(rule):
        return _NOTHING
    return rule if rule and _SCHEMAS.issuperset(map(type, rule)) else _kept(rule, _schema) or _NOTHING


def _named(rule: Any) -> Any:
    if not is_object(rule):
        return _NOTHING
    if _SCHEMAS.issuperset(map(type, rule.values())):
        return rule
    kept = {name: part for name, part in rule.items() if _schema(part) is not _NOTHING}
    return rule if len(kept) == len(rule) else kept


def _kept(rule: list[Any], sound: Callable[[Any], Any]) -> list[Any]:
    kept = [item for item in rule if sound(item) is not _NOTHING]
    return rule if len(kept) == len(rule) else kept


def _text(rule: Any) -> Any:
    return rule if isinstance(rule, str) else _NOTHING


def _texts(rule: Any) -> Any:
    if not is_array(rule):
        return _NOTHING
    if _TEXTS.issuperset(map(type, rule)) and len(set(rule)) == len(rule):
        return rule
    kept = list(dict.fromkeys(item for item in rule if isinstance(item, str)))
    return rule if len(kept) == len(rule) else kept


def _lists_of_texts(rule: Any) -> Any:
    if not is_object(rule):
        return _NOTHING
    sound = {name: _texts(part) for name, part in rule.items() if _texts(part) is not _NOTHING}
    return rule if sound == rule else sound


def _type(rule: Any) -> Any:
    if isinstance(rule, str):
        return rule if rule in TYPES else _NOTHING
    names = _texts(rule)
    kept = _kept(names, lambda name: name if name in TYPES else _NOTHING) if names is not _NOTHING else []
    return kept or _NOTHING


def _number(rule: Any) -> Any:
    return rule if isinstance(rule, (int, float)) and not isinstance(rule, bool) else _NOTHING


def _positive(rule: Any) -> Any:
    return rule if _number(rule) is not _NOTHING and rule > 0 else _NOTHING


def _count(rule: Any) -> Any:
    return rule if _number(rule) is not _NOTHING and rule >= 0 and rule == int(rule) else _NOTHING


def _flag(rule: Any) -> Any:
    return rule if isinstance(rule, bool) else _NOTHING


def _values(rule: Any) -> Any:
    if not is_array(rule):
        return _NOTHING
    kept = distinct(rule)
    return rule if len(kept) == len(rule) else kept


def _examples(rule: Any) -> Any:
    return rule if is_array(rule) else _NOTHING


_SHAPES: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(ONE, _schema),
    **dict.fromkeys(SOME, _schemas),
    **dict.fromkeys(NAMED, _named),
    "items": _schema,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _count),
    **dict.fromkeys(("minContains", "maxContains"), _count),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _flag),
    **dict.fromkeys(("$schema", "$id", "$anchor", "$dynamicAnchor", "$ref", "$dynamicRef", "$comment"), _text),
    **dict.fromkeys(("title", "description", "pattern", "format", "contentEncoding", "contentMediaType"), _text),
    "multipleOf": _positive,
    "type": _type,
    "required": _texts,
    "dependentRequired": _lists_of_texts,
    "enum": _values,
    "examples": _examples,
}


@everywhere
def well_formed(schema: JsonSchema, place: Place) -> JsonSchema:
    """Leaves out what is not valid by draft 2020-12, so that later steps may rely on every rule's shape."""
    for keyword, rule in schema.items():
        shape = _SHAPES.get(keyword)
        if shape is not None and shape(rule) is not rule:
            return _mended(schema, place)
    return schema


def _mended(schema: JsonSchema, place: Place) -> JsonSchema:
    kept: JsonSchema = {}
    for keyword, rule in schema.items():
        shape = _SHAPES.get(keyword)
        sound = rule if shape is None else shape(rule)
        if sound is not _NOTHING:
            kept[keyword] = sound
        if sound is _NOTHING or (sound is not rule and keyword != "enum"):
            place.lost(keyword, "not valid, left out")
    return kept
