"""Dates, times and durations as text: ISO 8601, as strict as RFC 3339 but for the offset, which may be left out.

A datetime or time without an offset is naive and stays so; one with an offset is aware and stays so. Years and
months are no part of a duration, since they have no fixed length; a minus in front is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from datetime import date, datetime, time, timedelta

_OTHERWISE: Final = "not written as ISO 8601 has it"
_DATE: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = r"\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d\d:[0-5]\d(?::[0-5]\d(?:\.\d{6})?)?)?"
_DATE_PATTERN: Final = re.compile(_DATE, re.ASCII)
_TIME_PATTERN: Final = re.compile(_TIME, re.ASCII)
_DATETIME_PATTERN: Final = re.compile(f"{_DATE}[Tt ]{_TIME}", re.ASCII)
_DURATION_PATTERN: Final = re.compile(
    r"([+-]?)P(?!$)(?:(\d+)W|(?:(\d+)D)?(?:T(?!$)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?)",
    re.ASCII,
)


def read_date(cls: type[date], text: str) -> date:
    """`"2024-02-29"`.

    Raises:
        ValueError: It is no such date.
    """
    return cls.fromisoformat(_fitting(_DATE_PATTERN, text))


def read_time(cls: type[time], text: str) -> time:
    """`"13:30"`, `"13:30:05.25"`, either with an offset: `"13:30Z"`, `"13:30+02:00"`.

    Raises:
        ValueError: It is no such time.
    """
    return cls.fromisoformat(_fitting(_TIME_PATTERN, text).upper())


def read_datetime(cls: type[datetime], text: str) -> datetime:
    """`"2024-02-29T13:30:05"`, with or without an offset; a space may stand for the `T`.

    Raises:
        ValueError: It is no such moment.
    """
    return cls.fromisoformat(_fitting(_DATETIME_PATTERN, text).upper())


def read_duration(cls: type[timedelta], text: str) -> timedelta:
    """`"P1DT2H30M"`, `"PT0.5S"`, `"-P2W"`.

    Raises:
        ValueError: It is no such duration.
        OverflowError: It is longer than a `timedelta` can be.
    """
    found = _DURATION_PATTERN.fullmatch(text)
    if found is None:
        raise ValueError(_OTHERWISE)
    sign, *parts = found.groups()
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in parts[:5])
    micros = int((parts[5] or "").ljust(6, "0"))
    length = cls(days=days, weeks=weeks, hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)
    return -length if sign == "-" else length


def write_date(value: date) -> str:
    """The date alone, of a datetime too."""
    from datetime import date

    return date.isoformat(value)


def write_duration(value: timedelta) -> str:
    """`"P1DT2H30M"`; `"PT0S"` for none."""
    sign, value = ("-", -value) if value.days < 0 else ("", value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    clock = "".join(f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count)
    if seconds or fraction:
        clock += f"{seconds}{fraction}S"
    days = f"{value.days}D" if value.days else ""
    return f"{sign}P{days}{'T' if clock else ''}{clock}" if days or clock else "PT0S"


def write_iso(value: Any) -> str:
    """What `isoformat` of a datetime or time says."""
    return value.isoformat()


def _fitting(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(_OTHERWISE)
    return text
