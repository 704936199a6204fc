"""A `Confirmation` as JSON data with all that was answered before, for calls that run in another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from pegboard.dispatch.executors.reading import FLAG, LIST, NOTHING, TEXT, Types, read
from pegboard.tools.call import Confirmation
from pegboard.typing import JsonMapping, JsonObject

_TYPES: Final[Mapping[str, Types]] = {
    "hint": TEXT,
    "confirmed": FLAG,
    "feedback": TEXT + NOTHING,
    "permission": TEXT + NOTHING,
    "patterns": LIST,
    "earlier": LIST,
}


def confirmation_to_json(confirmation: Confirmation) -> JsonObject:
    """What `Confirmation.to_json` says, and the answers before it as `"earlier"`."""
    data = confirmation.to_json()
    if confirmation.earlier:
        data["earlier"] = [one.to_json() for one in confirmation.earlier]
    return data


def confirmation_from_json(data: JsonMapping) -> Confirmation:
    """Reads what `confirmation_to_json` writes.

    Raises:
        ValueError: Something is missing or of the wrong type; names it.
    """
    facts: dict[str, Any] = read(data, _TYPES, "hint", "confirmed")
    earlier = facts.pop("earlier", ())
    if not all(isinstance(pattern, str) for pattern in facts.get("patterns", ())):
        raise ValueError("patterns: expected a list of texts")
    answer = Confirmation(**facts, payload=data.get("payload"))
    return evolve(answer, earlier=tuple(confirmation_from_json(one) for one in earlier))
