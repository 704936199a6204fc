"""JSON Schema validators over jsonschema-rs, and what makes a schema unusable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, cast
from weakref import WeakValueDictionary

from attrs import Factory, define, field, frozen

from pegboard.errors import SchemaError
from pegboard.schema.json import JsonText, is_array, is_object, json_text, located_faults, surrogate_fault
from pegboard.schema.problems import MOST_PROBLEMS, StructureError, problem
from pegboard.schema.references import (
    REFERENCES,
    EndlessSchemaError,
    Expansion,
    References,
    bare,
    below,
    compiled,
    parts,
)
from pegboard.typing import JsonSchema

LIGHT_PLACES: Final = 12
"""So few places make an automaton that stays in the engine's cache (2 MiB): 13 ms for a million characters."""

_UNREADABLE: Final = 10_000
_MOST_DIGITS: Final = 9

_TOKEN: Final = re.compile(
    r"""(?P<open>\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:?))?)
    |(?P<close>\))
    |\{\s*(?P<least>\d+)\s*(?P<range>,\s*(?P<most>\d+)?\s*)?\}
    |(?P<nothing>[*+?|^$])
    |(?P<place>\\(?:[pPxuU]\{[^}]*\}|.)|\[(?:\\.|[^\]\\])*\]|.)""",
    re.VERBOSE | re.DOTALL,
)

_ONE: Final = r"(?:\\[dDwWsS\W]|\[(?:\\.|[^\[\]\\])+\]|[^\\\[\](){}|*+?^$.]|\.)"
_STRAIGHT: Final = re.compile(rf"\^(?:{_ONE}(?:\{{\d+\}})?)*(?:{_ONE}(?:[*+]|\{{\d+,\d*\}}))?\$?", re.DOTALL)


@lru_cache(maxsize=256)
def pattern_weight(pattern: str) -> int:
    """Steps (of some 20 ns) that a search may take for one character; 1 for most patterns.

    Those are patterns of few places, and straight ones, such as `^[0-9a-f]{8}-[0-9a-f]{4}$` and `^[a-z]{1,64}$`: they
    begin at `^`, and only their end varies in length, so that a search never stands at two places at once.
    """
    if _STRAIGHT.fullmatch(pattern):
        return 1
    places = _places(pattern)
    return 1 if places <= LIGHT_PLACES else places


def _places(pattern: str) -> int:
    """What stands for one character, as often as it is repeated by number; rather too many than too few."""
    if re.search(r"\(\?[a-zA-Z]*x", pattern):  # blanks and comments may stand anywhere
        return _UNREADABLE
    groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token["open"]:
            groups.append(0)
        elif token["close"]:
            last = groups.pop() if len(groups) > 1 else 0
            groups[-1] += last
        elif token["least"]:
            more = last * (_times(token) - 1)
            groups[-1], last = groups[-1] + more, last + more
        elif token["place"]:
            groups[-1], last = groups[-1] + 1, 1
    return sum(groups)


def _times(token: re.Match[str]) -> int:
    """The places of `{3}`, `{3,}` and `{3,5}` are 3, 4 and 5 copies."""
    least = _number(token["least"])
    most = _number(token["most"]) if token["most"] else least + bool(token["range"])
    return max(least, most, 1)


def _number(digits: str) -> int:
    return int(digits.lstrip("0")[:_MOST_DIGITS] or 0)


MOST_STEPS: Final = 5_000_000
"""Some 100 ms of judging."""

LIGHT_RULES: Final = 50
"""So many rules for one value are within the steps for 100,000 values, the most that a model may send."""

MOST_LIGHT_PLACES: Final = 5
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
        return self.rules <= LIGHT_RULES and self.places <= MOST_LIGHT_PLACES

    def is_hopeless(self) -> bool:
        """Whether next to nothing could be judged in time."""
        return max(self) * LEAST_JUDGED > MOST_STEPS


_NOTHING: Final = Load(0, 0)
_ONE_RULE: Final = Load(1, 0)


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
        """Why a value costs too much to be judged; `None` where it doesn't."""
        load = self.of(self.references.root)
        most = MOST_STEPS // load.rules
        values, characters = _extent(value, most)
        if values > most:
            return f"holds more values and keys than its schema can judge at once; send at most {most:,}"
        if load.places * characters > MOST_STEPS and self._text_steps(value) > MOST_STEPS:
            return "its texts are too long to be compared with the patterns of its schema; shorten them"
        return None

    def _measured(self, schema: JsonSchema) -> tuple[Load, Load]:
        """What `schema` puts on its own value, and the most that it puts on one within."""
        if known := self._known.get(id(schema)):
            return known
        self._known[id(schema)] = _ONE_RULE, _NOTHING
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
    rules = _ONE_RULE.rules
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


MAX_CHARACTERS: Final = 512 * 1024
"""Of a schema as compact JSON text."""

MAX_LEVELS: Final = 100
"""Of containers in a schema as written (serde_json reads 128), and of schemas once references are followed."""

MAX_EXPANDED: Final = 100_000
"""Schemas that a schema may come to once every reference is replaced by its target."""

MAX_PATTERNS: Final = 64
"""Patterns of one schema; compiling one may take some milliseconds and a mebibyte."""

MOST_PATTERN_MEMORY: Final = 10 << 20
"""Bytes that the pattern of a grammar may take once compiled; it is compiled once, and let go of."""

_MOST_MESSAGE: Final = 200
_Located: TypeAlias = tuple[Sequence[str | int], str]
_UNWORDED: Final[Sequence[_Located]] = (((), "doesn't fit the schema"),)


def _text(schema: JsonSchema | str) -> JsonText:
    """A schema as text of our own writing, in which no keyword hides behind an escape."""
    if type(schema) is JsonText:
        return schema
    return json_text(json.loads(schema) if isinstance(schema, str) else schema)


def _usable(schema: JsonSchema | str) -> JsonText:
    try:
        return _text(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is no JSON ({error})") from None


def _compile(schema: str) -> Callable[[Any], bool]:
    try:
        return compiled(schema).is_valid
    except ValueError as error:
        raise SchemaError(f"the schema can't be used: {_reason(error)}") from None


def _acceptance(schema: str, loads: Loads | None) -> Callable[[Any], bool]:
    fits = _compile(schema)
    if loads is None:
        return fits
    return lambda value: loads.excess(value) is None and fits(value)


@frozen(eq=False)
class Validator:
    """Judges values by one schema, compiled when the judge is made (some 50 us, 0.6 KiB a schema within).

    Judging by most schemas is fast whatever is judged. By others it isn't: they refuse what would take them longer
    than some 100 ms.

    Attributes:
        schema: JSON Schema, given as text or as an object.
        loads: What judging may cost; `None` for most schemas.
        accepts: Whether a value fits, in about 1 us. Only for values that a strict JSON parser has made, whose
            depth is bounded: others first pass `problems`.

    Raises:
        SchemaError: The schema can't be compiled.
    """

    schema: JsonText = field(converter=_usable)
    loads: Loads | None = field(
        init=False, repr=False, default=Factory(lambda self: loads_of(self.schema), takes_self=True)
    )
    accepts: Callable[[Any], bool] = field(
        init=False, repr=False, default=Factory(lambda self: _acceptance(self.schema, self.loads), takes_self=True)
    )

    def problems(self, value: Any) -> tuple[str, ...]:
        """Everything that is wrong with `value`, at most 20 times `"path: reason"`; empty where it fits.

        Takes any Python value: what isn't JSON, is too deep, too large or cyclic is a problem like others; so is
        what would take too long to judge.
        """
        return tuple(problem(path, reason) for path, reason in self._located(value))

    def require(self, value: Any) -> None:
        """Refuses a value that doesn't fit; takes any, as `problems` does.

        Raises:
            StructureError: With the first thing that is wrong.
        """
        for path, reason in self._located(value):
            raise StructureError(reason, path)

    def _located(self, value: Any) -> Sequence[_Located]:
        if faults := located_faults(value):
            return faults
        if self.loads is not None and (excess := self.loads.excess(value)) is not None:
            return (((), excess),)
        return () if self.accepts(value) else self._diagnosed(value)

    def _diagnosed(self, value: Any) -> Sequence[_Located]:
        from pegboard.schema.messages import Diagnosis

        search = Diagnosis(References(json.loads(self.schema)))
        try:
            found = search.problems(search.references.root, value)
        except (AttributeError, KeyError, TypeError, ValueError):
            found = ()  # a keyword that its own draft doesn't know may hold anything
        if found:
            return [(each.path, each.reason) for each in found]
        return _UNWORDED if search.left < 0 else self._as_compiled(value)

    def _as_compiled(self, value: Any) -> Sequence[_Located]:
        """The validator's own words, for what ours don't cover; not where it might look at a value without end."""
        if any(f'"{keyword}"' in self.schema for keyword in REFERENCES) or not is_small(value, self.loads):
            return _UNWORDED
        errors = list(compiled(self.schema).iter_errors(value))[:MOST_PROBLEMS]
        return [(error.instance_path, error.message[:_MOST_MESSAGE]) for error in errors]


def validator_of(schema: str) -> Validator:
    """The judge of a schema, shared by all schemas that judge alike, for as long as one of them is in use.

    Raises:
        SchemaError: The schema can't be compiled.
    """
    text = _usable(schema)
    if '"$' not in text:  # a reference may lead to anywhere, even into a note
        text = json_text(bare(json.loads(text)))
    known = _judges.get(text)
    if known is None:
        known = _judges[text] = Validator(text)
    return known


_judges: Final[WeakValueDictionary[str, Validator]] = WeakValueDictionary()


def check_schema(schema: JsonSchema | str, *, tool: str, what: str = "input_schema") -> None:
    """Refuses a schema that can't judge, or whose cost is unbounded. About 10-20 us for an ordinary one.

    Args:
        schema: As an object or as JSON text.
        tool: The tool's name, for the error.
        what: `"input_schema"` or `"output_schema"`, which must be an object's (MCP), or anything else.

    Raises:
        SchemaError: It isn't JSON, not valid by its draft, refers to what isn't in it, has patterns that can't
            run in linear time, or is too large or too deep, as written or with its references followed.
    """
    fault = _schema_fault(schema, object_wanted=what in ("input_schema", "output_schema"))
    if fault is not None:
        raise SchemaError(f"{what} is refused: {fault}", tool=tool)


def _schema_fault(schema: JsonSchema | str, *, object_wanted: bool) -> str | None:
    try:
        text = _text(schema)
        if len(text) > MAX_CHARACTERS:
            return f"it has more than {MAX_CHARACTERS} characters"
        root: Any = json.loads(text) if isinstance(schema, str) else schema
    except (TypeError, ValueError) as error:
        return f"it is no JSON ({error})"
    except RecursionError:
        return f"it is nested more than {MAX_LEVELS} levels deep"
    if object_wanted and not (is_object(root) and root.get("type") == "object"):
        return 'its root must be a JSON object with "type": "object"'
    if text.count("{") + text.count("[") > MAX_LEVELS and _levels(root) > MAX_LEVELS:
        return f"it is nested more than {MAX_LEVELS} levels deep"
    return _fault_by_meaning(root, text)


def _fault_by_meaning(root: Any, text: str) -> str | None:
    """What is wrong with a schema of bounded size. Most have neither references nor patterns, and are done fast."""
    import jsonschema_rs

    if (fault := surrogate_fault(text)) is not None:
        return fault
    plain = '"$' not in text and '"pattern' not in text
    try:
        # The meta validator alone looks at neither patterns nor references, and would fetch an unknown $schema.
        if plain and jsonschema_rs.meta.is_valid(root):
            return None
        if not plain and (fault := _fault_of_cost(root)) is not None:
            return fault
        compiled(text)
    except ValueError as error:
        return _reason(error)
    return _fault_of_load(text)


def _fault_of_cost(root: Any) -> str | None:
    """What is wrong with the references and patterns of a schema."""
    if not is_object(root):
        return None
    references = References(root)
    expansion = Expansion(references, MAX_LEVELS)
    try:
        size = expansion.size()
    except EndlessSchemaError as error:
        return str(error)
    if size > MAX_EXPANDED:
        return f"it comes to more than {MAX_EXPANDED} schemas once its references are followed"
    reached = list(expansion.reached.values())
    patterns = sum(("pattern" in each) + _size(each.get("patternProperties")) for each in reached)
    if patterns > MAX_PATTERNS:
        return f"it has more than {MAX_PATTERNS} patterns"
    return _fault_of_references(references, reached)


def _fault_of_load(text: str) -> str | None:
    loads = loads_of(text)
    if loads is not None and loads.of(loads.references.root).is_hopeless():
        return (
            "one value would be compared with too many rules; leave out alternatives, or shorten its lists and patterns"
        )
    return None


def _size(members: Any) -> int:
    """How many there are; what is no object is refused when it is compiled."""
    return len(members) if is_object(members) else 0


def _fault_of_references(references: References, reached: Sequence[JsonSchema]) -> str | None:
    used = [each[keyword] for each in reached for keyword in REFERENCES if isinstance(each.get(keyword), str)]
    for reference in used:
        if references.target(reference) is None:
            return f"its reference {reference!r} points to nothing in it; inline what it means (nothing is fetched)"
    if used and any("$id" in each for each in reached if each is not references.root):
        return 'it has both references and an inner "$id", which changes what they mean; leave the "$id" out'
    return None


def is_pattern(text: str) -> bool:
    """Whether `text` is a regular expression that runs in linear time: no lookaround, no backreferences."""
    import jsonschema_rs

    options = jsonschema_rs.RegexOptions(size_limit=MOST_PATTERN_MEMORY)
    try:
        jsonschema_rs.validator_for(str(json_text({"pattern": text})), pattern_options=options, offline=True)
    except ValueError:
        return False
    return True


def _levels(value: Any) -> int:
    """How deep containers are nested in a JSON value."""
    levels = 0
    row: list[Any] = [value]
    while row:
        levels += 1
        row = [item for each in row for item in _items(each)]
    return levels - 1


def _items(value: Any) -> Iterable[Any]:
    if is_object(value):
        return value.values()
    return value if is_array(value) else ()


def _reason(error: ValueError) -> str:
    """One line of what jsonschema_rs says, with the place in the schema."""
    place = getattr(error, "instance_path", ())
    text = str(getattr(error, "message", error))[:_MOST_MESSAGE]
    if text.endswith('is not a "regex"'):
        text += " that runs in linear time (no lookaround, no backreferences, of bounded size)"
    return problem(place, text) if place else text


__all__ = ["Load", "Loads", "Validator", "check_schema", "is_pattern", "is_small", "loads_of", "validator_of"]
