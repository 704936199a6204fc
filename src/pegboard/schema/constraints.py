"""Constraints on values beyond their type: metadata of `Annotated` and validators of attrs, as JSON Schema keywords.

What JSON Schema can't express is checked when a value is structured.
"""

from __future__ import annotations

import math
import operator
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final, cast

import attrs
from attrs import field

from pegboard.json import count_text
from pegboard.schema.adapters import (
    ANY,
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
    ReaderAdapter,
    ScalarAdapter,
    TextAdapter,
    TupleAdapter,
    TypeAdapter,
    UnionAdapter,
    bare,
    scalar_type,
    text_key,
)
from pegboard.schema.converter import is_pydantic, model_parts
from pegboard.schema.fields import fills_or_names, is_field
from pegboard.schema.references import matcher
from pegboard.typing import JsonSchema, frozen

_MAX_EXACT: Final = 2**53


class NothingLeftError(Exception):
    """No value of a type meets a constraint."""


@frozen
class Constraint:
    """A constraint on a value."""

    accepts: Callable[[Any], object]  # whether a Python value meets it; may raise for one that it doesn't apply to
    # the constraint as a check of a type's values, or `None` where it doesn't apply to them
    check: Callable[[TypeAdapter], Check | None]
    # the only values that meet it, if they can be listed
    options: tuple[Any, ...] | None = field(default=None, kw_only=True)
    # of constraints on items and keys: the adapter of the containers that meet it, or `None` where it doesn't apply
    within: Callable[[TypeAdapter], TypeAdapter | None] | None = field(default=None, kw_only=True)
    # whether null in a union passes, as with metadata and `optional`; other validators of attrs apply to it, too
    skips_null: bool = field(default=False, kw_only=True)

    def on(self, adapter: TypeAdapter) -> TypeAdapter | None:
        """The adapter of the values that meet it, or `None` where it doesn't apply; `NothingLeftError` if none does."""
        if adapter is NULL:
            if None in (self.options or ()):
                return adapter
            raise NothingLeftError
        inner, checks = (adapter.inner, adapter.checks) if isinstance(adapter, ConstrainedAdapter) else (adapter, ())
        if self.within is not None:
            found = self.within(inner)
            return ConstrainedAdapter(found, checks) if found is not None and checks else found
        if isinstance(adapter, ChoiceAdapter):
            return _choice_of(each for each in adapter.choices if self.is_met(each.value))
        if self.options is not None and isinstance(adapter, ScalarAdapter) and adapter.type and adapter.cls is None:
            return _choice_of(_choices(adapter.type, self.options))
        check = self.check(inner)
        if check is not None and _leave_none(inner, (*checks, check)):
            raise NothingLeftError
        return None if check is None else ConstrainedAdapter(inner, (*checks, check))

    def is_met(self, value: Any) -> bool:
        """Whether a Python value meets it; one that it doesn't apply to doesn't."""
        try:
            return bool(self.accepts(value))
        except Exception:  # noqa: BLE001  (a comparison may raise anything)
            return False


_LOWEST: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_HIGHEST: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


def _leave_none(adapter: TypeAdapter, checks: Sequence[Check]) -> bool:
    """Whether no number, or no length, is within the bounds of these checks and a multiple as they ask."""
    rules = [rule for each in checks for rule in each.keywords.items()]
    if isinstance(adapter, TupleAdapter):
        rules += [("minItems", len(adapter.items)), ("maxItems", len(adapter.items))]
    lows = [(limit, name.startswith("exclusive")) for name, limit in rules if name in _LOWEST]
    highs = [(limit, not name.startswith("exclusive")) for name, limit in rules if name in _HIGHEST]
    if not lows or not highs:
        return False
    from fractions import Fraction

    (low, is_above), (high, is_included) = max(lows), min(highs)
    low, high = Fraction(str(low)), Fraction(str(high))
    steps = [Fraction(str(step)) for name, step in rules if name == "multipleOf"]
    for step in steps or ([1] if scalar_type(adapter) == "integer" else []):
        low, is_above = step * (math.floor(low / step) + 1 if is_above else math.ceil(low / step)), False
    return low > high or (low == high and (is_above or not is_included))


def _choice_of(choices: Iterable[Choice]) -> ChoiceAdapter:
    adapter = ChoiceAdapter.of(choices)
    if not adapter.choices:
        raise NothingLeftError
    return adapter


def constrain(adapter: TypeAdapter, constraint: Constraint) -> TypeAdapter | None:
    """The adapter of the values that meet a constraint, or `None` where it doesn't apply; raises as `Constraint.on`.

    A constraint on a union is applied to each member that it applies to; the others, and null if skipped, stay.
    """
    if isinstance(adapter, NotedAdapter):
        inner = constrain(adapter.inner, constraint)
        return None if inner is None else attrs.evolve(adapter, inner=inner)
    if isinstance(adapter, ReaderAdapter):  # of which the schema has to meet it, and then the value that is read
        text = "must meet the constraints of its type"
        check = constraint.check(bare(adapter.inner)) or Check(text, constraint.is_met, {})
        inner = constrain(adapter.inner, constraint)
        return None if inner is None else attrs.evolve(adapter, inner=inner, checks=(*adapter.checks, check))
    if isinstance(adapter, AliasAdapter):
        return None if adapter.inner is ANY else constrain(adapter.inner, constraint)
    if not isinstance(adapter, UnionAdapter):
        return constraint.on(adapter)
    members: list[TypeAdapter] = []
    for member in adapter.members:
        with suppress(NothingLeftError):
            passes = member is NULL and constraint.skips_null
            members.append(member if passes else constrain(member, constraint) or member)
    if not members:
        raise NothingLeftError
    if members == list(adapter.members):
        return None
    return members[0] if len(members) == 1 else UnionAdapter(tuple(members))


def narrow(adapter: TypeAdapter, constraints: Iterable[Constraint]) -> TypeAdapter:
    """The adapter of the values that meet the constraints of validators, up to one that would leave none."""
    with suppress(NothingLeftError):
        for each in constraints:
            adapter = constrain(adapter, each) or adapter
    return adapter


# Constraints on one value ---------------------------------------------------------------------------------------------

_COMPARISONS: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str, str]]] = {
    ">=": (operator.le, "minimum", "at least"),  # the limit comes first
    ">": (operator.lt, "exclusiveMinimum", "more than"),
    "<=": (operator.ge, "maximum", "at most"),
    "<": (operator.gt, "exclusiveMaximum", "less than"),
}


def _bound(sign: str, limit: Any) -> Constraint:
    """`>=`, `>`, `<=` or `<` a limit: anything that the values can be compared with."""
    compare, keyword, words = _COMPARISONS[sign]
    accepts, number = partial(compare, limit), _json_number(limit)

    def check(adapter: TypeAdapter) -> Check | None:
        is_number = scalar_type(adapter) in ("integer", "number")
        if not is_number and not isinstance(adapter, TextAdapter) and not (adapter is TEXT and isinstance(limit, str)):
            return None
        text = f"must be {words} {limit if number is None else number}"
        return Check(text, accepts, {keyword: number} if is_number and number is not None else {})

    return Constraint(accepts, check)


def _multiple_of(given: Any) -> Constraint:
    """A whole multiple of a number above 0, in exact decimals, as for the validator: 0.3 is one of 0.1."""
    number = _json_number(given)

    def accepts(value: Any) -> bool:
        from fractions import Fraction

        return Fraction(str(value)) % Fraction(str(given)) == 0

    def check(adapter: TypeAdapter) -> Check | None:
        text = f"must be a multiple of {given if number is None else number}"
        if scalar_type(adapter) in ("integer", "number") and number is not None and number > 0:
            return Check(text, accepts, {"multipleOf": number})
        is_decimal = isinstance(adapter, TextAdapter) and adapter.cls.__qualname__ == "Decimal"
        return Check(text, accepts, {}) if is_decimal else None

    return Constraint(accepts, check)


def _length(way: Any, count: int) -> Constraint:
    """A minimum (`way` is `"min"`) or maximum number of characters, items, keys or bytes."""

    def accepts(value: Any) -> bool:
        return len(value) >= count if way == "min" else len(value) <= count

    def check(adapter: TypeAdapter) -> Check | None:
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
        text = f"must have at {'least' if way == 'min' else 'most'} {count_text(count, noun)}"
        return Check(text, accepts, {f"{way}{keyword}": count} if keyword else {})

    return Constraint(accepts, check)


def _match(pattern: re.Pattern[str], way: str) -> Constraint:
    """Text that matches a pattern: anywhere (`way` is `"search"`), from its start (`"match"`), or in full."""
    matches = getattr(pattern, way)

    def check(adapter: TypeAdapter) -> Check | None:
        if scalar_type(adapter) != "string":
            return None
        text = _portable(pattern, way)
        is_usable = text is not None and matcher(text, linear=True) is not None
        return Check(f"must match the pattern {pattern.pattern}", matches, {"pattern": text} if is_usable else {})

    return Constraint(matches, check)


def _passes(function: Callable[..., object]) -> Constraint:
    """A Python function that returns whether a value is accepted, or a validator of attrs, which raises."""

    def validate(value: Any) -> bool:
        function(None, attrs.fields(Constraint).accepts, value)  # any attribute: `Annotated` has none
        return True

    accepts = validate if type(function).__module__.startswith("attr.") else function
    return Constraint(accepts, lambda _: Check(f"must pass {marker_text(function)}", accepts, {}))


def marker_text(marker: object) -> str:
    """A function or an object in `Annotated` by its name or code, for errors; by its class if that has an address."""
    text = getattr(marker, "__qualname__", None) or repr(marker)
    return type(marker).__name__ if " at 0x" in text else text


def _one_of(given: Iterable[Any]) -> Constraint:
    """One of several options, in a fixed order."""
    options = tuple(given)

    def check(adapter: TypeAdapter) -> Check | None:
        known = [each.json for each in _choices(scalar_type(adapter), options)]
        return Check(f"must be one of {str(known)[1:-1]}", options.__contains__, {"enum": known}) if known else None

    return Constraint(options.__contains__, check, options=options)


def _choices(name: str, options: Iterable[Any]) -> Iterator[Choice]:
    """The options that are of this JSON type."""
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
    """A number as JSON writes it, whole ones without a fraction; `None` for what isn't a JSON number."""
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT else float(value)


# Constraints on items and keys ----------------------------------------------------------------------------------------


def _inside(
    kind: type[ArrayAdapter | MappingAdapter], items: Sequence[Constraint], keys: Sequence[Constraint] = ()
) -> Constraint:
    """Constraints on the items of an array (`deep_iterable`), or on the keys and values of a mapping."""

    def within(adapter: TypeAdapter) -> TypeAdapter | None:
        if not isinstance(adapter, kind):
            return None
        found = attrs.evolve(adapter, item=narrow(adapter.item, items))
        if isinstance(found, MappingAdapter) and text_key(key := narrow(found.key, keys)) is not None:
            return attrs.evolve(found, key=key)
        return found

    return Constraint(lambda _: True, lambda _: None, within=within)  # attrs itself runs the validator


# Metadata of `Annotated` ----------------------------------------------------------------------------------------------

_NO_CONSTRAINT: Final = ("pydantic.functional_serializers", "pydantic.json_schema", "pydantic.fields")
_NOTES: Final[Mapping[str, tuple[Any, Callable[[Any], Any]]]] = {  # keyword -> class of the attribute, and its value
    "title": (str, str),
    "examples": ((list, tuple), list),
    "deprecated": ((bool, str), bool),
}
_SCHEMAS: Final = ("json_schema", "extra_json_schema", "json_schema_extra")
_NO_MARKERS: Final = (str, type, Mapping)


def expand_metadata(metadata: Iterable[Any]) -> Iterator[Any]:
    """The metadata of an `Annotated`, with the parts of groups (`Interval`), `Field(...)` and other `Annotated`s."""
    for each in metadata:
        group: Any = each
        if typing.get_origin(each) is Annotated:
            yield from expand_metadata(group.__metadata__)
        elif not isinstance(each, type) and getattr(each, "__is_annotated_types_grouped_metadata__", False):
            yield from expand_metadata(group)
        else:
            yield each
            yield from expand_metadata(group.metadata if is_field(each) else ())


def needs_pydantic(marker: Any) -> bool:
    """Whether only pydantic can apply what an object in `Annotated` says about values."""
    cls: Any = marker if isinstance(marker, type) else type(marker)
    if cls.__module__ in _NO_CONSTRAINT:
        return getattr(marker, "discriminator", None) is not None
    if hasattr(marker, "__get_pydantic_core_schema__"):
        return True
    stated = {name for name, value in getattr(marker, "__dict__", {"": 1}).items() if value is not None}
    return cls.__module__.startswith("pydantic.") and not stated <= _MARKS.keys()


def is_read_by_pydantic(marker: object) -> bool:
    """Whether pydantic applies an object in `Annotated` itself."""
    return type(marker).__module__.partition(".")[0] in ("annotated_types", "pydantic") or needs_pydantic(marker)


def find_ignored_constraints(cls: Any) -> Iterator[object]:
    """What looks like a constraint in the fields of a model, and in models there, and its own library doesn't apply."""
    for model, part in model_parts(cls):
        for each in getattr(part, "__metadata__", ()) if model else ():
            is_read = is_read_by_pydantic(each) if is_pydantic(model) else type(each).__module__.startswith("msgspec")
            parts = () if is_read else list(expand_metadata([each]))
            if any(map(needs_pydantic, parts)) or next(constraints_of(parts), None) or any(map(fills_or_names, parts)):
                yield each


def notes_of(metadata: Iterable[object]) -> JsonSchema:
    """The schema keywords given by the metadata of an `Annotated`.

    A string is the description (the last, outermost one wins); so is the `documentation` (`typing_extensions.Doc`) or
    `description` of an object. Its `title`, `examples` and `deprecated` are taken as they are. A mapping is copied into
    the schema; so is the `json_schema`, `extra_json_schema` or `json_schema_extra` of an object, for unions, where
    Python requires hashable metadata.
    """
    notes: JsonSchema = {}
    for each in metadata:
        if isinstance(each, type):
            continue
        for name, (kind, read) in _NOTES.items():
            value: Any = getattr(each, name, None)
            if isinstance(value, kind):
                notes[name] = read(value)
        for given in (each, *(getattr(each, name, None) for name in _SCHEMAS)):
            if isinstance(given, Mapping):
                notes.update(cast("Mapping[str, Any]", given))
        for text in (each, getattr(each, "documentation", None), getattr(each, "description", None)):
            if isinstance(text, str):
                notes["description"] = text
    return notes


def constraints_of(metadata: Iterable[object]) -> Iterator[tuple[object, Sequence[Constraint]]]:
    """The constraints in the metadata of an `Annotated`, each with its object; those of a validator as one list.

    They are recognised by their attributes, as `annotated_types` names them: `_MARKS`, and `func` of a `Predicate`. The
    validators of attrs mean what they do on a field. What looks like a constraint and isn't known has an empty list;
    other objects are ignored. Raises `ValueError` for a pattern that Python can't compile.
    """
    for each in metadata:
        if isinstance(each, _NO_MARKERS):
            continue
        if type(each).__module__.startswith("attr."):
            found = [[*validator_constraints(each), _passes(each)]] if callable(each) else [()]
        else:
            found = [[one] for one in _read_marks(each)]
            is_unknown = getattr(each, "tz", None) is not None or type(each).__name__ == "Timezone"
            if is_unknown or (callable(each) and not found and not needs_pydantic(each)):
                found = [()]
        for several in found:
            yield each, several


def _read_marks(marker: object) -> Iterator[Constraint]:
    for name, make in _MARKS.items():
        value = getattr(marker, name, None)
        if value is not None and not callable(value) and (constraint := make(value)) is not None:
            yield constraint
    if type(marker).__name__ == "Predicate" and callable(function := getattr(marker, "func", None)):
        yield _passes(function)


def _stated_pattern(value: Any) -> Constraint | None:
    try:
        return _match(re.compile(cast("str", value)), "search") if isinstance(value, str | re.Pattern) else None
    except re.error as error:
        raise ValueError(f"the pattern {value!r} can't be compiled: {error}") from None


_MARKS: Final[Mapping[str, Callable[[Any], Constraint | None]]] = {
    "ge": partial(_bound, ">="),
    "gt": partial(_bound, ">"),
    "le": partial(_bound, "<="),
    "lt": partial(_bound, "<"),
    "multiple_of": _multiple_of,
    "min_length": lambda value: _length("min", value) if type(value) is int and value > 0 else None,
    "max_length": lambda value: _length("max", value) if type(value) is int else None,
    "pattern": _stated_pattern,
    "regex": _stated_pattern,
}


# Validators of attrs --------------------------------------------------------------------------------------------------


def validator_constraints(validator: Any) -> Sequence[Constraint]:
    """The constraints of a validator that attrs provides; none for any other: attrs runs all of them anyway.

    attrs has no public way to inspect a validator; its classes are recognised by name.
    """
    read = _READERS.get(type(validator).__name__)
    if read is None or not type(validator).__module__.startswith("attr"):
        return ()
    with suppress(AttributeError, KeyError):
        return tuple(read(validator))
    return ()


def _each(*validators: Any) -> tuple[Constraint, ...]:
    return tuple(constraint for each in validators for constraint in validator_constraints(each))


def _in(validator: Any) -> Iterator[Constraint]:
    """Options that can be listed: not those of a string (substrings) or an enum (members)."""
    given = validator._original_options  # noqa: SLF001
    if isinstance(given, set | frozenset):
        yield _one_of(sorted(cast("set[Any]", given), key=repr))  # the same order in every process
    elif type(given) in (tuple, list, dict):
        yield _one_of(cast("list[Any]", given))


_READERS: Final[Mapping[str, Callable[[Any], Iterable[Constraint]]]] = {
    **dict.fromkeys(("_OrValidator", "_NotValidator"), lambda _: ()),  # attrs runs them when it makes the value
    "_AndValidator": lambda validator: _each(*validator._validators),  # noqa: SLF001
    "_OptionalValidator": lambda validator: [attrs.evolve(one, skips_null=True) for one in _each(validator.validator)],
    "_NumberValidator": lambda validator: [_bound(validator.compare_op, validator.bound)],
    "_MaxLengthValidator": lambda validator: [_length("max", validator.max_length)],
    "_MinLengthValidator": lambda validator: [_length("min", validator.min_length)],
    "_InValidator": _in,
    "_MatchesReValidator": lambda validator: [_match(validator.pattern, validator.match_func.__name__)],
    "_DeepIterable": lambda validator: [
        _inside(ArrayAdapter, _each(validator.member_validator)),
        *_each(validator.iterable_validator),
    ],
    "_DeepMapping": lambda validator: [
        _inside(MappingAdapter, _each(validator.value_validator), _each(validator.key_validator)),
        *_each(validator.mapping_validator),
    ],
}


# Python patterns in JSON Schema -------------------------------------------------------------------------------------

_PORTABLE: Final = r"""(?x)(?:
        [^\\\[\](){}?*+|^$.]                                  # a literal character
      | \\[dDwWsSbB.^$*+?()\[\]{}|/\\tnrfv]                   # escapes with the same meaning everywhere
      | \\x[0-9a-fA-F]{2} | \\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}
      | [.^$|)]
      | \((?:\?:|(?!\?))                                      # a group, capturing or not
      | \[\^?(?: [^\\\[\]&~|-] | -(?!-) | &(?!&) | ~(?!~) | \|(?!\|)
               | \\[dDwWsS.^$*+?()\[\]{}|/\\tnrfv-] | \\x[0-9a-fA-F]{2} )+\]
      | (?: [*+?] | \{[0-9]+(?:,[0-9]*)?\} )\??(?![*+?{])     # greedy or not, never possessive
    )*"""
"""The syntax with the same meaning in Python's `re`, ECMA-262 and the validator's linear-time engine.

Left out: lookaround, backreferences, atomic groups, possessive repeats, named groups, inline flags, `\\A` and
`\\Z`, and in sets what some engine reads as an operator (`[[`, `&&`, `--`, `||`, `~~`).
"""
_SET_OR_ESCAPE: Final = r"(?s)\[\^?\]?(?:\\.|[^\]\\])*\]|\\."
_NEEDLESS: Final = r"""\\([_@:;,'"#&~ !%=<>`-])"""
_NEEDLESS_IN_SET: Final = r"""\\([_@:;,'"#&~ !%=<>`])"""
_UNPORTABLE_FLAGS: Final = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.LOCALE


def _portable(pattern: re.Pattern[str], way: str) -> str | None:
    r"""The pattern in JSON Schema (searched, not anchored), or `None` where its syntax can't be expressed.

    There `\d` and `\w` are ASCII, and `$` is only the end, not also before a final line break: the schema is as
    strict as the pattern or a little stricter.
    """
    # Python allows needless backslashes (`re.escape` adds them), ECMA-262 doesn't.
    text = re.sub(
        _SET_OR_ESCAPE,
        lambda found: re.sub(_NEEDLESS_IN_SET if found[0][0] == "[" else _NEEDLESS, r"\1", found[0]),
        pattern.pattern,
    )
    if pattern.flags & _UNPORTABLE_FLAGS or re.fullmatch(_PORTABLE, text) is None:
        return None
    if way != "search":
        text = f"^(?:{text}){'$' if way == 'fullmatch' else ''}"
    return text
