"""`entry_points.txt`: the plugins that a distribution names.

The format is set by PyPA's entry points specification: INI sections, one `name = module:attribute [extras]` a line.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

GROUP: Final = "pegboard"


@frozen
class EntryPoint:
    """One line of the group.

    Attributes:
        name: What stands before `=`.
        module: Dotted.
        attribute: Dotted, or `None`.
    """

    name: str
    module: str
    attribute: str | None


def parse_entry_points(text: str) -> tuple[list[EntryPoint], list[tuple[str, str]]]:
    """The entry points of the group `pegboard`, in their order, and what is wrong with others.

    A line that is wrong costs only itself.

    Returns:
        The entry points; and (name, cause) of each that can't be used, the name `""` where the line has none.
    """
    points: dict[str, EntryPoint] = {}
    faults: list[tuple[str, str]] = []
    for line in _lines_of_group(text):
        name, equals, value = (part.strip() for part in line.partition("="))
        reference = _reference(value)
        if not equals or not name:
            faults.append(("", f"entry point {line!r} isn't 'name = module:attribute'"))
        elif reference is None:
            faults.append((name, f"entry point {name!r} names {value!r}, which isn't 'module' or 'module:attribute'"))
        elif name in points:
            faults.append((name, f"entry point {name!r} stands twice; the first counts"))
        else:
            points[name] = EntryPoint(name, *reference)
    return list(points.values()), faults


def _lines_of_group(text: str) -> list[str]:
    lines: list[str] = []
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            inside = line[1:-1] == GROUP
        elif inside and line and not line.startswith(("#", ";")):
            lines.append(line)
    return lines


def _reference(value: str) -> tuple[str, str | None] | None:
    """`module:attribute [extras]` -> module and attribute; `None` where it isn't that."""
    if value.endswith("]"):
        value = value.partition("[")[0].rstrip()
    module, colon, attribute = (part.strip() for part in value.partition(":"))
    if not _is_dotted(module) or (colon and not _is_dotted(attribute)):
        return None
    return module, attribute or None


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))
