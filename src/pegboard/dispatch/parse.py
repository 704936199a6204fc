"""The stage `parse`: the arguments' text becomes a mapping, strictly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from jiter import from_json

from pegboard.dispatch.work import CallError, Work
from pegboard.tools.json_value import is_object

MAX_DEPTH: Final = 64
_MARKS: Final = bytes.maketrans(b"123456789E[", b"000000000e{")
"""Brings out what depth needs (brackets), and what a number beyond a double's range needs: an exponent (a digit before
an e), or very many digits."""

_MANY_DIGITS: Final = b"0" * 200


def parse(work: Work) -> None:
    """Fills in `work.arguments`; blank text means `{}`.

    Raises:
        CallError: `invalid_arguments`, with the reason.
    """
    given = work.call.arguments
    if isinstance(given, str | bytes):
        work.arguments = parse_arguments(given, most_bytes=work.around.limits.argument_bytes)
        work.parsed = True
    elif isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  hosts may pass on anything
        work.arguments = dict(given)
    else:
        _refuse(f"expected a JSON object, found {_named(given)}")


def parse_arguments(text: str | bytes, *, most_bytes: int) -> Mapping[str, Any]:
    """A JSON object's text as a mapping.

    Refuses duplicate keys, NaN and infinities (written out or by overflow), lone surrogates, more than
    64 levels, more than 4,300 digits in one number (jiter's limit, and Python's own), and more than `most_bytes`
    bytes.

    Raises:
        CallError: `invalid_arguments`, with the reason.
    """
    try:
        data = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError:
        _refuse("the text holds a lone surrogate")
    if len(data) > most_bytes:
        _refuse(f"{len(data):,} bytes of JSON, at most {most_bytes:,} are taken")
    try:
        value = from_json(data, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="none")
    except ValueError as error:
        if not data.strip():
            return {}
        _refuse(f"not JSON: {error}")
    if not is_object(value):
        _refuse(f"expected a JSON object, found {_named(value)}")
    # What a look at the text can't rule out is looked for in the value.
    marks = data.translate(_MARKS)
    if marks.count(b"{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        _refuse(f"nested deeper than {MAX_DEPTH} levels")
    if (b"0e" in marks or _MANY_DIGITS in marks) and _has_infinity(value):
        _refuse("a number is too large")
    return value


def _levels(value: Any) -> Iterator[tuple[Any, int]]:
    """Every value, with its level (from 1), without recursion."""
    pending: list[tuple[Any, int]] = [(value, 1)]
    while pending:
        item, level = pending.pop()
        yield item, level
        members: Any = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        pending.extend((member, level + 1) for member in members)


def _depth(value: Any) -> int:
    return max(level for item, level in _levels(value) if isinstance(item, dict | list))


def _has_infinity(value: Any) -> bool:
    return any(isinstance(item, float) and item in (float("inf"), float("-inf")) for item, _ in _levels(value))


_NAMES: Final[dict[type[Any], str]] = {
    str: "a string",
    list: "an array",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _named(value: object) -> str:
    return _NAMES.get(type(value), type(value).__name__)


def _refuse(reason: str) -> NoReturn:
    raise CallError(
        "invalid_arguments",
        f"The arguments were refused: {reason}. Send one JSON object that fits the tool's schema.",
        problems=(f"(root): {reason}",),
    )


__all__ = ["MAX_DEPTH", "parse", "parse_arguments"]
