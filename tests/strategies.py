"""Hypothesis strategies that several test files share: JSON values, and types with values of them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import keyword
import pathlib
import re
import string
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict, Union

import attrs
from attrs import validators
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from pegboard.schema.types import adapter_of

SAFE_INTEGERS = st.integers(-(2**53), 2**53)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(max_size=8)
NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=3).filter(lambda name: not keyword.iskeyword(name))


def json_values(*, leaves: int = 6) -> st.SearchStrategy[Any]:
    """Any JSON value, as a strict parser makes it."""
    scalars = st.none() | st.booleans() | SAFE_INTEGERS | FLOATS | TEXTS
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=leaves,
    )


# Any JSON, as other programs write it: whatever a key may be, and integers of any size.
JSON_TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


# --- values that are nearly right ---


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """A JSON value with one thing changed somewhere in it."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: draw(mutated(value[key]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], draw(mutated(value[index])), *value[index + 1 :]]
    return draw(st.one_of(_changes(value)))


def _changes(value: Any) -> list[st.SearchStrategy[Any]]:
    changes = [json_values(leaves=3), st.just(str(value)), st.just([value]), st.just({"x": value})]
    if isinstance(value, dict):
        changes.append(st.builds(lambda key, item: {**value, key: item}, NAMES, json_values(leaves=2)))
        changes += [st.just({k: v for k, v in value.items() if k != key}) for key in list(value)[:3]]
    if isinstance(value, list):
        changes += [st.just(value[1:]), st.just([*value, *value[:1]]), st.just([*value, None])]
    if isinstance(value, bool):
        changes.append(st.just(int(value)))
    elif isinstance(value, int) and abs(value) < 2**53:
        changes += [st.just(float(value)), st.just(value + 0.5), st.just(bool(value)), st.just(value + 1)]
    elif isinstance(value, float) and abs(value) < 2**53:
        changes += [st.just(int(value)), st.just(-value)]
    elif isinstance(value, str):
        changes += [st.just(f"{value} "), st.just(value[:-1]), st.just(value.upper())]
    return changes


# --- types ---


@attrs.frozen
class TypeCase:
    """A type, with values of it.

    Attributes:
        annotation: The type.
        values: Makes values of it.
        structural: Whether its schema says all of it: what the schema takes can be structured.
        faithful: Whether JSON of a value always becomes that value again (not where members of a union overlap).
        hashable: Whether the values can stand in a set.
        distinct: Whether values of different JSON are different in Python (1 and `True` are not).
    """

    annotation: Any
    values: st.SearchStrategy[Any] = attrs.field(repr=False)
    structural: bool = True
    faithful: bool = True
    hashable: bool = True
    distinct: bool = True


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    TEXT = "t"
    NUMBER = 3
    FLAG = False
    NOTHING = None


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


class UserId(str):
    __slots__ = ()


@attrs.frozen
class Marker:
    """Constraints as `annotated_types` and others spell them: attributes that are set."""

    ge: Any = None
    gt: Any = None
    le: Any = None
    lt: Any = None
    multiple_of: Any = None
    min_length: Any = None
    max_length: Any = None
    pattern: Any = None


SCALARS = [
    TypeCase(str, TEXTS),
    TypeCase(int, SAFE_INTEGERS),
    TypeCase(float, FLOATS),
    TypeCase(bool, st.booleans()),
    TypeCase(type(None), st.none()),
    TypeCase(Literal["a", "b"], st.sampled_from(["a", "b"])),
    TypeCase(Literal[1, "1", True, None], st.sampled_from([1, "1", True, None]), distinct=False),  # noqa: PYI061  (the mix is the point)
    TypeCase(Literal[Colour.RED, 0], st.sampled_from([Colour.RED, 0])),
    TypeCase(Colour, st.sampled_from(Colour)),
    TypeCase(Level, st.sampled_from(Level)),
    TypeCase(Mixed, st.sampled_from(Mixed)),
    TypeCase(Word, st.sampled_from(Word)),
    TypeCase(UserId, TEXTS.map(UserId)),
]

CONSTRAINED = [
    TypeCase(Annotated[int, Marker(ge=-3, lt=7)], st.integers(-3, 6)),
    TypeCase(Annotated[int, Marker(gt=0.5, le=9.0)], st.integers(1, 9)),
    TypeCase(Annotated[int, Marker(multiple_of=3)], st.integers(-9, 9).map(lambda n: n * 3)),
    TypeCase(Annotated[float, Marker(ge=0, lt=1)], st.floats(0, 1, exclude_max=True)),
    TypeCase(Annotated[float, Marker(multiple_of=0.25)], st.integers(-9, 9).map(lambda n: n / 4)),
    TypeCase(Annotated[str, Marker(min_length=1, max_length=3), "short"], st.text(min_size=1, max_size=3)),
    TypeCase(Annotated[str, Marker(pattern="^[a-c]")], st.text("abc", min_size=1, max_size=4)),
    TypeCase(Annotated[Literal["a", "bb"], Marker(min_length=2)], st.just("bb")),
]

TEXTUAL = [
    TypeCase(dt.datetime, st.datetimes(timezones=st.none() | st.just(dt.UTC)), structural=False),
    TypeCase(dt.date, st.dates(), structural=False),
    TypeCase(dt.time, st.times(), structural=False),
    TypeCase(dt.timedelta, st.timedeltas(), structural=False),
    TypeCase(uuid.UUID, st.uuids(), structural=False),
    TypeCase(decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False), structural=False),
    TypeCase(pathlib.PurePosixPath, TEXTS.map(pathlib.PurePosixPath), structural=False),
    TypeCase(bytes, st.binary(max_size=8), structural=False),
    TypeCase(Annotated[str, Marker(pattern=r"(?=a)\w+")], st.just("abc"), structural=False),
]


# --- types that are made of themselves ---


@attrs.frozen
class Node:
    """A list, link by link."""

    value: int
    next: Node | None = None


@dataclasses.dataclass(frozen=True)
class Leaf:
    kind: Literal["leaf"]
    size: Annotated[int, Marker(ge=0)]


@dataclasses.dataclass(frozen=True)
class Branch:
    kind: Literal["branch"]
    parts: tuple[Leaf | Branch, ...] = ()


class Folder(TypedDict):
    name: str
    folders: NotRequired[list[Folder]]


Nested = TypeAliasType("Nested", "int | list[Nested]")

_NODES = st.recursive(st.builds(Node, SAFE_INTEGERS), lambda inner: st.builds(Node, SAFE_INTEGERS, inner), max_leaves=3)
_LEAVES = st.builds(Leaf, st.just("leaf"), st.integers(0, 5))
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.builds(Branch, st.just("branch"), st.lists(inner, max_size=2).map(tuple)),
    max_leaves=4,
)
_FOLDERS = st.recursive(
    st.fixed_dictionaries({"name": TEXTS}),
    lambda inner: st.fixed_dictionaries({"name": TEXTS}, optional={"folders": st.lists(inner, max_size=2)}),
    max_leaves=3,
)

RECURSIVE = [
    TypeCase(Node, _NODES),
    TypeCase(Leaf | Branch, _TREES),
    TypeCase(Folder, _FOLDERS, hashable=False),
    TypeCase(
        Nested,
        st.recursive(SAFE_INTEGERS, lambda inner: st.lists(inner, max_size=2), max_leaves=4),
        hashable=False,
    ),
]


# --- types made of others ---


def _like(cases: Sequence[TypeCase], annotation: Any, values: st.SearchStrategy[Any], **changes: Any) -> TypeCase:
    """A type made of others, which is no better than they are."""
    facts = {name: all(getattr(case, name) for case in cases) for name in ("structural", "faithful", "distinct")}
    return TypeCase(annotation, values, **{"hashable": False, **facts, **changes})


def container_cases(item: TypeCase) -> list[TypeCase]:
    """Lists, tuples, sets and mappings of a type."""
    listed = st.lists(item.values, max_size=3)
    some = st.lists(item.values, min_size=1, max_size=3)
    cases = [
        _like([item], list[item.annotation], listed),
        _like([item], Sequence[item.annotation], listed),
        _like([item], Annotated[list[item.annotation], Marker(min_length=1)], some),
        _like([item], tuple[item.annotation, ...], listed.map(tuple), hashable=item.hashable),
        _like([item], tuple[item.annotation, int], st.tuples(item.values, SAFE_INTEGERS), hashable=item.hashable),
        _like([], tuple[()], st.just(()), hashable=True),
        _like([item], dict[str, item.annotation], st.dictionaries(TEXTS, item.values, max_size=3)),
        _like([item], Mapping[Colour, item.annotation], st.dictionaries(st.sampled_from(Colour), item.values)),
        _like([item], dict[int, item.annotation], st.dictionaries(SAFE_INTEGERS, item.values, max_size=3)),
        _like([item], dict[Literal["x", 2], item.annotation], st.dictionaries(st.sampled_from(["x", 2]), item.values)),
        _like([item], dict[dt.date, item.annotation], st.dictionaries(st.dates(), item.values), structural=False),
    ]
    if not item.hashable:
        return cases
    judged = item.structural and item.distinct
    sets, frozensets = st.sets(item.values, max_size=3), st.frozensets(item.values, max_size=3)
    return [
        *cases,
        _like([item], set[item.annotation], sets, structural=judged),
        _like([item], frozenset[item.annotation], frozensets, structural=judged, hashable=True),
    ]


def containers(items: st.SearchStrategy[TypeCase]) -> st.SearchStrategy[TypeCase]:
    """Lists, tuples, sets and mappings of other types."""
    return items.flatmap(lambda item: st.sampled_from(container_cases(item)))


@st.composite
def unions(draw: st.DrawFn, members: st.SearchStrategy[TypeCase]) -> TypeCase:
    """Optional types and unions of two or three."""
    cases = [*draw(st.lists(members, min_size=1, max_size=2)), draw(st.just(SCALARS[4]) | members)]
    kinds = [adapter_of(case.annotation).kinds() for case in cases]
    apart = sum(map(len, kinds)) == len(frozenset().union(*kinds))
    return _like(
        cases,
        Union[tuple(case.annotation for case in cases)],  # noqa: UP007  (values, not a type expression)
        st.one_of([case.values for case in cases]),
        faithful=apart and all(case.faithful for case in cases),
        hashable=all(case.hashable for case in cases),
        distinct=False,
    )


@st.composite
def records(draw: st.DrawFn, fields: st.SearchStrategy[TypeCase]) -> TypeCase:
    """attrs classes, dataclasses, named tuples and typed dicts with fields of other types."""
    cases = draw(st.dictionaries(NAMES, fields, max_size=3))
    maker = draw(st.sampled_from([_attrs_class, _attrs_class_by_keyword, _dataclass, _named_tuple, _typed_dict]))
    optional = draw(st.sets(st.sampled_from(sorted(cases)))) if cases else set()
    # The required ones first, as constructors want them.
    names = [*sorted(cases.keys() - optional), *sorted(optional)]
    return maker({name: cases[name] for name in names}, {name: draw(cases[name].values) for name in optional})


def _attrs_class(cases: Mapping[str, TypeCase], defaults: Mapping[str, Any], *, kw_only: bool = False) -> TypeCase:
    fields = {
        f"_{name}": attrs.field(
            type=case.annotation, default=_made(defaults[name], attrs.Factory) if name in defaults else attrs.NOTHING
        )
        for name, case in cases.items()
    }
    return _record(attrs.make_class("Made", fields, frozen=True, kw_only=kw_only), cases, defaults)


def _attrs_class_by_keyword(cases: Mapping[str, TypeCase], defaults: Mapping[str, Any]) -> TypeCase:
    return _attrs_class(cases, defaults, kw_only=True)


def _dataclass(cases: Mapping[str, TypeCase], defaults: Mapping[str, Any]) -> TypeCase:
    fields = [
        (
            name,
            case.annotation,
            dataclasses.field(default_factory=_made(defaults[name], lambda make: make))
            if name in defaults
            else dataclasses.field(),
        )
        for name, case in cases.items()
    ]
    return _record(dataclasses.make_dataclass("Made", fields), cases, defaults)


def _made(value: Any, wrap: Any) -> Any:
    return wrap(lambda: value)


def _named_tuple(cases: Mapping[str, TypeCase], _defaults: Mapping[str, Any]) -> TypeCase:
    return _record(NamedTuple("Made", [(name, case.annotation) for name, case in cases.items()]), cases, {})


def _typed_dict(cases: Mapping[str, TypeCase], defaults: Mapping[str, Any]) -> TypeCase:
    fields = {
        name: NotRequired[case.annotation] if name in defaults else case.annotation for name, case in cases.items()
    }
    return _record(TypedDict("Made", fields), cases, defaults)


def _record(cls: Any, cases: Mapping[str, TypeCase], defaults: Mapping[str, Any]) -> TypeCase:
    given = st.fixed_dictionaries(
        {name: case.values for name, case in cases.items() if name not in defaults},
        optional={name: case.values for name, case in cases.items() if name in defaults},
    )
    return _like(list(cases.values()), cls, given.map(lambda given: cls(**given)))


VALIDATED: Sequence[tuple[Any, Any]] = [
    (int, validators.ge(0)),
    (int, [validators.gt(-5), validators.le(4.5)]),
    (float, validators.and_(validators.ge(0), validators.lt(0.75))),
    (int | None, validators.optional(validators.le(3))),
    (int | None, validators.ge(3)),
    (str, validators.min_len(2)),
    (str, validators.matches_re("[a-c]+")),
    (str, validators.matches_re("^[a-c]", func=re.search)),
    (str, validators.in_({"a", "b"})),
    (int | str, validators.in_(["a", 1])),
    (float, validators.in_((1, 2.5))),
    (bool, validators.in_([True])),
    (Colour | None, validators.in_([Colour.RED, None])),
    (list[int], validators.deep_iterable(validators.ge(0), validators.min_len(1))),
    (list[int | None], validators.deep_iterable(validators.optional(validators.lt(5)))),
    (tuple[str, ...], validators.and_(validators.max_len(2), validators.deep_iterable(validators.min_len(1)))),
    (dict[str, int], validators.deep_mapping(validators.min_len(1), validators.ge(0), validators.max_len(2))),
    (int, validators.instance_of(int)),
    (list[int] | None, validators.optional(validators.min_len(1))),
    (Literal["a", "bb"], validators.min_len(2)),
]
"""Types and validators of attrs that a schema can say in full."""


def type_cases(*, textual: bool = True, leaves: int = 5) -> st.SearchStrategy[TypeCase]:
    """Types of every kind, nested.

    Args:
        textual: Whether types that are written as text are among them.
        leaves: About how many scalars a type is made of.
    """
    scalars = st.sampled_from([*SCALARS, *CONSTRAINED, *RECURSIVE, *(TEXTUAL if textual else [])])
    return st.recursive(scalars, lambda inner: containers(inner) | unions(inner) | records(inner), max_leaves=leaves)


EACH_KIND: Sequence[TypeCase] = [
    *SCALARS,
    *CONSTRAINED,
    *RECURSIVE,
    *TEXTUAL,
    *container_cases(SCALARS[1]),
    *container_cases(SCALARS[6]),
    *container_cases(TEXTUAL[6]),
    *container_cases(RECURSIVE[0]),
]
"""One type of each kind, for tests that want all of them."""
