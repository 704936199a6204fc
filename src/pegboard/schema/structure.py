"""JSON into Python by type, outside of a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegboard.schema.conversion import strict_hook
from pegboard.schema.types import adapter_of


def structure(value: Any, annotation: object) -> Any:
    """JSON data as a value of any type that a tool's parameter may have; nothing is coerced.

    Raises:
        StructureError: It doesn't fit the type's schema, or the type itself refuses it.
        DefinitionError: The type has no JSON Schema.
    """
    return strict_structurer(annotation)(value)


def strict_structurer(annotation: object) -> Callable[[Any], Any]:
    """A function that validates JSON data by the derived schema, and then structures it.

    Returns:
        JSON data -> Python value; raises `StructureError`, and nothing else.

    Raises:
        DefinitionError: The type has no JSON Schema.
    """
    return strict_hook(adapter_of(annotation))
