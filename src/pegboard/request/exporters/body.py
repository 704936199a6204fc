"""The body of a request, put together from what is known and what a host puts over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.typing import JsonMapping, JsonObject

_SAYS_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})


def known(facts: Mapping[str, Any]) -> JsonObject:
    """The facts that say something: neither `None` nor empty texts, lists and objects. `False` and 0 do."""
    return {name: fact for name, fact in facts.items() if fact not in _SAYS_NOTHING}


def merged(body: JsonObject, options: JsonMapping) -> JsonObject:
    """The body with the host's options over it.

    Objects in both become one, unless both say their `type`, and another one: such are alternatives (a tool choice).
    Anything else is replaced.
    """
    new = dict(body)
    for key, value in options.items():
        old: Any = new.get(key)
        one = isinstance(old, dict) and isinstance(value, dict) and _is_one_kind(old, value)  # pyright: ignore[reportUnknownArgumentType]
        new[key] = merged(cast("JsonObject", old), cast("JsonObject", value)) if one else value
    return new


def _is_one_kind(old: JsonMapping, new: JsonMapping) -> bool:
    return "type" not in old or old["type"] == new.get("type", old["type"])


__all__ = ["known", "merged"]
