"""`check_executor`: checks whether calls in an executor behave as in a registry, with tools of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from inspect import iscoroutinefunction
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, Final, Literal, TypeAlias, TypeVar

import attrs
from attrs import define, frozen

from pegboard.dispatch.approval.queue import AnyApprover
from pegboard.errors import FatalToolError, ToolError, cause_of
from pegboard.registry import ToolRegistry
from pegboard.tools.content import ImageContent, ToolResult
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.tool import Tool, tool
from pegboard.tools.typed import tool_of

_SECONDS: Final = 120.0  # for one check

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
def check_error(kind: str) -> Any:
    """Fails in one of several ways."""
    if kind == "crash":
        os._exit(3)
    if kind == "no JSON":
        return {"number": float("nan")}
    errors = {"retryable": ToolError("busy", retryable=True), "fatal": FatalToolError("over"), "exit": SystemExit(3)}
    raise errors.get(kind, ValueError("secret"))


@tool(idempotent=True, retries=2)
def check_retries(file: str) -> str:
    """Works at the third attempt."""
    note(file, "tried")
    if len(Path(file).read_text(encoding="utf-8").splitlines()) < 3:
        raise ToolError("busy", retryable=True)
    return "third"


def _waits(file: str) -> bool:
    """Waits for a file, which the caller writes; returns whether there is one."""
    end = monotonic() + _SECONDS / 2
    while not Path(file).exists() and monotonic() < end:
        sleep(0.005)
    return Path(file).exists()


@tool
def check_progress(number: int, context: ToolContext, file: str | None = None) -> bool:
    """Reports many times, and may wait until the caller has seen it."""
    for each in range(number):
        context.report(each)
    return file is None or _waits(file)


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
            sleep(0.005)
    finally:
        note(file, "told")


@tool
def check_slow(file: str) -> None:
    """Takes a moment."""
    note(file, "began")
    sleep(0.2)
    note(file, "ended")


def _wait(file: str, go: str) -> str:
    """Waits until its caller lets it go."""
    note(file, f"{os.getpid()}")
    return "waited" if _waits(go) else "not let go"


check_wait: Final = Tool.from_function(_wait, name="check_wait")
check_wait_again: Final = Tool.from_function(_wait, name="check_wait_again", idempotent=True)


@tool
def check_length(text: str) -> int:
    """The length of a text."""
    return len(text)


EXECUTOR_TOOLS: Final = tuple(
    made
    for name, value in list(globals().items())
    if name.startswith("check_") and (made := tool_of(value)) is not None
)
"""The tools that `check_executor` calls: a worker on another machine has to have them."""

Start: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]
Scope: TypeAlias = Literal["local", "remote", "durable"]
ANN: Final = ReadonlyContext(user="ann", session="s", invocation="i", message="m")
ADDED: Final = {"result": 3}
_OWN: Final = ("serve", "status")  # what checks need of the executor; all else is of its engine


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
    scopes = {"local", *["remote"] * remote, *["durable"] * durable}
    passed, faults = list[str](), list[str]()
    with TemporaryDirectory() as folder:
        async with start() as executor:
            for number, (name, check) in enumerate(CHECKS.items()):
                bench = check.bench(start, engine, executor, str(Path(folder, name)), f"check-{os.getpid()}-{number}")
                lacking = [each for each in check.needs if not hasattr(executor if each in _OWN else engine, each)]
                if only is not None and name not in only:
                    skip[name] = "not asked for"
                elif check.scope not in scopes:
                    skip[name] = f"for {check.scope} executors"
                elif lacking:
                    skip.setdefault(name, f"there is no {' and no '.join(lacking)}")
                if name in skip:
                    continue
                try:
                    async with asyncio.timeout(_SECONDS):
                        await getattr(bench, name)()
                except Exception as error:  # noqa: BLE001  whatever the executor does
                    faults.append(f"{name}: {error if isinstance(error, AssertionError) else cause_of(error)}")
                else:
                    passed.append(name)
    if faults:
        raise AssertionError("\n".join([f"the executor fails {len(faults)} of its checks:", *faults]))
    return ExecutorReport(tuple(passed), skip)


@frozen
class ExecutorCheck:
    """One check."""

    scope: Scope  # the executors that it is for
    needs: tuple[str, ...]  # the members of the engine, or of the executor, that it uses
    bench: type[Bench]  # the class that has it, as a method of its name


CHECKS: Final = dict[str, ExecutorCheck]()
"""The checks by name."""
_MARKS: Final = dict[object, tuple[Scope, tuple[str, ...]]]()

Check = TypeVar("Check", bound=Callable[..., Awaitable[None]])


def check(scope: Scope, *needs: str) -> Callable[[Check], Check]:
    """Marks a check that is for other executors than those of its class, or needs more."""

    def mark(function: Check) -> Check:
        _MARKS[function] = scope, needs
        return function

    return mark


@define(eq=False)
class Bench:
    """Base of the checks, which are methods: makes calls in the executor, and reads their effects.

    Each check has an own instance, `file` for its effects, and `queue`.
    """

    start: Start
    engine: Any
    executor: Any
    file: str
    queue: str

    def __init_subclass__(cls, scope: Scope = "local", needs: tuple[str, ...] = ()) -> None:
        for name, method in vars(cls).items():
            if iscoroutinefunction(method) and not name.startswith("_"):
                CHECKS[name] = ExecutorCheck(*_MARKS.get(method, (scope, needs)), cls)

    @property
    def effects(self) -> list[str]:
        """The lines of the file."""
        return effects_in(self.file)

    @property
    def waiting(self) -> dict[str, str]:
        """The arguments of `check_wait`, which waits until `let_go`."""
        return {"file": self.file, "go": f"{self.file}.go"}

    def let_go(self) -> None:
        """Lets `check_wait` end."""
        note(self.waiting["go"], "go")

    def has_ended(self) -> bool:
        """Whether `check_endless` was told to end, or its process has ended."""
        first, *more = self.effects
        try:
            os.kill(int(first), 0)
        except ProcessLookupError:
            return True
        return bool(more)

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

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        context: ReadonlyContext | ToolContext = ANN,
        call_id: str = "",
        **of_registry: Any,
    ) -> ToolResult:
        """The result of a call, in a registry of its own."""
        return await self.registry(**of_registry).call(name, arguments, context, call_id=call_id)

    async def add(self, file: str | None = None, a: int = 1, **facts: Any) -> ToolResult:
        """The result of a simple call; its effect is a line of the file."""
        return await self.call("check_add", {"a": a, "b": 2, "file": file}, **facts)

    async def expect_to_add(self, what: str) -> None:
        """Raises `AssertionError` if the executor doesn't run a simple call."""
        self.expect((await self.add()).structured_content, ADDED, what)

    def expect(self, found: object, wanted: object, what: str = "result") -> None:
        """Raises `AssertionError` if something isn't as expected."""
        self.expect_true(found == wanted, f"{what}: expected {wanted!r:.300}, got {found!r:.300}")

    def expect_one_of(self, found: object, wanted: Collection[object], what: str) -> None:
        """Raises `AssertionError` if something isn't one of several values."""
        self.expect_true(found in wanted, f"{what}: expected one of {wanted!r}, got {found!r:.300}")

    @staticmethod
    def expect_true(is_so: object, otherwise: str) -> None:
        """Raises `AssertionError` with this text if something isn't so."""
        if not is_so:
            raise AssertionError(otherwise)

    @staticmethod
    async def until(condition: Callable[[], bool]) -> None:
        """Waits until another process has fulfilled a condition."""
        while not condition():  # noqa: ASYNC110  another process fulfils it
            await asyncio.sleep(0.01)

    async def begin(
        self, name: str, arguments: Mapping[str, Any], call_id: str = "", **of_registry: Any
    ) -> asyncio.Task[ToolResult]:
        """Starts a call of a tool, and waits until the tool has written into the file."""
        task = asyncio.ensure_future(self.call(name, arguments, call_id=call_id, **of_registry))
        await self.until(lambda: bool(self.effects) or task.done())
        return task


def effects_in(file: str) -> list[str]:
    """The lines of a file."""
    return Path(file).read_text(encoding="utf-8").splitlines() if Path(file).exists() else []
