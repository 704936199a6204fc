"""`AnnotatedToolset`: hints that the host gives."""

from __future__ import annotations

from typing import Any

import attrs

from pegboard.tools.spec import ToolAnnotations
from pegboard.tools.tool import Tool
from pegboard.toolsets.custom import PredicateFunction
from pegboard.toolsets.expression import as_predicate
from pegboard.toolsets.predicate import Predicate
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.wrapper import ChangedToolset, Step


class AnnotatedToolset(ChangedToolset):
    """Hints that whoever wraps the toolset vouches for.

    They replace the tools' own. Of the other hints of a tool whose origin isn't trusted only those that add caution
    stay (destructive, open world, edit), and the tool's hints are trusted from then on.

    Args:
        inner: Any toolset.
        annotations: The hints; those that are unset leave the tool's own.
        where: Picks the tools; `None` picks all.
    """

    def __init__(
        self,
        inner: Toolset,
        annotations: ToolAnnotations,
        where: Predicate | PredicateFunction | str | None = None,
    ) -> None:
        given = {name: hint for name, hint in _hints(annotations).items() if hint is not None}

        def annotate(tool: Tool) -> Tool:
            own = tool.spec.annotations if tool.origin.trusted else _cautious(tool.spec.annotations)
            origin = tool.origin if tool.origin.trusted else attrs.evolve(tool.origin, trusted=True)
            return tool.with_spec(annotations=attrs.evolve(own, **given)).evolve(origin=origin)

        super().__init__(inner, Step("annotated", annotate, None if where is None else as_predicate(where)))


def _hints(annotations: ToolAnnotations) -> dict[str, Any]:
    return attrs.asdict(annotations)


def _cautious(annotations: ToolAnnotations) -> ToolAnnotations:
    """Only the hints that make anybody more careful."""
    return ToolAnnotations(
        destructive_hint=annotations.destructive_hint or None,
        open_world_hint=annotations.open_world_hint or None,
        edit_hint=annotations.edit_hint or None,
    )
