"""Running calls from a terminal: in an event loop that ends with the command, shown as they go, ended by Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from pegboard.cli.output import remark
from pegboard.cli.terminal import Status
from pegboard.tools.content import ToolResult
from pegboard.tools.policy import ResultLimits

if TYPE_CHECKING:
    from pegboard.dispatch.batch import Outcome
    from pegboard.dispatch.events import CallEvent
    from pegboard.registry import ToolRegistry
    from pegboard.tools.call import ToolCall
    from pegboard.tools.context import ReadonlyContext
    from pegboard.toolsets.resolve import ResolvedTools

T = TypeVar("T")
GRACE_SECONDS: Final = 1.0
"""How long tasks that are left may take to end once they are cancelled, and threads once nothing more comes."""
INTERRUPTED: Final = ("interrupted", "cancelled")
"""The outcomes of calls that Ctrl-C has ended."""
WHOLE: Final = ResultLimits(lines=None, bytes=None)
"""A person, or whatever reads the output, gets results whole: there is no model to spare."""
_TO_CONFIRM: Final = "{} has to be confirmed and was not run. To run it, add --yes."
Listener = Callable[["CallEvent"], None]


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in an event loop of its own.

    `asyncio.run` would wait, without a limit, for tasks that ignore that they are cancelled, and for the threads of
    `asyncio.to_thread`: a tool may leave both behind.
    """
    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        loop = runner.get_loop()
        if _has_ended(loop):
            runner.close()
        else:
            asyncio.set_event_loop(None)  # what is left stays with it; the process is about to end


def has_left_threads() -> bool:
    """Whether threads are left that would keep the process from ending."""
    main = threading.main_thread()
    return any(thread is not main and not thread.daemon and thread.is_alive() for thread in threading.enumerate())


def _has_ended(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether closing the loop will not have to wait: nothing is left in it, once that had a moment to end."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=GRACE_SECONDS))
    executor = getattr(loop, "_default_executor", None)
    return (executor is None or _has_shut(executor)) and not asyncio.all_tasks(loop)


def _has_shut(executor: Any) -> bool:
    """Whether all threads of `asyncio.to_thread` have ended: idle ones do at once, busy ones have a moment."""
    executor.shutdown(wait=False, cancel_futures=True)
    until = monotonic() + GRACE_SECONDS
    threads: list[threading.Thread] = list(getattr(executor, "_threads", ()))
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))
    return not any(thread.is_alive() for thread in threads)


@contextmanager
def interruptible(end: Callable[[], None]) -> Generator[None]:
    """Lets the first Ctrl-C end the work in its own way; the next one is what it always was.

    Args:
        end: Ends the work; called in the event loop.
    """
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)

    def interrupt() -> None:
        end()
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)

    try:
        loop.add_signal_handler(signal.SIGINT, interrupt)
    except (NotImplementedError, ValueError, RuntimeError):  # Windows; another thread than the main one
        yield
        return
    try:
        yield
    finally:
        if loop.remove_signal_handler(signal.SIGINT):
            signal.signal(signal.SIGINT, before)


async def run_turn(
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    resolved: ResolvedTools,
    context: ReadonlyContext,
    listener: Listener | None = None,
    **options: Any,
) -> Outcome:
    """Runs calls as one turn; a line on a terminal's standard error shows how far they are.

    At Ctrl-C running calls are aborted and the rest is skipped: each still has its result. A second one ends the
    command at once.

    Args:
        registry: Where the tools are.
        calls: What to run.
        resolved: The tools that they may call.
        context: Of the user and the model.
        listener: Gets each event, or `None`.
        options: As `ToolRegistry.batch` takes them.
    """
    with Status() as status:
        shown, unwritten = _Shown(status, len(calls)), list[OSError]()

        def listen(event: CallEvent) -> None:
            shown.on_event(event)
            if listener is not None and not unwritten:
                try:
                    listener(event)
                except OSError as error:  # the reader has gone: nothing that runs is of use
                    unwritten.append(error)
                    batch.interrupt("cancelled", "abort")

        batch = await registry.batch(calls, resolved, context, listener=listen, results=WHOLE, **options)
        with interruptible(lambda: batch.interrupt("interrupted", "abort")):
            outcome = await batch.run()
        if unwritten:
            raise unwritten[0]
        _report_of_background(registry)
        return _worded(outcome)


def _report_of_background(registry: ToolRegistry) -> None:
    """What goes on after its call ends with the command."""
    going_on = registry.operations()
    if going_on:
        names = ", ".join(sorted({operation.tool for operation in going_on}))
        remark(f"{len(going_on)} pending: what {names} would answer later is lost, as the command ends now")


def _worded(outcome: Outcome) -> Outcome:
    """What has to be confirmed, in the words of a command: no one will answer it later."""
    results = [
        ToolResult.error("confirmation_required", _TO_CONFIRM.format(call.name))
        if result.kind == "confirmation_required"
        else result
        for call, result in outcome
    ]
    return attrs.evolve(outcome, results=tuple(results))


class _Shown:
    """The status line of a turn."""

    def __init__(self, status: Status, calls: int) -> None:
        self._status = status
        self._calls = calls
        self._ended = 0

    def on_event(self, event: CallEvent) -> None:
        from pegboard.dispatch.events import CallEnded, CallRunning, CallUpdated

        if isinstance(event, CallEnded):
            self._ended += 1
            if self._calls > 1:
                self._status.show(f"{self._ended} of {self._calls} calls", self._ended / self._calls)
        elif isinstance(event, CallRunning):
            self._status.show(f"calling {event.name}")
        elif isinstance(event, CallUpdated) and event.progress is not None:
            text = f"{event.name}: {event.message}" if event.message else event.name
            self._status.show(text, event.progress / event.total if event.total else None)
        elif isinstance(event, CallUpdated) and event.title is not None:
            self._status.show(f"{event.name}: {event.title}")
