"""Which `key=value` words may stand at the cursor of `registry call NAME ...`, by the tool's schema."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pegboard.cli.arguments import WORDS, place
from pegboard.cli.hint import Hint, json_type
from pegboard.tools.visible import visible
from pegboard.typing import JsonSchema


def candidates(incomplete: str, given: Iterable[str], schema: JsonSchema) -> list[tuple[str, str]]:
    """What may stand where `incomplete` begins: words, each with a short help.

    Names (`key=`) until there is an `=`, required ones first, those that are given left out; then the values that
    the schema names.
    """
    root = Hint(schema, schema)
    key, sign, begun = incomplete.partition("=")
    if sign:
        _, hint = place(key.removesuffix(":"), root)
        return [(f"{key}={value}", "") for value in _values(hint) if value.startswith(begun)]
    taken = {word.partition("=")[0].removesuffix(":") for word in given}
    return [(name, text) for name, text in _names("", root, taken) if name.startswith(incomplete)]


def _names(before: str, hint: Hint, taken: set[str]) -> list[tuple[str, str]]:
    """Every `key=` that isn't taken; an object's parts under it, one level deep."""
    found: list[tuple[str, str]] = []
    properties = hint.properties
    for name in sorted(properties, key=lambda name: name not in hint.required):
        below, key = properties[name], before + name
        if key not in taken or _repeats(below):
            found.append((visible(f"{key}="), _first_line(below.says("description"))))
        if not before:
            found += _names(f"{key}.", below, taken)
    return found


def _values(hint: Hint) -> list[str]:
    """The values that a schema names, as they are written on the command line."""
    members = [member if isinstance(member, str) else json.dumps(member) for member in hint.members]
    few = () if hint.is_open else (word for word, value in WORDS.items() if json_type(value) in hint.types)
    items = _values(hint.item(0)) if _repeats(hint) else []
    return [visible(word) for word in dict.fromkeys((*members, *few, *items))]


def _repeats(hint: Hint) -> bool:
    """Whether a key may well be given several times."""
    return "array" in hint.types and not hint.is_open


def _first_line(text: Any) -> str:
    lines = text.strip().splitlines() if isinstance(text, str) else []
    return visible(lines[0].strip()) if lines else ""
