"""Error messages for values that don't fit a schema, each with its path; and coercion of such values.

jsonschema-rs validates; this only describes why it refused. jsonschema-rs could list its errors too, but does so for
every branch of every union at every level: for a recursive union of four, six levels of nesting take it 380 ms, ten
would take a minute. Here each pair of schema and value is visited once, and the whole search has a budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from attrs import define, field

from pegboard.json import (
    MAX_DEPTH,
    MOST_PROBLEMS,
    canonical_json,
    count_text,
    is_array,
    is_object,
    json_problems,
    json_text,
    list_text,
    path_text,
    short_json,
    short_json_with_kind,
    strict_json,
)
from pegboard.schema.references import REFERENCES, References, compiled
from pegboard.typing import JsonObject, JsonSchema

MOST_STEPS: Final = 100_000
"""The budget of one search in steps: pairs of schema and value, and the parts of each rule. About 100 ms."""
_MOST_KEYS: Final = 20
_MOST_OPTIONS: Final = 50_000
_MOST_WANTED: Final = 20
_Kind: TypeAlias = Literal["type", "value", "missing", "other"]
_Path: TypeAlias = tuple[str | int, ...]


class _SpentError(Exception):
    """The budget is exhausted: it isn't known whether a value fits."""


def explained(root: Any, value: Any, steps: int = MOST_STEPS) -> Sequence[tuple[Sequence[str | int], str]] | None:
    """The reasons why a schema refused a value, at most 20, each as path and reason.

    Returns:
        Empty for keywords without messages here; `None` if the budget ended before anything was found.
    """
    search = SchemaSearch(References(root), steps)
    try:
        return [(each.path, each.reason) for each in search.problems(root, value)]
    except (_SpentError, RecursionError):
        return None
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()  # a keyword that its draft doesn't define may have any value


# The search -----------------------------------------------------------------------------------------------------------


class _Problem(NamedTuple):
    """One problem of a value."""

    path: _Path  # from the value
    reason: str  # for the model
    kind: _Kind = "other"  # "type" or "value" if the whole value is of another type, or not among the listed ones
    wanted: str = ""  # for those two: the expected values, to be joined by "or"


_Found: TypeAlias = Iterator[_Problem]


@define
class SchemaSearch:
    """One search for problems, with a budget of steps; keywords without messages are ignored."""

    references: References
    left: int = MOST_STEPS
    _seen: dict[tuple[int, int], Sequence[_Problem]] = field(
        factory=dict[tuple[int, int], Sequence[_Problem]], init=False
    )

    def problems(self, schema: JsonSchema | bool, value: Any) -> Sequence[_Problem]:
        """The problems of `value` by `schema`, at most 20; if the budget ends, those found before, or `_SpentError`."""
        if isinstance(schema, bool):
            return () if schema else (_Problem((), "must not be given"),)
        pair = (id(schema), id(value))
        if (known := self._seen.get(pair)) is not None:
            return known
        self.pay(1)
        self._seen[pair] = ()
        found: list[_Problem] = []
        try:
            for each in islice(self._search(schema, value), MOST_PROBLEMS):
                found.append(each)  # noqa: PERF402  (those found before the budget ends are used)
        except (_SpentError, RecursionError):
            if not found:
                del self._seen[pair]
                raise
        self._seen[pair] = found
        return found

    def fits(self, schema: JsonSchema | bool, value: Any) -> bool:
        """Whether no problem of `value` is known; always, once the budget is exhausted."""
        try:
            return not self.problems(schema, value)
        except _SpentError:
            return True

    def pay(self, steps: int) -> None:
        """Takes steps off the budget; raises `_SpentError` if there weren't enough."""
        self.left -= steps
        if self.left < 0:
            raise _SpentError

    def below(self, schema: JsonSchema | bool, value: Any, step: str | int) -> _Found:
        """The problems of a part of the value, with paths from the whole."""
        for path, reason, kind, wanted in self.problems(schema, value):
            yield _Problem((step, *path), reason, kind, wanted)

    def _search(self, schema: JsonSchema, value: Any) -> _Found:
        if self.references.legacy and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        if "enum" in schema and not isinstance(value, str):
            self.pay(_parts(schema["enum"]))
        if (wrong := _type_problem(schema, value)) is not None:
            yield wrong
            return
        checks = _CHECKS[cast("type", type(value))]
        for keyword, rule in schema.items():
            if check := checks.get(keyword):
                self.pay(_parts(rule))
                yield from check(self, rule, schema, value)


def _parts(rule: Any) -> int:
    return len(rule) if is_object(rule) or is_array(rule) else 1


def _type_problem(schema: JsonSchema, value: Any) -> _Problem | None:
    """The problem of a value that isn't among the listed ones, or not of the type."""
    for options in ([schema["const"]] if "const" in schema else None, schema.get("enum")):
        if options is not None and not (value in options if isinstance(value, str) else holds("enum", options, value)):
            return _Problem((), f"must be {_one_of(options)}", "value", _one_of(options))
    wanted = schema.get("type")
    names: list[str] = [wanted] if isinstance(wanted, str) else wanted or []
    if not names or is_of(value, names):
        return None
    meant = [name for name in names if name != "null"] or names
    return _mismatch(" or ".join(_TYPES[name][0] for name in meant), value)


_TYPES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", lambda value: type(value) is int or (type(value) is float and value.is_integer())),
    "number": ("a number", lambda value: type(value) in (int, float)),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "array": ("an array", lambda value: isinstance(value, list | tuple)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "null": ("null", lambda value: value is None),
}


def is_of(value: Any, types: Iterable[str]) -> bool:
    """Whether a JSON value is of one of some types; every integer is a number, and 1.0 an integer."""
    return any(_TYPES[name][1](value) for name in types)


def type_of(value: Any) -> str:
    """The type that JSON Schema has for a JSON value, `"integer"` for a number that is one."""
    return next(name for name in _TYPES if is_of(value, [name]))


def _mismatch(wanted: str, value: Any) -> _Problem:
    return _Problem((), f"must be {wanted}, got {short_json_with_kind(value)}", "type", wanted)


def _one_of(options: Iterable[Any]) -> str:
    """`"a"`, or `one of "a", "b"`."""
    values = list(options)
    return list_text(values) if len(values) == 1 else f"one of {list_text(values)}"


# Alternatives: the message for a value that fits none -----------------------------------------------------------------


class _Alternative(NamedTuple):
    """One of several schemas."""

    tags: Mapping[str, Sequence[Any]]  # the properties restricted to certain values, which distinguish it
    problems: Sequence[_Problem]  # why the value doesn't fit it; never empty

    def is_of_other_type(self) -> bool:
        """Whether the whole value is of another type, so that its parts don't matter."""
        return all(not each.path and each.kind in ("type", "value") for each in self.problems)

    def lacks(self, name: str, kind: _Kind) -> bool:
        """Whether it has a problem of this kind directly at the property `name`."""
        return any(each.kind == kind and each.path == (name,) for each in self.problems)


def _nearest(alternatives: Sequence[_Alternative], value: Any) -> Sequence[_Problem]:
    """The problems of the alternative that `value` was most likely meant for.

    Selects by type, then by tag, then by the number of problems; several with one problem each at the same path are
    joined.
    """
    inside = [each for each in alternatives if not each.is_of_other_type()]
    if not inside:
        wanted = list(dict.fromkeys(each.problems[0].wanted for each in alternatives))
        wanted = [each for each in wanted if each != "null"] or wanted  # a given value was hardly meant to be null
        more = len(wanted) - _MOST_WANTED
        return (_mismatch(" or ".join(wanted if more <= 0 else [*wanted[:_MOST_WANTED], f"{more} others"]), value),)
    if is_object(value) and len(inside) > 1:
        inside, wrong = _by_tag(inside, value)
        if wrong is not None:
            return (wrong,)
    fewest = min(len(each.problems) for each in inside)
    return _joined([each.problems for each in inside if len(each.problems) == fewest])


def _by_tag(inside: Sequence[_Alternative], value: Mapping[str, Any]) -> tuple[Sequence[_Alternative], _Problem | None]:
    """The alternatives with the value's tags, or the problem if none has them."""
    for name in inside[0].tags:
        if not all(name in each.tags for each in inside):
            continue
        every = (option for each in inside for option in each.tags[name])
        # Only the first 50,000 (about 20 ms): alternatives may share a long list.
        options = _one_of({repr(option): option for option in islice(every, _MOST_OPTIONS)}.values())
        if name in value:
            meant = [each for each in inside if not each.lacks(name, "value")]
            if not meant:
                return inside, _Problem((name,), f"must be {options}", "value", options)
            inside = meant
        elif all(each.lacks(name, "missing") for each in inside):
            return inside, _Problem((name,), f"required, missing ({options})", "missing")
    return inside, None


def _joined(best: Sequence[Sequence[_Problem]]) -> Sequence[_Problem]:
    """The first alternative's problems, or all in one if each has a single problem at the same path."""
    first = best[0]
    if len(best) == 1 or len(first) != 1 or any(each[0].path != first[0].path for each in best):
        return first
    reasons = list(dict.fromkeys(each[0].reason for each in best))
    return (first[0]._replace(reason="; or ".join(reasons[:3])),)


# Keywords -------------------------------------------------------------------------------------------------------------
# Each check gets the search, the keyword's rule, the schema that contains it, and a value of a type that it applies to.


def holds(keyword: str, rule: Any, value: Any) -> bool:
    """The verdict of jsonschema-rs on one keyword that Python compares differently (patterns, equality, decimals)."""
    return _single(json_text({keyword: rule}))(value)


def _unless(keyword: str) -> Callable[[Any, Any], bool]:
    return lambda value, rule: not holds(keyword, rule, value)


@lru_cache(maxsize=64)
def _single(schema: str) -> Callable[[Any], bool]:
    return compiled(schema).is_valid


def _refer(search: SchemaSearch, rule: str, _schema: JsonSchema, value: Any) -> _Found:
    target = search.references.target(rule)
    if target is not None:
        yield from search.problems(target, value)


def _all_of(search: SchemaSearch, rule: Iterable[JsonSchema], _schema: JsonSchema, value: Any) -> _Found:
    seen: set[_Problem] = set()
    for part in rule:
        for found in search.problems(part, value):
            if found not in seen:
                seen.add(found)
                yield found


def _any_of(search: SchemaSearch, rule: Sequence[JsonSchema], _schema: JsonSchema, value: Any) -> _Found:
    problems = [search.problems(part, value) for part in rule]
    if all(problems):
        pairs = zip(rule, problems, strict=True)
        yield from _nearest([_Alternative(_tags(search, part), found) for part, found in pairs], value)


def _one_of_schemas(search: SchemaSearch, rule: Sequence[JsonSchema], schema: JsonSchema, value: Any) -> _Found:
    fitting = sum(not search.problems(part, value) for part in rule)
    if fitting > 1:
        yield _Problem((), f"must fit exactly one of {len(rule)} alternatives, fits {fitting}")
    elif not fitting:
        yield from _any_of(search, rule, schema, value)


def _tags(search: SchemaSearch, part: JsonSchema) -> Mapping[str, Sequence[Any]]:
    """The properties that a schema, or the one that it refers to, restricts to certain values."""
    target = next(search.references.targets(part), None) or part if is_object(part) else None
    properties: JsonObject = target.get("properties", {}) if is_object(target) else {}
    rules = {name: rule for name, rule in properties.items() if is_object(rule)}
    allowed = {name: [rule["const"]] if "const" in rule else rule.get("enum", ()) for name, rule in rules.items()}
    return {name: options for name, options in allowed.items() if options}


def _not(search: SchemaSearch, rule: JsonSchema, _schema: JsonSchema, value: Any) -> _Found:
    if not search.problems(rule, value):
        yield _Problem((), f"must not fit {json_text(rule)[:60]}")


def _if(search: SchemaSearch, rule: JsonSchema, schema: JsonSchema, value: Any) -> _Found:
    yield from search.problems(schema.get("else" if search.problems(rule, value) else "then", True), value)


def _rule(
    text: str,
    is_wrong: Callable[[Any, Any], bool],
    rule_shown: Callable[[Any], object] = short_json,
    value_shown: Callable[[Any], object] = short_json,
) -> Callable[..., _Found]:
    """A check that compares the value with the rule; the message shows both."""

    def check(_search: SchemaSearch, rule: Any, _schema: JsonSchema, value: Any) -> _Found:
        if is_wrong(value, rule):
            yield _Problem((), text.format(rule_shown(rule), value_shown(value)))

    return check


def _sizes(keyword: str, noun: str) -> dict[str, Callable[..., _Found]]:
    shows = partial(count_text, noun=noun), len
    return {
        f"min{keyword}": _rule("must have at least {}, got {}", lambda value, rule: len(value) < rule, *shows),
        f"max{keyword}": _rule("must have at most {}, got {}", lambda value, rule: len(value) > rule, *shows),
    }


def _required(_search: SchemaSearch, rule: Iterable[str], _schema: JsonSchema, value: JsonObject) -> _Found:
    return (_Problem((name,), "required, missing", "missing") for name in rule if name not in value)


def _properties(search: SchemaSearch, rule: Mapping[str, JsonSchema], _schema: JsonSchema, value: JsonObject) -> _Found:
    for name, part in rule.items():
        if name in value:
            yield from search.below(part, value[name], name)


def _patterned(search: SchemaSearch, rule: Mapping[str, JsonSchema], _schema: JsonSchema, value: JsonObject) -> _Found:
    for pattern, part in rule.items():
        search.pay(len(value))
        for name in _matching([pattern], value):
            yield from search.below(part, value[name], name)


def _others(search: SchemaSearch, rule: JsonSchema | bool, schema: JsonSchema, value: JsonObject) -> _Found:
    known: JsonObject = schema.get("properties", {})
    patterns: JsonObject = schema.get("patternProperties", {})
    search.pay(len(value) * (1 + len(patterns)))
    matching = _matching(patterns, value)
    for name, item in value.items():
        if name in known or name in matching:
            continue
        if rule is False:
            yield _Problem((name,), _unknown_key(list(known)))
        else:
            yield from search.below(rule, item, name)


def _matching(patterns: Iterable[str], names: Iterable[str]) -> Mapping[str, None]:
    matches = [_single(json_text({"pattern": pattern})) for pattern in patterns]
    return {name: None for name in names if any(match(name) for match in matches)} if matches else {}


def _unknown_key(known: Sequence[str]) -> str:
    more = f" and {len(known) - _MOST_KEYS} more" if len(known) > _MOST_KEYS else ""
    return (
        f"unknown key (known: {', '.join(known[:_MOST_KEYS])}{more})"
        if known
        else "unknown key (no keys are known here)"
    )


def _names(search: SchemaSearch, rule: JsonSchema, _schema: JsonSchema, value: JsonObject) -> _Found:
    for name in value:
        for found in search.problems(rule, name):
            yield _Problem((), f"key {short_json(name)}: {found.reason}")


def _dependent(search: SchemaSearch, rule: Mapping[str, Any], _schema: JsonSchema, value: JsonObject) -> _Found:
    """Properties or a schema required by the presence of another; `dependencies` of old drafts may be either."""
    for name, part in rule.items():
        if name in value and is_array(part):
            words = f"required together with {short_json(name)}, missing"
            yield from (_Problem((other,), words, "missing") for other in part if other not in value)
        elif name in value:
            yield from search.problems(part, value)


def _items(search: SchemaSearch, rule: Any, schema: JsonSchema, value: Sequence[Any]) -> _Found:
    if is_array(rule):  # drafts 4 to 7
        yield from _first_items(search, rule, schema, value)
        return
    for index in range(len(schema.get("prefixItems", ())), len(value)):
        yield from search.below(rule, value[index], index)


def _first_items(search: SchemaSearch, rule: Sequence[JsonSchema], _schema: JsonSchema, value: Sequence[Any]) -> _Found:
    for index, (part, item) in enumerate(zip(rule, value, strict=False)):
        yield from search.below(part, item, index)


def _more_items(search: SchemaSearch, rule: JsonSchema, schema: JsonSchema, value: Sequence[Any]) -> _Found:
    first = schema.get("items")
    for index in range(len(first), len(value)) if is_array(first) else ():
        yield from search.below(rule, value[index], index)


def _contains(search: SchemaSearch, rule: JsonSchema, schema: JsonSchema, value: Sequence[Any]) -> _Found:
    fitting = sum(not search.problems(rule, item) for item in value)
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
    if not least <= fitting <= most:
        limit = ("at least", least) if fitting < least else ("at most", most)
        words = f"must contain {limit[0]} {count_text(limit[1], 'matching item')}, got {fitting}"
        yield _Problem((), words)


_ANY: Final[Mapping[str, Callable[..., _Found]]] = {
    **dict.fromkeys(REFERENCES, _refer),
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of_schemas,
    "not": _not,
    "if": _if,
}
_NUMBER: Final[Mapping[str, Callable[..., _Found]]] = {
    **_ANY,
    "minimum": _rule("must be at least {}, got {}", lambda value, rule: value < rule),
    "maximum": _rule("must be at most {}, got {}", lambda value, rule: value > rule),
    "exclusiveMinimum": _rule(
        "must be more than {}, got {}", lambda value, rule: type(rule) is not bool and value <= rule
    ),
    "exclusiveMaximum": _rule(
        "must be less than {}, got {}", lambda value, rule: type(rule) is not bool and value >= rule
    ),
    "multipleOf": _rule("must be a multiple of {}, got {}", _unless("multipleOf")),
}
_TEXT: Final = {
    **_ANY,
    **_sizes("Length", "character"),
    "pattern": _rule("must match the pattern {}, got {}", _unless("pattern")),
}
_OBJECT: Final = {
    **_ANY,
    "required": _required,
    "properties": _properties,
    "patternProperties": _patterned,
    "additionalProperties": _others,
    "propertyNames": _names,
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "dependencies"), _dependent),
    **_sizes("Properties", "key"),
}
_ARRAY: Final = {
    **_ANY,
    "prefixItems": _first_items,
    "items": _items,
    "additionalItems": _more_items,
    "contains": _contains,
    "uniqueItems": _rule("must not hold the same item twice", _unless("uniqueItems")),
    **_sizes("Items", "item"),
}
_CHECKS: Final[Mapping[type, Mapping[str, Callable[..., _Found]]]] = {
    **dict.fromkeys((list, tuple), _ARRAY),
    **dict.fromkeys((int, float), _NUMBER),
    **dict.fromkeys((bool, type(None)), _ANY),
    dict: _OBJECT,
    str: _TEXT,
}


# Coercion -------------------------------------------------------------------------------------------------------------
# Only values that don't fit are changed, and only in the parts that don't:
#
# - a string that is the JSON text of a value of the wanted type becomes that value: `"42"`, `"true"`, `"null"`,
#   `"[1, 2]"`, `'{"a": 1}'` (but not `"True"`, `"yes"`, `"1,000"`: JSON has none of them);
# - an integer becomes the string of its digits (a fraction doesn't: `1.10` was written, `1.1` would arrive);
# - a single value becomes an array of it, if the array accepts it and nothing better fits;
# - null for an optional property that doesn't accept null is left out;
# - a string becomes the only word of an `enum` that differs from it only in case.
#
# Never: a boolean from or to a number, a fraction to an integer, a string split into words, an unknown key dropped. Of
# several alternatives (`anyOf`), the one with the fewest changes is used; with a tie, none.


class _Fitted(NamedTuple):
    """The best fit of a value, the changes made, and its distance from the given value."""

    value: Any
    changes: tuple[str, ...] = ()
    cost: int = 0


def coerced(value: Any, schema: JsonSchema, *, only_nulls: bool = False) -> tuple[Any, tuple[str, ...]]:
    """The best fit of a value, itself if nothing helps, and the changes: `"path: from -> to"` each.

    With `only_nulls`, nulls are left out, and nothing else.
    """
    try:
        return _Coercion(SchemaSearch(References(schema)), only_nulls).fitted(schema, value, ())[:2]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return value, ()  # a keyword that its draft doesn't define may have any value


@define
class _Coercion:
    search: SchemaSearch
    only_nulls: bool
    _known: dict[tuple[int, int, _Path], _Fitted] = field(factory=dict[tuple[int, int, _Path], _Fitted], init=False)
    _alive: list[Any] = field(factory=list[Any], init=False)
    """Every intermediate value: the search caches by `id`, which must not be reused for another value."""

    def fitted(self, schema: JsonSchema | bool, value: Any, path: _Path) -> _Fitted:
        """The best fit of a part of the value for its own schema."""
        if not isinstance(schema, dict) or self.search.fits(schema, value):
            return _Fitted(value)
        self.search.left -= 1
        if len(path) > MAX_DEPTH or self.search.left < 0:
            return _Fitted(value)
        key = (id(schema), id(value), path)
        if (known := self._known.get(key)) is None:
            self._known[key] = _Fitted(value)  # for a recursive schema
            known = self._known[key] = self._made_to_fit(schema, value, path)
            self._alive.append(known.value)
        return known

    def _made_to_fit(self, schema: JsonSchema, value: Any, path: _Path) -> _Fitted:
        best = _Fitted(value)
        parts = schema.get("allOf")
        for part in (*self.search.references.targets(schema), *(parts if is_array(parts) else ())):
            best = _after(best, self.fitted(part, best.value, path))
        if self.search.references.legacy and "$ref" in schema:
            return best
        for keyword in ("anyOf", "oneOf"):
            if is_array(branches := schema.get(keyword)):
                best = _after(best, self._branch(branches, best.value, path))
        if "if" in schema:
            way = "then" if self.search.fits(schema["if"], best.value) else "else"
            best = _after(best, self.fitted(schema.get(way, True), best.value, path))
        if not self.only_nulls:
            best = _after(best, self._converted(schema, best.value, path))
        return _after(best, self._inside(schema, best.value, path))

    def _branch(self, branches: Sequence[Any], value: Any, path: _Path) -> _Fitted:
        """The fit for the alternative with the fewest changes; unchanged if one fits already, or on a tie."""
        if any(self.search.fits(branch, value) for branch in branches):
            return _Fitted(value)
        found = [(branch, self.fitted(branch, value, path)) for branch in branches]
        return _cheapest([each for branch, each in found if self.search.fits(branch, each.value)], value)

    def _converted(self, schema: JsonSchema, value: Any, path: _Path) -> _Fitted:
        """The value converted to another type, or to a listed word."""
        found: list[_Fitted] = []
        for candidate, cost in self._candidates(schema, value):
            self._alive.append(candidate)
            change = f"{path_text(path)}: {short_json_with_kind(value)} -> {short_json_with_kind(candidate)}"
            best = _after(_Fitted(candidate, (change,), cost), self._inside(schema, candidate, path))
            if self.search.fits(schema, best.value):
                found.append(best)
        return _cheapest(found, value)

    def _candidates(self, schema: JsonSchema, value: Any) -> Iterator[tuple[Any, int]]:
        """The conversions of the value to try, each with its cost."""
        words: list[Any] = schema["enum"] if is_array(schema.get("enum")) else []
        if "const" in schema:
            words = [schema["const"]]
        types = schema.get("type", [])
        wanted = {types} if isinstance(types, str) else set(types)
        wanted = wanted or set(map(type_of, words))
        if isinstance(value, str):
            yield from ((word, 1) for word in words if isinstance(word, str) and word.casefold() == value.casefold())
        if is_of(value, wanted) and not words:
            return
        read = self._read(value) if isinstance(value, str) else ()
        yield from ((each, 1) for each in read if is_of(each, wanted))
        if "string" in wanted and type(value) is int:
            yield str(value), 1
        if "array" in wanted and value is not None and not any(is_array(each) for each in read):
            yield [value], 2

    def _read(self, text: str) -> tuple[Any, ...]:
        """The value of the string as JSON text, if it is any and the budget allows to read it."""
        try:
            self.search.pay(len(text) // 100)
            return (strict_json(text.encode()),)
        except (_SpentError, ValueError):
            return ()

    def _inside(self, schema: JsonSchema, value: Any, path: _Path) -> _Fitted:
        """The value with its items or members coerced."""
        if is_array(value):
            return self._items(schema, value, path)
        if not is_object(value):
            return _Fitted(value)
        properties: dict[str, Any] = schema.get("properties") or {}
        others = schema.get("additionalProperties", True)
        members, best = dict(value), _Fitted(value)
        for name, item in value.items():
            part = properties.get(name, others)
            may_go = name in properties and name not in (schema.get("required") or ())
            if item is None and may_go and not self.search.fits(part, None):
                del members[name]
                each = _Fitted(None, (f"{path_text((*path, name))}: null -> left out",), 1)
            else:
                each = self.fitted(part, item, (*path, name))
                members[name] = each.value
            best = _after(best, each)
        return best._replace(value=members if best.changes else value)

    def _items(self, schema: JsonSchema, value: list[Any], path: _Path) -> _Fitted:
        first: list[Any] = schema.get("prefixItems") or []
        rest = schema.get("items", True)
        if is_array(rest):  # before draft 2020-12
            first, rest = rest, schema.get("additionalItems", True)
        items, best = list[Any](), _Fitted(value)
        for place, item in enumerate(value):
            each = self.fitted(first[place] if place < len(first) else rest, item, (*path, place))
            items.append(each.value)
            best = _after(best, each)
        return best._replace(value=items if best.changes else value)


def _after(one: _Fitted, other: _Fitted) -> _Fitted:
    """`other`, with the changes and cost of `one` before it."""
    return _Fitted(other.value, one.changes + other.changes, one.cost + other.cost)


def _cheapest(found: Sequence[_Fitted], value: Any) -> _Fitted:
    """The fit with the lowest cost; the unchanged value if several different ones have it."""
    least = min((each.cost for each in found), default=0)
    best = [each for each in found if each.cost == least]
    if best and all(canonical_json(each.value) == canonical_json(best[0].value) for each in best):
        return best[0]
    return _Fitted(value)


def without_added_nulls(arguments: JsonObject, schema: JsonSchema) -> JsonObject:
    """A strict call's arguments without the nulls by which a model omits properties: a strict dialect requires all.

    A member that is null goes where the tool's own schema neither accepts null nor requires the property; among
    alternatives, the one that fits with the fewest removals counts.

    Returns:
        The arguments themselves if nothing is removed, or if they aren't JSON; else a copy.
    """
    return arguments if json_problems(arguments) else coerced(arguments, schema, only_nulls=True)[0]
