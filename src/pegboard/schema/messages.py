"""Error messages for values that don't fit a schema, each with its path; and coercion of such values.

jsonschema-rs judges the keywords about a value itself; the search applies the schemas of its parts, and of a union
selects the alternative that was meant. jsonschema-rs could list all errors, but does so for every branch of every union
at every level: for a recursive union of four, six levels of nesting take it half a second, ten would take minutes. Here
each pair of schema and value is visited once, and the whole search has a budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from attrs import field

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
from pegboard.schema.references import REFERENCES, References, compiled, matcher
from pegboard.typing import JsonObject, JsonSchema, define

if TYPE_CHECKING:
    from jsonschema_rs import Validator

MOST_STEPS: Final = 100_000
"""The budget of one search in steps: pairs of schema and value, and the parts of each rule. About 100 ms."""
_MOST_KEYS: Final = 20
_MOST_OPTIONS: Final = 50_000
_MOST_WANTED: Final = 20
_Path: TypeAlias = tuple[str | int, ...]


class _SpentError(Exception):
    """The budget is exhausted: it isn't known whether a value fits."""


class _Problem(NamedTuple):
    """One problem of a value."""

    path: _Path  # from the value
    reason: str  # for the model
    wanted: str = ""  # if the whole value is of another type, or not among the listed ones: what to join by "or"


_Found: TypeAlias = Iterator[_Problem]
_Alternative: TypeAlias = tuple[JsonSchema, Sequence[_Problem]]  # one of several schemas, and why it refused the value
_MISSING: Final = "required, missing"
_NULL: Final = {"type": "null"}  # by far the most common alternative
_NOT_NULL: Final = (_Problem((), "must be null", "null"),)
_TO_ANY: Final = frozenset({*REFERENCES, "allOf", "anyOf", "oneOf", "not", "if"})
_PARTS_OF_ARRAY: Final = frozenset({"prefixItems", "items", "additionalItems"})
_PARTS_OF_OBJECT: Final = frozenset({"properties", "patternProperties", "additionalProperties"})
_TO_PARTS: Final = _PARTS_OF_ARRAY | _PARTS_OF_OBJECT
_TO_ARRAY: Final = _TO_ANY | _PARTS_OF_ARRAY | {"contains"}
_TO_OBJECT: Final = (
    _TO_ANY | _PARTS_OF_OBJECT | {"required", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies"}
)
_APPLIED: Final[Mapping[Any, frozenset[str]]] = {dict: _TO_OBJECT, list: _TO_ARRAY, tuple: _TO_ARRAY}
"""By the class of a value: the keywords that apply other schemas to it or to its parts."""


def explain(schema: str, value: Any, steps: int = MOST_STEPS) -> Sequence[tuple[Sequence[str | int], str]]:
    """The reasons why a schema (as JSON text) refused a value, at most 20, each as path and reason.

    None for keywords without messages here, and if the budget ended before anything was found.
    """
    search = _search_of(schema, steps)
    try:
        found = search.problems(search.references.root, value)
    except (_SpentError, RecursionError, AttributeError, KeyError, TypeError, ValueError):
        return ()  # a keyword that its draft doesn't define may have any value
    return [(each.path, each.reason) for each in dict.fromkeys(found)]


def _search_of(schema: str, steps: int = MOST_STEPS) -> SchemaSearch:
    references, judges = _prepared(schema)
    return SchemaSearch(references, steps, judges)


@lru_cache(maxsize=32)
def _prepared(schema: str) -> tuple[References, dict[int, Validator]]:
    return References(json.loads(schema)), {}


# The search -----------------------------------------------------------------------------------------------------------


@define
class SchemaSearch:
    """One search for problems, with a budget of steps; keywords without messages are ignored."""

    references: References
    left: int = MOST_STEPS
    _judges: dict[int, Validator] = field(factory=dict[int, "Validator"])
    """By the id of a schema: a validator of its keywords about a value itself."""
    _seen: dict[tuple[int, int], tuple[Any, Sequence[_Problem]]] = field(factory=dict[Any, Any], init=False)
    """By the ids of a schema and a value: the value, which keeps its id valid, and its problems."""

    def problems(self, schema: JsonSchema | bool, value: Any) -> Sequence[_Problem]:
        """The problems of `value` by `schema`, at most 20; if the budget ends, those found before, or `_SpentError`."""
        if isinstance(schema, bool):
            return () if schema else (_Problem((), "must not be given"),)
        pair = (id(schema), id(value))
        if (known := self._seen.get(pair)) is not None:
            return known[1]
        self.pay(1)
        judge = self._judges.get(id(schema)) or self._judge(schema)
        applied, is_right = _APPLIED.get(type(value), _TO_ANY), judge.is_valid(value)
        if is_right and applied.isdisjoint(schema):
            return ()
        wrong = {} if is_right else {each.kind.name: each.kind.value for each in judge.iter_errors(value)}
        for keyword in _WHOLE if wrong else ():
            if keyword in wrong:
                return (_mismatch(keyword, schema, value),)
        found: list[_Problem] = []
        self._seen[pair] = value, ()  # while it isn't known
        try:
            found.extend(islice(self._search(wrong, applied, schema, value), MOST_PROBLEMS))
        except (_SpentError, RecursionError):  # `found` has those before the budget ended
            if not found:
                del self._seen[pair]
                raise
        self._seen[pair] = value, found
        return found

    def fits(self, schema: JsonSchema | bool, value: Any) -> bool:
        """Whether no problem of `value` is known, also where the budget ends before one is found."""
        try:
            return not self.problems(schema, value)
        except _SpentError:
            return True

    def pay(self, steps: int) -> None:
        """Takes steps off the budget; raises `_SpentError` if there weren't enough."""
        self.left -= steps
        if self.left < 0:
            raise _SpentError

    def _judge(self, schema: JsonSchema) -> Validator:
        own = {} if self._is_hidden(schema) else {name: schema[name] for name in OWN_KEYWORDS.keys() & schema.keys()}
        if (draft := self.references.root.get("$schema")) is not None:
            own["$schema"] = draft
        judge = self._judges[id(schema)] = compiled(json_text(own))
        return judge

    def _is_hidden(self, schema: JsonSchema) -> bool:
        """Whether a reference disables the keywords beside it."""
        return self.references.legacy and "$ref" in schema

    def _search(self, wrong: JsonObject, applied: Collection[str], schema: JsonSchema, value: Any) -> _Found:
        for keyword, rule in [("$ref", schema["$ref"])] if self._is_hidden(schema) else schema.items():
            if keyword in wrong:
                yield _Problem((), _own_reason(keyword, wrong[keyword], value))
            elif keyword in applied:
                self.pay(len(rule) if type(rule) in (dict, list) else 1)
                apply = self._apply_to_parts if keyword in _TO_PARTS else self._apply
                yield from apply(keyword, rule, schema, value)

    def _apply(self, keyword: str, rule: Any, schema: JsonSchema, value: Any) -> _Found:  # noqa: C901, PLR0912  (by keyword)
        """The problems by a keyword that applies schemas to the whole value; `rule` is its value in `schema`."""
        match keyword:
            case "required":  # first, as most schemas have it
                for name in rule:
                    if name not in value:
                        yield _Problem((name,), _MISSING)
            case "$ref" | "$dynamicRef" | "$recursiveRef":
                if (target := self.references.target(rule)) is not None:
                    yield from self.problems(target, value)
            case "allOf":
                yield from dict.fromkeys(chain.from_iterable(self.problems(part, value) for part in rule))
            case "anyOf" | "oneOf":
                problems = [
                    _NOT_NULL if part == _NULL and value is not None else self.problems(part, value) for part in rule
                ]
                if (fitting := sum(not each for each in problems)) > 1 and keyword == "oneOf":
                    yield _Problem((), f"must fit exactly one of {len(rule)} alternatives, fits {fitting}")
                elif not fitting:
                    yield from _nearest(self, list(zip(rule, problems, strict=True)), value)
            case "not":
                if not self.problems(rule, value):
                    yield _Problem((), f"must not fit {json_text(rule)[:60]}")
            case "if":
                yield from self.problems(schema.get("else" if self.problems(rule, value) else "then", True), value)
            case "propertyNames":
                for name in value:
                    for found in self.problems(rule, name):
                        yield _Problem((), f"key {short_json(name)}: {found.reason}")
            case "contains":
                fitting = sum(not self.problems(rule, item) for item in value)
                least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
                if not least <= fitting <= most:
                    limit, count = ("at least", least) if fitting < least else ("at most", most)
                    yield _Problem((), f"must contain {limit} {count_text(count, 'matching item')}, got {fitting}")
            case _:  # `dependencies` of old drafts requires properties or a schema, as the two that came later
                for name in (name for name in rule if name in value):
                    if is_array(rule[name]):
                        words = f"required together with {short_json(name)}, missing"
                        yield from (_Problem((other,), words) for other in rule[name] if other not in value)
                    else:
                        yield from self.problems(rule[name], value)

    def _apply_to_parts(self, keyword: str, rule: Any, schema: JsonSchema, value: Any) -> _Found:
        for step, part in self.parts(keyword, rule, schema, value):
            if part is False and keyword == "additionalProperties":
                patterns = map("any that matches {:.100}".format, schema.get("patternProperties", {}))
                yield _Problem((step,), _unknown_key([*schema.get("properties", {}), *patterns]))
            elif found := self.problems(part, value[step]):
                yield from _below(step, found)

    def parts(self, keyword: str, rule: Any, schema: JsonSchema, value: Any) -> Iterable[tuple[Any, Any]]:
        """The parts of a value to which a keyword applies schemas, by key or position, each with its schema."""
        if keyword == "properties":
            return [(name, part) for name, part in rule.items() if name in value]
        if keyword == "patternProperties":
            self.pay(len(value) * len(rule))
            return [(name, part) for pattern, part in rule.items() for name in _matching([pattern], value)]
        if keyword == "additionalProperties":
            known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
            self.pay(len(value) * (1 + len(patterns)))
            named = {*known, *_matching(patterns, value)} if patterns else known
            return [(name, rule) for name in value if name not in named]
        if is_array(rule):  # `prefixItems`, and `items` of drafts 4 to 7
            return enumerate(rule[: len(value)])
        # of the items behind those that have their own schemas
        first: Any = schema.get("prefixItems", []) if keyword == "items" else schema.get("items")
        return [(index, rule) for index in range(len(first), len(value))] if is_array(first) else []


def _below(step: str | int, found: Sequence[_Problem]) -> Sequence[_Problem]:
    """The problems of a part of a value, with paths from the whole."""
    return [_Problem((step, *path), reason, wanted) for path, reason, wanted in found]


def _matching(patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    matches = [each for each in map(_matcher, patterns) if each is not None]
    return [name for name in names if any(match(name) for match in matches)] if matches else []


_matcher: Final = lru_cache(maxsize=64)(matcher)


def _unknown_key(known: Sequence[str]) -> str:
    if not known:
        return "unknown key (no keys are known here)"
    more = f" and {len(known) - _MOST_KEYS} more" if len(known) > _MOST_KEYS else ""
    return f"unknown key (known: {', '.join(known[:_MOST_KEYS])}{more})"


# Keywords about a value itself ----------------------------------------------------------------------------------------

_WHOLE: Final = ("const", "enum", "type")  # if a value breaks one of them, the other keywords don't matter
OWN_KEYWORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_WHOLE, ""),
    "minimum": "must be at least {}, got {}",
    "maximum": "must be at most {}, got {}",
    "exclusiveMinimum": "must be more than {}, got {}",
    "exclusiveMaximum": "must be less than {}, got {}",
    "multipleOf": "must be a multiple of {}, got {}",
    "pattern": "must match the pattern {}, got {}",
    "uniqueItems": "must not hold the same item twice",
    **{f"min{noun}": "must have at least {}, got {}" for noun in ("Length", "Items", "Properties")},
    **{f"max{noun}": "must have at most {}, got {}" for noun in ("Length", "Items", "Properties")},
}
_NOUNS: Final = {"Length": "character", "Items": "item", "Properties": "key"}
_TYPES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", lambda value: type(value) is int or (type(value) is float and value.is_integer())),
    "number": ("a number", lambda value: type(value) in (int, float)),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "array": ("an array", lambda value: isinstance(value, list | tuple)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "null": ("null", lambda value: value is None),
}


def _own_reason(keyword: str, rule: Any, value: Any) -> str:
    if noun := _NOUNS.get(keyword[3:]):
        return OWN_KEYWORDS[keyword].format(count_text(rule, noun), len(value))
    return OWN_KEYWORDS[keyword].format(short_json(rule), short_json(value))


def _mismatch(keyword: str, schema: JsonSchema, value: Any) -> _Problem:
    """The problem of a value that isn't among the listed ones, or of another type."""
    rule = schema[keyword]
    if keyword != "type":
        wanted = _one_of([rule] if keyword == "const" else rule)
        return _Problem((), f"must be {wanted}", wanted)
    names: list[str] = [rule] if isinstance(rule, str) else [name for name in rule if name != "null"] or rule
    return _not_wanted(" or ".join(_TYPES[name][0] for name in names), value)


def _not_wanted(wanted: str, value: Any) -> _Problem:
    return _Problem((), f"must be {wanted}, got {short_json_with_kind(value)}", wanted)


def _one_of(options: Iterable[Any]) -> str:
    """`"a"`, or `one of "a", "b"`."""
    values = list(options)
    return list_text(values) if len(values) == 1 else f"one of {list_text(values)}"


def is_of(value: Any, types: Iterable[str]) -> bool:
    """Whether a JSON value is of one of some types; every integer is a number, and 1.0 an integer."""
    return any(_TYPES[name][1](value) for name in types)


def type_of(value: Any) -> str:
    """The type that JSON Schema has for a JSON value, `"integer"` for a number that is one."""
    return next(name for name in _TYPES if is_of(value, [name]))


# Alternatives: the message for a value that fits none -----------------------------------------------------------------


def _nearest(search: SchemaSearch, alternatives: Sequence[_Alternative], value: Any) -> Sequence[_Problem]:
    """The problems of the alternative that `value` was most likely meant for: by type, then by tag, then by number.

    Several with one problem each at the same path are joined.
    """
    inside = [each for each in alternatives if any(found.path or not found.wanted for found in each[1])]
    if not inside:
        wanted = list(dict.fromkeys(found[0].wanted for _, found in alternatives))
        wanted = [each for each in wanted if each != "null"] or wanted  # a given value was hardly meant to be null
        more = len(wanted) - _MOST_WANTED
        return (_not_wanted(" or ".join(wanted if more <= 0 else [*wanted[:_MOST_WANTED], f"{more} others"]), value),)
    found = [each for _, each in inside]
    if len(inside) > 1 and is_object(value):
        found = _by_tag([(_tags(search, part), each) for part, each in inside], value)
    fewest = min(map(len, found))
    best = [each for each in found if len(each) == fewest]
    if len(best) == 1 or fewest > 1 or any(each[0].path != best[0][0].path for each in best):
        return best[0]
    return (best[0][0]._replace(reason="; or ".join([*dict.fromkeys(each[0].reason for each in best)][:3])),)


def _by_tag(inside: list[tuple[JsonObject, Sequence[_Problem]]], value: JsonObject) -> list[Sequence[_Problem]]:
    """The problems of the alternatives with the value's tags, or the one of its tag if none has it."""
    for name in inside[0][0]:
        if not all(name in tags for tags, _ in inside):
            continue
        # Only the first 50,000 (about 20 ms): alternatives may share a long list.
        every = islice(chain.from_iterable(tags[name] for tags, _ in inside), _MOST_OPTIONS)
        options = _one_of({repr(option): option for option in every}.values())
        if name in value:
            inside = [each for each in inside if not any(bad.path == (name,) and bad.wanted for bad in each[1])]
            if not inside:
                return [[_Problem((name,), f"must be {options}", options)]]
        elif all(_Problem((name,), _MISSING) in found for _, found in inside):
            return [[_Problem((name,), f"{_MISSING} ({options})")]]
    return [found for _, found in inside]


def _tags(search: SchemaSearch, part: JsonSchema) -> JsonObject:
    """The properties that a schema, or the one that it refers to, restricts to certain values."""
    target = next(search.references.targets(part), None) or part if is_object(part) else None
    properties: JsonObject = target.get("properties", {}) if is_object(target) else {}
    rules = {name: rule for name, rule in properties.items() if is_object(rule)}
    allowed = {name: [rule["const"]] if "const" in rule else rule.get("enum", ()) for name, rule in rules.items()}
    return {name: options for name, options in allowed.items() if options}


# Coercion -------------------------------------------------------------------------------------------------------------
# docs/reference/calls.md says what is converted, and what never is.


class _Fit(NamedTuple):
    """The best fit of a value, the changes made, and its distance from the given value."""

    value: Any
    changes: tuple[str, ...] = ()
    cost: int = 0

    def then(self, other: _Fit) -> _Fit:
        """`other`, with the changes and cost of this one before it."""
        return _Fit(other.value, self.changes + other.changes, self.cost + other.cost)


def best_fit(value: Any, schema: str, *, only_nulls: bool = False) -> tuple[Any, tuple[str, ...]]:
    """The best fit of a value for a schema (JSON text), itself if nothing helps; each change as `"path: from -> to"`.

    With `only_nulls`, nulls are left out, and nothing else.
    """
    try:
        search = _search_of(schema)
        return _Coercion(search, only_nulls).fit(search.references.root, value, ())[:2]
    except (_SpentError, RecursionError, AttributeError, KeyError, TypeError, ValueError):
        return value, ()  # a keyword that its draft doesn't define may have any value


@define
class _Coercion:
    search: SchemaSearch
    only_nulls: bool
    _known: dict[tuple[int, int, _Path], tuple[Any, _Fit]] = field(factory=dict[Any, Any], init=False)
    """By the ids of a schema and a value, and its path: the value, which keeps its id valid, and its fit."""

    def fit(self, schema: JsonSchema | bool, value: Any, path: _Path) -> _Fit:
        """The best fit of a part of the value for its own schema."""
        if not isinstance(schema, dict) or self.search.fits(schema, value):
            return _Fit(value)
        self.search.left -= 1
        if len(path) > MAX_DEPTH or self.search.left < 0:
            return _Fit(value)
        key = (id(schema), id(value), path)
        if key not in self._known:
            self._known[key] = value, _Fit(value)  # for a recursive schema
            self._known[key] = value, self._search(schema, value, path)
        return self._known[key][1]

    def _search(self, schema: JsonSchema, value: Any, path: _Path) -> _Fit:
        best = _Fit(value)
        for part in (*self.search.references.targets(schema), *_list(schema, "allOf")):
            best = best.then(self.fit(part, best.value, path))
        if self.search.references.legacy and "$ref" in schema:
            return best
        for keyword in ("anyOf", "oneOf"):
            if branches := _list(schema, keyword):
                best = best.then(self._branch(branches, best.value, path))
        if "if" in schema:
            way = "then" if self.search.fits(schema["if"], best.value) else "else"
            best = best.then(self.fit(schema.get(way, True), best.value, path))
        if not self.only_nulls:
            best = best.then(self._convert(schema, best.value, path))
        return best.then(self._inside(schema, best.value, path))

    def _branch(self, branches: Sequence[Any], value: Any, path: _Path) -> _Fit:
        """The fit for the alternative with the fewest changes, which may be none; unchanged on a tie."""
        found = [(branch, self.fit(branch, value, path)) for branch in branches]
        return _cheapest([each for branch, each in found if self.search.fits(branch, each.value)], value)

    def _convert(self, schema: JsonSchema, value: Any, path: _Path) -> _Fit:
        """The value converted to another type, or to a listed word."""
        found: list[_Fit] = []
        for candidate, cost in self._candidates(schema, value):
            change = f"{path_text(path)}: {short_json_with_kind(value)} -> {short_json_with_kind(candidate)}"
            best = _Fit(candidate, (change,), cost).then(self._inside(schema, candidate, path))
            if self.search.fits(schema, best.value):
                found.append(best)
        return _cheapest(found, value)

    def _candidates(self, schema: JsonSchema, value: Any) -> Iterator[tuple[Any, int]]:
        """The conversions of the value to try, each with its cost."""
        words = [schema["const"]] if "const" in schema else _list(schema, "enum")
        types = schema.get("type", [])
        wanted = ({types} if isinstance(types, str) else set(types)) or set(map(type_of, words))
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

    def _inside(self, schema: JsonSchema, value: Any, path: _Path) -> _Fit:
        """The value with its items or members coerced."""
        items, keywords, optional = dict[Any, Any](), _PARTS_OF_ARRAY, set[str]()
        if is_object(value):
            items, keywords = dict(value), _PARTS_OF_OBJECT
            optional = {*schema.get("properties", ())} - {*schema.get("required", ())}
        elif is_array(value):
            items = dict(enumerate(value))
        best = _Fit(value)
        for keyword in [each for each in schema if items and each in keywords]:
            for step, part in self.search.parts(keyword, schema[keyword], schema, value):
                if step not in items:  # another keyword has left it out
                    continue
                if step in optional and items[step] is None and not self.search.fits(part, None):
                    del items[step]
                    each = _Fit(None, (f"{path_text((*path, step))}: null -> left out",), 1)
                else:
                    each = self.fit(part, items[step], (*path, step))
                    items[step] = each.value
                best = best.then(each)
        if not best.changes:
            return _Fit(value)
        return best._replace(value=items if is_object(value) else list(items.values()))


def _list(schema: JsonSchema, keyword: str) -> list[Any]:
    return rule if is_array(rule := schema.get(keyword)) else []


def _cheapest(found: Sequence[_Fit], value: Any) -> _Fit:
    """The fit with the lowest cost; the unchanged value if several different ones have it."""
    least = min((each.cost for each in found), default=0)
    best = [each for each in found if each.cost == least]
    if best and all(canonical_json(each.value) == canonical_json(best[0].value) for each in best):
        return best[0]
    return _Fit(value)


def without_added_nulls(arguments: JsonObject, schema: JsonSchema | str) -> JsonObject:
    """A strict call's arguments without the nulls by which a model omits properties: a strict dialect requires all.

    A member that is null goes where the tool's own schema neither accepts null nor requires the property; among
    alternatives, the one that fits with the fewest removals counts.

    Returns:
        The arguments themselves if nothing is removed, or if they aren't JSON; else a copy.
    """
    text = schema if isinstance(schema, str) else json_text(schema)
    return arguments if json_problems(arguments) else best_fit(arguments, text, only_nulls=True)[0]
