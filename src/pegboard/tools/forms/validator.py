"""What the validators of attrs demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from pegboard.schema.json import canonical_json
from pegboard.tools.forms.among import Among
from pegboard.tools.forms.compound import Either, Entries, Every, Items, Neither, Spared, Unknown
from pegboard.tools.forms.demand import Bound, Comparison, Demand, Length, Match

_COMPARISONS: Final[Mapping[str, Comparison]] = {">=": "ge", ">": "gt", "<=": "le", "<": "lt"}


def demand_of(validator: Any) -> Demand:
    """What a validator demands, as far as it is one of attrs's own; of others nothing is known.

    attrs has no public way to ask a validator what it checks; its classes are read by name, and an unknown one,
    or one with other attributes than today's, is left to attrs alone, which checks all of them anyway.
    """
    read = _READERS.get(type(validator).__name__)
    if read is None or not type(validator).__module__.startswith("attr"):
        return Unknown()
    try:
        return read(validator)
    except (AttributeError, KeyError):
        return Unknown()


def is_validator(thing: object) -> bool:
    """Whether something is a validator of attrs's own whose demand is known."""
    return type(thing).__name__ in _READERS and type(thing).__module__.startswith("attr")


def _and(validator: Any) -> Demand:
    return Every(tuple(map(demand_of, validator._validators)))  # noqa: SLF001


def _or(validator: Any) -> Demand:
    return Either(tuple(map(demand_of, validator.validators)))


def _not(validator: Any) -> Demand:
    plain = set(validator.exc_types) == {ValueError, TypeError}
    return Neither(demand_of(validator.validator)) if plain else Unknown()


def _optional(validator: Any) -> Demand:
    return Spared(demand_of(validator.validator))


def _number(validator: Any) -> Demand:
    return Bound(_COMPARISONS[validator.compare_op], validator.bound)


def _in(validator: Any) -> Demand:
    """Options that can be listed; text asks for a part of itself, and an enum for its members."""
    given = validator._original_options  # noqa: SLF001
    if isinstance(given, set | frozenset):
        return Among(tuple(sorted(cast("set[Any]", given), key=_rank)))
    return Among(tuple(cast("list[Any]", given))) if type(given) in (tuple, list, dict) else Unknown()


def _rank(option: object) -> tuple[str, str]:
    """An order that is the same in every process, for what JSON can say."""
    try:
        return "", canonical_json(option)
    except (TypeError, ValueError):
        return type(option).__qualname__, repr(option)


def _matches(validator: Any) -> Demand:
    return Match(validator.pattern, validator.match_func.__name__)


def _items(validator: Any) -> Demand:
    return Items(demand_of(validator.member_validator), _if_given(validator.iterable_validator))


def _entries(validator: Any) -> Demand:
    parts = validator.key_validator, validator.value_validator, validator.mapping_validator
    return Entries(*map(_if_given, parts))


def _if_given(validator: Any) -> Demand | None:
    return None if validator is None else demand_of(validator)


_READERS: Final[Mapping[str, Callable[[Any], Demand]]] = {
    "_AndValidator": _and,
    "_OrValidator": _or,
    "_NotValidator": _not,
    "_OptionalValidator": _optional,
    "_NumberValidator": _number,
    "_MaxLengthValidator": lambda validator: Length("max", validator.max_length),
    "_MinLengthValidator": lambda validator: Length("min", validator.min_length),
    "_InValidator": _in,
    "_MatchesReValidator": _matches,
    "_DeepIterable": _items,
    "_DeepMapping": _entries,
}
