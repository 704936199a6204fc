"""`coerced`: arguments that don't fit their schema become ones that do, where nothing is lost by it.

What is tried, only where a value doesn't fit, and only in the places that don't:

- a string that is the JSON text of a value of the wanted type becomes that value: `"42"`, `"true"`, `"null"`,
  `"[1, 2]"`, `'{"a": 1}'` (but not `"True"`, `"yes"`, `"1,000"`: JSON has none of them);
- an integer becomes the string of its digits (a fraction doesn't: `1.10` was written, `1.1` would arrive);
- a single value becomes an array of it, where the array may hold it, and nothing better fits;
- null for a property that may be left out, and mayn't be null, is left out;
- a string becomes the one word of an `enum` that differs from it only in case.

Never: a boolean from or to a number, a fraction to an integer, words out of a string, an unknown key away. Where
several alternatives (`anyOf`) could be meant, the one that takes the fewest changes is; with two such, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from attrs import define, field, frozen
from jiter import from_json

from pegboard.schema.json import MAX_DEPTH, MOST_PROBLEMS, is_array, is_object, json_faults, kind_shown, path_text
from pegboard.schema.messages import SchemaSearch
from pegboard.schema.references import References
from pegboard.typing import JsonSchema

if TYPE_CHECKING:
    from pegboard.tools.tool import Tool

_Path: TypeAlias = tuple[str | int, ...]
_CHARACTERS_A_STEP: Final = 100
_COST_OF_WRAPPING: Final = 2


@frozen
class Coerced:
    """Arguments that fit.

    Attributes:
        arguments: What was given, where it fitted; else a copy.
        changes: `"path: from -> to"` each; at most 20, then how many more.
    """

    arguments: Mapping[str, Any]
    changes: tuple[str, ...] = ()


def coerced(tool: Tool, arguments: Mapping[str, Any]) -> Coerced | None:
    """These arguments as the tool's schema takes them, or `None` where they can't be made to fit without a loss.

    Linear in what is given, within a budget of some 100 ms. Never raises.
    """
    if json_faults(arguments):
        return None
    if tool.validator.accepts(arguments):
        return Coerced(arguments)
    coercion = _Coercion(SchemaSearch(References(tool.spec.input_schema)))
    try:
        value, changes, _ = coercion.fitted(coercion.search.references.root, arguments, ())
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None  # a keyword that its own draft doesn't know may hold anything
    if not is_object(value) or json_faults(value) or not tool.validator.accepts(value):
        return None
    return Coerced(value, _told(changes))


def _told(changes: Sequence[str]) -> tuple[str, ...]:
    more = len(changes) - MOST_PROBLEMS
    return tuple(changes) if more <= 0 else (*changes[:MOST_PROBLEMS], f"and {more} more")


class _Fitted(NamedTuple):
    """A value as it fits best, what was changed for it, and how far it is from what was given."""

    value: Any
    changes: tuple[str, ...] = ()
    cost: int = 0


@define
class _Coercion:
    """One search.

    Attributes:
        search: Finds what fits; its budget is this one's too.
    """

    search: SchemaSearch
    _known: dict[tuple[int, int, _Path], _Fitted] = field(factory=dict[tuple[int, int, _Path], _Fitted], init=False)
    _kept: list[Any] = field(factory=list[Any], init=False)
    """Every value made on the way: the search knows values by their identity, which must not be taken by another."""

    def fitted(self, schema: JsonSchema | bool, value: Any, path: _Path) -> _Fitted:
        """The value as it fits the schema best; itself where nothing helps."""
        if not isinstance(schema, dict) or self.search.fits(schema, value):
            return _Fitted(value)
        if len(path) > MAX_DEPTH or not self.search.pays(1):
            return _Fitted(value)
        key = (id(schema), id(value), path)
        if (known := self._known.get(key)) is None:
            known = self._known[key] = self._made_to_fit(schema, value, path)
            self._kept.append(known.value)
        return known

    def _made_to_fit(self, schema: JsonSchema, value: Any, path: _Path) -> _Fitted:
        best = _Fitted(value)
        for part in self._applied(schema):
            best = _after(best, self.fitted(part, best.value, path))
        if self.search.references.legacy and "$ref" in schema:
            return best
        for keyword in ("anyOf", "oneOf"):
            if is_array(branches := schema.get(keyword)):
                best = _after(best, self._branch(branches, best.value, path))
        best = _after(best, self._converted(schema, best.value, path))
        return _after(best, self._inside(schema, best.value, path))

    def _applied(self, schema: JsonSchema) -> Iterator[Any]:
        yield from self.search.references.targets(schema)
        if is_array(parts := schema.get("allOf")):
            yield from parts

    def _branch(self, branches: Sequence[Any], value: Any, path: _Path) -> _Fitted:
        """The alternative that takes the fewest changes; none where the value fits one, or several are as near."""
        if any(self.search.fits(branch, value) for branch in branches):
            return _Fitted(value)
        found = [(branch, self.fitted(branch, value, path)) for branch in branches]
        return _cheapest([each for branch, each in found if self.search.fits(branch, each.value)], value)

    def _converted(self, schema: JsonSchema, value: Any, path: _Path) -> _Fitted:
        """The value as another type, or as the word that was meant."""
        found: list[_Fitted] = []
        for candidate, cost in self._candidates(schema, value):
            self._kept.append(candidate)
            change = f"{path_text(path)}: {kind_shown(value)} -> {kind_shown(candidate)}"
            best = _after(_Fitted(candidate, (change,), cost), self._inside(schema, candidate, path))
            if self.search.fits(schema, best.value):
                found.append(best)
        return _cheapest(found, value)

    def _candidates(self, schema: JsonSchema, value: Any) -> Iterator[tuple[Any, int]]:
        """What else the value could have been meant as, each with its cost."""
        words: list[Any] = schema["enum"] if is_array(schema.get("enum")) else []
        if "const" in schema:
            words = [schema["const"]]
        wanted = _types(schema) or {_type(word) for word in words}
        if isinstance(value, str):
            yield from ((word, 1) for word in words if isinstance(word, str) and word.casefold() == value.casefold())
        if _fits_type(value, wanted) and not words:
            return
        read = self._read(value) if isinstance(value, str) else ()
        yield from ((each, 1) for each in read if _fits_type(each, wanted))
        if "string" in wanted and type(value) is int:
            yield str(value), 1
        if "array" in wanted and value is not None and not any(is_array(each) for each in read):
            yield [value], _COST_OF_WRAPPING

    def _read(self, text: str) -> tuple[Any, ...]:
        """The value that the string is the JSON text of, if it is one."""
        if not self.search.pays(len(text) // _CHARACTERS_A_STEP):
            return ()
        try:
            return (from_json(text.encode(), allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="none"),)
        except ValueError:
            return ()

    def _inside(self, schema: JsonSchema, value: Any, path: _Path) -> _Fitted:
        """The value with its members made to fit."""
        if is_object(value):
            return self._members(schema, value, path)
        return self._items(schema, value, path) if is_array(value) else _Fitted(value)

    def _members(self, schema: JsonSchema, value: dict[str, Any], path: _Path) -> _Fitted:
        properties: dict[str, Any] = schema.get("properties") or {}
        others = schema.get("additionalProperties", True)
        members, best = dict(value), _Fitted(value)
        for name, item in value.items():
            part = properties.get(name, others)
            if item is None and name in properties and self._may_go(schema, name, part):
                del members[name]
                each = _Fitted(None, (f"{path_text((*path, name))}: null -> left out",), 1)
            else:
                each = self.fitted(part, item, (*path, name))
                members[name] = each.value
            best = _after(best, each)
        return best._replace(value=members if best.changes else value)

    def _may_go(self, schema: JsonSchema, name: str, part: Any) -> bool:
        return name not in (schema.get("required") or ()) and not self.search.fits(part, None)

    def _items(self, schema: JsonSchema, value: list[Any], path: _Path) -> _Fitted:
        first: list[Any] = schema.get("prefixItems") or []
        rest = schema.get("items", True)
        if is_array(rest):  # as drafts before 2020-12 have it
            first, rest = rest, schema.get("additionalItems", True)
        items, best = list[Any](), _Fitted(value)
        for place, item in enumerate(value):
            each = self.fitted(first[place] if place < len(first) else rest, item, (*path, place))
            items.append(each.value)
            best = _after(best, each)
        return best._replace(value=items if best.changes else value)


def _after(one: _Fitted, other: _Fitted) -> _Fitted:
    """What `other` made of `one`."""
    return _Fitted(other.value, one.changes + other.changes, one.cost + other.cost)


def _cheapest(found: Sequence[_Fitted], value: Any) -> _Fitted:
    """The nearest of several; the value as it was where two are equally near, and differ."""
    least = min((each.cost for each in found), default=0)
    best = [each for each in found if each.cost == least]
    if best and all(_is_same(each.value, best[0].value) for each in best):
        return best[0]
    return _Fitted(value)


def _is_same(one: Any, other: Any) -> bool:
    from pegboard.schema.json import canonical_json

    return canonical_json(one) == canonical_json(other)


def _types(schema: JsonSchema) -> set[str]:
    wanted = schema.get("type", [])
    return {wanted} if isinstance(wanted, str) else set(wanted)


def _type(value: Any) -> str:
    return next(name for name, kinds in _KINDS.items() if type(value) in kinds)


def _fits_type(value: Any, wanted: set[str]) -> bool:
    if type(value) is float:
        return "number" in wanted or ("integer" in wanted and value.is_integer())
    return any(type(value) in _KINDS[name] for name in wanted)


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
    "array": (list, tuple),
    "object": (dict,),
}
