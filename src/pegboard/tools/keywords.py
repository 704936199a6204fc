"""What each keyword of JSON Schema asks of a value, in words for the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pegboard.tools.alternatives import Alternative, Problem, nearest
from pegboard.tools.compiled import compiled
from pegboard.tools.json_text import json_text
from pegboard.tools.json_value import is_array, is_object
from pegboard.tools.problem import counted, shown
from pegboard.tools.references import REFERENCES
from pegboard.typing import JsonObject, JsonSchema

if TYPE_CHECKING:
    from pegboard.tools.diagnosis import Diagnosis

_MOST_KNOWN: Final = 20
Found: TypeAlias = Iterator[Problem]


def holds(keyword: str, rule: Any, value: Any) -> bool:
    """What jsonschema_rs says of a keyword whose rules are finer than Python's (patterns, equality, decimals)."""
    return _single(json_text({keyword: rule}))(value)


@lru_cache(maxsize=64)
def _single(schema: str) -> Callable[[Any], bool]:
    return compiled(schema).is_valid


# Each check gets the search, the keyword's rule, the schema that it stands in, and a value of a type that it speaks of.


def _refer(search: Diagnosis, rule: str, _schema: JsonSchema, value: Any) -> Found:
    target = search.references.target(rule)
    if target is not None:
        yield from search.problems(target, value)


def _all_of(search: Diagnosis, rule: Iterable[JsonSchema], _schema: JsonSchema, value: Any) -> Found:
    yield from dict.fromkeys(found for part in rule for found in search.problems(part, value))


def _any_of(search: Diagnosis, rule: Sequence[JsonSchema], _schema: JsonSchema, value: Any) -> Found:
    problems = [search.problems(part, value) for part in rule]
    if all(problems):
        tags = [_tags(search, part) for part in rule]
        yield from nearest([Alternative(*each) for each in zip(tags, problems, strict=True)], value)


def _one_of(search: Diagnosis, rule: Sequence[JsonSchema], schema: JsonSchema, value: Any) -> Found:
    fitting = sum(search.fits(part, value) for part in rule)
    if fitting > 1:
        yield Problem((), f"must fit exactly one of {len(rule)} alternatives, fits {fitting}")
    elif not fitting:
        yield from _any_of(search, rule, schema, value)


def _tags(search: Diagnosis, part: JsonSchema) -> Mapping[str, Sequence[Any]]:
    followed = search.followed(part)
    properties: JsonObject = followed.get("properties", {}) if is_object(followed) else {}
    allowed = {name: _options(rule) for name, rule in properties.items()}
    return {name: options for name, options in allowed.items() if options}


def _options(rule: Any) -> Sequence[Any]:
    """The only values that a schema allows, or nothing where they aren't listed."""
    if not is_object(rule):
        return ()
    return [rule["const"]] if "const" in rule else rule.get("enum", ())


def _not(search: Diagnosis, rule: JsonSchema, _schema: JsonSchema, value: Any) -> Found:
    if search.fits(rule, value):
        yield Problem((), f"must not fit {json_text(rule)[:60]}")


def _if(search: Diagnosis, rule: JsonSchema, schema: JsonSchema, value: Any) -> Found:
    then = schema.get("then", True) if search.fits(rule, value) else schema.get("else", True)
    yield from search.problems(then, value)


def _at_least(_search: Diagnosis, rule: float, schema: JsonSchema, value: float) -> Found:
    if schema.get("exclusiveMinimum") is True and value <= rule:  # draft 4
        yield Problem((), f"must be more than {shown(rule)}, got {shown(value)}")
    elif value < rule:
        yield Problem((), f"must be at least {shown(rule)}, got {shown(value)}")


def _at_most(_search: Diagnosis, rule: float, schema: JsonSchema, value: float) -> Found:
    if schema.get("exclusiveMaximum") is True and value >= rule:  # draft 4
        yield Problem((), f"must be less than {shown(rule)}, got {shown(value)}")
    elif value > rule:
        yield Problem((), f"must be at most {shown(rule)}, got {shown(value)}")


def _more_than(_search: Diagnosis, rule: float, _schema: JsonSchema, value: float) -> Found:
    if not isinstance(rule, bool) and value <= rule:
        yield Problem((), f"must be more than {shown(rule)}, got {shown(value)}")


def _less_than(_search: Diagnosis, rule: float, _schema: JsonSchema, value: float) -> Found:
    if not isinstance(rule, bool) and value >= rule:
        yield Problem((), f"must be less than {shown(rule)}, got {shown(value)}")


def _multiple(_search: Diagnosis, rule: float, _schema: JsonSchema, value: float) -> Found:
    if not holds("multipleOf", rule, value):
        yield Problem((), f"must be a multiple of {shown(rule)}, got {shown(value)}")


def _pattern(_search: Diagnosis, rule: str, _schema: JsonSchema, value: str) -> Found:
    if not holds("pattern", rule, value):
        yield Problem((), f"must match the pattern {shown(rule)}, got {shown(value)}")


def _long_enough(noun: str) -> Callable[..., Found]:
    def check(_search: Diagnosis, rule: int, _schema: JsonSchema, value: Any) -> Found:
        if len(value) < rule:
            yield Problem((), f"must have at least {counted(rule, noun)}, got {len(value)}")

    return check


def _short_enough(noun: str) -> Callable[..., Found]:
    def check(_search: Diagnosis, rule: int, _schema: JsonSchema, value: Any) -> Found:
        if len(value) > rule:
            yield Problem((), f"must have at most {counted(rule, noun)}, got {len(value)}")

    return check


def _required(_search: Diagnosis, rule: Iterable[str], _schema: JsonSchema, value: JsonObject) -> Found:
    for name in rule:
        if name not in value:
            yield Problem((name,), "required, missing", "missing")


def _properties(search: Diagnosis, rule: Mapping[str, JsonSchema], _schema: JsonSchema, value: JsonObject) -> Found:
    for name, part in rule.items():
        if name in value:
            yield from search.below(part, value[name], name)


def _patterned(search: Diagnosis, rule: Mapping[str, JsonSchema], _schema: JsonSchema, value: JsonObject) -> Found:
    for pattern, part in rule.items():
        if search.pays(len(value)):
            for name in _matching([pattern], value):
                yield from search.below(part, value[name], name)


def _others(
    search: Diagnosis,
    rule: JsonSchema | bool,
    schema: JsonSchema,
    value: JsonObject,
) -> Found:
    known: JsonObject = schema.get("properties", {})
    patterns: JsonObject = schema.get("patternProperties", {})
    if not search.pays(len(value) * (1 + len(patterns))):
        return
    matching = _matching(patterns, value)
    for name, item in value.items():
        if name in known or name in matching:
            continue
        if rule is False:
            yield Problem((name,), _unknown_key(list(known)))
        else:
            yield from search.below(rule, item, name)


def _matching(patterns: Iterable[str], names: Iterable[str]) -> Mapping[str, None]:
    """The names that one of the patterns is found in, in their order."""
    matches = [_single(json_text({"pattern": pattern})) for pattern in patterns]
    return {name: None for name in names if any(match(name) for match in matches)} if matches else {}


def _unknown_key(known: Sequence[str]) -> str:
    if not known:
        return "unknown key (none is known here)"
    more = f" and {len(known) - _MOST_KNOWN} more" if len(known) > _MOST_KNOWN else ""
    return f"unknown key (known: {', '.join(known[:_MOST_KNOWN])}{more})"


def _names(search: Diagnosis, rule: JsonSchema, _schema: JsonSchema, value: JsonObject) -> Found:
    for name in value:
        for found in search.problems(rule, name):
            yield Problem((), f"key {shown(name)}: {found.reason}")


def _required_beside(
    _search: Diagnosis, rule: Mapping[str, Iterable[str]], _schema: JsonSchema, value: JsonObject
) -> Found:
    for name, needed in rule.items():
        for other in needed if name in value else ():
            if other not in value:
                yield Problem((other,), f"required beside {shown(name)}, missing", "missing")


def _fitting_beside(search: Diagnosis, rule: Mapping[str, JsonSchema], _schema: JsonSchema, value: JsonObject) -> Found:
    for name, part in rule.items():
        if name in value:
            yield from search.problems(part, value)


def _beside(search: Diagnosis, rule: Mapping[str, Any], schema: JsonSchema, value: JsonObject) -> Found:
    """`dependencies` of drafts 4 to 7: names or a schema."""
    for name, part in rule.items():
        check: Callable[..., Found] = _required_beside if is_array(part) else _fitting_beside
        yield from check(search, {name: part}, schema, value)


def _items(search: Diagnosis, rule: Any, schema: JsonSchema, value: Sequence[Any]) -> Found:
    if is_array(rule):  # drafts 4 to 7
        yield from _first_items(search, rule, schema, value)
        return
    for index in range(len(schema.get("prefixItems", ())), len(value)):
        yield from search.below(rule, value[index], index)


def _first_items(search: Diagnosis, rule: Sequence[JsonSchema], _schema: JsonSchema, value: Sequence[Any]) -> Found:
    for index, (part, item) in enumerate(zip(rule, value, strict=False)):
        yield from search.below(part, item, index)


def _more_items(search: Diagnosis, rule: JsonSchema, schema: JsonSchema, value: Sequence[Any]) -> Found:
    first = schema.get("items")
    if is_array(first):
        for index in range(len(first), len(value)):
            yield from search.below(rule, value[index], index)


def _unique(_search: Diagnosis, rule: bool, _schema: JsonSchema, value: Sequence[Any]) -> Found:
    if not holds("uniqueItems", rule, value):
        yield Problem((), "must not hold the same item twice")


def _contains(search: Diagnosis, rule: JsonSchema, schema: JsonSchema, value: Sequence[Any]) -> Found:
    fitting = sum(search.fits(rule, item) for item in value)
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
    if not least <= fitting <= most:
        limit = f"at least {least}" if fitting < least else f"at most {most}"
        yield Problem((), f"must hold {limit} of the items that are asked for, got {fitting}")


_ANY: Final[dict[str, Callable[..., Found]]] = {
    **dict.fromkeys(REFERENCES, _refer),
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
}
_NUMBER: Final = {
    **_ANY,
    "minimum": _at_least,
    "maximum": _at_most,
    "exclusiveMinimum": _more_than,
    "exclusiveMaximum": _less_than,
    "multipleOf": _multiple,
}
_TEXT: Final = {
    **_ANY,
    "minLength": _long_enough("character"),
    "maxLength": _short_enough("character"),
    "pattern": _pattern,
}
_OBJECT: Final = {
    **_ANY,
    "required": _required,
    "properties": _properties,
    "patternProperties": _patterned,
    "additionalProperties": _others,
    "propertyNames": _names,
    "dependentRequired": _required_beside,
    "dependentSchemas": _fitting_beside,
    "dependencies": _beside,
    "minProperties": _long_enough("key"),
    "maxProperties": _short_enough("key"),
}
_ARRAY: Final = {
    **_ANY,
    "prefixItems": _first_items,
    "items": _items,
    "additionalItems": _more_items,
    "contains": _contains,
    "uniqueItems": _unique,
    "minItems": _long_enough("item"),
    "maxItems": _short_enough("item"),
}
CHECKS: Final[Mapping[type, Mapping[str, Callable[..., Found]]]] = {
    dict: _OBJECT,
    list: _ARRAY,
    tuple: _ARRAY,
    str: _TEXT,
    int: _NUMBER,
    float: _NUMBER,
    bool: _ANY,
    type(None): _ANY,
}
