"""Constraints on values beyond their type: metadata of `Annotated` and validators of attrs, as JSON Schema keywords.

What JSON Schema has no words for is checked when a value is structured.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, cast

import attrs
from attrs import frozen

from pegboard.schema.adapters import (
    NULL,
    TEXT,
    AliasAdapter,
    ArrayAdapter,
    Check,
    Choice,
    ChoiceAdapter,
    ConstrainedAdapter,
    MappingAdapter,
    NotedAdapter,
    ScalarAdapter,
    SchemaWriter,
    TextAdapter,
    TupleAdapter,
    TypeAdapter,
    UnionAdapter,
    key_schema,
    scalar_type,
)
from pegboard.schema.json import canonical_json, counted, json_text
from pegboard.schema.references import compiled
from pegboard.typing import JsonSchema

_MAX_EXACT: Final = 2**53
_Comparison: TypeAlias = Literal["ge", "gt", "le", "lt"]
_Way: TypeAlias = Literal["search", "match", "fullmatch"]


class NothingLeftError(Exception):
    """No value of a type meets a constraint."""


class Constraint:
    """Something that is asked of a value."""

    __slots__ = ()

    def accepts(self, value: Any) -> bool:
        """Whether a Python value meets it; may raise for one that it can't be asked of."""
        raise NotImplementedError

    def check(self, adapter: TypeAdapter) -> Check | None:  # noqa: ARG002  (as all have it)
        """The constraint as it is put on a type's values, or `None` where it has no meaning for them."""
        return None

    def on(self, adapter: TypeAdapter) -> TypeAdapter | None:
        """The adapter of the values that meet it, or `None` where it has no meaning for them.

        Raises:
            NothingLeftError: No value meets it.
        """
        if isinstance(adapter, ChoiceAdapter):
            return _chosen(each for each in adapter.choices if self.is_met(each.value))
        if adapter is NULL:
            raise NothingLeftError
        check = self.check(adapter.inner if isinstance(adapter, ConstrainedAdapter) else adapter)
        return None if check is None else ConstrainedAdapter.of(adapter, check)

    def is_met(self, value: Any) -> bool:
        """Whether a Python value meets it; one that it can't be asked of doesn't."""
        try:
            return self.accepts(value)
        except Exception:  # noqa: BLE001  (a comparison may raise anything)
            return False


def _chosen(choices: Iterable[Choice]) -> ChoiceAdapter:
    left = list(choices)
    if not left:
        raise NothingLeftError
    return ChoiceAdapter.of(left)


def constrained(adapter: TypeAdapter, constraint: Constraint, *, skips_null: bool) -> TypeAdapter | None:
    """The adapter of the values that meet a constraint, or `None` where it has no meaning for them.

    A constraint on a union is put on each member that it has a meaning for; the others stay as they are. Null as a
    member passes with `Annotated` (`skips_null`); a validator of attrs is asked of it like of any value.

    Raises:
        NothingLeftError: No value meets it.
    """
    if isinstance(adapter, NotedAdapter):
        inner = constrained(adapter.inner, constraint, skips_null=skips_null)
        return None if inner is None else attrs.evolve(adapter, inner=inner)
    if isinstance(adapter, AliasAdapter):
        return constrained(adapter.inner, constraint, skips_null=skips_null) if adapter.is_read() else None
    if isinstance(constraint, _AllOf):
        found: TypeAdapter | None = None
        for each in constraint.constraints:
            found = constrained(found or adapter, each, skips_null=skips_null) or found
        return found
    if isinstance(constraint, _UnlessNull):
        return constrained(adapter, constraint.constraint, skips_null=True)
    if isinstance(adapter, UnionAdapter):
        return _members(adapter, constraint, skips_null=skips_null)
    return constraint.on(adapter)


def _members(adapter: UnionAdapter, constraint: Constraint, *, skips_null: bool) -> TypeAdapter | None:
    members: list[TypeAdapter] = []
    for member in adapter.members:
        if skips_null and member is NULL:
            members.append(member)
            continue
        try:
            members.append(constrained(member, constraint, skips_null=skips_null) or member)
        except NothingLeftError:
            continue
    if not members:
        raise NothingLeftError
    if len(members) == len(adapter.members) and all(map(operator.is_, members, adapter.members)):
        return None
    return members[0] if len(members) == 1 else UnionAdapter(tuple(members))


# What is asked of one value -------------------------------------------------------------------------------------------


@frozen
class _Bound(Constraint):
    """`ge`, `gt`, `le` or `lt` a limit: anything that the values can be compared with."""

    comparison: _Comparison
    limit: Any

    def accepts(self, value: Any) -> bool:
        return _COMPARISONS[self.comparison][0](value, self.limit)

    def check(self, adapter: TypeAdapter) -> Check | None:
        """In the schema of numbers; asked of dates, decimals and text when they are structured."""
        _, keyword, words = _COMPARISONS[self.comparison]
        number = _json_number(self.limit)
        text = f"must be {words} {self.limit if number is None else number}"
        if scalar_type(adapter) in ("integer", "number"):
            return Check(text, self.accepts, {} if number is None else {keyword: number})
        if isinstance(adapter, TextAdapter) or (adapter is TEXT and isinstance(self.limit, str)):
            return Check(text, self.accepts, {})
        return None


_COMPARISONS: Final[Mapping[_Comparison, tuple[Callable[[Any, Any], bool], str, str]]] = {
    "ge": (operator.ge, "minimum", "at least"),
    "gt": (operator.gt, "exclusiveMinimum", "more than"),
    "le": (operator.le, "maximum", "at most"),
    "lt": (operator.lt, "exclusiveMaximum", "less than"),
}


@frozen
class _MultipleOf(Constraint):
    """A whole multiple of a number above 0, exactly: 0.3 is one of 0.1, as both are written."""

    number: Any

    def accepts(self, value: Any) -> bool:
        """Divides what the numbers say in decimal, as the validator does."""
        if type(value) is int and type(self.number) is int:
            return value % self.number == 0
        from fractions import Fraction

        return Fraction(str(value)) % Fraction(str(self.number)) == 0

    def check(self, adapter: TypeAdapter) -> Check | None:
        """In the schema of numbers; asked of decimals when they are structured."""
        number = _json_number(self.number)
        text = f"must be a multiple of {self.number if number is None else number}"
        if scalar_type(adapter) in ("integer", "number") and number is not None and number > 0:
            return Check(text, self.accepts, {"multipleOf": number})
        if isinstance(adapter, TextAdapter) and adapter.cls.__qualname__ == "Decimal":
            return Check(text, self.accepts, {})
        return None


@frozen
class _Length(Constraint):
    """At least or at most so many characters, items, keys or bytes."""

    way: Literal["min", "max"]
    count: int

    def accepts(self, value: Any) -> bool:
        return len(value) >= self.count if self.way == "min" else len(value) <= self.count

    def check(self, adapter: TypeAdapter) -> Check | None:
        """In the schema of text, arrays and objects; asked of bytes when they are structured."""
        if scalar_type(adapter) == "string":
            noun, keyword = "character", "Length"
        elif isinstance(adapter, ArrayAdapter | TupleAdapter):
            noun, keyword = "item", "Items"
        elif isinstance(adapter, MappingAdapter):
            noun, keyword = "key", "Properties"
        elif isinstance(adapter, TextAdapter) and "contentEncoding" in adapter.notation.schema:
            noun, keyword = "byte", ""
        else:
            return None
        text = f"must have at {'least' if self.way == 'min' else 'most'} {counted(self.count, noun)}"
        return Check(text, self.accepts, {f"{self.way}{keyword}": self.count} if keyword else {})


@frozen
class _Match(Constraint):
    """Text that matches a pattern: searched in it, from its start, or all of it."""

    pattern: re.Pattern[str]
    way: _Way

    def accepts(self, value: Any) -> bool:
        return getattr(self.pattern, self.way)(value) is not None

    def check(self, adapter: TypeAdapter) -> Check | None:
        """In the schema where it can hold the pattern, and then matched in linear time, as the validator does."""
        if scalar_type(adapter) != "string":
            return None
        text = _portable(self.pattern, self.way)
        matches = None if text is None else _linear(text)
        if matches is None:
            return Check(f"must match the pattern {self.pattern.pattern}", self.accepts, {})
        return Check(f"must match the pattern {text}", matches, {"pattern": text})


@frozen
class _Passes(Constraint):
    """Any question in Python: a function that answers whether a value is fine."""

    function: Callable[[Any], object]

    def accepts(self, value: Any) -> bool:
        return bool(self.function(value))

    def check(self, adapter: TypeAdapter) -> Check | None:  # noqa: ARG002  (as all have it)
        """Asked when the value is structured."""
        return Check(f"must pass {getattr(self.function, '__qualname__', repr(self.function))}", self.accepts, {})


@frozen
class _OneOf(Constraint):
    """One of some options, in a fixed order."""

    options: tuple[Any, ...]

    def accepts(self, value: Any) -> bool:
        return value in self.options

    def on(self, adapter: TypeAdapter) -> TypeAdapter | None:
        """Scalars become a choice of those options that they can be."""
        if adapter is NULL and None in self.options:
            return adapter
        if adapter is NULL or not isinstance(adapter, ScalarAdapter) or adapter.cls is not None:
            return super().on(adapter)
        return _chosen(_choices(adapter.type, self.options))

    def check(self, adapter: TypeAdapter) -> Check | None:
        """In the schema of a scalar with other constraints."""
        options = [each.json for each in _choices(scalar_type(adapter), self.options)]
        text = f"must be one of {', '.join(map(repr, options))}"
        return Check(text, self.accepts, {"enum": options}) if options else None


def _choices(name: str, options: Iterable[Any]) -> Iterator[Choice]:
    """Those options that a scalar of this JSON type can be."""
    for option in options:
        number = _json_number(option)
        if name == "string" and type(option) is str:
            yield Choice(option, option)
        elif name == "integer" and number is not None and number == int(number):
            yield Choice(int(number), int(number))
        elif name == "number" and number is not None:
            yield Choice(number, float(number))
        elif name == "boolean" and option in (0, 1):
            yield Choice(bool(option), bool(option))


def _json_number(value: object) -> int | float | None:
    """A number as JSON writes it, whole ones without a fraction; `None` for what is no JSON number."""
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT else float(value)


# Constraints made of others -------------------------------------------------------------------------------------------


@frozen
class _Unknown(Constraint):
    """A constraint that only Python knows: its owner asks it."""

    def on(self, adapter: TypeAdapter) -> TypeAdapter | None:  # noqa: ARG002  (as all have it)
        """Nothing is known of it."""
        return None


@frozen
class _AllOf(Constraint):
    """All of several constraints (`and_`)."""

    constraints: tuple[Constraint, ...]


@frozen
class _UnlessNull(Constraint):
    """A constraint that null needn't meet (`optional`)."""

    constraint: Constraint


@frozen
class _AnyOf(Constraint):
    """At least one of several constraints (`or_`)."""

    constraints: tuple[Constraint, ...]

    def on(self, adapter: TypeAdapter) -> TypeAdapter | None:
        """The union of what meets each."""
        found: list[TypeAdapter] = []
        for each in self.constraints:
            try:
                member = constrained(adapter, each, skips_null=False)
            except NothingLeftError:
                continue
            if member is None or member is adapter:
                return member
            found.append(member)
        if not found:
            raise NothingLeftError
        return found[0] if len(found) == 1 else UnionAdapter(tuple(found))


@frozen
class _Not(Constraint):
    """The opposite of a constraint (`not_`); one that a value can't be asked is not met by it."""

    constraint: Constraint

    def accepts(self, value: Any) -> bool:
        return not self.constraint.is_met(value)

    def check(self, adapter: TypeAdapter) -> Check | None:
        """What the schema of the constraint refuses."""
        check = self.constraint.check(adapter)
        if check is None or not check.keywords:
            return None
        return Check("must be another value", lambda value: not check.accepts(value), {"not": check.keywords})


@frozen
class _Inside(Constraint):
    """Constraints on what an array (`deep_iterable`) or a mapping (`deep_mapping`) holds, and on the whole."""

    kind: type[ArrayAdapter | MappingAdapter]
    items: Constraint | None
    keys: Constraint | None
    whole: Constraint | None

    def on(self, adapter: TypeAdapter) -> TypeAdapter | None:
        """With other items and keys."""
        if adapter is NULL:
            raise NothingLeftError
        if isinstance(adapter, ConstrainedAdapter):
            inner = self.on(adapter.inner)
            if isinstance(inner, ConstrainedAdapter):
                return ConstrainedAdapter(inner.inner, (*adapter.checks, *inner.checks))
            return None if inner is None else ConstrainedAdapter(inner, adapter.checks)
        if not isinstance(adapter, self.kind):
            return None
        found = attrs.evolve(adapter, item=_if_any_left(adapter.item, self.items))
        if isinstance(found, MappingAdapter):
            key = _if_any_left(found.key, self.keys)
            found = found if key_schema(key, SchemaWriter()) is None else attrs.evolve(found, key=key)
        return found if self.whole is None else constrained(found, self.whole, skips_null=False) or found


def _if_any_left(adapter: TypeAdapter, constraint: Constraint | None) -> TypeAdapter:
    """What meets the constraint; where nothing would, all as it is: an empty array or object is still fine."""
    if constraint is None:
        return adapter
    try:
        return constrained(adapter, constraint, skips_null=False) or adapter
    except NothingLeftError:
        return adapter


# Metadata of `Annotated` ----------------------------------------------------------------------------------------------


def notes_of(metadata: Iterable[object]) -> JsonSchema:
    """The keywords of people and models in the metadata of an `Annotated`.

    A text is the description (of several the last, which stands furthest out), so is what has `documentation`
    (`typing_extensions.Doc`) or a text as `description`. A mapping is written into the schema as it is; so is one
    that something has as `json_schema` or `extra_json_schema`, for unions, in which Python wants hashable metadata.
    """
    notes: JsonSchema = {}
    for each in metadata:
        if isinstance(each, type):
            continue
        for given in (each, getattr(each, "json_schema", None), getattr(each, "extra_json_schema", None)):
            if isinstance(given, Mapping):
                notes.update(cast("Mapping[str, Any]", given))
        for text in (each, getattr(each, "documentation", None), getattr(each, "description", None)):
            if isinstance(text, str):
                notes["description"] = text
    return notes


def constraints_of(metadata: Iterable[object]) -> Iterator[tuple[object, Constraint]]:
    """The constraints in the metadata of an `Annotated`, each with the object that makes it.

    They are known by their attributes, as `annotated_types` names them: `ge`, `gt`, `le`, `lt`, `multiple_of`,
    `min_length`, `max_length`, `pattern` (searched; also `regex`), and `func` of a `Predicate`. The validators of attrs
    ask what they do on a field. Other objects are passed over.

    Raises:
        ValueError: A pattern that Python can't compile.
    """
    for each in metadata:
        if not isinstance(each, Mapping | str | type):
            yield from ((each, constraint) for constraint in _constraints(each))


def _constraints(marker: object) -> Iterator[Constraint]:
    if _reader_of(marker) is not None:
        yield validator_constraint(marker)
        return
    for name, make in _MARKS.items():
        value = getattr(marker, name, None)
        if value is not None and not callable(value) and (constraint := make(value)) is not None:
            yield constraint
    if type(marker).__name__ == "Predicate" and callable(function := getattr(marker, "func", None)):
        yield _Passes(function)


def _length(value: Any, way: Any) -> Constraint | None:
    return _Length(way, value) if type(value) is int and (value > 0 or way == "max") else None


def _match(value: Any) -> Constraint | None:
    if isinstance(value, str):
        try:
            value = re.compile(value)
        except re.error as error:
            raise ValueError(f"the pattern {value!r} can't be compiled: {error}") from None
    return _Match(value, "search") if isinstance(value, re.Pattern) else None  # pyright: ignore[reportUnknownArgumentType]


_MARKS: Final[Mapping[str, Callable[[Any], Constraint | None]]] = {
    "ge": lambda limit: _Bound("ge", limit),
    "gt": lambda limit: _Bound("gt", limit),
    "le": lambda limit: _Bound("le", limit),
    "lt": lambda limit: _Bound("lt", limit),
    "multiple_of": _MultipleOf,
    "min_length": lambda value: _length(value, "min"),
    "max_length": lambda value: _length(value, "max"),
    "pattern": _match,
    "regex": _match,
}


# Validators of attrs --------------------------------------------------------------------------------------------------


def validator_constraint(validator: Any) -> Constraint:
    """What a validator asks, as far as it is one of attrs's own; of others nothing is known.

    attrs has no public way to ask a validator what it checks; its classes are read by name, and an unknown one,
    or one with other attributes than today's, is left to attrs alone, which checks all of them anyway.
    """
    read = _reader_of(validator)
    try:
        return _Unknown() if read is None else read(validator)
    except (AttributeError, KeyError):
        return _Unknown()


def _reader_of(thing: object) -> Callable[[Any], Constraint] | None:
    return _READERS.get(type(thing).__name__) if type(thing).__module__.startswith("attr") else None


def _each(validators: Iterable[Any]) -> tuple[Constraint, ...]:
    return tuple(map(validator_constraint, validators))


def _not(validator: Any) -> Constraint:
    plain = set(validator.exc_types) == {ValueError, TypeError}
    return _Not(validator_constraint(validator.validator)) if plain else _Unknown()


def _in(validator: Any) -> Constraint:
    """Options that can be listed; text asks for a part of itself, and an enum for its members."""
    given = validator._original_options  # noqa: SLF001
    if isinstance(given, set | frozenset):
        return _OneOf(tuple(sorted(cast("set[Any]", given), key=_rank)))
    return _OneOf(tuple(cast("list[Any]", given))) if type(given) in (tuple, list, dict) else _Unknown()


def _rank(option: object) -> tuple[str, str]:
    """An order that is the same in every process, for what JSON can say."""
    try:
        return "", canonical_json(option)
    except (TypeError, ValueError):
        return type(option).__qualname__, repr(option)


def _if_given(validator: Any) -> Constraint | None:
    return None if validator is None else validator_constraint(validator)


_SIGNS: Final[Mapping[str, _Comparison]] = {">=": "ge", ">": "gt", "<=": "le", "<": "lt"}
_READERS: Final[Mapping[str, Callable[[Any], Constraint]]] = {
    "_AndValidator": lambda validator: _AllOf(_each(validator._validators)),  # noqa: SLF001
    "_OrValidator": lambda validator: _AnyOf(_each(validator.validators)),
    "_NotValidator": _not,
    "_OptionalValidator": lambda validator: _UnlessNull(validator_constraint(validator.validator)),
    "_NumberValidator": lambda validator: _Bound(_SIGNS[validator.compare_op], validator.bound),
    "_MaxLengthValidator": lambda validator: _Length("max", validator.max_length),
    "_MinLengthValidator": lambda validator: _Length("min", validator.min_length),
    "_InValidator": _in,
    "_MatchesReValidator": lambda validator: _Match(validator.pattern, validator.match_func.__name__),
    "_DeepIterable": lambda validator: _Inside(
        ArrayAdapter, _if_given(validator.member_validator), None, _if_given(validator.iterable_validator)
    ),
    "_DeepMapping": lambda validator: _Inside(
        MappingAdapter,
        _if_given(validator.value_validator),
        _if_given(validator.key_validator),
        _if_given(validator.mapping_validator),
    ),
}


# Patterns of Python as JSON Schema has them -------------------------------------------------------------------------


_PORTABLE: Final = re.compile(
    r"""(?:
        [^\\\[\](){}?*+|^$.]                                  # a character that stands for itself
      | \\[dDwWsSbB.^$*+?()\[\]{}|/\\tnrfv]                   # what is escaped alike everywhere
      | \\x[0-9a-fA-F]{2} | \\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}
      | [.^$|)]
      | \((?:\?:|(?!\?))                                      # a group, numbered or not
      | \[\^?(?: [^\\\[\]&~|-] | -(?!-) | &(?!&) | ~(?!~) | \|(?!\|)
               | \\[dDwWsS.^$*+?()\[\]{}|/\\tnrfv-] | \\x[0-9a-fA-F]{2} )+\]
      | (?: [*+?] | \{[0-9]+(?:,[0-9]*)?\} )\??(?![*+?{])     # greedy or not, never possessive
    )*""",
    re.VERBOSE,
)
"""What Python's `re`, ECMA-262 and the validator's linear-time engine read alike.

Left out: lookaround, backreferences, atomic groups, possessive repeats, named groups, inline flags, `\\A` and
`\\Z`, and in sets what some engine takes for an operation (`[[`, `&&`, `--`, `||`, `~~`).
"""
_SET_OR_ESCAPE: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.", re.DOTALL)
_NEEDLESS: Final = re.compile(r"""\\([_@:;,'"#&~ !%=<>`-])""")
_NEEDLESS_IN_SET: Final = re.compile(r"""\\([_@:;,'"#&~ !%=<>`])""")
_UNPORTABLE_FLAGS: Final = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.LOCALE


def _portable(pattern: re.Pattern[str], way: _Way) -> str | None:
    r"""The pattern as JSON Schema has it (searched, not anchored), or `None` where it can't.

    `\d` and `\w` mean ASCII there, and `$` means the end alone, not also before a last line break: the schema is
    as strict as the pattern or a little stricter.
    """
    text = _SET_OR_ESCAPE.sub(_without_needless, pattern.pattern)
    if pattern.flags & _UNPORTABLE_FLAGS or _PORTABLE.fullmatch(text) is None:
        return None
    if way != "search":
        text = f"^(?:{text}){'$' if way == 'fullmatch' else ''}"
    return text if _linear(text) is not None else None


@lru_cache(maxsize=256)
def _linear(pattern: str) -> Callable[[str], bool] | None:
    """Whether a text matches, as the validator sees it and in linear time; `None` where it can't compile it."""
    try:
        return compiled(json_text({"pattern": pattern}), linear=True).is_valid
    except ValueError:
        return None


def _without_needless(found: re.Match[str]) -> str:
    """A set or an escape without the backslashes that Python allows and ECMA-262 doesn't."""
    text = found[0]
    return (_NEEDLESS_IN_SET if text.startswith("[") else _NEEDLESS).sub(r"\1", text)
