"""The plugin contract, and the results of the tools."""

from __future__ import annotations

import pytest

from pegboard import ToolRegistry
from pegboard.testing import check_plugin
from weather_plugin import current_weather, weather_forecast


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(current_weather, weather_forecast)
    return made


def test_the_plugin_keeps_the_contract():
    report = check_plugin("weather-example")
    assert report.tools == ("current_weather", "weather_forecast")
    assert report.warnings == ()


def test_a_tool_can_be_called_like_any_function():
    assert current_weather("Oslo") == {"city": "Oslo", "temperature": 4, "unit": "C", "sky": "rain"}


@pytest.mark.parametrize(("unit", "temperature"), [("C", 31), ("F", 88)])
def test_the_temperature_is_in_the_requested_unit(registry, unit, temperature):
    result = registry.call_sync("current_weather", {"city": "Cairo", "unit": unit})
    assert result.structured_content["temperature"] == temperature


def test_a_forecast_has_the_requested_number_of_days(registry):
    result = registry.call_sync("weather_forecast", '{"city": "Lima", "days": 7}')
    assert len(result.structured_content["result"]) == 7


@pytest.mark.parametrize("days", [0, 8, "2"])
def test_days_out_of_range_are_refused_before_the_tool_runs(registry, days):
    assert registry.call_sync("weather_forecast", {"city": "Lima", "days": days}).kind == "invalid_arguments"


def test_the_error_lists_the_known_cities(registry):
    result = registry.call_sync("current_weather", {"city": "Rome"})
    assert result.kind == "tool_failure"
    assert result.text == "There is no weather station in 'Rome'.\nStations: Cairo, Lima, Oslo."
