"""`registry dispatch`: runs a list of calls as one turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from pegboard.cli.options import (
    Options,
    call_options,
    context_of,
    context_options,
    read_rules,
    tool_options,
    with_timeout,
)
from pegboard.cli.output import json_line, json_rows, remark
from pegboard.cli.prompt import approver_for
from pegboard.cli.run import INTERRUPTED, run_turn
from pegboard.cli.session import Session, open_session
from pegboard.cli.terminal import write, write_through

if TYPE_CHECKING:
    from pegboard.dispatch.batch import Outcome
    from pegboard.dispatch.events import CallEvent
    from pegboard.tools.call import ToolCall
    from pegboard.tools.context import ReadonlyContext

MOST_INPUT: Final = 50_000_000
MOST_CALLS: Final = 100_000


@click.command("dispatch")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--events", is_flag=True, help="Print each event as it happens, one JSON object a line.")
@click.option("--sequential", is_flag=True, help="Run one call after the other.")
@click.option("--max-concurrency", type=click.IntRange(1), metavar="N", help="Run at most N calls at once.")
@call_options
@context_options
@tool_options
@click.pass_obj
def dispatch_command(  # noqa: PLR0913  one an option, by name
    options: Options,
    *,
    file: str,
    events: bool,
    sequential: bool,
    max_concurrency: int | None,
    yes: bool,
    no: bool,
    rules: str | None,
    timeout: float | None,
    **context: Any,
) -> int:
    """Run a model's calls as one turn.

    FILE, or '-' for standard input, holds a JSON list of them:

    \b
    [{"id": "1", "name": "add", "arguments": {"a": 1}}, ...]

    Arguments are an object, or JSON text as models write it. Prints one result for each call, in call order. The exit
    code is 1 if any of them is an error.
    """  # noqa: D301  click's marker is the character itself
    raw = read_calls(file)
    session = open_session(options)
    read_rules(session.registry, rules)
    how = {"sequential": sequential, "max_concurrency": max_concurrency, "approver": approver_for(yes=yes, no=no)}
    outcome = _dispatched(session, raw, context_of(**context), with_timeout(how, timeout), show_events=events)
    if not events:
        write(json_rows(outcome.to_json()))
    return _exit_code(outcome)


def read_calls(file: str) -> list[Any]:
    """The list that a file holds; what its members are, dispatch finds out.

    Raises:
        click.UsageError: It can't be read, or holds no JSON list.
    """
    try:
        with click.open_file(file, "rb") as stream:
            data = stream.read(MOST_INPUT + 1)
    except OSError as error:
        raise click.UsageError(f"{file} can't be read: {error.strerror}") from None
    if len(data) > MOST_INPUT:
        raise click.UsageError(f"{file} has more than {MOST_INPUT:,} bytes")
    from jiter import from_json

    try:
        calls = from_json(data, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="none")
    except ValueError as error:
        raise click.UsageError(f"{file} holds no JSON: {error}") from None
    if not isinstance(calls, list):
        raise click.UsageError(f'{file} holds no list of calls: [{{"id": ..., "name": ..., "arguments": ...}}, ...]')
    if len(calls) > MOST_CALLS:  # pyright: ignore[reportUnknownArgumentType]  JSON of any kind
        raise click.UsageError(f"{file} holds more than {MOST_CALLS:,} calls")
    return calls  # pyright: ignore[reportUnknownVariableType]


def _dispatched(
    session: Session, raw: list[Any], context: ReadonlyContext, how: dict[str, Any], *, show_events: bool
) -> Outcome:
    where = session.where()

    async def work() -> Outcome:
        resolved = await session.registry.resolve(context, where=where)
        calls: list[ToolCall] = [session.registry.parse(each, resolved) for each in raw]
        return await run_turn(session.registry, calls, resolved, context, _print if show_events else None, **how)

    return session.run(work)


def _print(event: CallEvent) -> None:
    """One line for one event, at once, while what tools print goes to standard error."""
    write_through(json_line(event.to_json()))


def _exit_code(outcome: Outcome) -> int:
    if outcome.fatal is not None:
        remark(f"the turn was ended: {outcome.fatal}")
    if outcome.ended in INTERRUPTED:
        return 130
    return 1 if outcome.is_error else 0
