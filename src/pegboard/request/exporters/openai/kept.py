"""`kept`: what the provider wrote, to be given back as it was."""

from __future__ import annotations

from typing import Any, Final

from pegboard.request.dialects.copied import copied
from pegboard.typing import JsonMapping, JsonObject

_NULLABLE: Final = frozenset({"code", "outputs", "result"})
"""Members of hosted items that are there even where they hold nothing."""

_OPAQUE: Final = frozenset({"arguments", "input_schema", "output_schema", "parameters"})
"""Members that hold JSON of somebody else's, where null may mean something."""


def kept(data: JsonMapping) -> JsonObject | None:
    """An item of the provider's to be given back, in a copy, without what is null; `None` where it is beyond bounds."""
    copy, fault = copied(dict(data))
    return None if fault is not None else _without_nulls(copy, _NULLABLE)


def _without_nulls(item: JsonObject, nullable: frozenset[str] = frozenset()) -> JsonObject:
    """What the SDK dumps as null was never on the wire, but for members that have to be there."""
    return {
        key: value if key in _OPAQUE else _cleared(value)
        for key, value in item.items()
        if value is not None or key in nullable
    }


def _cleared(value: Any) -> Any:
    if isinstance(value, list):
        return [_cleared(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return _without_nulls(value) if isinstance(value, dict) else value  # pyright: ignore[reportUnknownArgumentType]


__all__ = ["kept"]
