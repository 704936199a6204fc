"""The schemas within a JSON Schema: which keywords hold them, and what stands beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pegboard.tools.json_value import is_array, is_object
from pegboard.typing import JsonSchema

_ONE_IN_PLACE: Final = frozenset({"not", "if", "then", "else"})
_SOME_IN_PLACE: Final = frozenset({"allOf", "anyOf", "oneOf"})
_NAMED_IN_PLACE: Final = frozenset({"dependentSchemas", "dependencies"})
_ONE_BELOW: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "items",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_SOME_BELOW: Final = frozenset({"prefixItems", "items"})
_NAMED_BELOW: Final = frozenset({"properties", "patternProperties"})
_NAMED_ASIDE: Final = frozenset({"$defs", "definitions"})
_SOME: Final = _SOME_IN_PLACE | _SOME_BELOW
_NAMED: Final = _NAMED_IN_PLACE | _NAMED_BELOW
_ONE: Final = _ONE_IN_PLACE | _ONE_BELOW
_IN_PLACE: Final = _ONE_IN_PLACE | _SOME_IN_PLACE | _NAMED_IN_PLACE
_NOTES: Final = frozenset(
    {"$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
"""What says something to people and models, and nothing to a judge."""


def parts(schema: JsonSchema, *, aside: bool = False) -> Iterator[tuple[JsonSchema, bool]]:
    """The schemas directly within `schema`, each with whether it applies to the same value.

    Values of `const`, `enum`, `default` and `examples` are data, never schemas.

    Args:
        schema: An object schema.
        aside: Whether the definitions that apply nowhere by themselves are given too.
    """
    for keyword, value in schema.items():
        if keyword in _NAMED or (aside and keyword in _NAMED_ASIDE):
            found: Iterable[Any] = value.values() if is_object(value) else ()
        elif keyword in _SOME and is_array(value):
            found = value
        elif keyword in _ONE:
            found = (value,)
        else:
            continue
        in_place = keyword in _IN_PLACE
        for part in found:
            if is_object(part):
                yield part, in_place


def below(schema: JsonSchema) -> Iterator[tuple[str | int | None, JsonSchema]]:
    """The schemas directly within `schema` that apply to what its value holds.

    Each with the property or the position that it applies to; `None` where that may be any, or a key.
    """
    for keyword, rule in schema.items():
        if keyword in _NAMED_BELOW and is_object(rule):
            named = keyword == "properties"
            found: Iterable[tuple[str | int | None, Any]] = (
                rule.items() if named else ((None, each) for each in rule.values())
            )
        elif keyword in _SOME_BELOW and is_array(rule):
            found = enumerate(rule)
        elif keyword in _ONE_BELOW:
            found = ((None, rule),)
        else:
            continue
        for place, part in found:
            if is_object(part):
                yield place, part


def schemas(root: JsonSchema) -> Iterator[JsonSchema]:
    """`root` and every schema written within it, definitions too."""
    waiting = [root]
    while waiting:
        schema = waiting.pop()
        yield schema
        waiting.extend(part for part, _ in parts(schema, aside=True))


def bare(schema: Any) -> Any:
    """A schema without notes, which judges the same values in less memory (a third of it, in most)."""
    if not is_object(schema):
        return schema
    return {keyword: _bare_rule(keyword, rule) for keyword, rule in schema.items() if keyword not in _NOTES}


def _bare_rule(keyword: str, rule: Any) -> Any:
    if is_object(rule) and (keyword in _NAMED or keyword in _NAMED_ASIDE):
        return {name: bare(part) for name, part in rule.items()}
    if is_array(rule) and keyword in _SOME:
        return [bare(part) for part in rule]
    return bare(rule) if keyword in _ONE else rule
