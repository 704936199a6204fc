"""Names as the wire writes them, and answers, as the SDK's own models hold them, in its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.request.exporters.untrusted import objects_in
from pegboard.typing import JsonMapping

_MOST_LEVELS: Final = 12
"""How deep the provider's own words go; what is deeper stays as it is."""

_OTHERS: Final = frozenset({"args", "response", "part_metadata", "parsed"})
"""Keys whose values hold others' words."""


def camel(name: str) -> str:
    """`googleSearch` of `google_search`, and of itself."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def in_wire_words(raw: Any) -> Any:
    """The answer with keys in camel case, where it is a `model_dump()` without `by_alias`; else itself."""
    return _in_camel_case(raw, _MOST_LEVELS) if _is_dumped(raw) else raw


def _is_dumped(raw: Any) -> bool:
    if not isinstance(raw, Mapping):
        return False
    read = cast("JsonMapping", raw)
    parts: list[Any] = [read, *objects_in(read, "candidates")]
    parts += [part for each in parts[1:] if isinstance(each.get("content"), Mapping) for part in _parts(each)]
    return any("_" in key for part in parts for key in part if isinstance(key, str))


def _parts(candidate: JsonMapping) -> list[JsonMapping]:
    return objects_in(candidate["content"], "parts")


def _in_camel_case(value: Any, levels: int) -> Any:
    if levels == 0:
        return value
    if isinstance(value, list):
        return [_in_camel_case(item, levels - 1) for item in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    return {
        camel(key) if isinstance(key, str) else key: item if key in _OTHERS else _in_camel_case(item, levels - 1)
        for key, item in cast("Mapping[Any, Any]", value).items()
    }


__all__ = ["camel", "in_wire_words"]
