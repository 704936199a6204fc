"""`RESULTS.md`: the results in tables, with the command that made them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from figures import FIGURES, FLOOR, OURS, Figure, Results, found, number

_HEAD = """# Figures
{note}
Made by `{command}` on {day}: {machine}, Python {python}.
{versions}.

Processor time of the whole process, not wall time.
Other work on the machine moves single figures by some tens of per cent, and ratios far less.
So every measurement alternates with bare Python, call for call and start for start, and a ratio to a peer compares
both in units of bare Python, but for exports.
*Floor* is bare Python that checks nothing.
Peers are called at their thinnest, without their run loops.
pegboard is called as a host calls it, `await registry.call(name, text)`, with strict parsing, validation, permissions,
locks, limits, a watchdog for tools that block the loop, and a validated result.

The realistic tool takes a required string, a bounded integer, one of three words and an optional list of
three-field objects, and returns a three-field object.
Where there are many, each has its own name, descriptions and bound, so no two schemas are equal; they share classes.
A group of rows alone is measured by `python benchmarks/run.py --groups NAMES`; `README.md` beside this file names the
groups. Tables that count instructions have their command beside them.

## Goals

"""


_QUICK = "\n**Small sizes: this page shows that the benchmarks work, not how fast anything is.**\n"


def report(results: Results) -> str:
    """The whole page."""
    meta = results["meta"]
    head = _HEAD.format(
        note=_QUICK if meta["quick"] else "",
        command=meta["command"],
        day=meta["day"],
        machine=meta["machine"],
        python=meta["python"],
        versions=", ".join(f"{name} {version}" for name, version in meta["versions"].items()),
    )
    goals = table(
        ("what", "floor", "best peer", "pegboard", "ratio", "goal, at most", "met", "what holds it back"),
        [cells for figure in FIGURES if (cells := _goal_row(figure, results)) is not None],
    )
    parts = [head + goals]
    parts += [f"\n## {title}\n\n{made}" for title, make in _TABLES if (made := make(results))]
    return "".join(parts)


def _goal_row(figure: Figure, results: Results) -> tuple[str, ...] | None:
    reading = figure.read(results)
    if reading is None:
        return None
    return (
        figure.what,
        reading.floor,
        reading.peer,
        reading.ours,
        "" if math.isnan(reading.value) else f"{reading.value:.2f}",
        figure.goal + (f"; next {number(figure.next)}" if figure.next is not None else ""),
        _verdict(figure, reading.value),
        figure.held,
    )


def _verdict(figure: Figure, value: float) -> str:
    if figure.limit is None:
        return ""
    if math.isnan(value):
        return "not measured"
    return "yes" if value <= figure.limit else "**no**"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell or " " for cell in line) + " |\n" for line in lines)


def _columns(group: str, columns: Mapping[str, tuple[str, ...]]) -> Callable[[Results], str]:
    """A table of a group: a line for each that was measured, a column for each path."""

    def make(results: Results) -> str:
        rows = [
            (name, *(_cell(found(results[group][name], path)) for path in columns.values()))
            for name in _ordered(results.get(group, {}))
        ]
        return table(("", *columns), rows) if rows else ""

    return make


def _rows(group: str, columns: Mapping[str, str]) -> Callable[[Results], str]:
    """A table of a group without adapters: a line for each thing that was measured."""

    def make(results: Results) -> str:
        rows = [
            (what, *(_cell(each[key]) for key in columns.values())) for what, each in results.get(group, {}).items()
        ]
        return table(("", *columns), rows) if rows else ""

    return make


def _ordered(names: Iterable[str]) -> list[str]:
    first = {FLOOR: 0, OURS: 1}
    return sorted(names, key=lambda name: (first.get(name, 2), name))


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else number(value)


def _commands(results: Results) -> str:
    rows = [
        (f"`{label}`" if "," not in label else label, *(number(each[key]) for key in ("cpu_ms", "x_bare", "wall_ms")))
        for label, each in results.get("command", {}).items()
    ]
    return table(("", "ms", "x bare Python", "wall ms"), rows) if rows else ""


def _parts(results: Results) -> str:
    """What a call and others take without each of their parts, and so what the part costs, in bare calls."""
    rows = [
        (
            done,
            what,
            number(one["cpu_us"]),
            f"{one['x_floor']:.2f}",
            f"{each['nothing']['x_floor'] - one['x_floor']:.2f}",
        )
        for done, each in results.get("parts", {}).get(OURS, {}).items()
        for what, one in each.items()
    ]
    return table(("", "left out", "us", "in bare calls", "cheaper by"), rows) if rows else ""


def _refusals(results: Results) -> str:
    of_all = results.get("refuse", {})
    names = _ordered(of_all)
    rows = [
        (mistake, *(_refusal(of_all[name][mistake]) for name in names)) for mistake in next(iter(of_all.values()), ())
    ]
    return table(("", *names), rows) if rows else ""


def _refusal(each: Mapping[str, Any]) -> str:
    return each["verdict"] + (f", {number(each['cpu_us'])} us" if "cpu_us" in each else "")


def _modules(results: Results) -> str:
    rows = [
        (what, str(each["modules"]), ", ".join(each["heavy"]) or "none")
        for what, each in results.get("modules", {}).items()
    ]
    return table(("", "modules over bare Python", "heavy ones among them"), rows) if rows else ""


def _exports(results: Results) -> str:
    """A line for each format of each that has it: a tenth of the tools, and all of them."""
    rows: list[tuple[str, ...]] = []
    for name in _ordered(results.get("export", {})):
        for form, found_in in (results["export"][name] or {}).items():
            few, many = found_in["few"], found_in["many"]
            cells = [few["first_us"], few["again_us"], many["first_us"], many["again_us"], many["again_x_floor"]]
            rows.append((name, form, *map(_cell, (*cells, found_in["kept_kib"]))))
    head = ("", "format", "a tenth, first", "again", "all, first", "again ", "again, x floor", "KiB kept")
    return table(head, rows) if rows else ""


_TABLES: Sequence[tuple[str, Callable[[Results], str]]] = (
    (
        "Start: milliseconds over bare Python",
        _columns(
            "start",
            {
                "import": ("import", "over_ms"),
                "in bare starts": ("import", "over_bare"),
                "import, define, call once": ("first call", "over_ms"),
                "in bare starts ": ("first call", "over_bare"),
            },
        ),
    ),
    ("Modules that are loaded", _modules),
    ("The command", _commands),
    (
        "Servers of the Model Context Protocol: their processor time",
        _columns(
            "served",
            {
                "start to first list, ms": ("start", "cpu_ms"),
                "a call over stdio, us": ("stdio", "cpu_us"),
                "over HTTP": ("http", "cpu_us"),
                "of 100 clients at once": ("crowd", "cpu_us"),
                "a list of 1,000 tools": ("list", "cpu_us"),
                "a session, KiB": ("session", "kib"),
            },
        ),
    ),
    (
        "The same, as time passes for the client",
        _columns(
            "served",
            {
                "start to first list, ms": ("start", "wall_ms"),
                "a call over stdio, us": ("stdio", "wall_us"),
                "over HTTP": ("http", "wall_us"),
                "of 100 clients at once": ("crowd", "wall_us"),
                "a list of 1,000 tools": ("list", "wall_us"),
            },
        ),
    ),
    ("Defining a tool", _columns("define", {"us": ("cpu_us",), "x floor": ("x_floor",)})),
    ("Memory of a tool in KiB, as Python counts it", _columns("traced", {"defined": ("defined_kib",)})),
    (
        "Memory of a tool in KiB, by which the process grows",
        _columns("resident", {"defined": ("defined_kib",), "and called once": ("called_kib",)}),
    ),
    (
        "Half of all tools by a predicate, as JSON",
        _columns(
            "half",
            {
                "first, ms": ("first_ms",),
                "x floor": ("first_x_floor",),
                "again, ms": ("again_ms",),
                "x floor ": ("again_x_floor",),
            },
        ),
    ),
    (
        "One call after the other",
        _columns(
            "call",
            {
                "async, us": ("async", "cpu_us"),
                "x floor": ("async", "x_floor"),
                "plain, us": ("plain", "cpu_us"),
                "x to_thread": ("plain", "x_floor"),
                "declared quick, us": ("inline", "cpu_us"),
                "x to_thread ": ("inline", "x_floor"),
            },
        ),
    ),
    (
        "One async call after the other, with more round it",
        _columns(
            "laden",
            {
                heading: (part, key)
                for part in ("nothing", "rules", "declared", "path", "callbacks", "events", "everything")
                for heading, key in ((f"{part}, us", "cpu_us"), (f"{part}, x floor", "x_floor"))
            },
        ),
    ),
    ("Without a part: a call, a definition, a refusal, a first export", _parts),
    ("Arguments checked and typed", _columns("check", {"us": ("cpu_us",), "in bare calls": ("x_floor",)})),
    ("Many async calls at once, each", _columns("flood", {"us": ("cpu_us",), "x floor": ("x_floor",)})),
    ("Many async calls as one batch, each", _columns("dispatch", {"us": ("cpu_us",), "x floor": ("x_floor",)})),
    (
        "One batch with 64 keys, each call",
        _columns(
            "keyed",
            {
                "us": ("cpu_us",),
                "x floor": ("x_floor",),
                "in a tenth as many, us": ("few_cpu_us",),
                "x floor ": ("few_x_floor",),
            },
        ),
    ),
    (
        "Into a child process and back",
        _columns(
            "process", {"wall us": ("wall_us",), "x ProcessPoolExecutor": ("x_floor",), "us in the parent": ("cpu_us",)}
        ),
    ),
    (
        "Memory over many calls, from a tenth of them on",
        _columns(
            "lasting",
            {"grown, KiB": ("grown_kib",), "at most, KiB": ("peak_kib",), "kept of each, bytes": ("kept_bytes",)},
        ),
    ),
    (
        "File tools: processor time",
        _rows("files", {"ripgrep, ms": "theirs_cpu_ms", "pegboard, ms": "cpu_ms", "pegboard, wall ms": "wall_ms"}),
    ),
    ("Bad inputs", _refusals),
    ("Tools as a provider's list has them: microseconds and KiB a tool", _exports),
    (
        "A request with 100 tools and 10 calls made ready",
        _columns("processed", {"us": ("cpu_us",), "x floor": ("x_floor",)}),
    ),
    (
        "Searching all tools by words",
        _columns(
            "searched",
            {
                "index, us": ("index", "cpu_us"),
                "x FTS5": ("index", "x_floor"),
                "query, us": ("query", "cpu_us"),
                "x FTS5 ": ("query", "x_floor"),
            },
        ),
    ),
)
