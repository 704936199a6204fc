"""Tools as people write them: functions with docstrings, defaults, keywords, contexts and results."""

from __future__ import annotations

import datetime as dt
import pathlib
import sys
import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import attrs

from fake_vendors.rules.type_forms import Circle, Colour, Job, Node, Person, Point, Shelf, Square
from pegboard import Tool, tool
from pegboard.tools.context import ToolContext
from pegboard.tools.typed import _tools_of
from strategies import Marker


@tool
def ping() -> str:
    """Answers."""
    return "pong"


@tool
def undescribed(text):
    return text


@tool(description="")
def silent(count: int = 1) -> int:
    return count


@tool(read_only=True, tags=["weather"])
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, float]:
    """Tells the weather of a city.

    Args:
        city: Its name, in any language.
        unit: Of the temperature.
    """
    return {"temperature": len(city) + (unit == "celsius")}


@tool(read_only=True, open_world=True)
async def search_web(query: str, *, limit: Annotated[int, Marker(ge=1, le=50)] = 10, safe: bool = True) -> list[str]:
    """Searches the web.

    Args:
        query: What to look for.
        limit: How many hits at most.
        safe: Whether to leave out what is not for everybody.
    """
    return [query][:limit] if safe else []


@tool(destructive=True, requires_confirmation=True, permission="files.write", permission_arguments={"path": "path"})
def write_file(path: pathlib.Path, content: str, mode: Literal["create", "replace", "append"] = "create") -> int:
    """Writes a file.

    Args:
        path: Where.
        content: What.
        mode: What to do about a file that is there.
    """
    return len(content) + len(str(path)) + len(mode)


@tool(idempotent=True, edit=True)
def edit_file(path: str, edits: list[dict[Literal["old", "new"], str]]) -> None:
    """Replaces parts of a file.

    Args:
        path: The file.
        edits: What to replace, and with what.
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
    return Job(f"{title} {start} {length} {guests} {room}")


@tool
def draw(shape: Circle | Square, colour: Colour = Colour.RED, at: Point | None = None) -> str:
    """Draws a shape.

    Args:
        shape: What to draw.
        colour: In which colour.
        at: Where; in the middle by default.
    """
    return f"{shape} {colour} {at}"


@tool
def put_on_shelf(shelf: Shelf, things: dict[str, Point]) -> Shelf:
    """Puts things on a shelf."""
    return attrs.evolve(shelf, places=[*shelf.places, *things.values()])


@tool
def sum_list(node: Node, start: int = 0) -> int:
    """Adds the links of a list up."""
    return start + node.value


@tool
def query_table(
    table: str,
    filters: list[tuple[str, Literal["eq", "lt", "gt"], int | float | str | bool | None]],
    columns: frozenset[str] = frozenset(),
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Queries a table.

    Args:
        table: Its name.
        filters: Column, operator, value.
        columns: Those to show; all by default.
        limit: How many rows at most.
    """
    return [{"table": table, "filters": len(filters), "columns": len(columns), "limit": limit}]


@tool
def with_context(context: ToolContext, note: str) -> str:
    """Keeps a note."""
    return note if context else ""


@tool
def with_keywords(first: int, **others: int) -> int:
    """Adds numbers by any names."""
    return first + sum(others.values())


@tool
def with_anything(first: str, **others: Any) -> str:
    """Takes any options."""
    return f"{first}{others}"


@tool
def with_numbers(*numbers: float) -> float:
    """Adds numbers."""
    return sum(numbers)


@tool
def positional(a: int, /, b: int, *, c: int = 3) -> int:
    """Adds three numbers."""
    return a + b + c


@tool
async def count_up(to: Annotated[int, Marker(ge=0, le=10)]) -> AsyncIterator[int]:
    """Counts."""
    for number in range(to):
        yield number


@tool
def all_optional(a: int = 1, b: str = "two", c: float = 3.5, d: bool = False, e: list[int] | None = None) -> int:
    """Takes nothing that has to be given."""
    return a + len(b) + int(c) + d + len(e or ())


@tool
def many_unions(
    a: int | str = 1,
    b: int | None = None,
    c: str | list[str] = "c",
    d: Point | str | None = None,
    e: dict[str, int] | list[int] | None = None,
) -> str:
    """Takes one thing or another."""
    return f"{a}{b}{c}{d}{e}"


@tool(strict=True)
def strictly(name: str, age: int) -> str:
    """Is held to its schema."""
    return f"{name}{age}"


@tool(strict=True)
def strictly_with_options(name: str, age: int | None = None, tags: list[str] | None = None) -> str:
    """Is held to its schema, options and all."""
    return f"{name}{age}{tags}"


@tool(strict=True)
def strictly_a_map(values: dict[str, int]) -> int:
    """Is to be held to what a strict schema can't say."""
    return sum(values.values())


@tool(strict=False)
def leniently(name: str, age: Annotated[int, Marker(ge=0, le=150)]) -> str:
    """Isn't held to its schema."""
    return f"{name}{age}"


@tool(
    examples=[
        {"text": "good morning", "to": "fr"},
        {"text": "good night", "to": "日本語", "formal": True},
    ]
)
def translate(text: str, to: str, *, formal: bool = False) -> str:
    """Translates a text."""
    return f"{text}{to}{formal}"


@tool(long_running=True)
def start_build(target: str = "all") -> str:
    """Starts a build and tells later how it went."""
    return target


@tool(deferred=True)
def rarely_needed(what: str) -> str:
    """Does what is rarely needed."""
    return what


@tool(concurrency="exclusive", version="2.1", title="Clean the house", meta={"example.com/room": "kitchen"})
def clean() -> None:
    """Cleans."""


TOOLS: tuple[Tool, ...] = tuple(_tools_of(sys.modules[__name__]))
