"""Members of what came from a provider, each read as what it should be, or as if it weren't there. Never raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.typing import JsonMapping

_NOTHING: Final[JsonMapping] = {}


def object_or_none(value: object) -> JsonMapping | None:
    """The value where it is an object."""
    return cast("JsonMapping", value) if isinstance(value, Mapping) else None


def as_object(value: object) -> JsonMapping:
    """The value where it is an object; else an empty one."""
    return cast("JsonMapping", value) if isinstance(value, Mapping) else _NOTHING


def object_in(data: JsonMapping, name: str) -> JsonMapping:
    """An object; an empty one where there is none."""
    return as_object(data.get(name))


def list_in(data: JsonMapping, name: str) -> list[Any]:
    """An array; an empty one where there is none."""
    value = data.get(name)
    return cast("list[Any]", value) if isinstance(value, list) else []


def objects_in(data: JsonMapping, name: str) -> list[JsonMapping]:
    """The objects of an array, whatever else is in it passed over; none where there is no array."""
    return [cast("JsonMapping", item) for item in list_in(data, name) if isinstance(item, Mapping)]


def text_in(data: JsonMapping, name: str) -> str:
    """A text; `""` where there is none."""
    value = data.get(name)
    return value if isinstance(value, str) else ""


def known_text(data: JsonMapping, name: str) -> str | None:
    """A text; `None` where there is none, or an empty one."""
    return text_in(data, name) or None


def count_in(data: JsonMapping, name: str) -> int:
    """A whole number that isn't below 0; 0 where there is none."""
    return place_in(data, name) or 0


def place_in(data: JsonMapping, name: str) -> int | None:
    """A place in a list or in a text, from 0; `None` where there is none."""
    value = data.get(name)
    return value if type(value) is int and value >= 0 else None


def own(metadata: object, provider: str) -> JsonMapping:
    """What metadata holds of one provider's; empty where it holds nothing that can be read.

    Args:
        metadata: Of a part or a call, by provider: it may come from a stored conversation, and be anything.
        provider: Whose.
    """
    return object_in(as_object(metadata), provider)


__all__ = [
    "as_object",
    "count_in",
    "known_text",
    "list_in",
    "object_in",
    "object_or_none",
    "objects_in",
    "own",
    "place_in",
    "text_in",
]
