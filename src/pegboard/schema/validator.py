"""JSON Schema validators over jsonschema-rs, and checks of schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any, Final
from weakref import WeakValueDictionary

from attrs import Factory, field

from pegboard.errors import SchemaError
from pegboard.json import (
    MOST_PROBLEMS,
    JsonText,
    StructureError,
    is_array,
    is_object,
    is_small,
    json_text,
    located_problems,
    problem,
    surrogate_fault,
)
from pegboard.schema.references import (
    MAX_LEVELS,
    MAX_PATTERNS,
    NAMED,
    NOTES,
    ONE,
    PATTERN_BYTES,
    REFERENCES,
    SOME,
    References,
    compiled,
    expand,
    matcher,
    parts_of,
    patterns_of,
    without_notes,
    without_unrunnable,
)
from pegboard.typing import JsonSchema, frozen

MAX_CHARACTERS: Final = 512 * 1024
"""The maximum size of a schema as compact JSON text."""

MAX_EXPANDED: Final = 100_000
"""The maximum number of schemas after replacing every reference by its target."""

MOST_PATTERN_MEMORY: Final = 10 << 20
"""The maximum bytes of the compiled pattern of a grammar, which is compiled once to check it, and dropped."""

_MOST_MESSAGE: Final = 200  # characters of an error message, and of a compared keyword
_MOST_LINTED: Final = 2_000  # subschemas that are linted, and keywords of each
_NOT_JSON: Final = (TypeError, ValueError, RecursionError)
_NO_PATTERN: Final = 'is not a "regex"'
_MOST_STEPS: Final = 20_000_000  # about 200 ms
_MOST_LIGHT: Final = 50  # a schema with no more schemas has no bounds: it validates 100,000 values in time
_LIGHT_PATTERN: Final = 4096  # bytes of a compiled pattern that needs no bounds: it searches 100,000 characters in time
_PLACE: Final = 72  # bytes of one place of a compiled pattern
_ONE: Final = r"(?:\\[dDwWsS\W]|\[(?:\\.|[^\[\]\\])+\]|[^\\\[\](){}|*+?^$.]|\.)"
_STRAIGHT: Final = rf"(?s)\^(?:{_ONE}(?:\{{\d+\}})?)*(?:{_ONE}(?:[*+]|\{{\d+,\d*\}}))?\$?"
"""Patterns such as `^[a-z]{1,64}$`, which start at `^`, and of which only the end varies in length: always light."""


def _text(schema: JsonSchema | str) -> JsonText:
    """A schema as text without needless escapes, which could hide a keyword."""
    return json_text(json.loads(schema) if type(schema) is str else schema)


def _usable(schema: JsonSchema | str) -> JsonText:
    try:
        return _text(schema)
    except _NOT_JSON as error:
        raise SchemaError(_json_fault(error)) from None


def _json_fault(error: Exception) -> str:
    too_deep = isinstance(error, RecursionError)
    return f"it is nested more than {MAX_LEVELS} levels deep" if too_deep else f"it isn't JSON ({error})"


@frozen(eq=False)
class Validator:
    """Compiled JSON Schema: checks values, and describes their problems.

    Attributes:
        schema: As text or as an object; compiled at once (about 50 us and 0.6 KiB per subschema).
        bounds: The maximum values and characters of a value, so that validating it takes about 200 ms at most; `None`
            for most schemas, which need no such limit.
        accepts: Whether a value fits, in about 1 us. Only for values from a strict JSON parser, which bounds their
            depth: use `problems` for others.

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

    def problems(self, value: Any, *, is_json: bool = False) -> tuple[str, ...]:
        """The problems of `value`, at most 20 times `"path: reason"`; empty if it fits.

        Accepts any Python value: being no JSON, too deep, too large or cyclic is a problem as any other, which isn't
        looked for in a value from a strict JSON parser (`is_json`).
        """
        return tuple(problem(path, reason) for path, reason in self._located(value, is_json=is_json))

    def require(self, value: Any) -> None:
        """Checks any value, as `problems` does.

        Raises:
            StructureError: The value doesn't fit; has the first problem.
        """
        for path, reason in self._located(value):
            raise StructureError(reason, path)

    def _located(self, value: Any, *, is_json: bool = False) -> Sequence[tuple[Sequence[str | int], str]]:
        if not is_json and (faults := located_problems(value)):
            return faults
        if self.accepts(value):
            return ()
        if self.bounds is not None and not is_small(value, *self.bounds):
            values, characters = self.bounds
            return (((), f"too large for its schema; send at most {values:,} values and {characters:,} characters"),)
        from pegboard.schema.messages import explain  # only for refusals

        return explain(self.schema, value) or _own_messages(self.schema, value) or (((), "doesn't fit the schema"),)


def _acceptance(schema: str, bounds: tuple[int, int] | None) -> Callable[[Any], bool]:
    try:
        fits = compiled(schema).is_valid
    except ValueError as error:
        raise SchemaError(f"the schema can't be used: {_reason(error)}") from None
    return fits if bounds is None else lambda value: is_small(value, *bounds) and fits(value)


def _own_messages(schema: str, value: Any) -> Sequence[tuple[Sequence[str | int], str]]:
    """The messages of jsonschema-rs, for rare keywords (`unevaluatedProperties`); recursive unions might take long."""
    if not is_small(value) or ('Of":' in schema and any(f'"{each}":' in schema for each in REFERENCES)):
        return ()
    errors = islice(compiled(schema).iter_errors(value), MOST_PROBLEMS)
    return [(each.instance_path, each.message[:_MOST_MESSAGE]) for each in errors]


def _bounds(schema: str) -> tuple[int, int] | None:
    """The values and characters that a schema validates in time, if every rule and pattern applies to each of them.

    jsonschema-rs doesn't release the GIL while it validates. It takes about 10 ns for each value and rule, and for each
    character and place (NFA state) of a pattern without a small automaton, such as `a[ab]{300}d`.
    """
    if schema.count("{") + schema.count(",") <= _MOST_LIGHT and '"$' not in schema and '"pattern' not in schema:
        return None
    if not is_object(root := json.loads(schema)):
        return None
    try:
        rules, reached = expand(References(root))
    except ValueError:  # which is refused at registration
        return _MOST_STEPS // MAX_EXPANDED, _MOST_STEPS // MAX_EXPANDED
    places = sum(_places(pattern) for each in reached for pattern in patterns_of(each))
    if rules <= _MOST_LIGHT and not places:
        return None
    return _MOST_STEPS // max(rules, 1), _MOST_STEPS // max(places, 1)


@lru_cache(maxsize=256)
def _places(pattern: str) -> int:
    """The places at which a search may be at once, from the compiled size; 0 for a light pattern."""
    if re.fullmatch(_STRAIGHT, pattern):
        return 0
    size = _LIGHT_PATTERN
    while size <= PATTERN_BYTES and matcher(pattern, pattern_bytes=size, linear=True) is None:
        size *= 2
    if size > PATTERN_BYTES:  # the second engine runs it, if any
        return 200
    return size // _PLACE if size > _LIGHT_PATTERN else 0


def validator_of(schema: str) -> Validator:
    """The validator of a schema, cached while in use, and shared by schemas that differ only in their notes.

    Raises:
        SchemaError: The schema can't be compiled.
    """
    text = _usable(schema)
    if '"$' not in text:  # a reference may lead anywhere, even into a note
        text = without_notes(text)
    known = _validators.get(text)
    if known is None:
        try:
            known = Validator(text)
        except SchemaError:  # perhaps a pattern that was skipped when the tool was checked
            rest, skipped = without_unrunnable(text)
            if not skipped:
                raise
            known = Validator(rest)
        _validators[text] = known
    return known


_validators: Final[WeakValueDictionary[str, Validator]] = WeakValueDictionary()


def check_schema(
    schema: JsonSchema | str, *, tool: str, what: str = "input_schema", skip_patterns: bool = False
) -> None:
    """Checks that a schema is valid and of bounded cost; takes 10-20 us for an ordinary one.

    Args:
        schema: As an object or as JSON text.
        tool: The tool's name, for the error.
        what: `"input_schema"` or `"output_schema"`, which must be an object's (MCP), or anything else.
        skip_patterns: Whether patterns that no engine here can run are skipped, with a warning in the log.

    Raises:
        SchemaError: It isn't JSON or not valid by its draft, has references to nothing in it or patterns that can't be
            run, or is too large or too deep, as written or expanded.
    """
    object_wanted = what in ("input_schema", "output_schema")
    try:
        text, skipped = _text(schema), ()
        fault = _schema_fault(text, object_wanted=object_wanted)
        if fault is not None and skip_patterns and '"pattern' in text and len(text) <= MAX_CHARACTERS:
            with suppress(ValueError):
                text, skipped = without_unrunnable(text)
                fault = _schema_fault(text, object_wanted=object_wanted) if skipped else fault
    except _NOT_JSON as error:
        fault, skipped = _json_fault(error), ()
    if fault is not None:
        raise SchemaError(f"{what} is refused: {fault}", tool=tool)
    for pattern in skipped:
        _warn_of_skipped(tool, pattern)


@lru_cache(maxsize=1024)
def _warn_of_skipped(tool: str, pattern: str) -> None:
    """Logs a skipped pattern, once for each tool and pattern."""
    import logging

    text = "tool %r: no engine here can run the pattern %.200r; arguments are not checked against it"
    logging.getLogger("pegboard").warning(text, tool, pattern)


def _schema_fault(text: str, *, object_wanted: bool) -> str | None:  # noqa: PLR0911  (one for each fault)
    """The fault of a schema, if any. Most have neither references nor patterns: a fast path."""
    import jsonschema_rs

    if len(text) > MAX_CHARACTERS:
        return f"it has more than {MAX_CHARACTERS} characters"
    root: Any = json.loads(text)
    if object_wanted and not (is_object(root) and root.get("type") == "object"):
        return 'its root must be a JSON object with "type": "object"'
    if text.count("{") + text.count("[") > MAX_LEVELS and _is_deep(root):
        return f"it is nested more than {MAX_LEVELS} levels deep"
    if (fault := surrogate_fault(text)) is not None:
        return fault
    try:
        # The meta validator alone checks neither patterns nor references, and would fetch an unknown $schema.
        if '"$' not in text and '"pattern' not in text and jsonschema_rs.meta.is_valid(root):
            return None
        if is_object(root):
            _check_cost(root)
        compiled(text)
    except ValueError as error:
        return _reason(error)
    return None


def _is_deep(value: Any) -> bool:
    row, levels = [value], 0
    while row and levels <= MAX_LEVELS:
        row = [part for each in row for part in (each.values() if is_object(each) else each if is_array(each) else ())]
        levels += 1
    return bool(row)


def _check_cost(root: JsonSchema) -> None:
    """Raises `ValueError` for a schema that takes too long to validate values, or has references to nothing in it."""
    references = References(root)
    size, reached = expand(references)
    if size > MAX_EXPANDED:
        raise ValueError(f"it expands to more than {MAX_EXPANDED} schemas once its references are followed")
    if sum(len(patterns_of(each)) for each in reached) > MAX_PATTERNS:
        raise ValueError(f"it has more than {MAX_PATTERNS} patterns")
    used = [each[keyword] for each in reached for keyword in REFERENCES if isinstance(each.get(keyword), str)]
    for each in used:
        if references.target(each) is None:
            raise ValueError(f"its reference {each!r} points to nothing in it; inline the target (nothing is fetched)")
    if used and any("$id" in each for each in reached if each is not root):
        raise ValueError('it has both references and an inner "$id", which changes what they mean; leave the "$id" out')


def _reason(error: ValueError) -> str:
    """The message of jsonschema_rs on one line, with the path in the schema."""
    place = getattr(error, "instance_path", ())
    text = str(getattr(error, "message", error))[:_MOST_MESSAGE]
    if text.endswith(_NO_PATTERN):
        text += " that can be run here (ECMA-262 without extensions, in bounded memory)"
    return problem(place, text) if place else text


def is_pattern(text: str) -> bool:
    """Whether `text` is a regular expression that runs in linear time: no lookaround, no backreferences."""
    return matcher(text, pattern_bytes=MOST_PATTERN_MEMORY, linear=True) is not None


_MORE_KEYWORDS: Final = frozenset(
    {"$anchor", "$dynamicAnchor", "$id", "$recursiveAnchor", "$schema", "$vocabulary", "contentEncoding"}
    | {"contentMediaType", "dependentRequired", "example", "format", "id", "maxContains", "minContains", "required"}
)  # `example` is OpenAPI's


def lint_schema(root: JsonSchema) -> Iterator[str]:
    """Linter: misspelt keywords, and defaults that don't fit their own schema, each as `"path: what"`. It is slow."""
    import difflib

    from pegboard.schema.messages import OWN_KEYWORDS, SchemaSearch  # only here and for refusals

    known = {each.lower(): each for each in (*OWN_KEYWORDS, *NOTES, *NAMED, *ONE, *SOME, *REFERENCES, *_MORE_KEYWORDS)}
    search = SchemaSearch(References(root))
    waiting: list[tuple[tuple[str | int, ...], JsonSchema]] = [((), root)]
    for path, schema in islice(waiting, _MOST_LINTED):  # grows as subschemas are found
        for keyword in islice(schema, _MOST_LINTED):
            if known.get(keyword.lower()) == keyword:
                continue
            if near := difflib.get_close_matches(keyword.lower()[:_MOST_MESSAGE], known, n=1, cutoff=0.8):
                yield problem(path, f"unknown keyword {keyword!r:.100}; did you mean {known[near[0]]!r}?")
        with suppress(Exception):  # a keyword that its draft doesn't define may have any value
            for found in search.problems(schema, schema["default"])[:1] if "default" in schema else ():
                yield problem((*path, "default", *found.path), f"doesn't fit its own schema: {found.reason}")
        waiting += [((*path, *steps), part) for steps, part in parts_of(schema)]
