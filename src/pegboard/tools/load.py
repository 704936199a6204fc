"""What judging a value by a schema may cost: known once for the schema, compared with each value.

The judge holds up everything else while it works. So what would take it longer than some 100 ms is refused before.
Cost is counted in steps of about 20 ns, as if every alternative were tried:

- each value meets at most so many rules: what `anyOf`, `$ref` and the like put on one value adds up, the schemas of
  different properties don't;
- each character of a text is looked at by at most so many places of patterns.

Recursion counts once: jsonschema_rs remembers which value it has judged by a recursive schema.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from attrs import define, field

from pegboard.tools.json_value import is_array, is_object
from pegboard.tools.pattern_weight import pattern_weight
from pegboard.tools.problem import problem
from pegboard.tools.references import References
from pegboard.tools.subschema import below, parts
from pegboard.typing import JsonSchema

MOST_STEPS: Final = 5_000_000
"""Some 100 ms of judging."""

LIGHT_RULES: Final = 50
"""So many rules for one value are within the steps for 100,000 values, the most that a model may send."""

LIGHT_PLACES: Final = 5
"""So many places for one character are within the steps for a million characters, the most that a model may send."""

LEAST_JUDGED: Final = 10
"""A schema that can't judge so many values or characters within the steps is good for nothing."""

MOST_LISTED: Final = 2_000
"""Values of which the validator may list its errors, all of which it makes (20 us each) for the first to be read."""

_MOST_PAIRS: Final = 30_000
_SLOW_CONST: Final = 20
_SLOW_FRACTION: Final = 60
_SEARCH: Final = 4
_HEAVY: Final = ('"$', '"pattern', '"multipleOf', '"unevaluated')


class Load(NamedTuple):
    """What one value may meet.

    Attributes:
        rules: So many, in steps.
        places: Of patterns, for each character.
    """

    rules: int
    places: int

    def plus(self, other: Load) -> Load:
        """Both on the same value."""
        return Load(self.rules + other.rules, self.places + other.places)

    def or_else(self, other: Load) -> Load:
        """Each on another value."""
        return Load(max(self.rules, other.rules), max(self.places, other.places))

    def is_light(self) -> bool:
        """Whether judging ends in time for anything that may be sent."""
        return self.rules <= LIGHT_RULES and self.places <= LIGHT_PLACES

    def is_hopeless(self) -> bool:
        """Whether next to nothing could be judged in time."""
        return max(self) * LEAST_JUDGED > MOST_STEPS


_NOTHING: Final = Load(0, 0)
_ONE: Final = Load(1, 0)


@define
class Loads:
    """The loads of one schema's parts; each is worked out once.

    Attributes:
        references: Of the schema.
    """

    references: References
    _known: dict[int, tuple[Load, Load]] = field(factory=dict[int, tuple[Load, Load]], init=False)

    def of(self, schema: JsonSchema) -> Load:
        """The most that `schema` puts on any one value."""
        here, inside = self._measured(schema)
        return here.or_else(inside)

    def excess(self, value: Any) -> str | None:
        """Why a value costs too much to be judged, as `"path: reason"`; `None` where it doesn't."""
        load = self.of(self.references.root)
        most = MOST_STEPS // load.rules
        values, characters = _extent(value, most)
        if values > most:
            return problem((), f"holds more values and keys than its schema can judge at once; send at most {most:,}")
        if load.places * characters > MOST_STEPS and self._text_steps(value) > MOST_STEPS:
            return problem((), "its texts are too long to be compared with the patterns of its schema; shorten them")
        return None

    def _measured(self, schema: JsonSchema) -> tuple[Load, Load]:
        """What `schema` puts on its own value, and the most that it puts on one within."""
        if known := self._known.get(id(schema)):
            return known
        self._known[id(schema)] = _ONE, _NOTHING
        here = _own(schema)
        inside = apart = _NOTHING
        for part in self._in_place(schema):
            part_here, part_inside = self._measured(part)
            here, inside = here.plus(part_here), inside.plus(part_inside)
        for place, part in below(schema):
            if place is None:
                inside = inside.plus(self.of(part))
            else:
                apart = apart.or_else(self.of(part))
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            inside = inside.plus(here)  # each member is looked for in all that stands here
        self._known[id(schema)] = here, inside.plus(apart)
        return self._known[id(schema)]

    def _in_place(self, schema: JsonSchema) -> Iterator[JsonSchema]:
        yield from (part for part, in_place in parts(schema) if in_place)
        yield from filter(is_object, self.references.targets(schema))

    def _text_steps(self, value: Any) -> int:
        """The steps for the texts where they stand: what has no pattern may be long."""
        steps = pairs = 0
        waiting: list[tuple[Any, Sequence[JsonSchema]]] = [(value, [self.references.root])]
        while waiting and steps <= MOST_STEPS:
            item, applied = waiting.pop()
            steps += self._places(applied) * _characters(item)
            if not applied or not isinstance(item, dict | list | tuple):
                continue
            here = self._all_in_place(applied)
            named, anywhere = _by_place(here)
            steps += self._places(anywhere) * _characters(item)
            members = cast("Collection[Any]", item)
            pairs += len(here) + len(members) * (1 + len(anywhere))
            if pairs > _MOST_PAIRS:
                return MOST_STEPS + 1
            waiting.extend((member, named.get(step, []) + anywhere) for step, member in _members(item))
        return steps

    def _places(self, schemas: Iterable[JsonSchema]) -> int:
        return sum(self._measured(schema)[0].places for schema in schemas)

    def _all_in_place(self, schemas: Sequence[JsonSchema]) -> Sequence[JsonSchema]:
        found = list(schemas)
        for schema in found:
            found.extend(self._in_place(schema))
            if len(found) > _MOST_PAIRS:
                break
        return found


def loads_of(schema: str) -> Loads | None:
    """What judging by a schema may cost; `None` where it is light whatever is judged.

    Args:
        schema: As JSON text.
    """
    if _is_plainly_light(schema) or not is_object(root := json.loads(schema)):
        return None
    loads = Loads(References(root))
    return None if loads.of(root).is_light() else loads


def is_small(value: Any, loads: Loads | None) -> bool:
    """Whether the validator can list its errors in time."""
    rules = 1 if loads is None else loads.of(loads.references.root).rules
    most = max(MOST_LISTED // max(rules // LIGHT_RULES, 1), LEAST_JUDGED)
    return _extent(value, most)[0] <= most


def _is_plainly_light(schema: str) -> bool:
    """Whether a look at the text shows it: as most have few schemas, each of which meets a value once at most."""
    if any(start in schema for start in _HEAVY):
        return False
    least = schema.count("{") + _SLOW_CONST * schema.count('"const"')
    if '"enum"' in schema or '"depend' in schema:
        least += schema.count(",")
    return least <= LIGHT_RULES


def _own(schema: JsonSchema) -> Load:
    """What a schema by itself puts on its value."""
    rules = _ONE.rules
    if "const" in schema and not isinstance(schema["const"], str):
        rules += _SLOW_CONST
    if is_array(options := schema.get("enum")) and not all(isinstance(option, str) for option in options):
        rules += len(options)
    if isinstance(schema.get("multipleOf"), float):
        rules += _SLOW_FRACTION
    for keyword in ("dependentRequired", "dependencies"):
        rules += len(schema[keyword]) if is_object(schema.get(keyword)) else 0
    patterns = _patterns(schema)
    return Load(rules + _SEARCH * len(patterns), sum(map(pattern_weight, patterns)))


def _patterns(schema: JsonSchema) -> Sequence[str]:
    """Those that the value itself or its keys are compared with."""
    named = schema.get("patternProperties")
    own = schema.get("pattern")
    return [*(named if is_object(named) else ()), *((own,) if isinstance(own, str) else ())]


def _extent(value: Any, most: int) -> tuple[int, int]:
    """How many values and keys, and how many characters in them, a value holds; it stops once there are too many."""
    values = characters = 0
    waiting = [value]
    while waiting and values <= most:
        item = waiting.pop()
        values += 1
        characters += _characters(item)
        if is_object(item):
            values += len(item)
        waiting.extend(member for _, member in _members(item))
    return values, characters


def _characters(item: Any) -> int:
    """Those of a text, or of the keys of an object."""
    if isinstance(item, str):
        return len(item)
    return sum(map(len, filter(_is_text, item))) if is_object(item) else 0


def _is_text(key: object) -> bool:
    return isinstance(key, str)


def _members(item: Any) -> Iterable[tuple[Any, Any]]:
    """What a container holds, each with its key or position."""
    if is_object(item):
        return item.items()
    return enumerate(cast("Sequence[Any]", item)) if isinstance(item, list | tuple) else ()


def _by_place(schemas: Iterable[JsonSchema]) -> tuple[dict[str | int, list[JsonSchema]], list[JsonSchema]]:
    """The schemas for single members, and those for any."""
    named: dict[str | int, list[JsonSchema]] = {}
    anywhere: list[JsonSchema] = []
    for place, part in (each for schema in schemas for each in below(schema)):
        (anywhere if place is None else named.setdefault(place, [])).append(part)
    return named, anywhere


__all__ = ["Load", "Loads", "is_small", "loads_of"]
