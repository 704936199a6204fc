from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, strategies as st

from pegboard.json import StructureError
from pegboard.schema.structure import structure
from pegboard.tools import json_or_text

OFFSETS = st.none() | st.integers(-86399, 86399).map(lambda seconds: dt.timezone(dt.timedelta(seconds=seconds)))


@given(st.datetimes(timezones=OFFSETS))
def test_datetimes_round_trip_with_and_without_offset(value):
    back = structure(json_or_text(value), dt.datetime)

    assert back == value
    assert back.utcoffset() == value.utcoffset()


@given(st.timedeltas())
def test_durations_round_trip(value):
    assert structure(json_or_text(value), dt.timedelta) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (dt.timedelta(), "PT0S"),
        (dt.timedelta(days=1), "P1D"),
        (dt.timedelta(hours=25, minutes=1), "P1DT1H1M"),
        (dt.timedelta(milliseconds=1), "PT0.001S"),
        (dt.timedelta(seconds=-90), "-PT1M30S"),
    ],
)
def test_durations_are_written_short(value, text):
    assert json_or_text(value) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("P2W", dt.timedelta(weeks=2)),
        ("+PT36H", dt.timedelta(hours=36)),
        ("-P1DT0.5S", -dt.timedelta(days=1, milliseconds=500)),
    ],
)
def test_durations_are_read(text, value):
    assert structure(text, dt.timedelta) == value


@pytest.mark.parametrize("text", ["", "P", "PT", "P1Y", "P1M", "P1DT", "1D", "P1.5D", "PT1S ", "P1W1D", "P\u0661D"])
def test_other_durations_are_refused(text):
    with pytest.raises(StructureError, match="must be a duration"):
        structure(text, dt.timedelta)


def test_a_duration_beyond_pythons_limit_is_refused():
    with pytest.raises(StructureError, match="must be a duration"):
        structure("P9999999999D", dt.timedelta)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-02-29T13:30", dt.datetime(2024, 2, 29, 13, 30)),  # noqa: DTZ001  (naive is the point)
        ("2024-02-29 13:30:05.25", dt.datetime(2024, 2, 29, 13, 30, 5, 250_000)),  # noqa: DTZ001
        ("2024-02-29t13:30:05z", dt.datetime(2024, 2, 29, 13, 30, 5, tzinfo=dt.UTC)),
        ("2024-02-29T13:30:05.123456789Z", dt.datetime(2024, 2, 29, 13, 30, 5, 123_456, tzinfo=dt.UTC)),
    ],
)
def test_datetimes_are_read_with_and_without_an_offset(text, value):
    assert structure(text, dt.datetime) == value


@pytest.mark.parametrize(
    "text",
    ["2024-02-29", "20240229T133000", "2024-W09-4T13:30", "2024-02-29T13", "2024-02-29T25:00", "2024-2-9T1:1", "now"],
)
def test_other_datetimes_are_refused(text):
    with pytest.raises(StructureError, match="must be a date and time"):
        structure(text, dt.datetime)


def test_dates_and_times_are_as_strict():
    assert structure("2024-02-29", dt.date) == dt.date(2024, 2, 29)
    assert structure("13:30z", dt.time) == dt.time(13, 30, tzinfo=dt.UTC)
    for text in ("20240229", "2024-02-30", "2024-02-29T00:00"):
        with pytest.raises(StructureError, match="must be a date such"):
            structure(text, dt.date)
    for text in ("1330", "T13:30", "13:30+2", "24:01"):
        with pytest.raises(StructureError, match="must be a time"):
            structure(text, dt.time)


def test_a_class_derived_from_date_is_written_as_a_date():
    class Day(dt.date):
        """A date with a text of its own."""

        def isoformat(self):
            return "today"

    assert json_or_text(Day(2024, 2, 29)) == "2024-02-29"
