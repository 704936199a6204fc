"""Calls from the command line: approval at the terminal, the event loop, signals and progress."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import attrs
import click

from pegboard.cli.arguments import SchemaType, convert_text
from pegboard.cli.output import Status, hide_status, json_line, stderr_screen, write_error, write_note, write_unbuffered
from pegboard.cli.table import cells
from pegboard.dispatch.approval.queue import AnyApprover, ask_later
from pegboard.dispatch.approval.request import Always, Answer, ApprovalRequest, Once, Reject
from pegboard.dispatch.events import CallEnded, CallEvent, CallRunning, CallUpdated
from pegboard.json import is_object, json_text
from pegboard.text import visible
from pegboard.timeout import GRACE_SECONDS
from pegboard.tools.content import ToolResult
from pegboard.tools.limits import ResultLimits

if TYPE_CHECKING:
    from pegboard.dispatch.approval.pending import PendingCall
    from pegboard.dispatch.batch import Outcome
    from pegboard.registry import ToolRegistry
    from pegboard.tools.call import ToolCall
    from pegboard.tools.context import ReadonlyContext, ToolContext
    from pegboard.toolsets.resolve import ResolvedTools

TERMINAL: Final = "/dev/tty"
MOST_LINE: Final = 10_000
MOST_SHOWN: Final = 100_000  # longest request, in characters, that can be approved at a terminal
TRIES: Final = 3
_DIFF: Final = {"+": "green", "-": "red", "@": "cyan"}  # a preview's lines; arguments don't begin so
_CONTINUED: Final = "        "
INTERRUPTED: Final = ("interrupted", "cancelled")  # ends of batches that a signal or a closed pipe stopped
UNLIMITED: Final = ResultLimits(lines=None, bytes=None)
"""Results on the command line aren't cut: there is no model context to save."""

T = TypeVar("T")


def approver_for(*, yes: bool, no: bool) -> AnyApprover:
    """The approver for `--yes` and `--no`; without either, a prompt if there is a terminal."""
    if yes and no:
        raise click.UsageError("--yes and --no contradict each other: give one of them")
    if yes:
        return approve_all
    if no:
        return reject_all
    if not stderr_screen().is_terminal:
        return ask_later
    try:
        os.close(os.open(TERMINAL, os.O_RDONLY))
    except OSError:
        return ask_later
    return TerminalPrompt()


async def approve_all(request: ApprovalRequest, _context: ToolContext) -> Answer | None:
    """`--yes`: approves; `None` for a form with a required field that has no default."""
    if (form := _form_of(request)) is None:
        return Once()
    return Once() if all(form.child(name).keywords.get("default") is not None for name in form.required) else None


def _form_of(request: ApprovalRequest) -> SchemaType | None:
    """The schema of a question's form, or `None`."""
    payload: Any = request.payload
    form = payload.get("form") if is_object(payload) and len(payload) == 1 else None
    return SchemaType(form, form) if SchemaType(form, form).properties else None


async def reject_all(_request: ApprovalRequest, _context: ToolContext) -> Answer:
    """`--no`: rejects."""
    return Reject()


class TerminalPrompt:
    """Approver that asks on standard error and reads from the terminal, even if standard input is redirected."""

    one_at_a_time: Final = True

    def approve(self, request: ApprovalRequest, context: ToolContext) -> Answer | None:
        """Shows the request and reads the answer; `None` if the terminal is closed."""
        del context  # the request has everything
        with hide_status(), suppress(OSError):
            if (rejected := show_request(request)) is not None:
                return rejected
            asking = approval_questions(request)
            # Not `sys.stdin`: a thread that reads it holds a lock that the interpreter needs at exit.
            with Path(TERMINAL).open("rb", buffering=0) as terminal:
                flush_input(terminal.fileno())
                write_error(next(asking))
                while line := terminal.readline(MOST_LINE):
                    try:
                        write_error(asking.send(line.decode(errors="replace")))
                    except StopIteration as ended:
                        return ended.value
        return None


def show_request(request: ApprovalRequest) -> Reject | None:
    """Writes a request to standard error; one that is too long to be read is rejected instead."""
    if _form_of(request) is not None:  # `approval_questions` shows the fields; answering a form permits nothing
        bare = attrs.evolve(request.call, arguments="{}")
        request = attrs.evolve(request, call=bare, permission="", patterns=(), reason="", payload=None)
    text = request.to_text()
    if len(text) > MOST_SHOWN:
        write_note(f"{request.call.name}: too long to be approved ({len(text):,} characters)")
        return Reject(f"It is too long to be approved: {len(text):,} characters. Do it in smaller parts.")
    screen = stderr_screen()
    for number, line in enumerate(text.split("\n")):
        style = _DIFF.get(line[2:3], "") if number and line.startswith("  ") else "" if number else "bold"
        write_error("".join(screen.styled(part, style) + "\n" for part in wrap_exactly(line, screen.width)))
    return None


def approval_questions(request: ApprovalRequest) -> Generator[str, str, Answer]:
    """Questions about a request, as a generator: yields prompts, receives lines, and returns the answer."""
    form = _form_of(request)
    if form is not None:
        return (yield from _form_dialogue(form))
    always = "  a  always in this run, as shown\n" if request.always else ""
    wider = "  w  wider in this run, as shown\n" if request.wider else ""
    for _ in range(TRIES):
        line = yield f"Run it?\n  y  yes\n{always}{wider}  n  no (n and a reason tells the model why)\n> "
        answer = answer_of(line, may_always=bool(request.always), wider=request.wider)
        if answer is not None:
            return answer
    return Reject()


def _form_dialogue(form: SchemaType) -> Generator[str, str, Answer]:
    """Asks for the fields of a form; invalid input becomes a rejection with the user's words."""
    from pegboard.schema.validator import validator_of  # which loads jsonschema-rs

    answers, words = dict[str, Any](), list[str]()
    for name, field in form.properties.items():
        item = field.item(0) if "array" in field.types and not field.is_open else None
        choices, default = (item or field).members, field.keywords.get("default")
        options = f" [{', '.join(map(str, choices))}]" if choices else ""
        title = f"{field.keywords.get('title') or name}{options}"
        usual = "" if default is None else f" (Enter: {default})"
        line = yield visible(f"{title}{', several with commas' if item else ''}{usual}: ")
        if text := line.strip():
            words.append(text)
            parts = [convert_text(part.strip(), item) for part in text.split(",")] if item else None
            answers[name] = parts or convert_text(text, field)
        elif default is not None:
            answers[name] = default
    fits = not validator_of(json_text(form.schema)).problems(answers)
    return Once(answers) if fits else Reject(" / ".join(words) or None)


def wrap_exactly(line: str, width: int | None) -> Iterator[str]:
    """Breaks a line to the screen's width, all spaces included; continuation lines are indented, to look like such."""
    start, room = 0, width or sys.maxsize
    for place, character in enumerate(line):
        room -= cells(character)
        if room < 0:
            yield line[start:place] if start == 0 else _CONTINUED + line[start:place]
            start, room = place, max((width or 0) - len(_CONTINUED), 2) - cells(character)
    yield line if start == 0 else _CONTINUED + line[start:]


def flush_input(terminal: int) -> None:
    """Discards input typed before the question was shown: it isn't an answer to it."""
    try:
        import termios
    except ImportError:  # Windows
        return
    with suppress(termios.error):
        termios.tcflush(terminal, termios.TCIFLUSH)


def answer_of(line: str, *, may_always: bool, wider: Sequence[str] = ()) -> Answer | None:
    """Parses a line into an answer: `y`, `a`, `w`, `n`, or `n` and a reason; `None` for anything else."""
    word, _, rest = line.strip().partition(" ")
    match word.lower().rstrip(",:;."):
        case "y" | "yes" if not rest:
            return Once()
        case "a" | "always" if may_always and not rest:
            return Always()
        case "w" | "wider" if wider and not rest:
            return Always(wider)
        case "n" | "no":
            return Reject(rest.strip() or None)
        case _:
            return None


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in a new event loop, like `asyncio.run`, but with a limit on the shutdown.

    `asyncio.run` waits without limit for tasks that ignore cancellation, and for threads of `asyncio.to_thread`.
    """
    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        if _has_ended(runner.get_loop()):
            runner.close()
        else:
            asyncio.set_event_loop(None)  # closing would block; the process is about to end


def has_left_threads() -> bool:
    """Whether threads are running that would keep the process alive."""
    main = threading.main_thread()
    return any(thread is not main and not thread.daemon and thread.is_alive() for thread in threading.enumerate())


def _has_ended(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancels tasks and joins the threads of `asyncio.to_thread`; returns whether all end within `GRACE_SECONDS`."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=GRACE_SECONDS))
    executor = getattr(loop, "_default_executor", None)
    if executor is not None:
        executor.shutdown(wait=False, cancel_futures=True)
    threads: Iterable[threading.Thread] = tuple(getattr(executor, "_threads", ()))
    until = monotonic() + GRACE_SECONDS
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))
    return not (asyncio.all_tasks(loop) or any(thread.is_alive() for thread in threads))


@contextmanager
def handle_interrupts(end: Callable[[], None]) -> Generator[None]:
    """Handles the first Ctrl-C, SIGTERM or SIGHUP gracefully; the next one has its previous handler.

    Args:
        end: Ends the work; called in the event loop.
    """
    loop = asyncio.get_running_loop()
    with ExitStack() as handled:

        def interrupt() -> None:
            handled.close()
            end()

        for number in (getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)):
            handler = signal.getsignal(number)
            if handler in (None, signal.SIG_IGN):  # `nohup` ignores SIGHUP
                continue
            try:
                loop.add_signal_handler(number, interrupt)
            except (NotImplementedError, ValueError, RuntimeError):  # Windows; not the main thread
                break
            handled.callback(signal.signal, number, handler)
            handled.callback(loop.remove_signal_handler, number)
        yield


@contextmanager
def intercept_exits() -> Generator[None]:
    """Turns `os._exit` in a tool into `SystemExit`, which fails the call only; forked processes really exit."""
    original, own = os._exit, os.getpid()

    def leave(status: int) -> NoReturn:
        if os.getpid() != own:
            original(status)
        raise SystemExit(status)

    os._exit = leave
    try:
        yield
    finally:
        os._exit = original


async def run_calls(
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    resolved: ResolvedTools,
    context: ReadonlyContext,
    listener: Callable[[CallEvent], None] | None = None,
    **options: Any,
) -> Outcome:
    """Runs calls as one batch, with progress on the status line.

    At Ctrl-C, SIGTERM or SIGHUP running calls are aborted and the rest is skipped: each still has a result. A second
    signal ends the command at once. The options are those of `ToolRegistry.batch`.
    """
    with Status() as status:
        ended, unwritten = 0, list[OSError]()

        def listen(event: CallEvent) -> None:
            nonlocal ended
            if isinstance(event, CallEnded):
                ended += 1
                if len(calls) > 1:
                    status.show(f"{ended} of {len(calls)} calls", ended / len(calls))
            elif isinstance(event, CallUpdated) and event.progress is None and event.title is not None:
                status.show(f"{event.name}: {event.title}")
            else:
                show_progress(status, event)
            if listener is not None and not unwritten:
                try:
                    listener(event)
                except OSError as error:  # the reader has closed the pipe: further results are useless
                    unwritten.append(error)
                    batch.interrupt("cancelled", "abort")

        batch = await registry.batch(calls, resolved, context, listener=listen, results=UNLIMITED, **options)
        with handle_interrupts(lambda: batch.interrupt("interrupted", "abort")), intercept_exits():
            outcome = await batch.run()
        if unwritten:
            raise unwritten[0]
        operations = registry.operations
        if ending := [each for each in operations.pending if each.is_background or not operations.is_stored]:
            names = ", ".join(sorted({operation.tool for operation in ending}))
            lost = f"results of {names} are lost, as the command ends before they arrive"
            write_note(f"{len(ending)} pending: {lost}")
        texts = {pending.call.id: unanswered_text(pending) for pending in outcome.pending}
        results = [  # a call can't be confirmed after the command has ended: the text names the option to add
            ToolResult.error("confirmation_required", texts.get(call.id, result.text))
            if result.kind == "confirmation_required"
            else result
            for call, result in outcome
        ]
        return attrs.evolve(outcome, results=tuple(results))


def unanswered_text(pending: PendingCall) -> str:
    """The error text of a call that needs an answer when there is no terminal."""
    name = pending.call.name
    if pending.subject == "question":
        asks = f"{name} asks, but there is no terminal to answer in: {pending.hint}"
        return f"{asks}\nRun it in a terminal, or answer yes with --yes."
    return f"{name} needs confirmation and was not run. To run it, add --yes."


def show_progress(status: Status, event: Any) -> None:
    """Shows a call and its progress on the status line."""
    if isinstance(event, CallRunning):
        status.show(f"calling {event.name}")
    elif isinstance(event, CallUpdated) and event.progress is not None:
        text = f"{event.name}: {event.message}" if event.message else event.name
        status.show(text, event.progress / event.total if event.total else None)


def write_event(event: Any) -> None:
    """Writes an event as a line of JSON, even while standard output is redirected."""
    write_unbuffered(json_line(event.to_json()))
