"""weather-plugin: the current weather in a city, and a forecast.

A real plugin would query a weather service; this one has a table, so that it runs anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypedDict

from annotated_types import Ge, Le

from pegboard import ToolError, hookimpl, tool

Unit = Literal["C", "F"]
City = Annotated[str, "The city's English name."]
Degrees = Annotated[Unit, "The unit of the temperature: Celsius or Fahrenheit."]

_CLIMATE: Final[Mapping[str, tuple[int, str]]] = {"Cairo": (31, "sun"), "Lima": (19, "fog"), "Oslo": (4, "rain")}


class Weather(TypedDict):
    """The weather of one day."""

    city: str
    temperature: int
    unit: Unit
    sky: str


@tool(read_only=True, tags=["weather"], examples=[{"city": "Oslo"}])
def current_weather(city: City, unit: Degrees = "C") -> Weather:
    """Get the current weather in a city."""
    return _weather(city, unit)


@tool(read_only=True, tags=["weather"], examples=[{"city": "Cairo", "days": 2}])
def weather_forecast(
    city: City, days: Annotated[int, Ge(1), Le(7), "The number of days."] = 3, unit: Degrees = "C"
) -> list[Weather]:
    """Forecast the weather in a city, day by day from tomorrow."""
    today = _weather(city, unit)
    return [{**today, "temperature": today["temperature"] + day % 3} for day in range(1, days + 1)]


def _weather(city: str, unit: Unit) -> Weather:
    if city not in _CLIMATE:
        # The model gets both: the error, and the hint what to do.
        raise ToolError(f"There is no weather station in {city!r}.", hint=f"Stations: {', '.join(_CLIMATE)}.")
    celsius, sky = _CLIMATE[city]
    temperature = celsius if unit == "C" else round(celsius * 9 / 5 + 32)
    return {"city": city, "temperature": temperature, "unit": unit, "sky": sky}


@hookimpl
def pegboard_register_tools(register: Callable[[Any], None]) -> None:
    """Registers the tools.

    Args:
        register: Registers one tool with the registry.
    """
    register(current_weather)
    register(weather_forecast)
