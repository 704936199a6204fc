"""Whether the schemas of an offered tool can be used: looked at once a tool, and once a text."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from weakref import WeakSet

from pegboard.errors import SchemaError
from pegboard.tools.tool import Tool

MOST_REMEMBERED: Final = 4096
MAX_REMEMBERED_CHARACTERS: Final = 8192
"""Of one text: what is remembered comes from outside, and stays under 32 Mi characters in all."""

_sound: Final[WeakSet[Tool]] = WeakSet()


def check_sound(tool: Tool) -> None:
    """Refuses a tool with a schema that can't judge, or whose cost is unbounded.

    Some 0.4 us for a tool that has been here before, 1 us for a schema that has.

    Raises:
        SchemaError: Says which schema is refused, and why.
    """
    if tool in _sound:
        return
    texts = {"input_schema": tool.spec.input_schema_text, "output_schema": tool.spec.output_schema_text}
    for what, text in texts.items():
        if text is not None and (fault := _fault(text, what)) is not None:
            raise SchemaError(fault, tool=tool.spec.name)
    _sound.add(tool)


def _fault(text: str, what: str) -> str | None:
    return (_remembered if len(text) <= MAX_REMEMBERED_CHARACTERS else _looked_at)(text, what)


def _looked_at(text: str, what: str) -> str | None:
    from pegboard.schema.validator import check_schema

    try:
        check_schema(text, tool="", what=what)
    except SchemaError as error:
        return error.message
    return None


_remembered: Final = lru_cache(MOST_REMEMBERED)(_looked_at)
