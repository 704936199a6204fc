"""`registry chat`: one turn of a model that may call the tools."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from pegboard.cli.completion import complete_model
from pegboard.cli.conversation import ChatRenderer, check_place, read_conversation, write_conversation
from pegboard.cli.options import Options, call_options, context_of, read_rules, tool_options, with_timeout
from pegboard.cli.output import json_line, json_pretty, remark
from pegboard.cli.prompt import approver_for
from pegboard.cli.run import interruptible
from pegboard.cli.session import Session, open_session
from pegboard.cli.terminal import Status, write, write_through
from pegboard.request.model_request import ModelRequest
from pegboard.turn.api import turn_of
from pegboard.turn.options import TurnLimits

if TYPE_CHECKING:
    from pegboard.messages.message import Message
    from pegboard.request.model_request import Model
    from pegboard.tools.context import ReadonlyContext
    from pegboard.turn.events import TurnEvent, TurnOutcome
    from pegboard.turn.loop import Turn

MOST_INPUT: Final = 10_000_000
WELL: Final = ("answered", "results", "stopped", "escalated", "transferred")
"""The ends of a turn that are no failure."""


@click.command("chat")
@click.argument("prompt", nargs=-1)
@click.option(
    "-m",
    "--model",
    "model",
    metavar="PROVIDER/MODEL",
    envvar="PEGBOARD_MODEL",
    required=True,
    shell_complete=complete_model,
    help="The model, such as 'openai/gpt-5'; default: PEGBOARD_MODEL.",
)
@click.option("--where", metavar="PREDICATE", help="Only tools of which this is so, as in 'registry list'.")
@click.option("--system", metavar="TEXT", help="Instructions that stand before the conversation.")
@click.option("--history", metavar="FILE", help="Go on with the conversation in FILE, and keep it there.")
@click.option("--rounds", type=click.IntRange(1), default=50, show_default=True, help="Ask the model so often at most.")
@click.option("--events", is_flag=True, help="Print each event as it happens, one JSON object a line.")
@click.option("--json", "as_json", is_flag=True, help="Print what came of the turn as JSON, and no answer before it.")
@click.option("--user", metavar="NAME", help="For this user.")
@click.option("--agent", metavar="NAME", help="For this agent.")
@click.option("--state", metavar="K=V", multiple=True, help="With this in the session's state; K:=JSON too.")
@call_options
@tool_options
@click.pass_obj
def chat_command(  # noqa: PLR0913  one an option, by name
    options: Options,
    *,
    prompt: tuple[str, ...],
    model: str,
    where: str | None,
    system: str | None,
    history: str | None,
    rounds: int,
    events: bool,
    as_json: bool,
    user: str | None,
    agent: str | None,
    state: tuple[str, ...],
    yes: bool,
    no: bool,
    rules: str | None,
    timeout: float | None,
) -> int:
    """Ask a model, which may call the tools.

    PROMPT, or standard input, is what it is asked. The answer comes on standard output, piece by piece; the calls that
    it makes, and what they gave, on standard error. What has to be confirmed is asked about in a terminal. At Ctrl-C
    the turn ends; the conversation so far is kept in --history.

    Models come from plugins, such as pegboard-openai. The exit code is 1 where there is no answer.
    """
    if events and as_json:
        raise click.UsageError("--events and --json print different things: give one of them")
    prompted = _prompt(prompt)
    before = () if history is None else _history(history)
    session = open_session(options)
    read_rules(session.registry, rules)
    request = ModelRequest(before, instructions=system or ()).with_messages(prompted)
    context = context_of(user, agent, None, None, state)
    how = with_timeout({"approver": approver_for(yes=yes, no=no), "limits": TurnLimits(rounds=rounds)}, timeout)
    how["where"] = session.where(where)
    renderer = ChatRenderer(Status(), streams=not (events or as_json))
    outcome = _run_turn(session, model, request, context, how, renderer=renderer, history=history, events=events)
    if as_json:
        write(json_pretty(outcome.to_json()))
    return _exit_code(outcome)


def _history(history: str) -> tuple[Message, ...]:
    check_place(history)
    return read_conversation(history)


def _prompt(words: tuple[str, ...]) -> str:
    """What the model is asked: the words, or standard input, or both.

    Raises:
        click.UsageError: There is neither.
    """
    text = " ".join(word for word in words if word != "-")
    piped = not words or "-" in words
    if piped and not sys.stdin.isatty():
        read = sys.stdin.read(MOST_INPUT + 1)
        if len(read) > MOST_INPUT:
            raise click.UsageError(f"standard input has more than {MOST_INPUT:,} characters")
        text = f"{text}\n\n{read}" if text else read
    if not text.strip():
        raise click.UsageError('nothing is asked: registry chat -m PROVIDER/MODEL "..."')
    return text


def _run_turn(  # noqa: PLR0913  the options of the command
    session: Session,
    name: str,
    request: ModelRequest,
    context: ReadonlyContext,
    how: dict[str, Any],
    *,
    renderer: ChatRenderer,
    history: str | None,
    events: bool,
) -> TurnOutcome:
    """Runs the turn; keeps the conversation however it ends."""

    async def work() -> TurnOutcome:
        model = session.registry.model(name)
        turn = turn_of(model, request, session.registry, context, **how)
        try:
            with renderer.status, interruptible(turn.interrupt):
                await _follow(turn, renderer, events=events)
        finally:
            renderer.end()
            await _closed(model)
            if history is not None and turn.outcome is not None:
                write_conversation(history, turn.outcome.messages)
        assert turn.outcome is not None
        return turn.outcome

    return session.run(work)


async def _follow(turn: Turn, renderer: ChatRenderer, *, events: bool) -> None:
    async for event in turn.events():
        renderer.on_event(event)
        if events:
            _print(event)


def _print(event: TurnEvent) -> None:
    """One line for one event, at once."""
    write_through(json_line(event.to_json()))


async def _closed(model: Model) -> None:
    close = getattr(model, "aclose", None)
    if close is not None:
        await close()


def _exit_code(outcome: TurnOutcome) -> int:
    """Says why there is no answer, where there is none; gives the exit code."""
    if outcome.ended in WELL:
        return 0
    if outcome.ended == "suspended":
        names = ", ".join(sorted({call.call.name for call in outcome.pending}))
        remark(f"{names} has to be confirmed and was not run. To run it, add --yes.")
        return 1
    remark(f"the turn ended: {outcome.ended}{f' ({outcome.detail})' if outcome.detail else ''}")
    return 130 if outcome.ended in ("interrupted", "cancelled") else 1
