"""JSON into Python, by type: the public face of `conversion.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegboard.schema.conversion import strictly
from pegboard.schema.types import adapter_of


def structure(value: Any, annotation: object) -> Any:
    """JSON data as a value of any type that a tool's parameter may have; nothing is coerced.

    Raises:
        StructureError: It doesn't fit the type's schema, or is refused by the type itself.
        DefinitionError: JSON can't say the type.
    """
    return strict_structurer(annotation)(value)


def strict_structurer(annotation: object) -> Callable[[Any], Any]:
    """What turns JSON data that no derived schema has validated, which it does first, into the Python value.

    Returns:
        JSON data -> Python value; raises `StructureError`, and nothing else.

    Raises:
        DefinitionError: JSON can't say the type.
    """
    return strictly(adapter_of(annotation))
