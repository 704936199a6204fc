"""The tools that everything is measured with. Standard library only: any peer's Python can load it.

The realistic tool takes a required string, a bounded integer, one of three words, and an optional list of objects
with three fields; it gives an object with three fields. It comes as a coroutine function, as one that gives way to
the loop once, and as a plain function. The words that it is spelled with (its flavour) follow what a peer understands.
"""

from __future__ import annotations

import json
import sys
import types

ARGUMENTS = {
    "text": "orders of the last quarter, by region",
    "most": 25,
    "match": "exact",
    "conditions": [
        {"column": "region", "test": "is", "value": 3.0},
        {"column": "year", "test": "above", "value": 2019.5},
    ],
}
ARGUMENTS_TEXT = json.dumps(ARGUMENTS)
ANSWER = {
    "text": ARGUMENTS["text"],
    "count": 27,
    "rows": ["exact/region/is/3.0", "exact/year/above/2019.5"],
}
SUM_TEXT = '{"a": 2, "b": 3}'
"""Arguments of the trivial tool, which gives 5."""
PATH_TEXT = json.dumps({**ARGUMENTS, "text": "/usr/lib/a/b/c/d"})
"""Arguments whose text is a path of six components."""
MISTAKES = {
    "beyond a bound": {"text": "q", "most": 5000},
    "no such word": {"text": "q", "match": "sideways"},
    "wrong type inside": {"text": "q", "conditions": [{"column": "c", "test": "is", "value": "much"}]},
    "something missing": {"most": 5},
    "unknown key": {"text": "q", "colour": "red"},
    "a string for an integer": {"text": "q", "most": "25"},
}
"""Arguments that a typed tool has to refuse."""

_DESCRIPTION = """Find the orders that a text speaks of, in book number {number}.

    Goes through the book from its end and keeps the orders that meet every condition.

    Args:
        text: What to look for in book {number}, in plain words.
        most: How many orders to give at most.
        match: How the words of the text are matched.
        conditions: What every order in book {number} has to meet.

    Returns:
        How many orders there are, and each as one row.
    """

_TYPES = {
    "attrs": """
import attrs

class Ge:
    def __init__(self, ge):
        self.ge = ge

class Le:
    def __init__(self, le):
        self.le = le

def count_up_to(most):
    return Annotated[int, Ge(1), Le(most)]

@attrs.frozen
class Condition:
    column: str
    test: Literal["is", "above", "below"]
    value: float

@attrs.frozen
class Orders:
    text: str
    count: int
    rows: list[str]
""",
    "pydantic": """
import pydantic

def count_up_to(most):
    return Annotated[int, pydantic.Field(ge=1, le=most)]

class Condition(pydantic.BaseModel):
    column: str
    test: Literal["is", "above", "below"]
    value: float

class Orders(pydantic.BaseModel):
    text: str
    count: int
    rows: list[str]
""",
    "typed_dict": """
try:
    from typing_extensions import TypedDict  # what pydantic asks for on Python 3.11
except ImportError:
    from typing import TypedDict

class Ge:
    def __init__(self, ge):
        self.ge = ge

class Le:
    def __init__(self, le):
        self.le = le

def count_up_to(most):
    return Annotated[int, Ge(1), Le(most)]

class Condition(TypedDict):
    column: str
    test: Literal["is", "above", "below"]
    value: float

class Orders(TypedDict):
    text: str
    count: int
    rows: list[str]
""",
}

_FUNCTION = """
{define} find_orders(
    text: str,
    most: int = 10,
    match: Literal["any", "all", "exact"] = "any",
    conditions: Optional[list[Condition]] = None,
) -> {answer}:
    {pause}
    rows = [f"{{match}}/{{{column}}}/{{{test}}}/{{{value}}}" for each in conditions or ()]
    return {make}(text=text, count=most + len(rows), rows=rows)
"""
_TRIVIAL = """
async def add(a: int, b: int) -> int:
    'Add two numbers.'
    return a + b
"""
_KINDS = {
    "async": ("async def", "pass"),
    "yielding": ("async def", "await _sleep(0)"),
    "plain": ("def", "pass"),
}


class Workload:
    """Makes as many tool functions as one likes, each with its own name, docstring, bound and descriptions.

    They share the classes of their parts, as the tools of one package do.

    Args:
        flavour: "attrs", "pydantic" or "typed_dict".
        bounded: Whether the integer carries its bounds; one peer refuses them.
        typed_answer: Whether the result is declared as a class, or as a plain dict.
    """

    def __init__(self, flavour: str, *, bounded: bool = True, typed_answer: bool = True) -> None:
        name = f"measured_{flavour}_{len(sys.modules)}"
        module = sys.modules[name] = types.ModuleType(name)  # annotations are looked up by the module's name
        self._space = module.__dict__
        self._run("from typing import Annotated, Literal, Optional" + _TYPES[flavour])
        self._run("from asyncio import sleep as _sleep")
        self._bounded = bounded
        access = "each['{}']" if flavour == "typed_dict" else "each.{}"
        fields = {part: access.format(part) for part in ("column", "test", "value")}
        answer = {"answer": "Orders", "make": "Orders"} if typed_answer else {"answer": "dict", "make": "dict"}
        self._patterns = {}
        for kind, (define, pause) in _KINDS.items():
            self._run(_FUNCTION.format(define=define, pause=pause, **fields, **answer))
            self._patterns[kind] = self._space["find_orders"]

    def _run(self, source: str) -> None:
        exec(compile(source, "measured.py", "exec", dont_inherit=True), self._space)

    def function(self, number: int, kind: str = "async") -> types.FunctionType:
        """The function `find_orders_<number>` of a kind: "async", "yielding" or "plain"."""
        pattern = self._patterns[kind]
        name = f"find_orders_{number:05d}"
        function = types.FunctionType(pattern.__code__, pattern.__globals__, name, pattern.__defaults__)
        function.__annotations__ = dict(pattern.__annotations__)
        if self._bounded:
            function.__annotations__["most"] = self._space["count_up_to"](100 + number)
        function.__module__ = self._space["__name__"]
        function.__qualname__ = name
        function.__doc__ = _DESCRIPTION.format(number=number)
        return function

    def trivial(self) -> types.FunctionType:
        """A coroutine function that adds two numbers."""
        self._run(_TRIVIAL)
        return self._space["add"]

    def functions(self, numbers: range, kind: str = "async") -> list[types.FunctionType]:
        """One function for each number."""
        return [self.function(number, kind) for number in numbers]


def is_even(name: str) -> bool:
    """The question that listings ask of a name."""
    return name[-1] in "02468"
