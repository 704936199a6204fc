"""`registry chat`: one turn of a model with tools, or, in a terminal, a conversation with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from attrs import evolve

from pegboard import Model, ModelRequest, Once, Reject, TurnLimits
from pegboard.cli import (
    Options,
    Status,
    approver_for,
    call_options,
    context_of,
    json_pretty,
    open_session,
    read_stdin,
    stderr_screen,
    stdin_is_terminal,
    tool_options,
    where_option,
    write,
    write_event,
)
from pegboard.json import strict_json
from pegboard_chat.conversation import Conversation, SavedConversation, closing, read_conversation, report_end
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
    shell_complete=complete_model,
    help="The model, such as 'openai/gpt-5'; default: PEGBOARD_MODEL, then 'model' of [plugins.chat].",
)
@where_option
@click.option("--system", metavar="TEXT", help="Instructions for the model.")
@click.option(
    "--history", metavar="FILE", type=click.Path(), help="Continue the conversation in FILE, and save it to FILE."
)
@click.option(
    "--schema",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Answer with a JSON value that matches the JSON Schema in FILE.",
)
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Maximum number of model requests.",
)
@click.option("--events", is_flag=True, help="Print events as they happen, as JSON lines.")
@click.option("--json", "as_json", is_flag=True, help="Print the turn's outcome as JSON instead of the answer.")
@click.option("--user", metavar="NAME", help="Resolve tools for this user.")
@click.option("--agent", metavar="NAME", help="Resolve tools for this agent.")
@click.option("--state", metavar="K=V", multiple=True, help="Set K in the session state; also K:=JSON.")
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
    """Chat with a model that can call tools.

    The prompt is PROMPT or standard input. Without a prompt, in a terminal, it starts a conversation; there, /help
    lists commands. The answer is streamed to standard output, calls and their results to standard error. In a
    terminal, you are asked before a call that needs confirmation. Ctrl-C ends the turn; --history saves the
    conversation so far.

    'registry models' lists the available models. Exits with 1 if there is no answer.
    """
    if events and as_json:
        raise click.UsageError("--events and --json contradict each other: give one of them")
    saved = SavedConversation() if history is None else read_conversation(history)
    interactive = not (prompt or events or as_json or schema) and stdin_is_terminal() and stderr_screen().is_terminal
    resumes = saved.suspended is not None and (yes or no) and not prompt
    text = "" if interactive or resumes else _prompt(prompt)
    session = open_session(options)
    session.read_rules(rules)
    name = model or default_model(session)
    how: dict[str, Any] = {"limits": TurnLimits(rounds=rounds), "where": session.where(where), "timeout": timeout}
    if schema is not None:
        how["output_type"] = _schema(schema)
    approver = approver_for(yes=yes, no=no)
    request = ModelRequest(saved.messages, instructions=system or ())
    context = context_of(user, agent, None, None, state)
    context = evolve(context, session=saved.session, state={**saved.state, **context.state})

    async def work() -> TurnOutcome | None:
        async with closing(client_of(session, name)) as responder:
            session.registry.provide(Model, responder)
            conversation = Conversation(
                responder,
                session.registry,
                request,
                context,
                {**how, "approver": approver},
                ChatRenderer(Status(), streams=not (events or as_json or schema)),
                history,
                saved.suspended,
                write_event if events else None,
            )
            if interactive:
                from pegboard_chat.interactive import InteractiveChat, terminal

                await InteractiveChat(conversation, session, terminal(), asks=not (yes or no)).run()
                return None
            if resumes:
                assert saved.suspended is not None
                answers = {call.id: Once() if yes else Reject() for call in saved.suspended.pending}
                return await conversation.resume(answers, {})
            return await conversation.send(text)

    outcome = session.run(work)
    if outcome is None:
        return 0
    if as_json:
        write(json_pretty(outcome.to_json()))
    elif schema is not None and outcome.ended == "answered":
        write(json_pretty(outcome.output) + "\n")
    return report_end(outcome)


def _schema(file: Path) -> dict[str, Any]:
    """Reads a JSON Schema of an object.

    Raises:
        click.UsageError: The file can't be read, or isn't one.
    """
    try:
        schema: Any = strict_json(file.read_bytes())
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{file} can't be read as JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "object":  # pyright: ignore[reportUnknownMemberType]  JSON of any kind
        raise click.UsageError(f'{file} isn\'t a JSON Schema with "type": "object"')
    return schema  # pyright: ignore[reportUnknownVariableType]  JSON of any kind


def _prompt(words: tuple[str, ...]) -> str:
    """The prompt: the words, or standard input, or both."""
    text = " ".join(word for word in words if word != "-")
    if (not words or "-" in words) and not stdin_is_terminal():
        read = read_stdin(MOST_INPUT)
        text = f"{text}\n\n{read}" if text else read
    if not text.strip():
        raise click.UsageError('the prompt is empty: registry chat -m PROVIDER/MODEL "..."')
    return text
