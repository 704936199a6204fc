"""The stage `parse`: the arguments become a mapping of plain JSON, read strictly from text or copied from a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from jiter import from_json

from pegboard.dispatch.limits import DEFAULT_LIMITS, CallError
from pegboard.dispatch.parse_mapping import NotPlainError, named, plain_object
from pegboard.dispatch.work import Work
from pegboard.schema.json import MAX_DEPTH, is_object
from pegboard.schema.problems import problem

_MARKS: Final = bytes.maketrans(b"123456789E[", b"000000000e{")
"""Brings out what depth needs (brackets), and what a number beyond a double's range needs: an exponent (a digit before
an e), or very many digits."""

_MANY_DIGITS: Final = b"0" * 200
_MOST_REASON: Final = 200


def parse(work: Work) -> None:
    """Fills in `work.arguments`, which are the call's own and plain JSON afterwards; blank text means `{}`.

    Raises:
        CallError: `invalid_arguments`, with the reason.
    """
    given = work.call.arguments
    limits = work.around.limits
    kind = type(given)
    if kind is str or kind is bytes:
        work.arguments = parse_arguments(given, most_bytes=limits.argument_bytes, most_nodes=limits.argument_nodes)  # pyright: ignore[reportArgumentType]  its type has been looked at
    else:
        work.arguments = take_arguments(given, most_bytes=limits.argument_bytes, most_nodes=limits.argument_nodes)
    work.parsed = True


def parse_arguments(
    text: str | bytes, *, most_bytes: int, most_nodes: int = DEFAULT_LIMITS.argument_nodes
) -> dict[str, Any]:
    """A JSON object's text as a mapping.

    Refuses duplicate keys, NaN and infinities (written out or by overflow), lone surrogates, more than
    64 levels, more than 4,300 digits in one number (jiter's limit, and Python's own), more than `most_bytes`
    bytes, and more than `most_nodes` values.

    Raises:
        CallError: `invalid_arguments`, with the reason.
    """
    if len(text) > most_bytes:  # before anything else is done with it
        unit = "bytes" if isinstance(text, bytes) else "characters"
        _refuse(f"{len(text):,} {unit} of JSON, at most {most_bytes:,} bytes are taken")
    try:
        data = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError:
        _refuse("the text holds a lone surrogate")
    if len(data) > most_bytes:
        _refuse(f"{len(data):,} bytes of JSON, at most {most_bytes:,} are taken")
    if is_too_wide(data, most_nodes):
        _refuse(_too_many(most_nodes))
    try:
        value = from_json(data, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="none")
    except ValueError as error:
        if not data.strip():
            return {}
        _refuse(f"not JSON: {str(error)[:_MOST_REASON]}")
    if not is_object(value):
        _refuse(f"expected a JSON object, found {named(value)}")
    # What a look at the text can't rule out is looked for in the value.
    marks = data.translate(_MARKS)
    brackets = marks.count(b"{")
    if (
        brackets > MAX_DEPTH
        or b"0e" in marks
        or _MANY_DIGITS in marks
        or (len(data) > most_nodes and brackets + data.count(b",") > most_nodes)
    ) and (reason := excess_of(value, most_nodes)) is not None:
        _refuse(reason)
    return value


def take_arguments(given: object, *, most_bytes: int, most_nodes: int) -> dict[str, Any]:
    """What a host passes on as arguments, whatever it is: text of a type of its own, a mapping, or neither.

    A mapping is copied, as deep as it goes: what is judged, approved and run stays the same, and a tool that changes
    its arguments changes nobody else's.

    Raises:
        CallError: `invalid_arguments`, with the reasons.
    """
    try:
        if isinstance(given, str):
            return parse_arguments(str.__str__(given), most_bytes=most_bytes, most_nodes=most_nodes)
        if isinstance(given, bytes):
            return parse_arguments(b"".join((given,)), most_bytes=most_bytes, most_nodes=most_nodes)
        return plain_object(given, most_nodes=most_nodes)
    except NotPlainError as error:
        raise refused(error.problems) from None
    except CallError:
        raise
    except Exception as error:  # a mapping of the host's own may do anything when it is read
        from pegboard.errors import detail_of

        raise refused((problem((), "they can't be read"),), detail=detail_of(error)) from error


def excess_of(value: Any, most_nodes: int) -> str | None:
    """What there is too much of in a parsed value: levels, values, or a number's size."""
    left = most_nodes + 1
    for level, row in enumerate(_rows(value), 1):
        left -= len(row)
        if left < 0:
            return _too_many(most_nodes)
        if level > MAX_DEPTH and any(type(item) is dict or type(item) is list for item in row):
            return f"nested deeper than {MAX_DEPTH} levels"
        if any(type(item) is float and item - item != 0 for item in row):
            return "a number is too large"
    return None


def _too_many(most_nodes: int) -> str:
    return f"it holds more than {most_nodes:,} values"


def is_too_wide(data: bytes, most_nodes: int) -> bool:
    """Whether a JSON text shows by its commas that it holds more values; in linear time, before any is made."""
    if len(data) <= most_nodes or data.count(b",") <= most_nodes:
        return False
    import re

    # A string that isn't closed goes on to the end: nothing is looked at twice.
    bare = re.sub(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', b"", data, flags=re.DOTALL)
    return bare.count(b",") > most_nodes


def _rows(value: Any) -> Iterator[list[Any]]:
    """The values of each level, from the root down."""
    row: list[Any] = [value]
    while row:
        yield row
        row = [member for item in row for member in _members(item)]


def _members(item: Any) -> Sequence[Any]:
    if type(item) is dict:
        return item.values()  # pyright: ignore[reportReturnType, reportUnknownVariableType]  only iterated
    return item if type(item) is list else ()  # pyright: ignore[reportUnknownVariableType]


def refused(problems: Sequence[str], *, detail: str | None = None) -> CallError:
    """The error of a call whose arguments can't be taken, whatever its tool wants.

    Args:
        problems: `"path: reason"` each.
        detail: For the operator.
    """
    listed = (
        f" {problems[0].removeprefix('(root): ')}." if len(problems) == 1 else "".join(f"\n- {p}" for p in problems)
    )
    end = " " if len(problems) == 1 else "\n"
    text = f"The arguments were refused:{listed}{end}Send one JSON object that fits the tool's schema."
    return CallError("invalid_arguments", text, detail=detail, problems=tuple(problems))


def _refuse(reason: str) -> NoReturn:
    raise refused((problem((), reason),))


__all__ = ["MAX_DEPTH", "parse", "parse_arguments", "refused", "take_arguments"]
