"""Subschemas and references within a JSON Schema, its expanded size, and its compiled form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pegboard.json import JsonText, is_array, is_object, json_text
from pegboard.typing import JsonMapping, JsonSchema, define

if TYPE_CHECKING:
    from jsonschema_rs import FancyRegexOptions, RegexOptions, Validator

Steps: TypeAlias = tuple[str | int, ...]
"""The path from a schema to one directly within it: a keyword, and perhaps a name or position."""

_IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
_ASIDE: Final = frozenset({"$defs", "definitions"})

ONE: Final = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"}
    | {"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords with one schema; `additionalItems` in drafts 4 to 2019-09 only."""

SOME: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Keywords with a list of schemas; `items` in drafts 4 to 2019-09 only."""

NAMED: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords with schemas by name; `dependencies` (drafts 4 to 7) may also have lists of names."""

NOTES: Final = frozenset(
    {"$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
"""Keywords for people and models, which a validator ignores."""

_HOLDERS: Final = ONE | SOME | NAMED
_VALUES: Final = frozenset({"const", "default", "example"})  # which may be null


def parts_of(schema: JsonSchema) -> Sequence[tuple[Steps, JsonSchema]]:
    """The schemas directly within `schema`, each with the steps to it.

    Values of `const`, `enum` and the like are data, never schemas. Anything else in place of a schema is ignored.
    """
    if _HOLDERS.isdisjoint(schema):
        return ()
    parts: list[tuple[Steps, JsonSchema]] = []
    for keyword, rule in schema.items():
        if keyword not in _HOLDERS:
            continue
        if is_object(rule):
            if keyword in ONE:
                parts.append(((keyword,), rule))
            elif keyword in NAMED:
                parts += [((keyword, name), part) for name, part in rule.items() if is_object(part)]
        elif is_array(rule) and keyword in SOME:
            parts += [((keyword, at), part) for at, part in enumerate(rule) if is_object(part)]
    return parts


def mapped(schema: JsonSchema, part: Callable[[JsonSchema, Steps], JsonSchema]) -> JsonSchema:
    """A schema with each one directly within it replaced by `part(schema, steps)`; itself if none changes."""
    new = schema
    for steps, old in parts_of(schema):
        if (changed := part(old, steps)) is old:
            continue
        new = dict(schema) if new is schema else new
        keyword = str(steps[0])
        if len(steps) == 1:
            new[keyword] = changed
            continue
        if new[keyword] is schema[keyword]:
            new[keyword] = schema[keyword].copy()
        new[keyword][steps[1]] = changed
    return new


def as_json_schema(schema: JsonSchema) -> JsonSchema:
    """A schema without keywords that are null; OpenAPI's `"nullable": true`, below the root, becomes an alternative."""
    schema = mapped(schema, lambda part, _: _with_null(as_json_schema(part)))
    return {key: rule for key, rule in schema.items() if rule is not None or key in _VALUES}


def _with_null(schema: JsonSchema) -> JsonSchema:
    if schema.get("nullable") is not True:
        return schema
    notes = {key: rule for key, rule in schema.items() if key in NOTES}
    rest = {key: rule for key, rule in schema.items() if key not in NOTES and key != "nullable"}
    return {"anyOf": [rest, {"type": "null"}], **notes}


def schemas(root: JsonSchema) -> Iterator[JsonSchema]:
    """`root` and every schema written within it, the outermost first, definitions too."""
    found = [root]
    for schema in found:  # grows as subschemas are found
        yield schema
        found.extend(part for _, part in parts_of(schema))


def without_notes(schema: str) -> JsonText:
    """A schema (as JSON text) without notes, which accepts the same values and usually takes a third of the memory."""
    root: Any = json.loads(schema)
    for each in schemas(root) if is_object(root) else ():
        for note in NOTES & each.keys():
            del each[note]
    return json_text(root)


MAX_LEVELS: Final = 100
"""The maximum nesting of containers in a schema as written (serde_json reads 128), and of its expanded schemas."""

MAX_PATTERNS: Final = 64
"""The maximum patterns of one schema; compiling one may take milliseconds and a mebibyte."""

PATTERN_BYTES: Final = 1 << 20
"""The maximum memory of one compiled pattern; `^.{1,1000}$` takes about 600 KiB."""

MOST_BACKTRACKS: Final = 1_000
"""How often a pattern with look-around or backreferences may backtrack in a text; then the text is refused."""

_RECURSES: Final = re.compile(r'"pattern":\s*"(?:[^"\\]|\\.)*?(?<!\\)\(\?[a-z]*R')


def compiled(
    schema: str,
    formats: Mapping[str, Callable[[str], bool]] | None = None,
    *,
    pattern_bytes: int = PATTERN_BYTES,
    linear: bool = False,
) -> Validator:
    """Compiles a schema.

    References outside the schema are refused, never fetched; those within may be escaped or not. `format` isn't
    asserted, which is the default of JSON Schema 2020-12. The draft is the one that `$schema` names, else 2020-12.

    Args:
        schema: As JSON text.
        formats: The formats to assert, each with its check; by default none.
        pattern_bytes: Memory that one pattern may take.
        linear: Whether all patterns must run in linear time (no look-around, no backreferences). Else, if one can't, a
            second engine runs them, which backtracks at most `MOST_BACKTRACKS` times.

    Raises:
        ValueError: The schema is invalid, has a reference to nothing, or a pattern that can't be compiled.
    """
    import jsonschema_rs

    if _RECURSES.search(schema):
        raise ValueError("a pattern recurses by (?R), which the regex engine doesn't support")

    def compile_by(options: RegexOptions | FancyRegexOptions, text: str = str(schema)) -> Validator:  # no subclass
        try:
            return jsonschema_rs.validator_for(
                text,
                validate_formats=formats is not None,
                formats=None if formats is None else dict(formats),
                pattern_options=options,
                offline=True,
            )
        except ValueError:
            if '"$' not in text or (respelled := _respelled(text)) == text:
                raise
            return compile_by(options, respelled)

    try:
        return compile_by(jsonschema_rs.RegexOptions(size_limit=pattern_bytes))
    except ValueError:
        if linear or '"pattern' not in schema:
            raise
        return compile_by(jsonschema_rs.FancyRegexOptions(backtrack_limit=MOST_BACKTRACKS, size_limit=pattern_bytes))


def _respelled(text: str) -> str:
    """A schema with its JSON pointers percent-encoded, as RFC 3986 requires."""
    from urllib.parse import quote  # only for references, as below

    root: Any = json.loads(text)
    for schema in schemas(root) if is_object(root) else ():
        for keyword in REFERENCES:
            base, mark, fragment = str(schema.get(keyword, "")).partition("#")
            if fragment.startswith("/") and (spelled := References(root).spelled(fragment)) is not None:
                schema[keyword] = base + mark + quote(spelled, safe="/~!$&'()*+,;=:@?")
    return str(json_text(root))


def without_unrunnable(schema: str) -> tuple[JsonText, Sequence[str]]:
    """A schema without the patterns that no engine can run, and these patterns; `ValueError` if there are too many."""
    root: Any = json.loads(schema)
    parts = list(schemas(root)) if is_object(root) else []
    found = dict.fromkeys(pattern for each in parts for pattern in patterns_of(each))
    if len(found) > MAX_PATTERNS:
        raise ValueError(f"it has more than {MAX_PATTERNS} patterns")
    strange = [pattern for pattern in found if matcher(pattern) is None]
    for each in parts:
        if each.get("pattern") in strange:
            del each["pattern"]
        keys = each.get("patternProperties")
        if is_object(keys) and not keys.keys().isdisjoint(strange):  # without a pattern for keys, all are allowed
            each["patternProperties"] = {pattern: rule for pattern, rule in keys.items() if pattern not in strange}
            each.pop("additionalProperties", None)
            each.pop("unevaluatedProperties", None)
    return json_text(root), strange


def without_misfits(root: JsonSchema) -> JsonSchema:
    """The schema, in which defaults that don't fit their own schema are left out."""
    definitions: Any = json.loads(without_notes(json.dumps({"$defs": root.get("$defs", {})})))
    for each in reversed([each for each in schemas(root) if "default" in each]):  # the innermost first
        fits = False
        with suppress(ValueError):  # as for NaN, which JSON hasn't
            fits = compiled(json_text({**each, **definitions})).is_valid(each["default"])
        if not fits:
            del each["default"]
    return root


def matcher(pattern: str, *, pattern_bytes: int = PATTERN_BYTES, linear: bool = False) -> Callable[[Any], bool] | None:
    """A function that matches texts with a pattern, by `compiled`; `None` if it can't be compiled."""
    try:
        return compiled(json_text({"pattern": pattern}), pattern_bytes=pattern_bytes, linear=linear).is_valid
    except ValueError:
        return None


def patterns_of(schema: JsonSchema) -> Sequence[str]:
    """The patterns that a schema applies to a value itself or to its keys."""
    named, own = schema.get("patternProperties"), schema.get("pattern")
    return [*(named if is_object(named) else ()), *((own,) if isinstance(own, str) else ())]


_MOST_INDEX_DIGITS: Final = 10  # of a position in a JSON pointer: `int` refuses thousands
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")  # the keywords that refer to a schema
LEGACY_DRAFTS: Final = ("draft-04", "draft-06", "draft-07")
"""Drafts in which `$ref` disables its sibling keywords."""


@define
class References:
    """The references of one schema; in drafts 4 to 7 (`legacy`), `$ref` disables its sibling keywords."""

    root: JsonSchema

    @cached_property
    def legacy(self) -> bool:
        """Whether the draft is one of drafts 4 to 7."""
        return any(draft in str(self.root.get("$schema", "")) for draft in LEGACY_DRAFTS)

    def targets(self, schema: JsonSchema) -> Iterator[Any]:
        """The targets of the references of `schema`; `None` for one to nothing in this schema."""
        for keyword in REFERENCES:
            if isinstance(reference := schema.get(keyword), str):
                yield self.target(reference)

    def target(self, reference: str) -> Any:
        """The target of `#`, `#/a/pointer` or `#anchor`, perhaps after the root's own `$id`; else `None`."""
        base, _, fragment = reference.partition("#")
        if base and base != str(self.root.get("$id", "")).partition("#")[0]:
            return None
        if not fragment:
            return self.root
        if fragment.startswith("/"):
            spelled = self.spelled(fragment)
            return None if spelled is None else self._at(spelled)
        return self._anchors.get(fragment)

    def spelled(self, fragment: str) -> str | None:
        """A JSON pointer with percent-encoding removed, or unchanged if only that leads to something; else `None`."""
        from urllib.parse import unquote

        return next((each for each in (unquote(fragment), fragment) if self._at(each) is not None), None)

    def _at(self, pointer: str) -> Any:  # RFC 6901
        here: Any = self.root
        for step in pointer[1:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if is_array(here) and name.isdecimal() and len(name) < _MOST_INDEX_DIGITS and int(name) < len(here):
                here = here[int(name)]
            elif is_object(here) and name in here:
                here = here[name]
            else:
                return None
        return here

    @cached_property
    def _anchors(self) -> dict[str, JsonSchema]:
        return {
            name: schema
            for schema in schemas(self.root)
            for keyword in ("$anchor", "$dynamicAnchor")
            if isinstance(name := schema.get(keyword), str)
        }


def expand(references: References) -> tuple[int, Sequence[JsonSchema]]:
    """The size of a schema with every reference replaced by its target, and all schemas that can apply to a value.

    A schema counts as one, plus its listed values if they aren't all text; a recursive one counts once. Takes time
    linear in the schema as written. Raises `ValueError` if it applies itself without end, or is nested too deep.
    """
    reached: list[JsonSchema] = []
    measured: dict[int, tuple[int, int]] = {}  # the size and height of each; of one that is being measured, 1 and 0
    in_place: dict[int, list[int]] = {}

    def measure(schema: JsonSchema, level: int) -> tuple[int, int]:
        size, height = measured.get(id(schema), (1, 0))
        if level + height > MAX_LEVELS:
            raise ValueError(f"it is nested more than {MAX_LEVELS} levels deep")
        if id(schema) in measured:
            return size, height
        reached.append(schema)
        measured[id(schema)] = size, height
        options = schema.get("enum")
        if is_array(options) and not all(isinstance(option, str) for option in options):
            size += len(options)
        applied = [(part, steps[0] in _IN_PLACE) for steps, part in parts_of(schema) if steps[0] not in _ASIDE]
        applied += [(target, True) for target in references.targets(schema) if is_object(target)]
        in_place[id(schema)] = [id(part) for part, to_same_value in applied if to_same_value]
        for part, _ in applied:
            part_size, part_height = measure(part, level + 1)
            size, height = size + part_size, max(height, part_height + 1)
        measured[id(schema)] = size, height
        return size, height

    size, _ = measure(references.root, 0)
    from graphlib import CycleError, TopologicalSorter  # not needed for a schema without references

    try:
        TopologicalSorter(in_place).prepare()
    except CycleError:
        raise ValueError("it applies itself to the same value without end") from None
    return size, reached


def inline(schema: JsonMapping) -> JsonSchema:
    """A schema with references replaced by their `$defs`; recursive definitions stay."""
    definitions: dict[str, JsonSchema] = schema.get("$defs", {})
    recursive = recursive_definitions(definitions)
    written = _inline({key: rule for key, rule in schema.items() if key != "$defs"}, definitions, recursive)
    if (name := _definition(written)) in recursive:  # the root is written out
        del written["$ref"]
        written = {**_inline(definitions[name], definitions, recursive), **written}
    if recursive:
        written["$defs"] = {name: _inline(definitions[name], definitions, recursive) for name in sorted(recursive)}
    return written


def _definition(schema: JsonMapping) -> str:
    """The name of the definition that a schema refers to, or `""`."""
    reference = schema.get("$ref")
    return reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""


def recursive_definitions(definitions: Mapping[str, JsonSchema]) -> frozenset[str]:
    """The recursive definitions, and those on a path between two: the rest after removing leaves at both ends."""
    leads = {
        name: {_definition(each) for each in schemas(part)} & definitions.keys() for name, part in definitions.items()
    }
    endless = _without_ends(leads)
    led: dict[str, set[str]] = {name: set() for name in endless}
    for name in endless:
        for target in leads[name] & endless:
            led[target].add(name)
    return _without_ends(led)


def _without_ends(leads: Mapping[str, Collection[str]]) -> frozenset[str]:
    """The names that are in a cycle, or lead to one."""
    from graphlib import CycleError, TopologicalSorter  # as above

    sorter, ends = TopologicalSorter(leads), set[str]()
    with suppress(CycleError):
        sorter.prepare()
    while ready := sorter.get_ready():
        ends.update(ready)
        sorter.done(*ready)
    return frozenset(leads.keys() - ends)


def _inline(schema: JsonSchema, definitions: Mapping[str, JsonSchema], recursive: Collection[str]) -> JsonSchema:
    written = dict(mapped(schema, lambda part, _: _inline(part, definitions, recursive)))
    if "mapping" in written.get("discriminator", ()):
        del written["discriminator"]  # OpenAPI's, whose targets are inlined
    name = _definition(written)
    if name not in definitions or name in recursive:
        return written
    del written["$ref"]
    return {**_inline(definitions[name], definitions, recursive), **written}
