"""`registry chat`: one turn of a model that may call the tools, shown as it comes, kept in a file."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click
from attrs import define, field

from pegboard.cli.options import Options, call_options, context_of, tool_options, with_timeout
from pegboard.cli.output import Screen, Status, json_pretty, one_line, remark, stderr_screen, write, write_through
from pegboard.cli.run import approver_for, interruptible, show_progress, write_event
from pegboard.cli.session import complete_model, open_session
from pegboard.dispatch.events import CallEnded, CallPending
from pegboard.files import read_bounded, reason, write_whole
from pegboard.messages import Message, TextDelta
from pegboard.request.model_request import Model, ModelRequest
from pegboard.schema.json import json_text
from pegboard.tools.visible import visible
from pegboard.turn.events import AnswerDelta, Answered, MessageAdded, ModelRetried, RoundStarted
from pegboard.turn.loop import turn_of
from pegboard.turn.options import TurnLimits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pegboard.turn.events import TurnEvent, TurnOutcome

MOST_BYTES: Final = 100_000_000
FORMAT: Final = 1
MOST_SHOWN: Final = 200  # characters of a call's arguments, and of its result, that are shown


def read_conversation(file: str) -> tuple[Message, ...]:
    """The messages that a file holds; none where there is no such file yet.

    Raises:
        click.UsageError: It can't be read, or holds no conversation.
    """
    try:
        data: Any = json.loads(read_bounded(file, MOST_BYTES))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise click.UsageError(f"{file} can't be read: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file} holds no JSON: {error}") from None
    facts = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    listed: object = facts.get("messages") if facts.get("format") == FORMAT else None
    if not isinstance(listed, list):
        raise click.UsageError(f"{file} holds no conversation that this pegboard has written")
    try:
        return tuple(Message.from_json(each) for each in cast("list[object]", listed))
    except ValueError as error:
        raise click.UsageError(f"{file} holds no conversation: {error}") from None


def check_place(file: str) -> None:
    """Looks whether the conversation can be kept there, before anything is asked.

    Raises:
        click.UsageError: Nothing can be written there.
    """
    folder = Path(file).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise click.UsageError(f"{file} can't be written: {folder} is no folder that may be written to")


def write_conversation(file: str, messages: Sequence[Message]) -> None:
    """Puts the conversation into the file, all of it or nothing; only its owner can read it.

    Raises:
        click.ClickException: It can't be written.
    """
    text = json.dumps({"format": FORMAT, "messages": [each.to_json() for each in messages]})
    try:
        write_whole(file, text.encode(), mode=0o600)
    except OSError as error:
        raise click.ClickException(f"{file} can't be written: {reason(error)}") from None


@define
class ChatRenderer:
    """Shows events as they come.

    Attributes:
        status: The line that shows what is going on, where standard error is a terminal.
        streams: Whether the answer is written as it comes; else the caller writes it at the end.
        screen: What standard error can show.
    """

    status: Status
    streams: bool = True
    screen: Screen = field(factory=stderr_screen)
    _written: bool = field(default=False, init=False)
    _open: bool = field(default=False, init=False)

    def on_event(self, event: TurnEvent) -> None:
        """Shows one event."""
        if isinstance(event, RoundStarted):
            self._written = False
            self.status.show(f"asking {event.request.model or 'the model'}")
        elif isinstance(event, AnswerDelta):
            if isinstance(event.delta, TextDelta):
                self._write(event.delta.text)
        elif isinstance(event, Answered):
            if not self._written:  # the model doesn't stream
                self._write(event.response.text)
            self.end()
        elif isinstance(event, ModelRetried):
            self._remark(f"the model can't answer now ({event.cause}); again in {event.pause:.1f} s", "yellow")
        elif isinstance(event, CallPending):
            arguments: Any = event.arguments
            text = arguments if isinstance(arguments, str) else str(json_text(dict(arguments)))
            self._remark(f"-> {event.name} {_cut(text)}", "bold")
        elif isinstance(event, CallEnded):
            kinds = ", ".join(f"[{item.type}]" for item in event.result.content) or "nothing"
            style = "red" if event.result.is_error else "dim"
            self._remark(f"<- {event.name}: {_cut(event.result.text or kinds)}", style)
        else:
            show_progress(self.status, event)

    def end(self) -> None:
        """Ends the line that the answer stands in."""
        if self._open:
            write_through("\n")
            self._open = False

    def _write(self, text: str) -> None:
        if not text:
            return
        self._written = True
        if self.streams:
            self.status.clear()
            write_through(visible(text, newlines=True))
            self._open = not text.endswith("\n")

    def _remark(self, text: str, style: str) -> None:
        self.status.clear()
        self.end()
        sys.stderr.write(self.screen.styled(one_line(text), style) + "\n")
        sys.stderr.flush()


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


MOST_INPUT: Final = 10_000_000
WELL: Final = ("answered", "results", "stopped", "escalated", "transferred")  # the ends of a turn that are no failure


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
    if history is not None:
        check_place(history)
    before = () if history is None else read_conversation(history)
    session = open_session(options)
    session.read_rules(rules)
    request = ModelRequest(before, instructions=system or ()).with_messages(prompted)
    context = context_of(user, agent, None, None, state)
    how = with_timeout({"approver": approver_for(yes=yes, no=no), "limits": TurnLimits(rounds=rounds)}, timeout)
    how["where"] = session.where(where)
    renderer, messages = ChatRenderer(Status(), streams=not (events or as_json)), [*request.messages]

    async def work() -> TurnOutcome:
        responder = session.registry.model(model)
        session.registry.provide(Model, responder)
        turn = turn_of(responder, request, session.registry, context, **how)
        try:
            with renderer.status, interruptible(turn.interrupt):
                async for event in turn.events():
                    renderer.on_event(event)
                    if history is not None and isinstance(event, RoundStarted | MessageAdded):
                        messages.extend([event.message] if isinstance(event, MessageAdded) else [])
                        with suppress(click.ClickException):  # the process may be killed; at the end it is told
                            write_conversation(history, messages)
                    if events:
                        write_event(event)
        finally:
            renderer.end()
            close = getattr(responder, "aclose", None)
            if close is not None:
                await close()
            if history is not None and turn.outcome is not None:  # it is kept however the turn ends
                write_conversation(history, turn.outcome.messages)
        assert turn.outcome is not None
        return turn.outcome

    outcome = session.run(work)
    if as_json:
        write(json_pretty(outcome.to_json()))
    return _exit_code(outcome)


def _prompt(words: tuple[str, ...]) -> str:
    """What the model is asked: the words, or standard input, or both."""
    text = " ".join(word for word in words if word != "-")
    if (not words or "-" in words) and not sys.stdin.isatty():
        read = sys.stdin.read(MOST_INPUT + 1)
        if len(read) > MOST_INPUT:
            raise click.UsageError(f"standard input has more than {MOST_INPUT:,} characters")
        text = f"{text}\n\n{read}" if text else read
    if not text.strip():
        raise click.UsageError('nothing is asked: registry chat -m PROVIDER/MODEL "..."')
    return text


def _exit_code(outcome: TurnOutcome) -> int:
    """Reports why there is no answer, where there is none; gives the exit code."""
    if outcome.ended in WELL:
        return 0
    if outcome.ended == "suspended":
        names = ", ".join(sorted({call.call.name for call in outcome.pending}))
        remark(f"{names} has to be confirmed and was not run. To run it, add --yes.")
        return 1
    remark(f"the turn ended: {outcome.ended}{f' ({outcome.detail})' if outcome.detail else ''}")
    return 130 if outcome.ended in ("interrupted", "cancelled") else 1
