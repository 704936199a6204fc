"""What is indexed of a tool: the words of its name, title, tags, parameters and description."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pegboard.toolsets.search.words import spaced, with_parts

if TYPE_CHECKING:
    from pegboard.tools.spec import ToolSpec
    from pegboard.toolsets.search.table import Row

MOST_DESCRIPTION: Final = 20_000
"""How many characters of a description are indexed."""

MOST_PARAMETERS: Final = 500
"""How many names of parameters are indexed, those that lie outermost first."""

_DATA: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, in which `properties` means nothing."""

_CONTAINERS: Final = (dict, list)


def row_of(spec: ToolSpec) -> Row:
    """What is indexed of a tool."""
    labels = " ".join((spec.title or "", *spec.tags, *parameter_names(spec)))
    return (
        spec.name,
        with_parts(spec.name),
        spaced(with_parts(labels)),
        spaced(spec.description[:MOST_DESCRIPTION]),
    )


def parameter_names(spec: ToolSpec) -> list[str]:
    """The names of a tool's parameters, those within others too, each once; at most 500."""
    if '"properties"' not in spec.input_schema_text:
        return []
    names: dict[str, None] = {}
    level: list[Any] = [json.loads(spec.input_schema_text)]
    while level and len(names) < MOST_PARAMETERS:
        within: list[Any] = []
        for schema in level:
            _look_into(schema, names, within)
        level = within
    return list(names)[:MOST_PARAMETERS]


def _look_into(schema: Any, names: dict[str, None], within: list[Any]) -> None:
    """Notes the properties of a schema, or of a list of them, and what may hold more."""
    if isinstance(schema, list):
        within += [part for part in schema if isinstance(part, _CONTAINERS)]  # pyright: ignore[reportUnknownVariableType]
        return
    for keyword, value in schema.items():
        if keyword == "properties" and isinstance(value, dict):
            names.update(dict.fromkeys(value))  # pyright: ignore[reportUnknownArgumentType]
            within += [part for part in value.values() if isinstance(part, dict)]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        elif keyword not in _DATA and isinstance(value, _CONTAINERS):
            within.append(value)
