"""Types that JSON writes as text: dates and times, UUIDs, decimals, paths, bytes, patterns.

Dates, times and durations are ISO 8601, as strict as RFC 3339 except that seconds and offsets are optional. A datetime
or time without an offset is naive, one with an offset aware. Durations may be negative, but have no years and months,
whose length varies.
"""

from __future__ import annotations

import binascii
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pegboard.typing import JsonSchema, frozen

if TYPE_CHECKING:
    from datetime import date, timedelta

_UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_DECIMAL: Final = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_NOT_ISO: Final = "not in ISO 8601 format"
_DATE: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = r"\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d\d:[0-5]\d(?::[0-5]\d(?:\.\d{6})?)?)?"
_DURATION_PATTERN: Final = (
    r"(?a)([+-]?)P(?!$)(?:(\d+)W|(?:(\d+)D)?(?:T(?!$)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?)"
)


def _reader(pattern: str, make: Callable[[Any, str], Any], message: str) -> Callable[[Any, str], Any]:
    """A reader that calls `make` for texts that match the pattern: Python itself accepts other forms, too."""
    fits = re.compile(pattern, re.ASCII).fullmatch

    def read(cls: Any, text: str) -> Any:
        if fits(text) is None:
            raise ValueError(message)
        return make(cls, text)

    return read


def _iso_reader(pattern: str) -> Callable[[Any, str], Any]:
    return _reader(pattern, lambda cls, text: cls.fromisoformat(text.upper()), _NOT_ISO)


def read_duration(cls: type[timedelta], text: str) -> timedelta:
    """`"P1DT2H30M"`, `"PT0.5S"`, `"-P2W"`; raises `ValueError`, or `OverflowError` for one that is too long."""
    found = re.fullmatch(_DURATION_PATTERN, text)
    if found is None:
        raise ValueError(_NOT_ISO)
    sign, *parts = found.groups()
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in parts[:5])
    micros = int((parts[5] or "").ljust(6, "0"))
    length = cls(days=days, weeks=weeks, hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)
    return -length if sign == "-" else length


def write_date(value: date) -> str:
    """The date in ISO 8601, whatever its class has as `isoformat`."""
    from datetime import date

    return date.isoformat(value)


def write_duration(value: timedelta) -> str:
    """`"P1DT2H30M"`; `"PT0S"` for zero."""
    sign, value = ("-", -value) if value.days < 0 else ("", value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    clock = "".join(f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count)
    if seconds or fraction:
        clock += f"{seconds}{fraction}S"
    days = f"{value.days}D" if value.days else ""
    return f"{sign}P{days}{'T' if clock else ''}{clock}" if days or clock else "PT0S"


def _write_iso(value: Any) -> str:
    return value.isoformat()


@frozen
class Notation:
    """Text notation of a class's values."""

    wanted: str  # a description of the text, for errors
    schema: JsonSchema  # keywords, besides that it is a string
    read: Callable[[Any, str], Any]  # class and text -> value; raises for any other text, mostly `ValueError`
    write: Callable[[Any], str]  # raises `ValueError` for a value that can't be written


def notation_of(cls: type[Any]) -> Notation | None:
    """The notation of exactly this class, or `None` if it isn't written as text."""
    return _NOTATIONS.get((cls.__module__.partition(".")[0], cls.__qualname__))


def nearest_notation(cls: type[Any]) -> Notation | None:
    """The notation of a class or its nearest base, or `None` if it isn't written as text."""
    return next(filter(None, map(notation_of, cls.__mro__)), None)


def _write_uuid(value: Any) -> str:
    from uuid import UUID

    return UUID.__str__(value)  # raises for any other type, unlike `str`


def _write_decimal(value: Any) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is not a JSON number")
    return str(value)


def read_base64(cls: Any, text: str) -> Any:
    """Decodes base64 strictly; raises `ValueError` for anything else."""
    return cls(binascii.a2b_base64(text, strict_mode=True))


def write_base64(value: Any) -> str:
    """Encodes bytes as base64 on one line."""
    return binascii.b2a_base64(value, newline=False).decode()


def _write_pattern(value: Any) -> str:
    if isinstance(value.pattern, bytes):
        raise ValueError("a pattern of bytes can't be written as text")  # noqa: TRY004  (the value is wrong, not its type)
    return value.pattern


def _construct(cls: Any, text: str) -> Any:
    return cls(text)


_PATH: Final = Notation("a path", {}, _construct, os.fspath)
_BYTES: Final = Notation("base64", {"contentEncoding": "base64"}, read_base64, write_base64)

# By name, so that none of these modules has to be imported here.
_NOTATIONS: Final[Mapping[tuple[str, str], Notation]] = {
    ("datetime", "datetime"): Notation(
        "a date and time such as 2024-02-29T13:30:00Z",
        {"format": "date-time"},
        _iso_reader(f"{_DATE}[Tt ]{_TIME}"),
        _write_iso,
    ),
    ("datetime", "date"): Notation("a date such as 2024-02-29", {"format": "date"}, _iso_reader(_DATE), write_date),
    ("datetime", "time"): Notation("a time such as 13:30:00", {"format": "time"}, _iso_reader(_TIME), _write_iso),
    ("datetime", "timedelta"): Notation(
        "a duration such as P1DT2H30M", {"format": "duration"}, read_duration, write_duration
    ),
    ("uuid", "UUID"): Notation(
        "a UUID", {"format": "uuid"}, _reader(_UUID, _construct, "not in RFC 9562 format"), _write_uuid
    ),
    ("decimal", "Decimal"): Notation(
        "a decimal number such as 12.50 in a string",
        {"pattern": f"^{_DECIMAL}$"},
        _reader(_DECIMAL, _construct, "not in the format of a JSON number"),
        _write_decimal,
    ),
    **{("builtins", name): _BYTES for name in ("bytes", "bytearray", "memoryview")},
    ("re", "Pattern"): Notation(
        "a regular expression", {"format": "regex"}, lambda _, text: re.compile(text), _write_pattern
    ),
    **{("pathlib", f"{pure}{name}"): _PATH for pure in ("", "Pure") for name in ("Path", "PosixPath", "WindowsPath")},
}
