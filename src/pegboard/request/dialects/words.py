"""What a keyword asks, in words for a description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pegboard.schema.json import is_object, json_text
from pegboard.typing import JsonSchema

_MOST_SHOWN: Final = 200
_MOST_LISTED: Final = 50


def shown(value: Any) -> str:
    """A JSON value as text, cut after 200 characters."""
    text = str(json_text(value))
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def listed(values: Sequence[Any]) -> str:
    """JSON values with commas between them, the first 50."""
    more = f" and {len(values) - _MOST_LISTED} more" if len(values) > _MOST_LISTED else ""
    return ", ".join(shown(value) for value in values[:_MOST_LISTED]) + more


def _counted(limit: str, noun: str) -> Callable[[Any], str]:
    return lambda count: f"{limit} {count} {noun if count == 1 else noun + 's'}."


def _beside(rule: Mapping[str, Sequence[str]]) -> str:
    pairs = [f"With {name}, {', '.join(needed)} must be given too." for name, needed in rule.items() if needed]
    return " ".join(pairs[:_MOST_LISTED])


def _keys(rule: Mapping[str, Any]) -> str:
    return " ".join(f"Keys matching {pattern} hold {shown(part)}." for pattern, part in rule.items())


def _kinds(rule: Sequence[Any]) -> str:
    """Schemas by what they say of their values: the title, a plain type, or the schema itself."""
    return ", ".join(_kind(part) for part in rule[:_MOST_LISTED])


def _kind(part: Any) -> str:
    known: JsonSchema = part if is_object(part) else {}
    plain = known.get("type") if set(known) == {"type"} else None
    return str(known.get("title") or plain or shown(part))


_WORDS: Final[Mapping[str, Callable[[Any], str]]] = {
    "minimum": lambda rule: f"At least {shown(rule)}.",
    "maximum": lambda rule: f"At most {shown(rule)}.",
    "exclusiveMinimum": lambda rule: f"More than {shown(rule)}.",
    "exclusiveMaximum": lambda rule: f"Less than {shown(rule)}.",
    "multipleOf": lambda rule: f"A multiple of {shown(rule)}.",
    "minLength": _counted("At least", "character"),
    "maxLength": _counted("At most", "character"),
    "pattern": lambda rule: f"Matches the pattern {rule}.",
    "format": lambda rule: f"Format: {rule}.",
    "contentEncoding": lambda rule: f"Encoded as {rule}.",
    "contentMediaType": lambda rule: f"Of the media type {rule}.",
    "minItems": _counted("At least", "item"),
    "maxItems": _counted("At most", "item"),
    "uniqueItems": lambda rule: "No item twice." if rule else "",
    "contains": lambda rule: f"Holds an item that fits {shown(rule)}.",
    "prefixItems": lambda rule: f"Its first items, in this order: {_kinds(rule)}.",
    "minProperties": _counted("At least", "key"),
    "maxProperties": _counted("At most", "key"),
    "propertyNames": lambda rule: f"Its keys fit {shown(rule)}.",
    "patternProperties": _keys,
    "additionalProperties": lambda rule: f"Other keys hold {shown(rule)}." if rule else "",
    "dependentRequired": _beside,
    "dependentSchemas": lambda rule: f"Depending on its keys, it fits {shown(rule)}.",
    "default": lambda rule: f"Default: {shown(rule)}.",
    "examples": lambda rule: f"Examples: {listed(rule)}.",
    "enum": lambda rule: f"One of: {listed(rule)}.",
    "const": lambda rule: f"Always {shown(rule)}.",
    "anyOf": lambda rule: f"Fits one of: {listed(rule)}.",
    "oneOf": lambda rule: f"Fits exactly one of: {listed(rule)}.",
    "allOf": lambda rule: f"Fits all of: {listed(rule)}.",
    "not": lambda rule: f"Must not fit {shown(rule)}." if rule else "",
    "deprecated": lambda rule: "Deprecated." if rule else "",
    "readOnly": lambda rule: "Read only." if rule else "",
    "writeOnly": lambda rule: "Write only." if rule else "",
}


def told(keyword: str, schema: JsonSchema) -> str:
    """What a keyword of a schema asks, as a sentence; empty where nothing need or can be said."""
    if keyword == "if":
        return _condition(schema)
    words = _WORDS.get(keyword)
    return words(schema[keyword]) if words else ""


def _condition(schema: JsonSchema) -> str:
    ways = (("then", "it"), ("else", "otherwise it"))
    said = [f"{who} fits {shown(schema[way])}" for way, who in ways if way in schema]
    return f"If it fits {shown(schema['if'])}: {'; '.join(said)}." if said else ""


def described(schema: JsonSchema, *sentences: str) -> JsonSchema:
    """A copy with sentences at the end of its description, each unless it stands there already."""
    text = str(schema.get("description", ""))
    for sentence in filter(None, sentences):
        if sentence not in text:
            text = f"{text} {sentence}" if text else sentence
    return {**schema, "description": text} if text else dict(schema)
