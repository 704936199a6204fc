"""What a child process says, read with the care that its parent owes itself: bounded JSON of known forms."""

from __future__ import annotations

from typing import Any

from jiter import from_json

from pegboard.schema.json import is_array, is_object
from pegboard.tools.content import content_from_json
from pegboard.tools.context import Progress, Told
from pegboard.typing import JsonObject


class NonsenseError(Exception):
    """The child said what it can't mean."""


def message_of(body: bytes) -> JsonObject:
    """One message.

    Raises:
        NonsenseError: It is no JSON object.
    """
    try:
        message = from_json(body, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="none")
    except ValueError as error:
        raise NonsenseError(f"it said what is no JSON: {error}") from None
    if not is_object(message):
        raise NonsenseError("it said what is no object")
    return message


def told_in(message: JsonObject) -> object:
    """What a call tells on the way, as its listener gets it: `Progress`, `Told`, content or JSON data.

    Raises:
        NonsenseError: It has none of the forms.
    """
    told = message["tell"]
    if not is_object(told):
        raise NonsenseError("it told what is no object")
    if "content" in told:
        return _content(told["content"])
    if "facts" in told:
        return _facts(told["facts"], told.get("title"))
    return _progress(told["progress"]) if "progress" in told else told.get("partial")


def _content(data: Any) -> object:
    try:
        return content_from_json(data)
    except ValueError as error:
        raise NonsenseError(f"it told: {error}") from None


def _facts(facts: Any, title: Any) -> Told:
    if not is_object(facts) or not isinstance(title, str | None):
        raise NonsenseError("it told facts that are none")
    return Told(title, facts)


def _progress(parts: Any) -> Progress:
    if not is_array(parts) or [*map(_is_number, parts)] not in _PROGRESSES or not isinstance(parts[2], str | None):
        raise NonsenseError("it told a progress that is none")
    return Progress(*parts)


def _is_number(value: Any) -> bool | None:
    return None if value is None else type(value) in (int, float)


_PROGRESSES = ([True, True, False], [True, None, False], [True, True, None], [True, None, None])
