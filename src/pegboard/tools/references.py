"""References within a JSON Schema: what they point to, and how large the schema is once they are followed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from attrs import Factory, define, field

from pegboard.tools.json_value import is_array, is_object
from pegboard.tools.subschema import parts, schemas
from pegboard.typing import JsonSchema

REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
LEGACY_DRAFTS: Final = ("draft-04", "draft-06", "draft-07")
"""Drafts in which `$ref` hides what stands beside it."""


class EndlessSchemaError(Exception):
    """A schema that applies itself to the same value again and again, or is nested too deep."""


def _is_legacy(root: JsonSchema) -> bool:
    return any(draft in str(root.get("$schema", "")) for draft in LEGACY_DRAFTS)


@define
class References:
    """The references of one schema.

    Attributes:
        root: The whole schema.
        legacy: Whether `$ref` hides what stands beside it (drafts 4 to 7).
    """

    root: JsonSchema
    legacy: bool = field(init=False, default=Factory(lambda self: _is_legacy(self.root), takes_self=True))
    _anchors: dict[str, JsonSchema] | None = field(default=None, init=False)

    def targets(self, schema: JsonSchema) -> Iterator[Any]:
        """What the references of `schema` point to; `None` for one that points nowhere in here."""
        for keyword in REFERENCES:
            if isinstance(reference := schema.get(keyword), str):
                yield self.target(reference)

    def target(self, reference: str) -> Any:
        """The schema behind `#`, `#/a/pointer`, `#anchor` or the same after the root's own `$id`, else `None`."""
        base, _, fragment = reference.partition("#")
        if base and base != str(self.root.get("$id", "")).partition("#")[0]:
            return None
        if not fragment:
            return self.root
        if fragment.startswith("/"):
            return self._at(unquote(fragment)[1:].split("/"))
        return self._anchored().get(fragment)

    def _at(self, steps: list[str]) -> Any:
        """What a JSON Pointer (RFC 6901) leads to, or `None`."""
        here: Any = self.root
        for step in steps:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_array(here) and name.isdecimal() and int(name) < len(here):
                here = here[int(name)]
            elif is_object(here) and name in here:
                here = here[name]
            else:
                return None
        return here

    def _anchored(self) -> dict[str, JsonSchema]:
        if self._anchors is None:
            self._anchors = {
                name: schema
                for schema in schemas(self.root)
                for keyword in ("$anchor", "$dynamicAnchor")
                if isinstance(name := schema.get(keyword), str)
            }
        return self._anchors


@define
class Expansion:
    """How large a schema is with every reference replaced by its target, a recursive one counted once.

    Linear in the schema as written: each schema is measured once.

    Attributes:
        references: Of the schema.
        most_levels: How deep the followed schema may go.
        reached: Every schema that can apply to a value, by identity.
    """

    references: References
    most_levels: int
    reached: dict[int, JsonSchema] = field(factory=dict[int, JsonSchema], init=False)
    _measured: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]], init=False)

    def size(self) -> int:
        """The number of schemas after expansion.

        Raises:
            EndlessSchemaError: A schema applies itself to the same value, or the levels are too many.
        """
        size, _ = self._measure(self.references.root, 0)
        self._refuse_loops()
        return size

    def _measure(self, schema: JsonSchema, level: int) -> tuple[int, int]:
        """Size and height of one schema; one that is being measured further out counts as one."""
        if known := self._measured.get(id(schema)):
            self._refuse_depth(level + known[1])
            return known
        self._refuse_depth(level)
        self.reached[id(schema)] = schema
        self._measured[id(schema)] = 1, 0
        size, height = 1, 0
        for part, _ in self._steps(schema):
            part_size, part_height = self._measure(part, level + 1)
            size, height = size + part_size, max(height, part_height + 1)
        self._measured[id(schema)] = size, height
        return size, height

    def _steps(self, schema: JsonSchema) -> Iterator[tuple[JsonSchema, bool]]:
        """What `schema` applies, with whether to the same value."""
        yield from parts(schema)
        for target in self.references.targets(schema):
            if is_object(target):
                yield target, True

    def _refuse_depth(self, levels: int) -> None:
        if levels > self.most_levels:
            raise EndlessSchemaError(f"it is nested more than {self.most_levels} levels deep")

    def _refuse_loops(self) -> None:
        """Takes away, again and again, what nothing left applies in place; what stays applies itself."""
        appliers = dict.fromkeys(self.reached, 0)
        for schema in self.reached.values():
            for part in self._in_place(schema):
                appliers[id(part)] += 1
        free = [each for each, count in appliers.items() if count == 0]
        for each in free:
            for part in self._in_place(self.reached[each]):
                appliers[id(part)] -= 1
                if appliers[id(part)] == 0:
                    free.append(id(part))
        if len(free) < len(appliers):
            raise EndlessSchemaError("it applies itself to the same value without end")

    def _in_place(self, schema: JsonSchema) -> Iterator[JsonSchema]:
        return (part for part, in_place in self._steps(schema) if in_place)
