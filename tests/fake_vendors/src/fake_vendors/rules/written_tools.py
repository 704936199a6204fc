"""Tools as people write them: functions with docstrings, defaults, keywords, contexts and results."""

from __future__ import annotations

import datetime as dt
import sys
import uuid
from typing import Annotated, Literal

from fake_vendors.rules.type_forms import Circle, Colour, Job, Person, Point, Square
from pegboard import Tool, tool
from pegboard.tools.typed import _tools_of
from strategies import Marker


@tool
def ping() -> str:
    """Answers."""


@tool
def undescribed(text): ...


@tool(read_only=True, tags=["weather"])
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, float]:
    """Tells the weather of a city.

    Args:
        city: Its name, in any language.
        unit: Of the temperature.
    """


@tool(read_only=True, open_world=True)
async def search_web(query: str, *, limit: Annotated[int, Marker(ge=1, le=50)] = 10, safe: bool = True) -> list[str]:
    """Searches the web.

    Args:
        query: What to look for.
        limit: How many hits at most.
        safe: Whether to leave out what is not for everybody.
    """


@tool
def book_meeting(
    title: str,
    start: dt.datetime,
    length: dt.timedelta = dt.timedelta(hours=1),
    guests: list[Person] | None = None,
    room: uuid.UUID | None = None,
) -> Job:
    """Books a meeting.

    Args:
        title: What it is about.
        start: When it starts.
        length: How long it takes.
        guests: Who comes.
        room: Where it is.
    """


@tool
def draw(shape: Circle | Square, colour: Colour = Colour.RED, at: Point | None = None) -> str:
    """Draws a shape.

    Args:
        shape: What to draw.
        colour: In which colour.
        at: Where; in the middle by default.
    """


@tool
def with_keywords(first: int, **others: int) -> int:
    """Adds numbers by any names."""


@tool
def all_optional(a: int = 1, b: str = "two", c: float = 3.5, d: bool = False, e: list[int] | None = None) -> int:
    """Takes nothing that has to be given."""


@tool(
    examples=[
        {"text": "good morning", "to": "fr"},
        {"text": "good night", "to": "日本語", "formal": True},
    ]
)
def translate(text: str, to: str, *, formal: bool = False) -> str:
    """Translates a text."""


@tool(deferred=True)
def rarely_needed(what: str) -> str:
    """Does what is rarely needed."""


TOOLS: tuple[Tool, ...] = tuple(_tools_of(sys.modules[__name__]))
