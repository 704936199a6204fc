"""Running calls from a terminal: confirmed, in an event loop that ends with the command, shown as they go."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import attrs
import click

from pegboard.cli.arguments import SchemaType, typed
from pegboard.cli.output import Status, json_line, quiet, remark, stderr_screen, write_error, write_through
from pegboard.cli.table import cells
from pegboard.dispatch.approval.queue import ask_later
from pegboard.dispatch.approval.request import Always, Answer, Once, Reject
from pegboard.dispatch.events import CallEnded, CallRunning, CallUpdated
from pegboard.schema.json import is_object, json_text
from pegboard.timeout import GRACE_SECONDS
from pegboard.tools.content import ToolResult
from pegboard.tools.spec import ResultLimits
from pegboard.tools.visible import visible

if TYPE_CHECKING:
    from pegboard.dispatch.approval.pending import PendingCall
    from pegboard.dispatch.approval.queue import AnyApprover
    from pegboard.dispatch.approval.request import ApprovalRequest
    from pegboard.dispatch.batch import Outcome
    from pegboard.dispatch.events import CallEvent
    from pegboard.registry import ToolRegistry
    from pegboard.tools.call import ToolCall
    from pegboard.tools.context import ReadonlyContext, ToolContext
    from pegboard.toolsets.resolve import ResolvedTools

TERMINAL: Final = "/dev/tty"
MOST_LINE: Final = 10_000
MOST_SHOWN: Final = 100_000  # characters of a request that a person at a terminal may read to the end
TRIES: Final = 3


def approver_for(*, yes: bool, no: bool) -> AnyApprover:
    """Who is asked: a person only where standard error is a terminal, and there is one to read from."""
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
    """`--yes`; `None` for a form that a yes doesn't fill in: one that needs a field without a default."""
    form = _form_of(request)
    needed = () if form is None else map(form.child, form.required)
    return Once() if all(field.keywords.get("default") is not None for field in needed) else None


def _form_of(request: ApprovalRequest) -> SchemaType | None:
    """The schema of the answer that a question asks for, or `None`."""
    payload: Any = request.payload
    form = payload.get("form") if is_object(payload) and len(payload) == 1 else None
    return SchemaType(form, form) if SchemaType(form, form).properties else None


async def reject_all(_request: ApprovalRequest, _context: ToolContext) -> Answer:
    """`--no`."""
    return Reject()


class TerminalPrompt:
    """The person at the terminal: asked on standard error, answers on the terminal, whatever standard input is."""

    one_at_a_time: Final = True

    def approve(self, request: ApprovalRequest, context: ToolContext) -> Answer | None:
        """Shows what would happen and waits for a line; `None` where the terminal has gone."""
        del context  # the request holds all of it
        with quiet():
            return show_request(request) or self._asked(request)

    def _asked(self, request: ApprovalRequest) -> Answer | None:
        asking = dialogue(request)
        try:
            # Its own descriptor: a thread that waits in `sys.stdin` holds a lock that the interpreter wants at exit.
            with Path(TERMINAL).open("rb", buffering=0) as terminal:
                flush_input(terminal.fileno())
                write_error(next(asking))
                while line := terminal.readline(MOST_LINE):
                    write_error(asking.send(line.decode(errors="replace")))
        except StopIteration as ended:
            return ended.value
        except OSError:
            return None
        return None


def show_request(request: ApprovalRequest) -> Reject | None:
    """Writes a request to standard error; one that is too long to be read isn't, and its rejection comes back."""
    if _form_of(request) is not None:  # `dialogue` shows it field by field, and what it answers allows nothing
        bare = attrs.evolve(request.call, arguments="{}")
        request = attrs.evolve(request, call=bare, permission="", patterns=(), reason="", payload=None)
    text = request.to_text()
    if len(text) > MOST_SHOWN:
        remark(f"{request.call.name}: too long to be approved ({len(text):,} characters)")
        return Reject(f"It is too long to be approved: {len(text):,} characters. Do it in smaller parts.")
    screen = stderr_screen()
    for line in text.split("\n"):
        write_error("".join(screen.styled(part, "bold") + "\n" for part in whole(line, screen.width)))
    return None


def dialogue(request: ApprovalRequest) -> Generator[str, str, Answer]:
    """What a person is asked below a request, one question after the other; is sent each line, and gives the answer."""
    form = _form_of(request)
    if form is not None:
        return (yield from _filled_in(form))
    always = ", [a]lways as shown, in this run" if request.always else ""
    wider = ", [w]ider as shown" if request.wider else ""
    for _ in range(TRIES):
        line = yield f"Run it? [y]es{always}{wider}, [n]o, or n and why: "
        answer = answer_of(line, may_always=bool(request.always), wider=request.wider)
        if answer is not None:
            return answer
    return Reject()


def _filled_in(form: SchemaType) -> Generator[str, str, Answer]:
    """Asks for the fields of a form; where the lines aren't what it takes, they are an answer in other words."""
    from pegboard.schema.validator import validator_of  # which loads jsonschema

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
            parts = [typed(part.strip(), item) for part in text.split(",")] if item else None
            answers[name] = parts or typed(text, field)
        elif default is not None:
            answers[name] = default
    fits = not validator_of(json_text(form.schema)).problems(answers)
    return Once(answers) if fits else Reject(" / ".join(words) or None)


def whole(line: str, width: int | None) -> Iterator[str]:
    """The line in parts that fit a screen; no space is lost, and what goes on is indented: it is no line of its own."""
    start, room = 0, width or sys.maxsize
    for place, character in enumerate(line):
        room -= cells(character)
        if room < 0:
            yield line[start:place] if start == 0 else _GOES_ON + line[start:place]
            start, room = place, max((width or 0) - len(_GOES_ON), 2) - cells(character)
    yield line if start == 0 else _GOES_ON + line[start:]


_GOES_ON: Final = "        "


def flush_input(terminal: int) -> None:
    """Drops what was typed on a terminal before the question was shown: it answers something else."""
    try:
        import termios
    except ImportError:  # Windows, where there is no such terminal
        return
    with suppress(termios.error):
        termios.tcflush(terminal, termios.TCIFLUSH)


def answer_of(line: str, *, may_always: bool, wider: Sequence[str] = ()) -> Answer | None:
    """The answer in a line: `y`, `a`, `w`, `n`, or `n` and why; `None` for anything else."""
    word, _, rest = line.strip().partition(" ")
    word = word.lower().rstrip(",:;.")
    if word in ("y", "yes") and not rest:
        return Once()
    if word in ("a", "always") and not rest and may_always:
        return Always()
    if word in ("w", "wider") and not rest and wider:
        return Always(wider)
    if word in ("n", "no"):
        return Reject(rest.strip() or None)
    return None


T = TypeVar("T")

INTERRUPTED: Final = ("interrupted", "cancelled")  # the outcomes of calls that a signal has ended
WHOLE: Final = ResultLimits(lines=None, bytes=None)
"""A person, or whatever reads the output, gets results whole: there is no model to spare."""

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
        if _has_ended(runner.get_loop()):
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
    """Lets the first Ctrl-C, SIGTERM or SIGHUP end the work in its own way; the next one is what it always was.

    Args:
        end: Ends the work; called in the event loop.
    """
    loop = asyncio.get_running_loop()
    before: dict[int, Any] = {}

    def interrupt() -> None:
        restore()
        end()

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            loop.remove_signal_handler(number)
            signal.signal(number, handler)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        handler = None if number is None else signal.getsignal(number)
        if number is None or handler in (None, signal.SIG_IGN):  # `nohup` has SIGHUP ignored
            continue
        try:
            loop.add_signal_handler(number, interrupt)
        except (NotImplementedError, ValueError, RuntimeError):  # Windows; another thread than the main one
            break
        before[number] = handler
    try:
        yield
    finally:
        restore()


@contextmanager
def exits_kept_back() -> Generator[None]:
    """Has `os._exit` cost the call of the tool that calls it, and not the command; a process that it forks may end."""
    really, own = os._exit, os.getpid()

    def leave(status: int) -> NoReturn:
        if os.getpid() != own:
            really(status)
        raise SystemExit(status)

    os._exit = leave
    try:
        yield
    finally:
        os._exit = really


async def run_calls(
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    resolved: ResolvedTools,
    context: ReadonlyContext,
    listener: Listener | None = None,
    **options: Any,
) -> Outcome:
    """Runs calls as one turn; a line on a terminal's standard error shows how far they are.

    At Ctrl-C, SIGTERM or SIGHUP running calls are aborted and the rest is skipped: each still has its result. A second
    one ends the command at once.

    Args:
        registry: Where the tools are.
        calls: What to run.
        resolved: The tools that they may call.
        context: Of the user and the model.
        listener: Gets each event, or `None`.
        options: As `ToolRegistry.batch` takes them.
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
                except OSError as error:  # the reader has gone: nothing that runs is of use
                    unwritten.append(error)
                    batch.interrupt("cancelled", "abort")

        batch = await registry.batch(calls, resolved, context, listener=listen, results=WHOLE, **options)
        with interruptible(lambda: batch.interrupt("interrupted", "abort")), exits_kept_back():
            outcome = await batch.run()
        if unwritten:
            raise unwritten[0]
        going_on = registry.operations()
        if going_on:
            names = ", ".join(sorted({operation.tool for operation in going_on}))
            remark(f"{len(going_on)} pending: what {names} would answer later is lost, as the command ends now")
        later = {pending.call.id: unanswered(pending) for pending in outcome.pending}
        results = [  # what has to be confirmed, in the words of a command: no one will answer it later
            ToolResult.error("confirmation_required", later.get(call.id, result.text))
            if result.kind == "confirmation_required"
            else result
            for call, result in outcome
        ]
        return attrs.evolve(outcome, results=tuple(results))


def unanswered(pending: PendingCall) -> str:
    """What a call waits for, in the words of a command without a person to answer."""
    name = pending.call.name
    if pending.subject == "question":
        return (
            f"{name} asks, and no person is here to answer: {pending.hint}\nAnswer in a terminal; --yes is a plain yes."
        )
    return f"{name} has to be confirmed and was not run. To run it, add --yes."


def show_progress(status: Status, event: Any) -> None:
    """Shows that a call runs, and how far it is, on the status line."""
    if isinstance(event, CallRunning):
        status.show(f"calling {event.name}")
    elif isinstance(event, CallUpdated) and event.progress is not None:
        text = f"{event.name}: {event.message}" if event.message else event.name
        status.show(text, event.progress / event.total if event.total else None)


def write_event(event: Any) -> None:
    """One line of JSON for one event, at once, while what tools print goes to standard error."""
    write_through(json_line(event.to_json()))
