"""Going through the schemas within a schema: where each stands, what it becomes, and what that cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from attrs import define, field

from pegboard.request.dialects.step import Change, Rewritten, Step
from pegboard.schema.json import is_array, is_object
from pegboard.typing import JsonSchema

ONE: Final = frozenset(
    {
        "additionalItems",  # drafts 4 to 2019-09
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords that hold one schema."""

SOME: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Keywords that hold a list of schemas; `items` in drafts 4 to 2019-09 only."""

NAMED: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords that hold schemas by name; among `dependencies` (drafts 4 to 7) there may be others."""

NOTES: Final = frozenset(
    {"$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
"""Keywords that judge nothing."""

_HOLDERS: Final = ONE | SOME | NAMED

Steps: TypeAlias = tuple[str | int, ...]
Part: TypeAlias = Callable[[JsonSchema, Steps], JsonSchema]
Visit: TypeAlias = "Callable[[JsonSchema, Place], JsonSchema]"


@define
class Place:
    """Where a schema stands, and the list that takes down what is lost there.

    Attributes:
        above: The place around it; `None` at the root.
        steps: The way from there: a keyword, and a name or a position.
        changes: What has been taken down so far, wherever.
    """

    above: Place | None = None
    steps: Steps = ()
    changes: list[Change] = field(factory=list[Change])

    @property
    def is_root(self) -> bool:
        """Whether this is the whole schema."""
        return self.above is None

    @property
    def path(self) -> str:
        """As a JSON pointer (RFC 6901)."""
        above = "" if self.above is None else self.above.path
        return "".join([above, *(f"/{_escaped(step)}" for step in self.steps)]) if self.steps else above

    def below(self, steps: Steps) -> Place:
        """The place of a part."""
        return Place(self, steps, self.changes)

    def lost(self, keyword: str, what: str) -> None:
        """Takes down what the schema here no longer says."""
        self.changes.append(Change(self.path, keyword, what))

    def refused(self, keyword: str, what: str) -> None:
        """Takes down what the dialect has no words for."""
        self.changes.append(Change(self.path, keyword, what, refused=True))


def parts_of(schema: JsonSchema) -> Sequence[tuple[Steps, JsonSchema]]:
    """The schemas directly within `schema`, each with the steps to it.

    Args:
        schema: Values of `const`, `enum` and the like are data, never schemas. What is no schema where one ought to
            stand is passed over.
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


def with_parts(schema: JsonSchema, parts: Iterable[tuple[Steps, JsonSchema]]) -> JsonSchema:
    """A copy with other schemas directly within it, each given with the steps to it."""
    new = dict(schema)
    for steps, part in parts:
        keyword = str(steps[0])
        if len(steps) == 1:
            new[keyword] = part
            continue
        if new[keyword] is schema[keyword]:
            new[keyword] = schema[keyword].copy()
        new[keyword][steps[1]] = part
    return new


def mapped(schema: JsonSchema, part: Part) -> JsonSchema:
    """`schema` with each schema directly within it replaced; itself where none is.

    Args:
        schema: Well formed; it is left as it is.
        part: Gets each with the steps to it.
    """
    changed = [(steps, new) for steps, old in parts_of(schema) if (new := part(old, steps)) is not old]
    return with_parts(schema, changed) if changed else schema


def walked(schema: JsonSchema, place: Place, visit: Visit) -> JsonSchema:
    """`schema` with every schema within it visited, the innermost first, and itself last."""
    return visit(mapped(schema, lambda part, steps: walked(part, place.below(steps), visit)), place)


def from_outside(visit: Visit) -> Step:
    """The step that visits every schema within a schema, the outermost first.

    Args:
        visit: Gets a schema, and gives it back or a new one; what it leaves out is not visited.
    """

    def walk(schema: JsonSchema, place: Place) -> JsonSchema:
        own = visit(schema, place)
        below = [(steps, part, walk(part, place.below(steps))) for steps, part in parts_of(own)]
        changed = [(steps, new) for steps, part, new in below if new is not part]
        return with_parts(own, changed) if changed else own

    return lambda schema: here(schema, walk)


def here(schema: JsonSchema, visit: Visit) -> Rewritten:
    """What one visit at the root comes to."""
    place = Place()
    visited = visit(schema, place)
    return Rewritten(visited, tuple(place.changes))


def _escaped(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")
