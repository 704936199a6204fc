"""`check_executor`: checks whether calls in an executor behave as in a registry, with tools of its own."""
# ruff: noqa: D103  the name of a check says what it checks

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

from pegboard.dispatch.approval.queue import AnyApprover, ask_later
from pegboard.dispatch.approval.request import Once, Reject
from pegboard.errors import FatalToolError, ToolError, cause_of
from pegboard.registry import ToolRegistry
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ImageContent, ToolResult
from pegboard.tools.context import Progress, ReadonlyContext, ToolContext
from pegboard.tools.tool import Tool, tool
from pegboard.tools.typed import tool_of

_SECONDS: Final = 120.0  # for one check

# The tools ------------------------------------------------------------------------------------------------------------
# At the top level, so that a worker finds them by name; each effect is a line of a file that the call names.


def _note(file: str, text: str) -> None:
    with Path(file).open("a", encoding="utf-8") as written:
        written.write(f"{text}\n")


@tool
def check_add(a: int, b: int, file: str | None = None) -> int:
    """Adds."""
    if file is not None:
        _note(file, "added")
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


@tool
def check_context(context: ToolContext) -> dict[str, Any]:
    """What it knows of its call."""
    names = ("user", "session", "agent", "model", "invocation", "message", "call_id", "depth")
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
    _note(file, "tried")
    if len(Path(file).read_text(encoding="utf-8").splitlines()) < 3:
        raise ToolError("busy", retryable=True)
    return "third"


@tool
def check_progress(file: str, context: ToolContext) -> str:
    """Reports, and waits until the caller has seen it."""
    for number in range(1, 9):
        context.report(number)
    until = monotonic() + _SECONDS / 4
    while not Path(file).exists() and monotonic() < until:
        context.check()
        _pause()
    return "seen" if Path(file).exists() else "not seen"


@tool
async def check_questions(file: str, context: ToolContext) -> str:
    """Asks for a permission, and a question."""
    _note(file, "started")
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
    _note(file, "deleted")
    return "deleted"


@tool
async def check_endless(file: str) -> None:
    """Never ends."""
    _note(file, f"{os.getpid()}")
    try:
        await asyncio.Event().wait()
    finally:
        _note(file, "told")


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
_Scope: TypeAlias = Literal["local", "remote", "durable"]
_ANN: Final = ReadonlyContext(user="ann", session="s", invocation="i", message="m")


@frozen
class ExecutorReport:
    """The report of `check_executor` on an executor that passes.

    Attributes:
        passed: The names of the checks that it passed.
        skipped: Those that weren't made, with the reason.
    """

    passed: tuple[str, ...]
    skipped: Mapping[str, str]


async def check_executor(
    start: Start,
    *,
    remote: bool = False,
    durable: bool = False,
    skip: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
) -> ExecutorReport:
    """Checks whether calls in an executor behave as calls that run in a registry.

    Args:
        start: Starts the executor, with a worker that has `EXECUTOR_TOOLS`, as an async context manager. A durable one
            is started several times; each reaches the same engine.
        remote: Whether tools run in another process.
        durable: Whether the executor keeps results by `ExecutionRequest.key`, and has `attach`.
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
    skip |= {name: f"for {scope} executors" for name, (scope, _) in CHECKS.items() if not has[scope]}
    if only is not None:
        skip |= dict.fromkeys(CHECKS.keys() - {*only}, "not asked for")
    passed, faults = list[str](), list[str]()
    with TemporaryDirectory() as folder:
        bench = _Bench(start, Path(folder))
        async with start() as bench.executor:
            for name, (_, check) in CHECKS.items():
                if name in skip:
                    continue
                try:
                    async with asyncio.timeout(_SECONDS):
                        await check(bench)
                except Exception as error:  # noqa: BLE001  whatever the executor does
                    faults.append(f"{name}: {error if isinstance(error, AssertionError) else cause_of(error)}")
                else:
                    passed.append(name)
    if faults:
        raise AssertionError("\n".join([f"the executor fails {len(faults)} of its checks:", *faults]))
    return ExecutorReport(tuple(passed), skip)


@define(eq=False)
class _Bench:
    """What the checks need: registries whose tools run in the executor, and files for effects."""

    start: Start
    folder: Path
    executor: Any = None
    _numbers: count[int] = field(factory=lambda: count(1), init=False)

    def file(self) -> str:
        """The path of a new file."""
        return str(self.folder / f"effects{next(self._numbers)}")

    def registry(self, approver: AnyApprover | None = None, executor: Any = None, **changes: Any) -> ToolRegistry:
        """A registry whose tools run in the executor, which it doesn't close; `changes` are those of their specs."""
        registry, used = ToolRegistry(approver=approver), executor or self.executor
        for each in EXECUTOR_TOOLS:
            policy = attrs.evolve(each.policy, executor="checked")
            registry.register(each.with_spec(**changes).evolve(policy=policy))
        registry.register(Tool.from_function(os.getpid, name="check_here"))
        parts = ("execute", "execute_tool", "attach", "start_seconds")
        shared = {part: getattr(used, part) for part in parts if hasattr(used, part)}
        registry.add("executors", "checked", SimpleNamespace(**shared))
        return registry


def _effects(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines() if Path(file).exists() else []


def _expect(found: object, wanted: object, what: str = "result") -> None:
    if found != wanted:
        raise AssertionError(f"{what}: expected {wanted!r:.300}, got {found!r:.300}")


def _among(found: object, wanted: Collection[object], what: str) -> None:
    if found not in wanted:
        raise AssertionError(f"{what}: expected one of {wanted!r}, got {found!r:.300}")


def _answering(asked: list[str], *answers: Any, seconds: float = 0.0) -> Any:
    """An approver that gives these answers, of which the last repeats, and records what it was asked."""
    left = list(answers)

    async def approver(request: Any, _context: ToolContext) -> Any:
        asked.append(request.permission)
        await asyncio.sleep(seconds)
        return left.pop(0) if len(left) > 1 else left[0]

    return approver


CHECKS: Final[dict[str, tuple[_Scope, Callable[[_Bench], Awaitable[None]]]]] = {}
"""The checks by name, each with the executors that it is for."""


def _check(scope: _Scope) -> Callable[[Callable[[_Bench], Awaitable[None]]], Callable[[_Bench], Awaitable[None]]]:
    def add(check: Callable[[_Bench], Awaitable[None]]) -> Callable[[_Bench], Awaitable[None]]:
        CHECKS[check.__name__] = (scope, check)
        return check

    return add


@_check("local")
async def plain_and_async_results(bench: _Bench) -> None:
    for name in ("check_add", "check_add_async"):
        result = await bench.registry().call(name, {"a": 1, "b": 2})
        _expect((result.kind, result.structured_content), (None, {"result": 3}), name)


@_check("local")
async def context_arrives(bench: _Bench) -> None:
    facts: dict[str, Any] = {
        "user": "ann",
        "session": "s",
        "agent": "a",
        "model": "m",
        "invocation": "i",
        "message": "b",
    }
    context = ReadonlyContext(**facts, state={"n": 1, "x": object()}, extra={"e": [2]})
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    result = await bench.registry().call("check_context", {}, ToolContext(context, trace=trace), call_id="toolu_c")
    wanted = {**facts, "state": {"n": 1}, "extra": {"e": [2]}, "trace": trace, "call_id": "toolu_c", "depth": 0}
    _expect(result.structured_content, {**wanted, "limited": True}, "context")


@_check("local")
async def all_parts_of_a_result(bench: _Bench) -> None:
    context = ToolContext(_ANN)
    result = await bench.registry().call("check_parts", {}, context)
    _expect([part.to_json() for part in result.content], [each.to_json() for each in _parts().content], "content")
    names = ("structured_content", "title", "display", "details", "attachments")
    _expect([getattr(result, name) for name in names], [getattr(_parts(), name) for name in names], ", ".join(names))
    _expect(dict(result.metadata), {"m": 3, "fact": 2}, "metadata")
    _expect(dict(context.actions.actions.state_delta), {"seen": 1}, "changes of state")


def _parts() -> ToolResult:
    return check_parts(ToolContext())


@_check("local")
async def errors_of_the_tool(bench: _Bench) -> None:
    registry = bench.registry()
    busy = await registry.call("check_error", {"kind": "retryable"})
    _expect((busy.kind, busy.text, dict(busy.metadata)), ("tool_failure", "busy", {"retryable": True}))
    for kind in ("value", "exit"):
        result = await registry.call("check_error", {"kind": kind})
        _expect((result.is_error, "secret" in result.text), (True, False), f"an unexpected error ({kind}) and its text")
    _expect((await registry.call("check_add", {"a": 1, "b": 2})).structured_content, {"result": 3}, "the next call")


@_check("local")
async def fatal_ends_the_turn(bench: _Bench) -> None:
    outcome = await bench.registry().dispatch([ToolCall("check_error", {"kind": "fatal"}, "toolu_f")], context=_ANN)
    _expect(type(outcome.fatal), FatalToolError, "the error that ends the turn")


@_check("local")
async def retries_run_again(bench: _Bench) -> None:
    result = await bench.registry().call("check_retries", {"file": (file := bench.file())}, _ANN, call_id="toolu_r")
    _expect((result.text, _effects(file)), ("third", ["tried"] * 3), "result and runs")


@_check("local")
async def progress_arrives_in_order_while_it_runs(bench: _Bench) -> None:
    file, seen = bench.file(), list[object]()

    def listener(emitted: object) -> None:
        seen.append(emitted)
        if len(seen) == 8:
            _note(file, "seen")

    result = await bench.registry().call("check_progress", {"file": file}, ToolContext(_ANN, listener=listener))
    _expect(result.text, "seen", "progress while it runs")
    _expect(seen, [Progress(number) for number in range(1, 9)], "progress")


@_check("local")
async def a_tool_that_asks_runs_once(bench: _Bench) -> None:
    for answers, text in (((Once(),), "True None"), ((Once(), Reject("not now")), "False not now")):
        file, asked = bench.file(), list[str]()
        result = await bench.registry(_answering(asked, *answers)).call("check_questions", {"file": file}, _ANN)
        _expect((result.text, asked), (text, ["check_permission", "confirmation"]), "result and questions")
        _expect(_effects(file), ["started"], "runs")
    denied = await bench.registry(_answering([], Reject("never"))).call("check_questions", {"file": bench.file()}, _ANN)
    _expect((denied.kind, "never" in denied.text), ("rejected", True), "a rejected permission")


@_check("local")
async def an_answer_that_comes_later(bench: _Bench) -> None:
    registry, file = bench.registry(), bench.file()
    call = ToolCall("check_questions", {"file": file}, "toolu_l")
    outcome = await registry.dispatch([call], context=_ANN, approver=ask_later)
    for _ in range(2):
        _expect([result.kind for result in outcome.results], ["confirmation_required"], "while it waits")
        answers = {each.id: Once() for each in outcome.pending}
        outcome = await registry.resume(outcome.pending, answers, context=_ANN, approver=ask_later)
    _expect(outcome.results[0].text, "True None")


@_check("local")
async def nested_calls_and_stores_are_the_callers(bench: _Bench) -> None:
    registry = bench.registry()
    result = await registry.call("check_host", {}, _ANN)
    _expect(result.structured_content, {"result": [f"{os.getpid()}", [1, 2], ["likes tea"]]})
    stored = await ToolContext(_ANN, services=registry.services).artifacts.list()
    _expect(stored, ("a.txt",), "the caller's artifacts")


@_check("local")
async def approval_before_it_is_sent(bench: _Bench) -> None:
    file = bench.file()
    result = await bench.registry(_answering([], Reject())).call("check_delete", {"file": file}, _ANN)
    _expect((result.kind, len(_effects(file))), ("rejected", 0), "a rejected call, and its effects")
    result = await bench.registry(_answering([], Once())).call("check_delete", {"file": file}, _ANN)
    _expect((result.text, _effects(file)), ("deleted", ["deleted"]), "an approved call, and its effects")


@_check("local")
async def the_time_limit(bench: _Bench) -> None:
    call = ToolCall("check_endless", {"file": (file := bench.file())}, "toolu_t")
    outcome = await bench.registry().dispatch([call], context=_ANN, timeout=1.0)
    _expect(outcome.results[0].kind, "timeout", "kind")
    await _until(lambda: _has_ended(file))


@_check("local")
async def a_persons_time_does_not_count(bench: _Bench) -> None:
    result = await bench.registry(_answering([], Once(), seconds=2.0)).call("check_patient", {}, _ANN)
    _expect(result.text, "asked", "an answer that takes longer than the limit of 1 s")


@_check("local")
async def cancelling_reaches_the_tool(bench: _Bench) -> None:
    file = bench.file()
    task = asyncio.ensure_future(bench.registry().call("check_endless", {"file": file}, _ANN))
    await _until(lambda: bool(_effects(file)) or task.done())
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        raise AssertionError("the call isn't cancelled")
    await _until(lambda: _has_ended(file))


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  another process fulfils it
        await asyncio.sleep(0.01)


def _has_ended(file: str) -> bool:
    """Whether `check_endless` was told to end, or its process has ended."""
    first, *more = _effects(file)
    try:
        os.kill(int(first), 0)
    except ProcessLookupError:
        return True
    return bool(more)


@_check("local")
async def a_large_result_arrives_or_is_refused(bench: _Bench) -> None:
    for mebibytes in (1, 20):
        result = await bench.registry().call("check_large", {"length": mebibytes << 20}, _ANN)
        _among(result.kind, (None, "limit"), f"a result of {mebibytes} MiB")
        if result.kind is None and "kept" not in result.metadata:
            raise AssertionError(f"a result of {mebibytes} MiB was cut before it arrived")


@_check("local")
async def fifty_at_once(bench: _Bench) -> None:
    registry = bench.registry()
    calls = [ToolCall("check_add", {"a": number, "b": 0}, f"toolu_{number}") for number in range(50)]
    found = [result.structured_content for result in (await registry.dispatch(calls, context=_ANN)).results]
    _expect(found, [{"result": number} for number in range(50)], "results")


@_check("local")
async def another_definition_is_refused(bench: _Bench) -> None:
    registry, file = bench.registry(description="Another one."), bench.file()
    result = await registry.call("check_add", {"a": 1, "b": 2, "file": file}, _ANN)
    _expect((result.kind, len(_effects(file))), ("not_executed", 0), "kind and effects")


@_check("local")
async def a_tool_that_the_worker_lacks_is_refused(bench: _Bench) -> None:
    registry, missing = bench.registry(), Tool.from_schema("check_missing", {"type": "object"}, executor="checked")
    registry.register(missing)
    result = await registry.call("check_missing", {}, _ANN)
    _among(result.kind, ("not_executed", "unknown_tool"), "kind")


@_check("remote")
async def runs_in_another_process(bench: _Bench) -> None:
    result = await bench.registry().call("check_process", {}, _ANN)
    if result.is_error or result.structured_content == {"result": os.getpid()}:
        raise AssertionError(f"expected the id of another process, got {result.text!r:.100}")


@_check("remote")
async def a_dying_worker_is_reported(bench: _Bench) -> None:
    result = await bench.registry().call("check_crash", {}, _ANN)
    _among(result.kind, ("crashed", "unknown_outcome"), "kind")
    _expect((await bench.registry().call("check_add", {"a": 1, "b": 2})).structured_content, {"result": 3}, "next call")


@_check("durable")
async def the_same_call_again_runs_once(bench: _Bench) -> None:
    file = bench.file()
    async with bench.start() as other:
        for executor in (bench.executor, other):
            arguments = {"a": 1, "b": 2, "file": file}
            result = await bench.registry(executor=executor).call("check_add", arguments, _ANN, call_id="toolu_same")
            _expect((result.structured_content, _effects(file)), ({"result": 3}, ["added"]), "result and runs")
        session = attrs.evolve(_ANN, session="other")
        await bench.registry().call("check_add", arguments, session, call_id="toolu_same")
        _expect(len(_effects(file)), 2, "runs, with one of another session")


@_check("durable")
async def a_call_without_an_identity_runs_each_time(bench: _Bench) -> None:
    file, context = bench.file(), attrs.evolve(_ANN, message=None)
    for _ in range(2):
        await bench.registry().call("check_add", {"a": 1, "b": 2, "file": file}, context, call_id="call_0")
    _expect(len(_effects(file)), 2, "runs")


@_check("durable")
async def an_approved_call_survives_its_caller(bench: _Bench) -> None:
    file, asked = bench.file(), list[str]()
    call = ToolCall("check_delete", {"file": file}, "toolu_approved")
    approver = _answering(asked, Once())
    async with bench.start() as other:
        for executor in (bench.executor, other):
            outcome = await bench.registry(approver, executor).dispatch([call], context=_ANN)
            _expect((outcome.results[0].text, _effects(file)), ("deleted", ["deleted"]), "result and runs")
    _expect(len(asked), 1, "how often it was approved")


@_check("durable")
async def the_id_of_another_call_is_refused(bench: _Bench) -> None:
    file, kinds = bench.file(), list[Any]()
    for number in (1, 2):
        arguments = {"a": number, "b": 2, "file": file}
        kinds.append((await bench.registry().call("check_add", arguments, _ANN, call_id="toolu_again")).kind)
    _expect((kinds, _effects(file)), ([None, "unknown_outcome"], ["added"]), "kinds of errors, and runs")
