"""`Judge`: whether a JSON value fits a schema, and what is wrong where it doesn't; and who judges the schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from attrs import Factory, field, frozen

from pegboard.errors import SchemaError
from pegboard.tools.compiled import compiled
from pegboard.tools.json_text import JsonText, json_text
from pegboard.tools.json_value import is_array, is_object, json_faults, surrogate_fault
from pegboard.tools.load import Loads, is_small, loads_of
from pegboard.tools.problem import MOST_PROBLEMS, problem
from pegboard.tools.subschema import bare
from pegboard.typing import JsonSchema

if TYPE_CHECKING:
    from pegboard.tools.references import References

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
class Judge:
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
        if faults := json_faults(value):
            return faults
        if self.loads is not None and (excess := self.loads.excess(value)) is not None:
            return (excess,)
        return () if self.accepts(value) else self._diagnosed(value)

    def _diagnosed(self, value: Any) -> tuple[str, ...]:
        from pegboard.tools.diagnosis import Diagnosis
        from pegboard.tools.references import References

        search = Diagnosis(References(json.loads(self.schema)))
        try:
            found = search.problems(search.references.root, value)
        except (AttributeError, KeyError, TypeError, ValueError):
            found = ()  # a keyword that its own draft doesn't know may hold anything
        if found:
            return tuple(problem(each.path, each.reason) for each in found)
        return (problem((), "doesn't fit the schema"),) if search.left < 0 else self._as_compiled(value)

    def _as_compiled(self, value: Any) -> tuple[str, ...]:
        """The validator's own words, for what ours don't cover; not where it might look at a value without end."""
        from pegboard.tools.references import REFERENCES

        if any(f'"{keyword}"' in self.schema for keyword in REFERENCES) or not is_small(value, self.loads):
            return (problem((), "doesn't fit the schema"),)
        errors = list(compiled(self.schema).iter_errors(value))[:MOST_PROBLEMS]
        return tuple(problem(error.instance_path, error.message[:_MOST_MESSAGE]) for error in errors)


def judge_of(schema: str) -> Judge:
    """The judge of a schema, shared by all schemas that judge alike, for as long as one of them is in use.

    Raises:
        SchemaError: The schema can't be compiled.
    """
    text = _usable(schema)
    if '"$' not in text:  # a reference may lead to anywhere, even into a note
        text = json_text(bare(json.loads(text)))
    known = _judges.get(text)
    if known is None:
        known = _judges[text] = Judge(text)
    return known


_judges: Final[WeakValueDictionary[str, Judge]] = WeakValueDictionary()


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
    from pegboard.tools.references import EndlessSchemaError, Expansion, References

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
    from pegboard.tools.references import REFERENCES

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


__all__ = ["Judge", "check_schema", "is_pattern", "judge_of", "problem"]
