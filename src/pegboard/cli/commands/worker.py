"""`registry worker`: run the calls that an executor brings from other machines, or list what its workers do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from pegboard.cli.log import log_to_stderr
from pegboard.cli.options import FILE_PATH, Options, tool_options, where_option
from pegboard.cli.output import json_pretty, rows_text, stdout_screen, write, write_note
from pegboard.cli.run import handle_interrupts
from pegboard.cli.session import Session, open_session
from pegboard.dispatch.state import HERE
from pegboard.errors import PegboardError, cause_of
from pegboard.json import count_text
from pegboard.worker import DEFAULT_QUEUE, ExecutorStatus, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATUS_SECONDS: Final = 30.0


@click.command("worker")
@click.option("--executor", "name", metavar="NAME", required=True, help="The executor that brings the calls.")
@click.option("--queue", metavar="NAME", help="Take the calls of this queue; by default, of those that name none.")
@click.option(
    "--max-concurrency",
    type=click.IntRange(1, 1_000),
    default=8,
    show_default=True,
    metavar="N",
    help="Run at most N calls at once.",
)
@click.option("--rules", type=FILE_PATH, metavar="FILE", help="Rules that deny calls, or ask the caller's user.")
@click.option("--status", is_flag=True, help="List the workers, the queues and the running calls instead.")
@click.option("--json", "as_json", is_flag=True, help="With --status: print JSON.")
@where_option
@tool_options
@click.pass_obj
def worker_command(  # noqa: PLR0913, PLR0917  as many as it has options
    options: Options,
    name: str,
    queue: str | None,
    max_concurrency: int,
    rules: str | None,
    status: bool,
    as_json: bool,
    where: str | None,
) -> int:
    """Run calls that come from other machines.

    An executor brings them. Callers decide what may run: whoever can send calls to the executor can run every tool
    that is installed here or in a file of --functions, but for what -T, --where and --rules leave out. SIGTERM or
    Ctrl-C takes no more calls, and lets those that run end.
    """
    if as_json and not status:
        raise click.UsageError("--json is for --status")
    session = open_session(options)
    executor = _executor(session, name, "status" if status else "serve")
    if not options.debug:  # which logs everything
        log_to_stderr()
    if status:
        found = session.run(lambda: _status(name, executor))
        write(json_pretty(found.to_json()) if as_json else "".join(_tables(found)))
        return 0
    session.read_rules(rules)
    queue = getattr(executor, "queue", DEFAULT_QUEUE) if queue is None else queue
    facts: dict[str, Any] = {"queue": queue, "max_concurrency": max_concurrency}

    async def work() -> None:
        try:
            worker = await Worker.of_registry(session.registry, name, where=session.where(where), **facts)
        except (LookupError, ValueError) as error:
            raise click.UsageError(f"{error.args[0]}") from None
        tools = count_text(len(worker.executor.tools()), "tool")
        with handle_interrupts(lambda: _stop(worker)):
            serving = asyncio.ensure_future(_ask(name, executor.serve(worker)))
            started = asyncio.ensure_future(worker.started.wait())
            await asyncio.wait([serving, started], return_when=asyncio.FIRST_COMPLETED)
            if started.done():
                write_note(f"{worker.name} runs calls of {tools}, queue {queue}, at most {max_concurrency} at once.")
            started.cancel()
            await serving

    session.run(work)
    return 0


def _executor(session: Session, name: str, method: str) -> Any:
    """The executor of this name, which must have a method."""
    if name in HERE:
        raise click.UsageError(f"the executor {name!r} has no workers: it runs tools in the program that calls them")
    try:
        executor = session.registry.contributions.executor(name)
    except LookupError as error:
        raise click.UsageError(f"{error.args[0]}") from None
    if not hasattr(executor, method):
        why = "has no workers: it runs tools itself" if method == "serve" else "doesn't tell what its workers do"
        raise click.UsageError(f"the executor {name!r} {why}")
    return executor


async def _ask(name: str, asked: Any) -> Any:
    """What the executor, which comes from a plugin, answers; its failure is an error of the command."""
    try:
        return await asked
    except Exception as error:
        raise PegboardError(f"the executor {name!r} failed: {cause_of(error)}") from error


def _stop(worker: Worker) -> None:
    worker.stopping.set()
    if running := len(worker.running):
        write_note(f"Waiting for {count_text(running, 'call')}. Ctrl-C again ends them now.")


async def _status(name: str, executor: Any) -> ExecutorStatus:
    try:
        async with asyncio.timeout(_STATUS_SECONDS):
            return await _ask(name, executor.status())
    except TimeoutError:
        raise PegboardError(f"the executor {name!r} gave no status within {_STATUS_SECONDS:g} s") from None


def _tables(status: ExecutorStatus) -> Iterator[str]:
    screen = stdout_screen()
    if not status.workers:
        yield "no worker\n"
    else:
        rows = [
            (each.name, each.queue, f"{len(each.running)} of {each.max_concurrency or '?'}") for each in status.workers
        ]
        yield rows_text(("worker", "queue", "running"), rows, screen)
    if status.queues:
        lengths = [(queue, "?" if length is None else f"{length}") for queue, length in status.queues.items()]
        yield "\n" + rows_text(("queue", "waiting"), lengths, screen)
    if calls := [(key, tool, each.name) for each in status.workers for key, tool in each.running.items()]:
        yield "\n" + rows_text(("call", "tool", "worker"), calls, screen)
