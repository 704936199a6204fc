from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, strategies as st

from pegboard.schema import text_types as temporal

OFFSETS = st.none() | st.integers(-86399, 86399).map(lambda seconds: dt.timezone(dt.timedelta(seconds=seconds)))


@given(st.datetimes(timezones=OFFSETS))
def test_datetimes_round_trip_with_and_without_offset(value):
    back = temporal.read_datetime(dt.datetime, temporal.write_iso(value))

    assert back == value
    assert back.utcoffset() == value.utcoffset()


@given(st.timedeltas())
def test_durations_round_trip(value):
    assert temporal.read_duration(dt.timedelta, temporal.write_duration(value)) == value


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
    assert temporal.write_duration(value) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("P2W", dt.timedelta(weeks=2)),
        ("+PT36H", dt.timedelta(hours=36)),
        ("-P1DT0.5S", -dt.timedelta(days=1, milliseconds=500)),
    ],
)
def test_durations_are_read(text, value):
    assert temporal.read_duration(dt.timedelta, text) == value


@pytest.mark.parametrize("text", ["", "P", "PT", "P1Y", "P1M", "P1DT", "1D", "P1.5D", "PT1S ", "P1W1D", "P\u0661D"])
def test_other_durations_are_refused(text):
    with pytest.raises(ValueError, match="ISO 8601"):
        temporal.read_duration(dt.timedelta, text)


def test_a_duration_beyond_pythons_limit_is_refused():
    with pytest.raises(OverflowError):
        temporal.read_duration(dt.timedelta, "P9999999999D")


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
    assert temporal.read_datetime(dt.datetime, text) == value


@pytest.mark.parametrize(
    "text",
    ["2024-02-29", "20240229T133000", "2024-W09-4T13:30", "2024-02-29T13", "2024-02-29T25:00", "2024-2-9T1:1", "now"],
)
def test_other_datetimes_are_refused(text):
    with pytest.raises(ValueError, match=r"isoformat|ISO 8601|must be in|out of range"):
        temporal.read_datetime(dt.datetime, text)


def test_dates_and_times_are_as_strict():
    assert temporal.read_date(dt.date, "2024-02-29") == dt.date(2024, 2, 29)
    assert temporal.read_time(dt.time, "13:30z") == dt.time(13, 30, tzinfo=dt.UTC)
    for text in ("20240229", "2024-02-30", "2024-02-29T00:00"):
        with pytest.raises(ValueError, match=r"isoformat|ISO 8601|must be in|out of range"):
            temporal.read_date(dt.date, text)
    for text in ("1330", "T13:30", "13:30+2", "24:01"):
        with pytest.raises(ValueError, match=r"isoformat|ISO 8601|must be in|out of range"):
            temporal.read_time(dt.time, text)


def test_of_a_datetime_only_the_date_is_written_where_a_date_is_wanted():
    assert temporal.write_date(dt.datetime(2024, 2, 29, 13, tzinfo=dt.UTC)) == "2024-02-29"
