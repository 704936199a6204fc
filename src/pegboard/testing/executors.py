"""`check_executor`: checks whether calls in an executor behave as in a registry, with tools of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from types import SimpleNamespace
from typing import Any, Final, Literal, TypeAlias

import attrs
from attrs import define, field, frozen

from pegboard.dispatch.approval.queue import AnyApprover
from pegboard.errors import FatalToolError, ToolError, cause_of
from pegboard.registry import ToolRegistry
from pegboard.tools.content import ImageContent, ToolResult
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.tool import Tool, tool
from pegboard.tools.typed import tool_of

_SECONDS: Final = 120.0  # for one check

# The tools ------------------------------------------------------------------------------------------------------------
# At the top level, so that a worker finds them by name; each effect is a line of a file that the call names.


def note(file: str, text: str) -> None:
    """Adds a line to a file."""
    with Path(file).open("a", encoding="utf-8") as written:
        written.write(f"{text}\n")


@tool
def check_add(a: int, b: int, file: str | None = None) -> int:
    """Adds."""
    if file is not None:
        note(file, "added")
    return a + b


@tool
async def check_add_async(a: int, b: int) -> int:
    """Adds, in an event loop."""
    await asyncio.sleep(0)
    return a + b


@tool
def check_process() -> int:
    """The id of its process."""
    return os.getpid()


@tool(sends=("state", "extra"))
def check_context(context: ToolContext) -> dict[str, Any]:
    """What it knows of its call."""
    names = ("user", "session", "agent", "model", "invocation", "message", "call_id", "depth", "fencing_token")
    known = {name: getattr(context, name) for name in names}
    mappings = {"state": dict(context.state), "extra": dict(context.extra), "trace": dict(context.trace)}
    return {**known, **mappings, "limited": context.remaining is not None}


@tool
def check_parts(context: ToolContext) -> ToolResult:
    """All parts of a result."""
    context.state["seen"] = 1
    context.metadata(fact=2)
    facts: dict[str, Any] = {"title": "Heading", "display": "shown", "metadata": {"m": 3}, "details": {"d": 4}}
    return ToolResult(["text", ImageContent(b"5")], {"s": 6}, attachments=ImageContent(b"7"), **facts)  # pyright: ignore[reportArgumentType]  (converted)


@tool
def check_error(kind: str) -> None:
    """Raises an error."""
    if kind == "retryable":
        raise ToolError("busy", retryable=True)
    if kind == "fatal":
        raise FatalToolError("over")
    if kind == "exit":
        raise SystemExit(3)
    raise ValueError("secret")


@tool(idempotent=True, retries=2)
def check_retries(file: str) -> str:
    """Works at the third attempt."""
    note(file, "tried")
    if len(Path(file).read_text(encoding="utf-8").splitlines()) < 3:
        raise ToolError("busy", retryable=True)
    return "third"


@tool
def check_progress(file: str, context: ToolContext) -> str:
    """Reports, and waits until the caller has seen it."""
    for number in range(1, 9):
        context.report(number)
    end = monotonic() + _SECONDS / 4
    while not Path(file).exists() and monotonic() < end:
        context.check()
        _pause()
    return "seen" if Path(file).exists() else "not seen"


@tool
async def check_questions(file: str, context: ToolContext) -> str:
    """Asks for a permission, and a question."""
    note(file, "started")
    await context.ask("check_permission", ["a"])
    answer = await context.request_confirmation("Really?")
    return f"{answer.confirmed} {answer.feedback}"


@tool
async def check_host(context: ToolContext) -> list[Any]:
    """Calls another tool, and uses the stores."""
    called = await context.call("check_here")
    versions = [await context.artifacts.save("a.txt", text) for text in ("one", "two")]
    await context.memory.add("likes tea")
    found = await context.memory.search("tea")
    return [called.text, versions, [entry.text for entry in found]]


@tool(destructive=True)
def check_delete(file: str) -> str:
    """Deletes something."""
    note(file, "deleted")
    return "deleted"


@tool
async def check_endless(file: str) -> None:
    """Never ends."""
    note(file, f"{os.getpid()}")
    try:
        await asyncio.Event().wait()
    finally:
        note(file, "told")


@tool(timeout=1)
async def check_patient(context: ToolContext) -> str:
    """Asks within its time limit."""
    await context.request_confirmation("Really?")
    return "asked"


@tool
def check_large(length: int) -> str:
    """A long text."""
    return "x" * length


@tool
def check_blocking(file: str, context: ToolContext) -> None:
    """Never ends by itself, and blocks its thread."""
    note(file, f"{os.getpid()}")
    try:
        while True:
            context.check()
            _pause()
    finally:
        note(file, "told")


@tool
def check_slow(file: str) -> None:
    """Takes a moment."""
    note(file, "began")
    for _ in range(40):
        _pause()
    note(file, "ended")


def _wait(file: str, go: str) -> str:
    """Waits for a file, which the caller writes."""
    note(file, f"{os.getpid()}")
    end = monotonic() + _SECONDS / 2
    while not Path(go).exists() and monotonic() < end:
        _pause()
    return "waited"


check_wait: Final = Tool.from_function(_wait, name="check_wait")
check_wait_again: Final = Tool.from_function(_wait, name="check_wait_again", idempotent=True)


@tool
def check_length(text: str) -> int:
    """The length of a text."""
    return len(text)


@tool
def check_emit(number: int, context: ToolContext) -> int:
    """Reports many times."""
    for each in range(number):
        context.report(each)
    return number


@tool
def check_number() -> Any:
    """A result that isn't JSON."""
    return {"number": float("nan")}


@tool
def check_crash() -> None:
    """Ends its process."""
    os._exit(3)


def _pause() -> None:
    from time import sleep

    sleep(0.005)


EXECUTOR_TOOLS: Final = tuple(
    made
    for name, value in list(globals().items())
    if name.startswith("check_") and (made := tool_of(value)) is not None
)
"""The tools that `check_executor` calls: a worker on another machine has to have them."""

# The suite ------------------------------------------------------------------------------------------------------------

Start: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]
Scope: TypeAlias = Literal["local", "remote", "durable"]
ANN: Final = ReadonlyContext(user="ann", session="s", invocation="i", message="m")


@frozen
class ExecutorReport:
    """The report of `check_executor` on an executor that passes.

    Attributes:
        passed: The names of the checks that it passed.
        skipped: Those that weren't made, with the reason.
    """

    passed: tuple[str, ...]
    skipped: Mapping[str, str]


async def check_executor(  # noqa: PLR0913  all but one by name
    start: Start,
    *,
    remote: bool = False,
    durable: bool = False,
    engine: Any = None,
    skip: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
) -> ExecutorReport:
    """Checks whether calls in an executor behave as calls that run in a registry.

    Args:
        start: Starts the executor, with a worker that has `EXECUTOR_TOOLS`, as an async context manager. A remote one
            is started several times; each reaches the same engine and worker.
        remote: Whether tools run in another process.
        durable: Whether the executor keeps results by `ExecutionRequest.key`, and has `attach`.
        engine: What the checks may do to the engine; those that need a member that it lacks are skipped. The async
            functions `kill_worker` and `start_worker`, `kill_server` and `start_server` kill and start these processes;
            the latter return once they work, on the files of the former. `caller` is a mapping with `executor`, its
            name, and `settings`, those of plugins by name, for a caller in another process, as `load` takes them.
        skip: Checks that don't apply, by name, with the reason.
        only: The names of the checks to make; `None` is all.

    Raises:
        AssertionError: It fails some checks; the text has each, with what differs.
        ValueError: There is no check of a name in `skip` or `only`.
    """
    skip = dict(skip or {})
    if unknown := {*skip, *(only or ())} - CHECKS.keys():
        raise ValueError(f"there is no check {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    has = {"local": True, "remote": remote, "durable": durable}
    passed, faults = list[str](), list[str]()
    with TemporaryDirectory() as folder:
        bench = Bench(start, engine, Path(folder))
        async with start() as bench.executor:
            for name, check in CHECKS.items():
                lacking = [each for each in check.needs if not hasattr(_owner_of(each, bench), each)]
                if only is not None and name not in only:
                    skip[name] = "not asked for"
                elif not has[check.scope]:
                    skip[name] = f"for {check.scope} executors"
                elif lacking:
                    skip.setdefault(name, f"there is no {' and no '.join(lacking)}")
                if name in skip:
                    continue
                try:
                    async with asyncio.timeout(_SECONDS):
                        await check.run(bench)
                except Exception as error:  # noqa: BLE001  whatever the executor does
                    faults.append(f"{name}: {error if isinstance(error, AssertionError) else cause_of(error)}")
                else:
                    passed.append(name)
    if faults:
        raise AssertionError("\n".join([f"the executor fails {len(faults)} of its checks:", *faults]))
    return ExecutorReport(tuple(passed), skip)


def _owner_of(name: str, bench: Bench) -> Any:
    return bench.executor if name in ("serve", "status") else bench.engine


@define(eq=False)
class Bench:
    """What the checks need: registries whose tools run in the executor, and files for effects."""

    start: Start
    engine: Any
    folder: Path
    executor: Any = None
    _numbers: count[int] = field(factory=lambda: count(1), init=False)

    def file(self) -> str:
        """The path of a new file."""
        return str(self.folder / f"effects{next(self._numbers)}")

    def queue(self) -> str:
        """The name of a new queue."""
        return f"check-{os.getpid()}-{next(self._numbers)}"

    def registry(
        self, approver: AnyApprover | None = None, executor: Any = None, *, queue: str | None = None, **changes: Any
    ) -> ToolRegistry:
        """A registry whose tools run in the executor, which it doesn't close; `changes` are those of their specs."""
        registry, used = ToolRegistry(approver=approver), executor or self.executor
        for each in EXECUTOR_TOOLS:
            policy = attrs.evolve(each.policy, executor="checked", queue=queue)
            registry.register(each.with_spec(**changes).evolve(policy=policy))
        registry.register(Tool.from_function(os.getpid, name="check_here"))
        parts = ("execute", "execute_tool", "attach", "start_seconds")
        shared = {part: getattr(used, part) for part in parts if hasattr(used, part)}
        registry.add("executors", "checked", SimpleNamespace(**shared))
        return registry

    async def begin(
        self, name: str, file: str, registry: ToolRegistry | None = None, call_id: str = "", **more: Any
    ) -> asyncio.Task[ToolResult]:
        """Starts a call of a tool, and waits until the tool has written into the file."""
        call = (registry or self.registry()).call(name, {"file": file, **more}, ANN, call_id=call_id)
        task = asyncio.ensure_future(call)
        await until(lambda: bool(effects_in(file)) or task.done())
        return task

    async def expect_to_add(self, what: str) -> None:
        """Raises `AssertionError` if the executor doesn't run a simple call."""
        result = await self.registry().call("check_add", {"a": 1, "b": 2})
        expect(result.structured_content, {"result": 3}, what)


def effects_in(file: str) -> list[str]:
    """The lines of a file."""
    return Path(file).read_text(encoding="utf-8").splitlines() if Path(file).exists() else []


def expect(found: object, wanted: object, what: str = "result") -> None:
    """Raises `AssertionError` if something isn't as expected."""
    if found != wanted:
        raise AssertionError(f"{what}: expected {wanted!r:.300}, got {found!r:.300}")


def expect_one_of(found: object, wanted: Collection[object], what: str) -> None:
    """Raises `AssertionError` if something isn't one of several values."""
    if found not in wanted:
        raise AssertionError(f"{what}: expected one of {wanted!r}, got {found!r:.300}")


async def until(condition: Callable[[], bool]) -> None:
    """Waits until another process has fulfilled a condition."""
    while not condition():  # noqa: ASYNC110  another process fulfils it
        await asyncio.sleep(0.01)


def has_ended(file: str) -> bool:
    """Whether `check_endless` was told to end, or its process has ended."""
    first, *more = effects_in(file)
    try:
        os.kill(int(first), 0)
    except ProcessLookupError:
        return True
    return bool(more)


def answering(asked: list[str], *answers: Any, seconds: float = 0.0) -> Any:
    """An approver that gives these answers, of which the last repeats, and records what it was asked."""
    left = list(answers)

    async def approver(request: Any, _context: ToolContext) -> Any:
        asked.append(request.permission)
        await asyncio.sleep(seconds)
        return left.pop(0) if len(left) > 1 else left[0]

    return approver


@frozen
class ExecutorCheck:
    """One check."""

    scope: Scope  # the executors that it is for
    needs: tuple[str, ...]  # the members of the engine, or of the executor, that it uses
    run: Callable[[Bench], Awaitable[None]]


CHECKS: Final = dict[str, ExecutorCheck]()
"""The checks by name."""


def check(
    scope: Scope, *needs: str
) -> Callable[[Callable[[Bench], Awaitable[None]]], Callable[[Bench], Awaitable[None]]]:
    """Adds a function to the checks; see `ExecutorCheck`."""

    def add(function: Callable[[Bench], Awaitable[None]]) -> Callable[[Bench], Awaitable[None]]:
        CHECKS[function.__name__] = ExecutorCheck(scope, needs, function)
        return function

    return add
