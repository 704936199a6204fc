"""Tools that child processes run in these tests. A child imports this module, so it imports nothing heavy."""

# ruff: noqa: ASYNC240, PTH109  (tools that block on purpose)

from __future__ import annotations

import ast
import asyncio
import enum
import functools
import os
import signal
import sys
import threading
import time
from datetime import date
from pathlib import Path

import attrs

from pegboard import (
    ImageContent,
    Injected,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    TypedTool,
    tool,
    tool_of,
)

FOREVER = 3600  # seconds: only a broken test waits so long


@tool
def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b


@tool
async def add_later(a: int, b: int = 2) -> int:
    """Adds, after a step of the event loop."""
    await asyncio.sleep(0)
    return a + b


@tool
def count_up(to: int, context: ToolContext):
    """Emits numbers, and returns their sum."""
    yield from range(to)
    return sum(range(to))


@tool
async def count_up_later(to: int):
    """Emits numbers."""
    for number in range(to):
        await asyncio.sleep(0)
        yield number


@attrs.frozen
class Point:
    x: int
    y: int = 0


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@tool
def shift(point: Point, when: date, colour: Colour = Colour.RED, *more: int) -> Point:
    """Takes and returns values that aren't JSON."""
    assert isinstance(point, Point)
    assert isinstance(when, date)
    assert isinstance(colour, Colour)
    return Point(point.x + when.day, sum(more))


class Doubler(TypedTool[int, int]):
    """Doubles."""

    def __init__(self, factor: int = 2) -> None:
        self.factor = factor

    def call(self, context: ToolContext, number: int) -> int:
        return number * self.factor


class Counter:
    """Tools that are methods."""

    def __init__(self, start: int) -> None:
        self.start = start

    @tool
    def from_start(self, steps: int) -> int:
        """Counts on."""
        return self.start + steps


def upper(arguments) -> str:
    return f"{arguments['text']}".upper()


SHOUT = Tool.from_schema("shout", {"type": "object", "properties": {"text": {"type": "string"}}}, upper)


def reversed_text(text: str) -> str:
    return text[::-1]


BACKWARDS = Tool.freeform("backwards", reversed_text)


def plus(a: int, b: int) -> int:
    return a + b


PLUS_ONE = Tool.from_function(functools.partial(plus, 1), name="plus_one")


@tool
def contains(a: str) -> bool:
    """Contains a set, whose order differs in each process."""
    return a in {"x", "y", "z", "u", "v", "w"}


@tool
def loose(number: int):
    """A sync function that returns a coroutine."""
    return later(number)


async def later(number):
    await asyncio.sleep(0)
    return number


@tool
def full_result() -> ToolResult:
    """A result with all members."""
    return ToolResult(
        "text", {"a": 1}, display="shown", title="Title", metadata={"m": 1, "o": object()}, details=[1], detail="why"
    )


# Running code ---------------------------------------------------------------------------------------------------------


@tool
def do(code: str, context: ToolContext) -> object:
    """Runs code; returns its `result`."""
    names = {**globals(), "context": context, "result": None}
    exec(code, names)
    return names["result"]


@tool
async def go(code: str, context: ToolContext) -> object:
    """Runs code that awaits something; returns its `result`."""
    names = {**globals(), "context": context, "result": None}
    await eval(compile(code, "code", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    return names["result"]


@tool(permission="edit", permission_arguments={"path": "path"})
def resolved(path: str) -> str:
    """Resolves a path."""
    return os.path.realpath(path)


@tool
def sleep_on(pid_file: str) -> None:
    """Sleeps, and ignores SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(pid_file).write_text(f"{os.getpid()}")
    while True:
        time.sleep(FOREVER)


@tool
def fork_and_go(pid_file: str) -> str:
    """Starts a process that would outlive its parent."""
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(pid_file).write_text(f"{os.getpid()}")
        time.sleep(FOREVER)
    while not (Path(pid_file).exists() and Path(pid_file).read_text()):  # it is there before it is written
        time.sleep(0.001)
    return "gone"


# Processes, tasks and threads -----------------------------------------------------------------------------------------


@tool
def where() -> dict:
    """Describes this process."""
    return {"pid": os.getpid(), "cwd": os.getcwd(), "argv": sys.argv, "path": sys.path, "group": os.getpgrp()}


@tool
async def leave_a_task(file: str) -> str:
    """Leaves a task behind."""

    async def go_on():
        try:
            await asyncio.sleep(FOREVER)
        finally:
            Path(file).write_text("cancelled")

    task = asyncio.create_task(go_on())
    await asyncio.sleep(0)
    assert not task.done()
    return "left"


@tool
def report_later(context: ToolContext) -> str:
    """Reports progress after its result."""
    started = threading.Event()

    def go_on():
        started.set()
        while True:
            context.report(1)
            time.sleep(0.001)

    threading.Thread(target=go_on, daemon=True).start()
    started.wait()
    return "done"


# Events and questions -------------------------------------------------------------------------------------------------


@tool
def emit_all(context: ToolContext) -> str:
    """Emits every kind of event."""
    context.report(1, 4, "one of four")
    context.report(0.5)
    context.metadata("Heading", place="here", thing=object())
    context.emit("part")
    context.emit(ImageContent(b"1"))
    context.emit(Point(1, 2))
    context.emit(object())
    context.emit(float("nan"))
    context.emit("x" * 9_000_000)
    return "emitted"


@tool
def about(context: ToolContext) -> dict:
    """Returns the context."""
    request = context.request
    return {
        "request": [request.user, request.agent, request.agent_description, request.model, request.provider],
        "ids": [request.session, request.invocation, request.message, request.branch, context.call_id],
        "state": dict(context.state),
        "extra": dict(context.extra),
        "values": context.values,
        "tool": context.tool,
        "work_dir": context.work_dir,
        "depth": context.depth,
        "has_limit": context.deadline is not None,
        "confirmation": None if context.confirmation is None else context.confirmation.to_json(),
    }


@tool
async def ask_and_go_on(context: ToolContext, permission: str) -> str:
    """Catches a refusal."""
    try:
        await context.ask(permission)
    except ToolError as error:
        return f"refused: {error.text}"
    except (LookupError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "allowed"


@tool
async def call_one(context: ToolContext, name: str) -> str:
    """Calls a tool."""
    return (await context.call(name, {"a": 1})).text


@tool
def ask_in_threads(context: ToolContext, count: int) -> list[str]:
    """Asks from several threads at once."""
    answers = []

    def one(number):
        answers.append(context.wait(context.call("echo", {"a": number})).text)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(answers)


@tool
async def remember(context: ToolContext) -> dict:
    """Uses memory and artifacts."""
    entry = await context.memory.add("likes tea", metadata={"k": 1})
    found = await context.memory.search("tea", session_only=True)
    version = await context.artifacts.save("a.txt", "hello")
    content = await context.artifacts.load("a.txt", version)
    names = await context.artifacts.list()
    await context.artifacts.delete("a.txt")
    return {
        "user": entry.user,
        "found": [each.text for each in found],
        "text": content.text,
        "names": names,
        "left": await context.artifacts.list(),
    }


# Functions that can't be sent, and services ---------------------------------------------------------------------------

ANONYMOUS = Tool.from_function(lambda: 1, name="anonymous")


def made_inside():
    @tool
    def inside() -> str:
        """Is defined inside a function."""
        return "never"

    return inside


class Closed:
    """Has a lock, which can't be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    @tool
    def locked(self) -> str:
        """Uses a lock."""
        return "never"


def tool_named(name: str) -> Tool:
    """The tool of a function here."""
    found = tool_of(globals()[name])
    assert found is not None
    return found


@tool
def use_point(point: Injected[Point]) -> int:
    """Uses a service that can be pickled."""
    return point.x


@tool
def use_closed(closed: Injected[Closed]) -> str:
    """Uses a service that can't be pickled."""
    return "never"
