"""The arguments of calls in history: as objects for wires that take nothing else, as text for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pegboard.schema.json import is_object, json_faults, json_text
from pegboard.tools.call import ToolCall, writable
from pegboard.typing import JsonObject

INVALID: Final = "INVALID_JSON"
"""The key under which arguments stand that were no JSON object."""

INPUT: Final = "input"
"""The one argument of a freeform tool."""

MOST_SAID: Final = 2_000
"""Characters of arguments that were no JSON: enough for the model to see what went wrong."""

_MOST_SHOWN: Final = 1_000


def arguments_object(call: ToolCall) -> JsonObject:
    """A call's arguments as a JSON object; what is none stands as text in one, under `INVALID_JSON`. Never raises."""
    given = call.arguments
    if isinstance(given, Mapping):
        parsed = _plain(given)
        return {INVALID: "arguments that are no JSON"} if parsed is None else parsed
    text = given.decode(errors="backslashreplace") if isinstance(given, bytes) else given
    parsed = parsed_object(text)
    return _told(text) if parsed is None else parsed


def arguments_text(call: ToolCall) -> str:
    """A call's arguments as JSON text. Never raises.

    Text that a model wrote stays as it is, whether it is JSON or not; blank text is an object without members.
    """
    text = _text(call.arguments)
    return text if text.strip() else "{}"


def input_text(call: ToolCall) -> str:
    """The free text of a call of a freeform tool; its arguments as text where there is none. Never raises."""
    given = call.arguments
    parsed = given if isinstance(given, Mapping) else parsed_object(_text(given))
    free = None if parsed is None or len(parsed) != 1 else parsed.get(INPUT)
    return writable(free) if isinstance(free, str) else _text(given)


def parsed_object(text: str) -> JsonObject | None:
    """The JSON object that a text is, blank text an empty one; else `None`. Never raises.

    As strict as those who judge calls are: each key once, and no number that JSON doesn't have.
    """
    if not text.strip():
        return {}
    from jiter import from_json

    try:
        value: Any = from_json(text.encode(), allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError:
        return None
    return value if is_object(value) and not json_faults(value) else None


def _plain(given: Mapping[str, Any]) -> JsonObject | None:
    """A mapping as a plain object; `None` where it is no JSON, or a host's that breaks when it is looked at."""
    try:
        taken = dict(given)
    except Exception:  # noqa: BLE001  whatever a host's mapping makes of being read
        return None
    return None if json_faults(taken) else taken


def _told(text: str) -> JsonObject:
    cut = text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]} … ({len(text):,} characters)"
    return {INVALID: writable(cut)}


def _text(given: str | bytes | Mapping[str, Any]) -> str:
    if isinstance(given, bytes):
        return given.decode(errors="replace")
    if isinstance(given, str):
        return writable(given)
    try:
        return writable(str(json_text(dict(given))))
    except Exception:  # noqa: BLE001  no JSON, or a host's mapping that breaks when it is read
        return str(json_text({INVALID: writable(_shown(given))}))


def _shown(arguments: Mapping[str, Any]) -> str:
    try:
        return repr(arguments)[:_MOST_SHOWN]
    except Exception:  # noqa: BLE001  whatever a host's object makes of being shown
        return type(arguments).__name__


__all__ = ["INPUT", "INVALID", "MOST_SAID", "arguments_object", "arguments_text", "input_text", "parsed_object"]
