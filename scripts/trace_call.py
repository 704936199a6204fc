"""Measures a small program that imports pegboard, defines a tool, and calls it twice with JSON text, as models do.

python scripts/trace_call.py [--realistic] [--tree | --times]
python scripts/trace_call.py --command list
python scripts/trace_call.py --check PAGE [--command list]

Prints JSON: the modules loaded in addition to bare Python's after the first call (`modules`), those of pegboard among
them (`own_modules`), and the files and functions of pegboard that the second call entered.
With `--realistic` the tool takes a bounded integer, a literal and a list of objects, and there are permission rules.
With `--tree` it prints the call tree of the second call within pegboard instead; with `--times`, the median
microseconds of each stage and of the whole call over many warm calls.
With `--command`, the rest is a command line of `registry`: runs it, and prints its call tree.
With `--check`, the call tree isn't printed, but has to have the steps of the page's first table, in their order.
"""

from __future__ import annotations

import sys

BARE = set(sys.modules)

import asyncio  # noqa: E402  modules loaded from here on are counted
import json  # noqa: E402
from collections.abc import Callable, Generator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from pathlib import Path  # noqa: E402
from types import CodeType, FrameType  # noqa: E402
from typing import Annotated, Literal  # noqa: E402

import attrs  # noqa: E402

import pegboard  # noqa: E402

REALISTIC = "--realistic" in sys.argv
TREE = "--tree" in sys.argv or "--check" in sys.argv
STAGES = ("parse_arguments", "start", "quick_result")  # the plain functions among those that `run_call` calls
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}  # frames of their own before Python 3.12


@attrs.frozen
class Most:
    """An upper bound, as in annotated-types."""

    le: int


@attrs.frozen
class Condition:
    """A condition for orders."""

    column: str
    test: str
    value: float


@attrs.frozen
class Found:
    """The found orders."""

    text: str
    count: int
    rows: list[str]


@pegboard.tool
async def trivial(number: int) -> int:
    """Returns a number."""
    return number


@pegboard.tool
async def realistic(
    text: str,
    most: Annotated[int, Most(100)] = 10,
    match: Literal["all", "any", "exact"] = "all",
    conditions: list[Condition] | None = None,
) -> Found:
    """Finds orders.

    Args:
        text: What to look for.
        most: How many to find.
        match: How the conditions are joined.
        conditions: What an order has to meet.
    """
    rows = [f"{match}/{condition.column}/{condition.test}/{condition.value}" for condition in conditions or ()]
    return Found(text, most + len(rows), rows)


async def stage_times(registry: pegboard.ToolRegistry, name: str, arguments: str, calls: int = 20_000) -> None:
    """Prints the time of each stage, without the overhead of the clock."""
    from statistics import median
    from time import perf_counter_ns

    from pegboard.dispatch import stages

    taken: dict[str, list[int]] = {"the clock": [], "the whole call": []}

    def timed(stage: Callable[..., object]) -> Callable[..., object]:
        times = taken.setdefault(stage.__name__, [])

        def run(*given: object, **named: object) -> object:
            began = perf_counter_ns()
            made = stage(*given, **named)
            times.append(perf_counter_ns() - began)
            return made

        return run

    for _ in range(calls):
        began = perf_counter_ns()
        taken["the clock"].append(perf_counter_ns() - began)
        began = perf_counter_ns()
        await registry.call(name, arguments)
        taken["the whole call"].append(perf_counter_ns() - began)
    for stage in STAGES:
        setattr(stages, stage, timed(getattr(stages, stage)))
    for _ in range(calls):
        await registry.call(name, arguments)
    clock = median(taken.pop("the clock"))
    for stage, times in taken.items():
        print(f"{stage:20}{(median(times) - clock) / 1000:6.2f}")


@contextmanager
def traced(entered: set[CodeType], tree: list[str]) -> Generator[None]:
    """Collects the functions of pegboard that this thread enters, and a line for each call of one, indented."""
    depth = 0

    def enter(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth
        code, (package, _, module) = frame.f_code, frame.f_globals.get("__name__", "").partition(".")
        if package != "pegboard" or event not in ("call", "return") or code.co_name in COMPREHENSIONS:
            return
        if event == "call":
            entered.add(code)
            tree.append(f"{'  ' * depth}{module}: {code.co_qualname}")
        depth += 1 if event == "call" else -1

    sys.setprofile(enter)
    try:
        yield
    finally:
        sys.setprofile(None)


def trace_command(arguments: list[str]) -> list[str]:
    """Runs a command line of `registry`; gives its call tree."""
    from pegboard.__main__ import main as run_command

    tree: list[str] = []
    with traced(set(), tree):
        run_command(arguments)
    return tree


def show(tree: list[str]) -> None:
    """Prints a call tree, or compares it with the page after `--check`: file and functions of each step.

    Raises:
        SystemExit: A step isn't in the tree, or is in another place.
    """
    if "--check" not in sys.argv:
        print("\n".join(tree))
        return
    page = Path(sys.argv[sys.argv.index("--check") + 1]).read_text(encoding="utf-8")
    steps: list[str] = []
    for row in ("| 1 |" + page.split("| 1 |")[1].partition("\n\n")[0]).splitlines():
        _, _, file, functions, *_ = (cell.strip() for cell in row.split("|"))
        module = file.strip("`").removesuffix(".py").replace("/", ".")
        steps += [f"{module}: {name.strip(' `')}" for name in functions.split(",") if file]
    entered = [line.strip().partition(".<locals>")[0] for line in tree]
    if missing := [step for step in steps if step not in entered]:
        sys.exit(f"not entered: {missing}")
    if (ordered := sorted(steps, key=entered.index)) != steps:
        sys.exit(f"the order is: {ordered}")


async def main() -> dict[str, int]:
    """Runs the program; gives the metrics."""
    if REALISTIC:
        rules = [pegboard.Rule("*", "*", "allow"), pegboard.Rule("realistic", "*secret*", "deny", field="text")]
        registry = pegboard.ToolRegistry(permissions=pegboard.Permissions(rules))
        registry.register(realistic)
        conditions = [{"column": "region", "test": "is", "value": 3.0}, {"column": "year", "test": "above", "value": 2}]
        name = "realistic"
        arguments = json.dumps({"text": "by region", "most": 25, "match": "exact", "conditions": conditions})
    else:
        registry = pegboard.ToolRegistry()
        registry.register(trivial)
        name, arguments = "trivial", '{"number": 1}'
    assert not (await registry.call(name, arguments)).is_error
    if "--times" in sys.argv:
        await stage_times(registry, name, arguments)
    loaded = set(sys.modules) - BARE
    entered: set[CodeType] = set()
    tree: list[str] = []
    with traced(entered, tree):
        answer = await registry.call(name, arguments)
    assert not answer.is_error
    if TREE:
        show(tree)
    functions = {code for code in entered if code.co_filename[0] != "<"}
    return {
        "modules": len(loaded),
        "own_modules": sum(name.partition(".")[0] == "pegboard" for name in loaded),
        "files": len({code.co_filename for code in functions}),
        "functions": len(functions),
    }


if __name__ == "__main__":
    if "--command" in sys.argv:
        show(trace_command(sys.argv[sys.argv.index("--command") + 1 :]))
    else:
        figures = asyncio.run(main())
        if not (TREE or "--times" in sys.argv):
            print(str(figures).replace("'", '"'))
