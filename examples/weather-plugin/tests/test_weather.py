"""The contract that every plugin keeps, and what the tools answer."""

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


def test_a_tool_is_called_as_any_function():
    assert current_weather("Oslo") == {"city": "Oslo", "temperature": 4, "unit": "C", "sky": "rain"}


@pytest.mark.parametrize(("unit", "temperature"), [("C", 31), ("F", 88)])
def test_the_unit_is_the_callers(registry, unit, temperature):
    result = registry.call_sync("current_weather", {"city": "Cairo", "unit": unit})
    assert result.structured_content["temperature"] == temperature


def test_a_forecast_has_as_many_days_as_were_asked_for(registry):
    result = registry.call_sync("weather_forecast", '{"city": "Lima", "days": 7}')
    assert len(result.structured_content["result"]) == 7


@pytest.mark.parametrize("days", [0, 8, "2"])
def test_days_out_of_range_are_refused_before_the_tool_runs(registry, days):
    assert registry.call_sync("weather_forecast", {"city": "Lima", "days": days}).kind == "invalid_arguments"


def test_the_model_reads_which_cities_there_are(registry):
    result = registry.call_sync("current_weather", {"city": "Rome"})
    assert result.kind == "tool_failure"
    assert result.text == "There is no weather station in 'Rome'.\nStations: Cairo, Lima, Oslo."
