"""JSON values: compact and canonical text, digests, limits on their size, and descriptions of their faults."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias, TypeGuard, cast

from jiter import from_json

from pegboard.typing import JsonObject

MOST_PROBLEMS: Final = 20
"""The maximum number of problems listed for one value."""

_MOST_SHOWN: Final = 60
_MOST_OPTIONS: Final = 20
_ROOT: Final = "(root)"


def problem(path: Sequence[str | int], reason: str) -> str:
    """`"filters[0].value: reason"`; the whole value is called `(root)`."""
    return f"{path_text(path)}: {reason}"


def path_text(path: Sequence[str | int]) -> str:
    """A path in Python notation: names joined by dots, positions and other names in brackets."""
    text = ""
    for step in path:
        if type(step) is int:
            text += f"[{step}]"
        elif isinstance(step, str) and step.isidentifier() and len(step) <= _MOST_SHOWN:
            text += f".{step}" if text else step
        else:
            text += f"[{short_json(step)}]"
    return text or _ROOT


def short_json(value: Any) -> str:
    """A JSON value in about sixty characters at most; arrays and objects only by kind."""
    if isinstance(value, str):
        short = value[:_MOST_SHOWN]
        return _compact(short)[:-1] + ('"' if len(short) == len(value) else '..."')
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def short_json_with_kind(value: Any) -> str:
    """`short_json` with the kind in front, for errors about the type: `string "25"`, `number 5`, `null`."""
    if isinstance(value, bool):
        return f"boolean {short_json(value)}"
    if isinstance(value, int | float):
        return f"number {short_json(value)}"
    return f"string {short_json(value)}" if isinstance(value, str) else short_json(value)


def list_text(options: Iterable[Any]) -> str:
    """JSON values joined by commas: the first twenty, and the number of the others."""
    values = list(options)
    text = ", ".join(map(short_json, values[:_MOST_OPTIONS]))
    more = len(values) - _MOST_OPTIONS
    return text if more <= 0 else f"{text} and {more} more"


def count_text(number: int, noun: str) -> str:
    """`"1 item"`, `"2 items"`; the noun in the singular."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size_text(size: int) -> str:
    """A number of bytes in a readable unit."""
    if size < 1_000:
        return count_text(size, "byte")
    return f"{size / 1024:.1f} KiB" if size < 1_000_000 else f"{size / 1024 / 1024:.1f} MiB"


class StructureError(ValueError):
    """JSON that the type doesn't accept, even if its schema does (February 30, a number out of range).

    Attributes:
        path: From the root: `("when", 0, "day")`.
        reason: A short explanation.
    """

    def __init__(self, reason: str, path: Sequence[str | int] = ()) -> None:
        self.reason = reason
        self.path = tuple(path)
        super().__init__(problem(self.path, reason))

    def below(self, *outer: str | int) -> StructureError:
        """This error with a longer path."""
        return StructureError(self.reason, (*outer, *self.path))


class JsonText(str):
    """JSON as text: immutable, small, and ready to be joined into an export."""

    __slots__ = ()


_compact: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_sorted: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True).encode
EMPTY_OBJECT: Final = JsonText("{}")  # `{}`


strict_json: Final = partial(from_json, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="none")
"""Parses a JSON text, as bytes, from an untrusted source; raises `ValueError` where it isn't strict JSON.

No duplicate keys, no NaN, bounded nesting, numbers of at most 4,300 digits. One such as `1e400` becomes an infinity,
which `json_text` and `json_problems` refuse.
"""


def json_text(value: Any) -> JsonText:
    """`value` as compact JSON text in its own key order; a `JsonText` is returned unchanged.

    Raises `ValueError` for NaN, an infinity or a cycle, and `TypeError` for a value without a JSON form.
    """
    return value if type(value) is JsonText else JsonText(_compact(value))


def canonical_json(value: Any) -> str:
    """The canonical text of a JSON value: keys sorted, no spaces, `1.0` written as `1`.

    Equal JSON values (as JSON Schema compares them) have equal texts, in every process. Raises as `json_text` does.
    """
    text = _sorted(value)
    # Only a whole float is written with ".0" or "e+"; few texts contain either.
    return text if ".0" not in text and "e+" not in text else _sorted(whole_numbers(value))


def digest_of(value: Any) -> str:
    """`"sha256:"` and the hexadecimal SHA-256 of the canonical JSON of `value`."""
    import hashlib

    return "sha256:" + hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def whole_numbers(value: Any) -> Any:
    """JSON data with each whole number as an integer."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: whole_numbers(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return [whole_numbers(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


MAX_DEPTH: Final = 64
"""The maximum nesting of containers. jsonschema_rs recurses on the C stack: 100,000 levels crash the process."""

MAX_DIGITS: Final = 4300
"""The maximum digits of an integer, as Python converts it from and to text (`sys.int_info.default_max_str_digits`)."""

MAX_VALUES: Final = 500_000
"""The maximum number of values, counting shared parts each time: with those a small value can be huge."""

_SURROGATES: Final = "must not hold lone surrogates"
_TOO_LARGE: Final = 10**MAX_DIGITS
_INFINITY: Final = float("inf")
_CONTAINERS: Final = (dict, list, tuple)
_FLAT: Final = frozenset({bool, type(None)})
_Path: TypeAlias = tuple[Any, ...]


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Whether a parsed JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a parsed JSON value is an array."""
    return isinstance(value, list)


def json_problems(value: Any, most: int = MAX_VALUES) -> tuple[str, ...]:
    """The reasons why `value` isn't JSON, at most 20 times `"path: reason"`; empty where it is JSON.

    Types are compared exactly (a subclass of `str` is not a JSON string), as jsonschema_rs does; a tuple is an array.
    Never raises, and ends for cycles and for heavily shared parts: it visits no more than `most` values.
    """
    return tuple(problem(path, reason) for path, reason in located_problems(value, most))


def located_problems(value: Any, most: int = MAX_VALUES) -> Sequence[tuple[_Path, str]]:
    """`json_problems`, each as path and reason."""
    left = [most]
    faults = tuple(islice(_walk(value, (), (), left), MOST_PROBLEMS))
    return faults if left[0] >= 0 else (((), f"must hold at most {most} values"),)


class NotPlainError(ValueError):
    """A value can't be copied as JSON; `json_problems` finds the place."""


def plain_copy(value: Any, levels: int, left: list[int]) -> Any:
    """A deep copy of a JSON value, checked in the same pass; a tuple becomes a list.

    Takes about 3 us for usual arguments. Raises `NotPlainError` if it isn't JSON, by exact types, has containers nested
    more than `levels` deep, as a cycle has, or too many values: `left` has one number, that of the values that it may
    have, which is below 0 afterwards if it has more.
    """
    kind = cast("type[Any]", type(value))
    if kind is dict or kind is list or kind is tuple:
        left[0] -= len(value)
        if levels == 0 or left[0] < 0:
            raise NotPlainError("it holds too many values" if left[0] < 0 else "it is nested too many levels deep")
        if kind is not dict:
            return [item if type(item) in _FLAT else plain_copy(item, levels - 1, left) for item in value]
        copy: dict[str, Any] = dict(value)
        for key, item in copy.items():
            if type(key) is not str or not (key.isascii() or is_unicode(key)):
                raise NotPlainError(f"it isn't JSON: {_key_fault(key)}")
            if type(item) is str and item.isascii():  # most are
                continue
            if type(item) not in _FLAT:
                copy[key] = plain_copy(item, levels - 1, left)
        return copy
    if (fault := _leaf_fault(value)) is not None:
        raise NotPlainError(f"it isn't JSON: a value {fault}")
    return value


def _walk(value: Any, path: _Path, above: tuple[int, ...], left: list[int]) -> Iterator[tuple[_Path, str]]:
    """Each fault with its path; `above` has the ids of the containers around `value`. Ends if no values are `left`."""
    left[0] -= 1
    if type(value) not in _CONTAINERS:
        if (reason := _leaf_fault(value)) is not None:
            yield path, reason
    elif id(value) in above:
        yield path, "must not contain itself"
    elif len(above) >= MAX_DEPTH:
        yield path, f"must not be nested more than {MAX_DEPTH} levels deep"
    else:
        for step, item in value.items() if is_object(value) else enumerate(value):
            if left[0] < 0:
                return
            if is_object(value) and (reason := _key_fault(step)) is not None:
                yield path, reason
            else:
                yield from _walk(item, (*path, step), (*above, id(value)), left)


def _key_fault(key: object) -> str | None:
    if type(key) is not str:
        return f"keys must be strings, got one of type {type(key).__name__}"
    return None if is_unicode(key) else f"keys {_SURROGATES}"


def _leaf_fault(value: Any) -> str | None:
    """Why a scalar isn't JSON, or `None` where it is."""
    if value is None or value is True or value is False:
        return None
    kind = cast("type[Any]", type(value))
    if kind is str:
        return None if is_unicode(value) else _SURROGATES
    if kind is int:
        return None if -_TOO_LARGE < value < _TOO_LARGE else f"must have at most {MAX_DIGITS} digits"
    if kind is float:
        finite = -_INFINITY < value < _INFINITY
        return None if finite else f"must be a finite number, got {short_json(value)}"
    return f"must be JSON (null, boolean, number, string, list, dict), got a Python {kind.__name__}"


def is_unicode(text: str) -> bool:
    """Whether `text` can be written as UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unicode_text(text: str) -> str:
    """`text` with lone surrogates, as from an undecodable file name, replaced by U+FFFD: UTF-8 can't encode them."""
    return text if is_unicode(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def encodable_text(text: str, name: str = "text") -> str:
    """A string that UTF-8 can encode, by `unicode_text`; raises a `TypeError` with `name` if it isn't a string."""
    if type(text) is not str:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  a tool may pass on anything
            raise TypeError(f"{name} must be a string, got {text!r:.100}")
        text = str.__str__(text)  # a subclass may override `__str__`
    return text if text.isascii() else unicode_text(text)


def is_small(value: Any, values: int = 1_000, characters: int = 10_000) -> bool:
    """Whether a value has at most this many values and keys, and this many characters in its texts and keys."""
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        values -= 1
        if isinstance(item, str):
            characters -= len(item)
        elif is_object(item):
            waiting += item
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
        if characters < 0 or values < len(waiting):
            return False
    return True


def surrogate_fault(text: str) -> str | None:
    """The first fault for lone surrogates in a JSON text that `json_text` wrote, or `None`."""
    if is_unicode(text):
        return None
    try:
        faults = json_problems(json.loads(text))
    except (ValueError, RecursionError):
        faults = ()
    return next((fault for fault in faults if fault.endswith(_SURROGATES)), f"it {_SURROGATES}")
