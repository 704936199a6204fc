"""`registry chat`: one turn of a model that may call the tools, or, in a terminal, a conversation with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pegboard import Model, ModelRequest, Once, Reject, TurnLimits
from pegboard.cli.options import Options, call_options, context_of, tool_options
from pegboard.cli.output import Status, json_pretty, stderr_screen, write
from pegboard.cli.run import approver_for, write_event
from pegboard.cli.session import open_session, where_option
from pegboard_chat.conversation import Conversation, Kept, check_place, closing, read_conversation, report_end
from pegboard_chat.models import client_of, complete_model, default_model
from pegboard_chat.renderer import ChatRenderer

if TYPE_CHECKING:
    from pegboard import TurnOutcome

MOST_INPUT: Final = 10_000_000


@click.command("chat")
@click.argument("prompt", nargs=-1)
@click.option(
    "-m",
    "--model",
    "model",
    metavar="PROVIDER/MODEL",
    envvar="PEGBOARD_MODEL",
    shell_complete=complete_model,
    help="The model, such as 'openai/gpt-5'; default: PEGBOARD_MODEL, then 'model' of [plugins.chat].",
)
@where_option
@click.option("--system", metavar="TEXT", help="Instructions that stand before the conversation.")
@click.option(
    "--history", metavar="FILE", type=click.Path(), help="Go on with the conversation in FILE, and keep it there."
)
@click.option(
    "--schema",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Answer with a JSON value of the JSON Schema in FILE.",
)
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Maximum number of model requests.",
)
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
    model: str | None,
    where: str | None,
    system: str | None,
    history: str | None,
    schema: Path | None,
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
    """Ask a model, which may call the tools; without PROMPT, in a terminal, talk with it.

    PROMPT, or standard input, is what it is asked. The answer comes on standard output, piece by piece; the calls that
    it makes, and what they gave, on standard error. What has to be confirmed is asked about in a terminal. At Ctrl-C
    the turn ends; the conversation so far is kept in --history.

    In a conversation, /help lists what else can be done. Models come from plugins: 'registry models' lists them. The
    exit code is 1 where there is no answer.
    """
    if events and as_json:
        raise click.UsageError("--events and --json print different things: give one of them")
    kept = Kept()
    if history is not None:
        check_place(history)
        kept = read_conversation(history)
    talks = not (prompt or events or as_json or schema) and sys.stdin.isatty() and stderr_screen().is_terminal
    goes_on = kept.suspended is not None and (yes or no) and not prompt
    prompted = "" if talks or goes_on else _prompt(prompt)
    session = open_session(options)
    session.read_rules(rules)
    name = model or default_model(session)
    how: dict[str, Any] = {"limits": TurnLimits(rounds=rounds), "where": session.where(where), "timeout": timeout}
    if schema is not None:
        how["output_type"] = _schema(schema)
    approver = approver_for(yes=yes, no=no)
    request = ModelRequest(kept.messages, instructions=system or ())

    async def work() -> TurnOutcome | None:
        async with closing(client_of(session, name)) as responder:
            session.registry.provide(Model, responder)
            conversation = Conversation(
                responder,
                session.registry,
                request,
                context_of(user, agent, None, None, state),
                {**how, "approver": approver},
                ChatRenderer(Status(), streams=not (events or as_json or schema)),
                history,
                kept.suspended,
                write_event if events else _nothing,
            )
            if talks:
                from pegboard_chat.interactive import Talk, terminal

                await Talk(conversation, session, terminal(), asks=not (yes or no)).run()
                return None
            if goes_on:
                assert kept.suspended is not None
                answers = {call.id: Once() if yes else Reject() for call in kept.suspended.pending}
                return await conversation.resume(answers, {})
            return await conversation.say(prompted)

    outcome = session.run(work)
    if outcome is None:
        return 0
    if as_json:
        write(json_pretty(outcome.to_json()))
    elif schema is not None and outcome.ended == "answered":
        write(json_pretty(outcome.output) + "\n")
    return report_end(outcome)


def _nothing(_event: Any) -> None:
    """Listener of a turn that shows nothing."""


def _schema(file: Path) -> dict[str, Any]:
    """The JSON Schema in a file.

    Raises:
        click.UsageError: It can't be read, or holds none.
    """
    try:
        schema: Any = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{file} holds no JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "object":  # pyright: ignore[reportUnknownMemberType]  JSON of any kind
        raise click.UsageError(f'{file} holds no JSON Schema of an object, which has "type": "object"')
    return schema  # pyright: ignore[reportUnknownVariableType]  JSON of any kind


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
