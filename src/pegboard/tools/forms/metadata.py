"""What stands beside a type in `Annotated`: descriptions, notes for the schema, demands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast

from attrs import frozen

from pegboard.tools.forms.demand import Bound, Check, Demand, Length, Match, Multiple
from pegboard.tools.forms.validator import demand_of, is_validator
from pegboard.typing import JsonSchema


@frozen
class Metadata:
    """What was said in `Annotated`.

    Attributes:
        notes: For the schema.
        demands: On the value, each with the object that makes it.
    """

    notes: JsonSchema
    demands: tuple[tuple[object, Demand], ...]


def read_metadata(given: Iterable[object]) -> Metadata:
    """Reads the metadata of an `Annotated`.

    A text is the description (of several the last, which stands furthest out), so is what has `documentation`
    (`typing_extensions.Doc`) or a text as `description`. A mapping is written into the schema as it is; so is one
    that something has as `json_schema` or `extra_json_schema`, for unions, in which Python wants hashable metadata.
    Demands are
    known by their attributes, as `annotated_types` names them: `ge`, `gt`, `le`, `lt`, `multiple_of`, `min_length`,
    `max_length`, `pattern` (searched; also `regex`), and `func` of a `Predicate`. The validators of attrs demand what
    they do on a field. Other objects are passed over.

    Raises:
        ValueError: A pattern that Python can't compile.
    """
    notes: JsonSchema = {}
    demands: list[tuple[object, Demand]] = []
    for each in given:
        if isinstance(each, Mapping):
            notes.update(cast("Mapping[str, Any]", each))
        elif isinstance(each, str):
            notes["description"] = each
        elif not isinstance(each, type):
            notes.update(_notes(each))
            demands.extend((each, demand) for demand in _demands(each))
    return Metadata(notes, tuple(demands))


def _notes(marker: object) -> JsonSchema:
    notes: JsonSchema = {}
    for name in ("json_schema", "extra_json_schema"):
        if isinstance(schema := getattr(marker, name, None), Mapping):
            notes.update(cast("Mapping[str, Any]", schema))
    for name in ("documentation", "description"):
        if isinstance(text := getattr(marker, name, None), str):
            notes["description"] = text
    return notes


def _demands(marker: object) -> Iterator[Demand]:
    if is_validator(marker):
        yield demand_of(marker)
        return
    for name, make in _MARKS.items():
        value = getattr(marker, name, None)
        if value is not None and not callable(value) and (demand := make(value)) is not None:
            yield demand
    if type(marker).__name__ == "Predicate" and callable(function := getattr(marker, "func", None)):
        yield Check(function, f"must pass {getattr(function, '__qualname__', repr(function))}")


def _length(value: Any, way: Any) -> Demand | None:
    return Length(way, value) if type(value) is int and (value > 0 or way == "max") else None


def _match(value: Any) -> Demand | None:
    if isinstance(value, str):
        try:
            value = re.compile(value)
        except re.error as error:
            raise ValueError(f"the pattern {value!r} can't be compiled: {error}") from None
    return Match(value, "search") if isinstance(value, re.Pattern) else None  # pyright: ignore[reportUnknownArgumentType]


_MARKS: Final[Mapping[str, Callable[[Any], Demand | None]]] = {
    "ge": lambda limit: Bound("ge", limit),
    "gt": lambda limit: Bound("gt", limit),
    "le": lambda limit: Bound("le", limit),
    "lt": lambda limit: Bound("lt", limit),
    "multiple_of": Multiple,
    "min_length": lambda value: _length(value, "min"),
    "max_length": lambda value: _length(value, "max"),
    "pattern": _match,
    "regex": _match,
}
