"""How much one schema may hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field, frozen

from pegboard.request.dialects.named_definitions import target_of
from pegboard.request.dialects.step import Change, Rewritten, Step
from pegboard.request.dialects.walk import parts_of
from pegboard.typing import JsonSchema


@frozen
class Counts:
    """What a schema holds, or how much of it may be held; as limits, `None` is no limit.

    Attributes:
        properties: In all objects together.
        levels: Objects within objects, the root being the first; a type within itself counts once.
        enum_values: In all `enum` and `const` together.
        characters: Of the names of properties and definitions, and of the values that are strings.
        optional: Properties that aren't required.
        unions: Properties of several types, or with `anyOf`.
    """

    properties: int | None = None
    levels: int | None = None
    enum_values: int | None = None
    characters: int | None = None
    optional: int | None = None
    unions: int | None = None


LIMITS: Final[Mapping[str, Counts]] = {
    "openai-strict": Counts(properties=5_000, levels=10, enum_values=1_000, characters=120_000),
    "anthropic-strict": Counts(optional=24, unions=16),
    "bedrock-strict": Counts(optional=24, unions=16),
}
"""Known from the providers' error reports and pages, by dialect; `limited` puts others in their place.

Those of Anthropic hold for all strict tools of a request together: who sends several adds up their `counts_of`.
"""

MOST_LEVELS: Final = 128
"""Schemas within schemas that are measured: beyond all limits on levels."""

_WORDS: Final = {
    "properties": "properties",
    "levels": "levels of objects",
    "enum_values": "values of enums",
    "characters": "characters of names and values",
    "optional": "optional properties",
    "unions": "properties of several types",
}


@frozen
class Within:
    """The step that refuses a schema beyond limits.

    Attributes:
        limits: The most that may be held.
    """

    limits: Counts

    def __call__(self, schema: JsonSchema) -> Rewritten:
        """The schema as it is, refused for each limit that it is beyond."""
        counts = counts_of(schema)
        beyond = [
            Change("", "limits", f"{count} {_WORDS[name]}, at most {most} are taken", refused=True)
            for name in _WORDS
            if (most := getattr(self.limits, name)) is not None and (count := getattr(counts, name)) > most
        ]
        return Rewritten(schema, tuple(beyond))


def limited(steps: tuple[Step, ...], limits: Counts) -> tuple[Step, ...]:
    """A dialect's steps with other limits: `attrs.evolve(OPENAI_STRICT, steps=limited(OPENAI_STRICT.steps, mine))`.

    Args:
        steps: The dialect's.
        limits: They take the place of its own; the others stay as they are.
    """
    kept = tuple(step for step in steps if not isinstance(step, Within))
    return (*kept, Within(limits))


def counts_of(schema: JsonSchema) -> Counts:
    """What a schema holds; its references point to `$defs` at the root."""
    counting = _Counting(schema.get("$defs", {}))
    levels = counting.height(schema)
    for name, part in counting.definitions.items():
        counting.characters += len(name)
        counting.height(part)
    return Counts(
        properties=counting.properties,
        levels=levels,
        enum_values=counting.enum_values,
        characters=counting.characters,
        optional=counting.optional,
        unions=counting.unions,
    )


@define
class _Counting:
    definitions: Mapping[str, JsonSchema]
    properties: int = 0
    enum_values: int = 0
    characters: int = 0
    optional: int = 0
    unions: int = 0
    known: dict[int, int] = field(factory=dict[int, int])

    def height(self, schema: JsonSchema, level: int = 0) -> int:
        """The levels of objects that a schema comes to, everything else being counted on the way, once."""
        known = self.known.get(id(schema))
        if known is not None:
            return known
        if level > MOST_LEVELS:
            return 0
        self.known[id(schema)] = 0  # what a type within itself adds
        self._count(schema)
        highest = 0
        for steps, part in parts_of(schema):
            if steps[0] != "$defs":
                highest = max(highest, self.height(part, level + 1))
        if (target := target_of(schema, self.definitions)) is not None:
            highest = max(highest, self.height(target, level + 1))
        self.known[id(schema)] = height = highest + ("properties" in schema)
        return height

    def _count(self, schema: JsonSchema) -> None:
        if properties := schema.get("properties"):
            self.properties += len(properties)
            self.optional += len(properties.keys() - frozenset(schema.get("required", ())))
            self.unions += sum(_is_union(part) for part in properties.values())
            self.characters += sum(map(len, properties))
        if "enum" in schema or "const" in schema:
            values: list[Any] = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
            self.enum_values += len(values)
            self.characters += sum(len(each) for each in values if isinstance(each, str))


def _is_union(part: Any) -> bool:
    return isinstance(part, dict) and ("anyOf" in part or isinstance(part.get("type"), list))  # pyright: ignore[reportUnknownMemberType]


__all__ = ["LIMITS", "Counts", "Within", "counts_of", "limited"]
