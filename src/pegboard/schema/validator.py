"""JSON Schema validators over jsonschema-rs, and what makes a schema unusable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any, Final, cast
from weakref import WeakValueDictionary

from attrs import Factory, field, frozen

from pegboard.errors import SchemaError
from pegboard.schema.json import (
    MOST_PROBLEMS,
    JsonText,
    StructureError,
    is_array,
    is_object,
    is_small,
    json_text,
    located_faults,
    problem,
    surrogate_fault,
)
from pegboard.schema.references import (
    MAX_PATTERNS,
    NAMED,
    NOTES,
    ONE,
    PATTERN_BYTES,
    REFERENCES,
    EndlessSchemaError,
    Expansion,
    References,
    bare,
    compiled,
    matcher,
    parts_of,
    patterns_of,
    runnable,
)
from pegboard.typing import JsonSchema

MAX_CHARACTERS: Final = 512 * 1024
"""Of a schema as compact JSON text."""

MAX_LEVELS: Final = 100
"""Of containers in a schema as written (serde_json reads 128), and of schemas once references are followed."""

MAX_EXPANDED: Final = 100_000
"""Schemas that a schema may come to once every reference is replaced by its target."""

MOST_PATTERN_MEMORY: Final = 10 << 20
"""Bytes that the pattern of a grammar may take once compiled; it is compiled once, and let go of."""

_MOST_MESSAGE: Final = 200  # characters of an error's text, and of a keyword that is compared
_MOST_CHECKS: Final = 20_000  # keywords that jsonschema looks at, to word one refusal
_MOST_WORDED: Final = 64 * 1024  # characters of a schema for which jsonschema words what is wrong with it
_MOST_LINTED: Final = 2_000  # subschemas that are searched for mistakes, and keywords of each
_MOST_STEPS: Final = 20_000_000  # 200 ms of rules or places, at 10 ns each
_MOST_LIGHT_RULES: Final = 50  # a schema with no more has no bounds: 100,000 values pass in time
_MOST_LIGHT_PLACES: Final = 5  # the same of its patterns
_LIGHT_PATTERN: Final = 1024  # bytes; a pattern that compiles to no more has one place
_PLACE: Final = 72  # bytes that one place of a compiled pattern takes
_BACKTRACKING: Final = 200  # places that a pattern of the second engine, which backtracks, counts as
_NO_PATTERN: Final = 'is not a "regex"'
_SLOW: Final = 60  # rules that a `multipleOf` counts as
_CONST: Final = 20  # rules that a `const` counts as, whose value may be large
_ONE: Final = r"(?:\\[dDwWsS\W]|\[(?:\\.|[^\[\]\\])+\]|[^\\\[\](){}|*+?^$.]|\.)"
_STRAIGHT: Final = re.compile(rf"\^(?:{_ONE}(?:\{{\d+\}})?)*(?:{_ONE}(?:[*+]|\{{\d+,\d*\}}))?\$?", re.DOTALL)
_HEAVY: Final = ('"$', '"pattern', '"multipleOf', '"unevaluated')


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


@frozen(eq=False)
class Validator:
    """Compiled JSON Schema: whether a value fits, and what is wrong where it doesn't.

    Attributes:
        schema: Given as text or as an object; compiled at once (some 50 us, 0.6 KiB a schema within).
        bounds: The most values and the most characters of a value that can be validated in some 200 ms; `None` for
            most schemas, which validate whatever may be sent in that time.
        accepts: Whether a value fits, in about 1 us. Only for values that a strict JSON parser has made, whose
            depth is bounded: others first pass `problems`.

    Raises:
        SchemaError: The schema can't be compiled.
    """

    schema: JsonText = field(converter=_usable)
    bounds: tuple[int, int] | None = field(
        init=False, repr=False, default=Factory(lambda self: _bounds(self.schema), takes_self=True)
    )
    accepts: Callable[[Any], bool] = field(
        init=False, repr=False, default=Factory(lambda self: _acceptance(self.schema, self.bounds), takes_self=True)
    )

    def problems(self, value: Any) -> tuple[str, ...]:
        """Everything that is wrong with `value`, at most 20 times `"path: reason"`; empty where it fits.

        Takes any Python value: what isn't JSON, is too deep, too large or cyclic is a problem like others.
        """
        return tuple(problem(path, reason) for path, reason in self._located(value))

    def require(self, value: Any) -> None:
        """Refuses a value that doesn't fit; takes any, as `problems` does.

        Raises:
            StructureError: With the first thing that is wrong.
        """
        for path, reason in self._located(value):
            raise StructureError(reason, path)

    def _located(self, value: Any) -> Sequence[tuple[Sequence[str | int], str]]:
        if faults := located_faults(value):
            return faults
        if self.accepts(value):
            return ()
        if self.bounds is not None and not is_small(value, *self.bounds):
            values, characters = self.bounds
            return (((), f"too large for its schema; send at most {values:,} values and {characters:,} characters"),)
        from pegboard.schema.messages import explained  # only for refusals

        root = json.loads(self.schema)
        found = explained(root, value)
        return found or (_worded_by_jsonschema(root, value) if found is not None else ()) or _UNWORDED


_UNWORDED: Final = (((), "doesn't fit the schema"),)


# Cost -----------------------------------------------------------------------------------------------------------------
# jsonschema-rs holds up everything else in the process while it validates, in a thread too.


def _acceptance(schema: str, bounds: tuple[int, int] | None) -> Callable[[Any], bool]:
    try:
        fits = compiled(schema).is_valid
    except ValueError as error:
        raise SchemaError(f"the schema can't be used: {_reason(error)}") from None
    return fits if bounds is None else lambda value: is_small(value, *bounds) and fits(value)


def _bounds(schema: str) -> tuple[int, int] | None:
    """How many values and characters a schema validates in time, if each value met every rule, each text every pattern.

    Most schemas are light, as their text shows: 50 rules are within the time for 100,000 values.
    """
    rules = schema.count("{") + _CONST * schema.count('"const"')
    if '"enum"' in schema or '"depend' in schema:
        rules += schema.count(",")
    if rules <= _MOST_LIGHT_RULES and not any(start in schema for start in _HEAVY):
        return None
    if not is_object(root := json.loads(schema)):
        return None
    expansion = Expansion(References(root), MAX_LEVELS)
    with suppress(EndlessSchemaError):  # which is refused at registration
        rules = expansion.size() + _SLOW * schema.count('"multipleOf"')
    places = sum(_places(pattern) for each in expansion.reached.values() for pattern in patterns_of(each))
    if rules <= _MOST_LIGHT_RULES and places <= _MOST_LIGHT_PLACES:
        return None
    return _MOST_STEPS // max(rules, 1), _MOST_STEPS // max(places, 1)


@lru_cache(maxsize=256)
def _places(pattern: str) -> int:
    """At how many of its places a search may stand at once, at 10 ns each for one character; by its compiled size.

    The engine runs in linear time, but linear in the text *and* in the pattern: where a pattern has many places and
    can't be turned into a small automaton, as `a[ab]{300}d` can't, each character is looked at by each place. A
    straight pattern, such as `^[a-z]{1,64}$`, begins at `^` and only its end varies in length: it has one.
    """
    if _STRAIGHT.fullmatch(pattern):
        return 1
    size = _LIGHT_PATTERN
    while (found := matcher(pattern, pattern_bytes=size, linear=True)) is None and size < PATTERN_BYTES:
        size *= 2
    if found is None:  # the second engine runs it, if any
        return _BACKTRACKING
    return size // _PLACE if size > _LIGHT_PATTERN else 1


def validator_of(schema: str) -> Validator:
    """The validator of a schema, shared by all schemas that take the same values, for as long as one of them is in use.

    Raises:
        SchemaError: The schema can't be compiled.
    """
    text = _usable(schema)
    if '"$' not in text:  # a reference may lead to anywhere, even into a note
        text = json_text(bare(json.loads(text)))
    known = _validators.get(text)
    if known is None:
        try:
            known = Validator(text)
        except SchemaError:  # perhaps a pattern that was skipped when the tool was checked
            rest, skipped = runnable(text)
            if not skipped:
                raise
            known = Validator(rest)
        _validators[text] = known
    return known


_validators: Final[WeakValueDictionary[str, Validator]] = WeakValueDictionary()


def check_schema(
    schema: JsonSchema | str, *, tool: str, what: str = "input_schema", skip_patterns: bool = False
) -> None:
    """Refuses a schema that can't validate, or whose cost is unbounded. About 10-20 us for an ordinary one.

    Args:
        schema: As an object or as JSON text.
        tool: The tool's name, for the error.
        what: `"input_schema"` or `"output_schema"`, which must be an object's (MCP), or anything else.
        skip_patterns: Whether patterns that no engine here can run are passed over, with a warning in the log.

    Raises:
        SchemaError: It isn't JSON, not valid by its draft, refers to what isn't in it, has patterns that can't
            be run, or is too large or too deep, as written or with its references followed.
    """
    object_wanted = what in ("input_schema", "output_schema")
    fault, skipped = _schema_fault(schema, object_wanted=object_wanted), ()
    if fault is not None and skip_patterns and _NO_PATTERN in fault:
        with suppress(ValueError):
            rest, skipped = runnable(_text(schema))
            fault = _schema_fault(rest, object_wanted=object_wanted)
    if fault is not None:
        raise SchemaError(f"{what} is refused: {fault}", tool=tool)
    for pattern in skipped:
        _warn_of_skipped(tool, pattern)


@lru_cache(maxsize=1024)
def _warn_of_skipped(tool: str, pattern: str) -> None:
    """Logs it, once for each."""
    import logging

    text = "tool %r: no engine here can run the pattern %.200r; arguments are not held to it"
    logging.getLogger("pegboard").warning(text, tool, pattern)


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
        return (second_opinion(root) if len(text) <= _MOST_WORDED else None) or _reason(error)
    return None


def _fault_of_cost(root: Any) -> str | None:
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
    if sum(len(patterns_of(each)) for each in reached) > MAX_PATTERNS:
        return f"it has more than {MAX_PATTERNS} patterns"
    return _fault_of_references(references, reached)


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
    return matcher(text, pattern_bytes=MOST_PATTERN_MEMORY, linear=True) is not None


def _levels(value: Any) -> int:
    levels, row = 0, [value]
    while row := [
        item for each in row for item in (each.values() if is_object(each) else each if is_array(each) else ())
    ]:
        levels += 1
    return levels


def _reason(error: ValueError) -> str:
    """One line of the message of jsonschema_rs, with the place in the schema."""
    place = getattr(error, "instance_path", ())
    text = str(getattr(error, "message", error))[:_MOST_MESSAGE]
    if text.endswith(_NO_PATTERN):
        text += " that can be run here (by ECMA-262, without what other engines add, in bounded memory)"
    return problem(place, text) if place else text


# jsonschema, on cold paths --------------------------------------------------------------------------------------------


def second_opinion(schema: Any, examples: Iterable[Any] = ()) -> str | None:
    """What jsonschema finds wrong with a schema, or of which small example it validates otherwise; `None` for nothing.

    For cold paths: it takes some milliseconds, and 130 to be imported. The schema is at most 100 levels deep.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType]
    from jsonschema.validators import validator_for
    from referencing import Registry

    cls: Any = validator_for(schema, default=Draft202012Validator)
    error: Any = cast("Any", best_match)(cls(cls.META_SCHEMA).iter_errors(schema))
    if error is not None:
        return problem(error.absolute_path, error.message[:_MOST_MESSAGE])
    for number, example in enumerate(examples, 1):
        with suppress(Exception):  # a pattern that only a linear-time engine can run, say
            fits: bool = cls(schema, registry=cast("Any", Registry)()).is_valid(example)
            if fits != compiled(json_text(schema)).is_valid(example):
                return f"jsonschema {'takes' if fits else 'refuses'} example {number}, jsonschema-rs doesn't agree"
    return None


_MORE_KEYWORDS: Final = frozenset(
    {"$anchor", "$dynamicAnchor", "$id", "$recursiveAnchor", "$schema", "$vocabulary", "contentEncoding"}
    | {"contentMediaType", "example", "id", "maxContains", "minContains"}  # `example` is OpenAPI's
)


def lint_schema(root: JsonSchema) -> Iterator[str]:
    """Keywords that look misspelt, and defaults that don't fit their own schema, each as `"path: what"`.

    For cold paths, as `second_opinion`. A keyword that is like no other is an extension, and fine.
    """
    import difflib

    from jsonschema import Draft7Validator, Draft202012Validator

    from pegboard.schema.messages import SchemaSearch  # as above

    checked: Any = {**Draft7Validator.VALIDATORS, **Draft202012Validator.VALIDATORS}
    known = {each.lower(): each for each in (*checked, *NOTES, *NAMED, *ONE, *_MORE_KEYWORDS)}
    search = SchemaSearch(References(root))
    waiting: list[tuple[tuple[str | int, ...], JsonSchema]] = [((), root)]
    for path, schema in islice(waiting, _MOST_LINTED):  # grows as subschemas are found
        for keyword in islice(schema, _MOST_LINTED):
            if known.get(keyword.lower()) == keyword:
                continue
            if near := difflib.get_close_matches(keyword.lower()[:_MOST_MESSAGE], known, n=1, cutoff=0.8):
                yield problem(path, f"there is no keyword {keyword!r:.100}; {known[near[0]]!r} may be meant")
        with suppress(Exception):  # a keyword that its own draft doesn't know may hold anything
            for found in search.problems(schema, schema["default"])[:1] if "default" in schema else ():
                yield problem((*path, "default", *found.path), f"doesn't fit its own schema: {found.reason}")
        waiting += [((*path, *steps), part) for steps, part in parts_of(schema)]


class _TooManyChecksError(Exception):
    """The budget of jsonschema is spent."""


def _worded_by_jsonschema(root: Any, value: Any) -> Sequence[tuple[Sequence[str | int], str]]:
    """Jsonschema's words, for what has none here; not for large values, nor for patterns, which it gives to `re`."""
    text = json_text(root)
    if not is_small(value) or '"pattern' in text or text.count('"$schema"') > 1:
        return ()
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    left = _MOST_CHECKS

    def bounded(check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def check_bounded(*given: Any) -> Iterator[Any]:
            nonlocal left
            left -= 1
            if left < 0:  # recursive unions would take exponential time
                raise _TooManyChecksError
            yield from check(*given) or ()

        return check_bounded

    cls: Any = validators.validator_for(root, default=Draft202012Validator)
    checks = {name: bounded(check) for name, check in cls.VALIDATORS.items()}
    validator: Any = cast("Any", validators).extend(cls, checks)(root, registry=cast("Any", Registry)())
    try:
        errors: list[Any] = list(islice(validator.iter_errors(value), MOST_PROBLEMS))
    except Exception:  # noqa: BLE001  (a keyword that its own draft doesn't know may hold anything)
        return ()
    return [(list(error.absolute_path), error.message[:_MOST_MESSAGE]) for error in errors]
