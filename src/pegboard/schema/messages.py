"""Why a value doesn't fit a schema: every problem with its place, in words that a model can act on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from attrs import define, field

from pegboard.schema.json import is_array, is_object, json_text
from pegboard.schema.problems import MOST_PROBLEMS, counted, kind_shown, listed, shown
from pegboard.schema.references import REFERENCES, References, compiled
from pegboard.typing import JsonObject, JsonSchema

Kind: TypeAlias = Literal["type", "value", "missing", "other"]
_MOST_WANTED: Final = 20
_MOST_OPTIONS: Final = 50_000


class Problem(NamedTuple):
    """One thing that is wrong with a value.

    Attributes:
        path: Where, seen from the value.
        reason: Why, for the model.
        kind: `"type"` and `"value"` say that the value is something else altogether.
        wanted: For those two: what it must be, to be joined by "or".
    """

    path: tuple[str | int, ...]
    reason: str
    kind: Kind = "other"
    wanted: str = ""


class Alternative(NamedTuple):
    """One of several schemas.

    Attributes:
        tags: The properties that must have one of certain values, which tell it from the others.
        problems: What the value lacks to fit it; never empty.
    """

    tags: Mapping[str, Sequence[Any]]
    problems: Sequence[Problem]

    def is_something_else(self) -> bool:
        """Whether the value is of another type altogether, so that its inside says nothing."""
        return all(not each.path and each.kind in ("type", "value") for each in self.problems)

    def is_null(self) -> bool:
        """Whether only null fits, which a value given was hardly meant as."""
        return self.is_something_else() and self.problems[0].wanted == "null"

    def lacks(self, name: str, kind: Kind) -> bool:
        """Whether one of its problems is of this kind and stands directly at the property `name`."""
        return any(each.kind == kind and each.path == (name,) for each in self.problems)


def mismatch(wanted: str, value: Any, kind: Kind = "type") -> Problem:
    """The problem of a value that is something else than what is wanted."""
    return Problem((), f"must be {wanted}, got {kind_shown(value)}", kind, wanted)


def one_of(options: Iterable[Any]) -> str:
    """`"a"`, or `one of "a", "b"`."""
    values = list(options)
    return listed(values) if len(values) == 1 else f"one of {listed(values)}"


def nearest(alternatives: Sequence[Alternative], value: Any) -> Sequence[Problem]:
    """The problems of the alternative that `value` was most likely meant as.

    By type first, then by tag, then by the number of problems; where that leaves several with one problem each
    at the same place, both reasons.
    """
    meant = [each for each in alternatives if not each.is_null()] or alternatives
    inside = [each for each in meant if not each.is_something_else()]
    if not inside:
        return (mismatch(_wanted(meant), value),)
    if isinstance(value, dict) and len(inside) > 1:
        inside, wrong = _by_tag(inside, value)  # pyright: ignore[reportUnknownArgumentType]
        if wrong is not None:
            return (wrong,)
    fewest = min(len(each.problems) for each in inside)
    return _either([each for each in inside if len(each.problems) == fewest])


def _wanted(alternatives: Sequence[Alternative]) -> str:
    """What each alternative wants, joined by "or": the first twenty, and how many more there are."""
    wanted = list(dict.fromkeys(each.problems[0].wanted for each in alternatives))
    more = len(wanted) - _MOST_WANTED
    return " or ".join(wanted if more <= 0 else [*wanted[:_MOST_WANTED], f"{more} others"])


def _by_tag(inside: Sequence[Alternative], value: Mapping[str, Any]) -> tuple[Sequence[Alternative], Problem | None]:
    """Those with the value's tags, or the problem with a tag that none has."""
    for name in inside[0].tags:
        if not all(name in each.tags for each in inside):
            continue
        options = _distinct(option for each in inside for option in each.tags[name])
        if name in value:
            meant = [each for each in inside if not each.lacks(name, "value")]
            if not meant:
                return inside, Problem((name,), f"must be {one_of(options)}", "value", one_of(options))
            inside = meant
        elif all(each.lacks(name, "missing") for each in inside):
            return inside, Problem((name,), f"required, missing ({one_of(options)})", "missing")
    return inside, None


def _distinct(options: Iterable[Any]) -> list[Any]:
    """Of the first 50,000 (some 20 ms): alternatives may share a long list."""
    return list({repr(option): option for option in islice(options, _MOST_OPTIONS)}.values())


def _either(best: Sequence[Alternative]) -> Sequence[Problem]:
    """The first, or all in one where each has a single problem and all stand at the same place."""
    first = best[0].problems
    if len(best) == 1 or len(first) != 1 or any(each.problems[0].path != first[0].path for each in best):
        return first
    reasons = list(dict.fromkeys(each.problems[0].reason for each in best))
    return (Problem(first[0].path, "; or ".join(reasons[:3]), first[0].kind, first[0].wanted),)


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

MOST_STEPS: Final = 100_000
"""Steps of one search: pairs of schema and value, and the parts of each rule. Some 100 ms."""

_MOST_HOPS: Final = 16

_TYPES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "number": ("a number", lambda value: type(value) in (int, float)),
    "integer": ("an integer", lambda value: type(value) is int or (type(value) is float and value.is_integer())),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "array": ("an array", lambda value: isinstance(value, list | tuple)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "null": ("null", lambda value: value is None),
}


@define
class Diagnosis:
    """One search; it may miss what it has no words for.

    Attributes:
        references: Of the schema.
        left: How many steps it may still take; below 0 it has given up, and the rest counts as fitting.
    """

    references: References
    left: int = MOST_STEPS
    _seen: dict[tuple[int, int], Sequence[Problem]] = field(
        factory=dict[tuple[int, int], Sequence[Problem]], init=False
    )

    def problems(self, schema: JsonSchema | bool, value: Any) -> Sequence[Problem]:
        """What keeps `value` from fitting `schema`, at most 20."""
        if isinstance(schema, bool):
            return () if schema else (Problem((), "must not be given"),)
        pair = (id(schema), id(value))
        if (known := self._seen.get(pair)) is not None:
            return known
        if not self.pays(1):
            return ()
        self._seen[pair] = ()
        found = self._seen[pair] = tuple(islice(self._search(schema, value), MOST_PROBLEMS))
        return found

    def pays(self, steps: int) -> bool:
        """Takes so many steps off the budget; whether there were as many."""
        self.left -= steps
        return self.left >= 0

    def fits(self, schema: JsonSchema | bool, value: Any) -> bool:
        """Whether nothing was found that keeps `value` from fitting `schema`."""
        return not self.problems(schema, value)

    def below(self, schema: JsonSchema | bool, value: Any, step: str | int) -> Iterator[Problem]:
        """The problems of a part of the value, seen from the whole."""
        for path, reason, kind, wanted in self.problems(schema, value):
            yield Problem((step, *path), reason, kind, wanted)

    def followed(self, schema: JsonSchema | bool) -> JsonSchema | bool:
        """What a schema that only refers to another comes to."""
        for _ in range(_MOST_HOPS):
            target = next(self.references.targets(schema), None) if isinstance(schema, dict) else None
            if target is None:
                break
            schema = target
        return schema

    def _search(self, schema: JsonSchema, value: Any) -> Iterator[Problem]:
        if self.references.legacy and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        if "enum" in schema and not isinstance(value, str) and not self.pays(_parts(schema["enum"])):
            return
        if (wrong := _something_else(schema, value)) is not None:
            yield wrong
            return
        checks = cast("Mapping[str, Callable[..., Found]]", CHECKS[type(value)])
        for keyword, rule in schema.items():
            if (check := checks.get(keyword)) and self.pays(_parts(rule)):
                yield from check(self, rule, schema, value)


def _parts(rule: Any) -> int:
    return len(rule) if is_object(rule) or is_array(rule) else 1


def _something_else(schema: JsonSchema, value: Any) -> Problem | None:
    """The problem of a value that isn't among those allowed, or of none of the types."""
    if "const" in schema and not _is_among([schema["const"]], value):
        return _none_of([schema["const"]])
    if "enum" in schema and not _is_among(schema["enum"], value):
        return _none_of(schema["enum"])
    wanted = schema.get("type")
    if wanted is None:
        return None
    names: list[str] = [wanted] if isinstance(wanted, str) else wanted
    if any(_TYPES[name][1](value) for name in names):
        return None
    meant = [name for name in names if name != "null"] or names
    return mismatch(" or ".join(_TYPES[name][0] for name in meant), value)


def _is_among(options: Sequence[Any], value: Any) -> bool:
    return value in options if isinstance(value, str) else any(_is_same(each, value) for each in options)


def _is_same(one: Any, other: Any) -> bool:
    """JSON's equality, which isn't Python's: true is not 1, but 1.0 is."""
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(_is_same(item, other[name]) for name, item in one.items())
    if is_array(one) and isinstance(other, list | tuple):
        items = cast("Sequence[Any]", other)
        return len(one) == len(items) and all(map(_is_same, one, items))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _none_of(options: Sequence[Any]) -> Problem:
    return Problem((), f"must be {one_of(options)}", "value", one_of(options))
