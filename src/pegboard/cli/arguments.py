"""`key=value` words of the command line -> the arguments of a call, typed by the tool's schema.

    key=value     read by the schema: null, a boolean or a number where it allows one and JSON spells it so, a member
                  of an enum, a JSON array or object where one is allowed; else the text as it is
    key:=JSON     any JSON value
    key=@FILE     the text of a file; key:=@FILE its JSON; key=@@text is the text '@text'
    a.b=value     the property b of the object a
    key=x key=y   two items of an array

A value that can't be read is passed on as text, so that the tool's own schema words the problem.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from attrs import frozen

from pegboard.cli.hint import Hint, json_type
from pegboard.typing import JsonMapping, JsonObject, JsonSchema

MOST_FILE_BYTES: Final = 10_000_000
MOST_DIGITS: Final = 4300
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class WordError(ValueError):
    """A word of the command line that can't become an argument; the text says which, why, and what to do."""


@frozen
class _Word:
    """One `key=value` word, split.

    Attributes:
        key: As it was written.
        path: The names from the root of the arguments to the value.
        hint: What the schema says of the value.
        text: Behind the sign, a file's text already read.
        is_json: Whether it was written as JSON (`:=`).
    """

    key: str
    path: tuple[str, ...]
    hint: Hint
    text: str
    is_json: bool


def read_arguments(words: Iterable[str], schema: JsonSchema, base: JsonMapping | None = None) -> JsonObject:
    """The arguments that these words give.

    Args:
        words: `key=value` each; see the module.
        schema: The tool's input schema; it types, it doesn't judge.
        base: Arguments that the words are put over (`--input-json`).

    Raises:
        WordError: A word has no `=`, no key, JSON that isn't, or a file that can't be read; a key is given twice
            and takes one value, or is given with and without a part of itself (`a=... a.b=...`).
    """
    root = Hint(schema, schema)
    arguments: JsonObject = json.loads(json.dumps(base)) if base else {}
    by_path: dict[tuple[str, ...], list[_Word]] = {}
    for word in words:
        split = _split(word, root)
        by_path.setdefault(split.path, []).append(split)
    for path in sorted(by_path, key=len):
        _put(arguments, by_path[path][0], _value(by_path[path]))
    return arguments


def read_state(words: Iterable[str]) -> JsonObject:
    """`k=v` words as a flat mapping of texts; `k:=JSON` as in arguments, the later over the earlier.

    Raises:
        WordError: As `read_arguments` does.
    """
    state: JsonObject = {}
    for word in words:
        key, text, is_json = _parted(word)
        state[key] = _json(key, text) if is_json else text
    return state


def typed(text: str, hint: Hint) -> Any:
    """A text as the JSON value that the schema takes it for; the text itself where it takes it for none."""
    for member in hint.members:
        if text == (member if isinstance(member, str) else json.dumps(member)):
            return member
    if text in WORDS and json_type(WORDS[text]) in hint.types:
        return WORDS[text]
    if not hint.types.isdisjoint(("integer", "number")) and (number := _number(text)) is not None:
        return number
    if text[:1] in _OPENS and _OPENS[text[:1]] in hint.types:
        return _json_or_text(text)
    return text


WORDS: Final[Mapping[str, Any]] = {"null": None, "true": True, "false": False}
_OPENS: Final[Mapping[str, str]] = {"[": "array", "{": "object"}


# A word ------------------------------------------------------------------------------------------------------------


def _split(word: str, root: Hint) -> _Word:
    key, text, is_json = _parted(word)
    path, hint = place(key, root)
    return _Word(key, path, hint, text, is_json)


def _parted(word: str) -> tuple[str, str, bool]:
    """Key, text and whether it is JSON; a file's text is read."""
    key, sign, text = word.partition("=")
    if not sign:
        raise WordError(f"{word!r} is no argument: write key=value, or key:=JSON")
    is_json = key.endswith(":")
    key = key.removesuffix(":")
    if not key:
        raise WordError(f"{word!r} has no key before the '='")
    if text.startswith("@@") and not is_json:
        return key, text[1:], is_json
    return key, _file_text(key, text[1:]) if text.startswith("@") else text, is_json


def _file_text(key: str, name: str) -> str:
    try:
        with Path(name).expanduser().open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
        if len(data) > MOST_FILE_BYTES:
            raise WordError(f"{key}=@{name}: the file has more than {MOST_FILE_BYTES:,} bytes")
        return data.decode()
    except OSError as error:
        reason = error.strerror or str(error)
        raise WordError(f"{key}=@{name}: {reason}; for a text that begins with '@', write {key}=@@{name}") from None
    except UnicodeDecodeError:
        raise WordError(f"{key}=@{name}: the file isn't UTF-8 text") from None


def place(key: str, root: Hint) -> tuple[tuple[str, ...], Hint]:
    """Where a key's value goes: a name with dots in it first, then the parts of an object."""
    path: tuple[str, ...] = ()
    here, rest = root, key
    while rest not in here.properties:
        head, _, tail = rest.partition(".")
        below = here.child(head)
        if not head or not tail or "object" not in below.types:
            break
        path, here, rest = (*path, head), below, tail
    return (*path, rest), here.child(rest)


# A value -----------------------------------------------------------------------------------------------------------


def _value(words: Sequence[_Word]) -> Any:
    """The value of all words with one path."""
    first, hint = words[0], words[0].hint
    if len(words) > 1:
        if "array" not in hint.types:
            raise WordError(f"{first.key} is given {len(words)} times and takes one value")
        return [_read(word, hint.item(index)) for index, word in enumerate(words)]
    if first.is_json:
        return _json(first.key, first.text)
    value = typed(first.text, hint)
    if isinstance(value, str) and not hint.types & {"string"} and "array" in hint.types:
        return [typed(first.text, hint.item(0))]
    return value


def _read(word: _Word, hint: Hint) -> Any:
    return _json(word.key, word.text) if word.is_json else typed(word.text, hint)


def _number(text: str) -> int | float | None:
    """The number that JSON spells so, if it is finite and not too long to be one."""
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > MOST_DIGITS:
        return None
    if not any(match.groups()):
        return int(text)
    number = float(text)
    return number if abs(number) != float("inf") else None


def _json(key: str, text: str) -> Any:
    try:
        return _strict(text)
    except (ValueError, RecursionError) as error:
        raise WordError(f"{key}:= needs JSON, and this is none: {error}") from None


def _json_or_text(text: str) -> Any:
    try:
        return _strict(text)
    except (ValueError, RecursionError):
        return text


def _strict(text: str) -> Any:
    """JSON without what Python's reader lets pass: NaN, infinities, a key twice."""
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError(f"{text} is too large")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> JsonObject:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise ValueError(f"the key {twice!r} stands twice")
    return members


def _put(arguments: JsonObject, word: _Word, value: Any) -> None:
    here = arguments
    for name in word.path[:-1]:
        below = here.setdefault(name, {})
        if not isinstance(below, dict):
            raise WordError(f"{word.key} is a part of {name!r}, which is given as a whole and is no object")
        here = cast("JsonObject", below)
    here[word.path[-1]] = value


__all__ = ["WORDS", "WordError", "place", "read_arguments", "read_state", "typed"]
