"""The realistic tool at the top level of a module, where a child process finds it."""

from __future__ import annotations

from typing import Literal, Optional

try:
    from typing_extensions import TypedDict  # what pydantic asks for on Python 3.11
except ImportError:
    from typing import TypedDict


class Condition(TypedDict):
    column: str
    test: Literal["is", "above", "below"]
    value: float


class Orders(TypedDict):
    text: str
    count: int
    rows: list[str]


def find_orders(
    text: str,
    most: int = 10,
    match: Literal["any", "all", "exact"] = "any",
    conditions: Optional[list[Condition]] = None,  # noqa: UP045  as the other tools are written
) -> Orders:
    """Find the orders that a text speaks of.

    Args:
        text: What to look for, in plain words.
        most: How many orders to give at most.
        match: How the words of the text are matched.
        conditions: What every order has to meet.

    Returns:
        How many orders there are, and each as one row.
    """
    rows = [f"{match}/{each['column']}/{each['test']}/{each['value']}" for each in conditions or ()]
    return Orders(text=text, count=most + len(rows), rows=rows)


def run(arguments):
    """The same, for a pool that hands on one thing."""
    return find_orders(**arguments)
