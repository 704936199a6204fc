"""`InteractiveChat`: a conversation in a terminal, with line editing, approvals and commands."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeAlias

import attrs
import click
from attrs import define

from pegboard import Later, PegboardError, Reject
from pegboard.approval import tool_key
from pegboard.cli import (
    approval_questions,
    flush_input,
    hide_status,
    one_line,
    report_error,
    show_request,
    stderr_screen,
    tools_text,
    write_note,
)
from pegboard.errors import did_you_mean, suggest
from pegboard.files import user_folder
from pegboard_chat.conversation import Conversation, read_conversation, report_end
from pegboard_chat.turns import diff_text, run_for_turn, undo_turn

if TYPE_CHECKING:
    from pegboard import ApprovalRequest, ResolvedTools, ToolContext, TurnOutcome
    from pegboard.approval import Answer
    from pegboard.cli import Session


class Prompts(Protocol):
    """Input of the user. Both methods raise `EOFError` at Ctrl-D, and `KeyboardInterrupt` at Ctrl-C."""

    async def read_line(self) -> str:
        """Reads the next message or command."""
        ...

    async def ask(self, question: str) -> str:
        """Asks a question; input typed before it is shown is discarded."""
        ...


def terminal() -> Prompts:
    """Input from this terminal by prompt_toolkit, with a history file of lines."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.input.typeahead import clear_typeahead

    file = Path(user_folder("state"), "chat-lines")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))  # only its owner can read it
    lines: PromptSession[str] = PromptSession(
        "> ", history=FileHistory(file), completer=WordCompleter([*COMMANDS], sentence=True)
    )
    questions: PromptSession[str] = PromptSession()

    class TerminalPrompts:
        async def read_line(self) -> str:
            return await lines.prompt_async()

        async def ask(self, question: str) -> str:
            flush_input(questions.input.fileno())
            clear_typeahead(questions.input)
            return await questions.prompt_async(question, handle_sigint=False)

    return TerminalPrompts()


@define(eq=False)
class InteractiveChat:
    """Read-eval loop of a conversation; also the approver of its calls.

    Attributes:
        conversation: The conversation with the model.
        session: The session of the command.
        prompts: Input of the user.
        asks: Whether the user is asked about calls; otherwise the conversation's options have the approver.
    """

    one_at_a_time: ClassVar[bool] = True
    conversation: Conversation
    session: Session
    prompts: Prompts
    asks: bool = True

    async def run(self) -> None:
        """Runs until the user ends the conversation."""
        if self.asks:
            self.conversation.options["approver"] = self
        write_note(f"Chatting with {self.conversation.model.name}. /help lists commands; Ctrl-D ends the conversation.")
        await self._report_errors(self.resume("") if self.conversation.suspended else None)
        while True:
            try:
                line = (await self.prompts.read_line()).strip()
            except KeyboardInterrupt:  # the line is dropped
                continue
            except EOFError:
                return
            if line == "/exit":
                return
            await self._report_errors(self._handle(line) if line else None)

    async def approve(self, request: ApprovalRequest, _context: ToolContext | None) -> Answer:
        """Shows a request and asks; Ctrl-D postpones the answer, which suspends the turn."""
        with hide_status():
            rejected = show_request(request)
            if rejected is not None:
                return rejected
            asking = approval_questions(request)
            try:
                question = next(asking)
                while True:
                    shown = question.replace("\n> ", "\n  l  later\n> ")
                    line = await self.prompts.ask(shown)
                    if shown != question and line.strip().lower() in ("l", "later"):
                        return Later()
                    question = asking.send(line)
            except StopIteration as ended:
                return ended.value
            except KeyboardInterrupt:
                return Reject()
            except EOFError:
                return Later()

    async def _report_errors(self, work: Awaitable[None] | None) -> None:
        """Awaits something; an error is reported and doesn't end the conversation."""
        try:
            if work is not None:
                await work
        except (PegboardError, click.ClickException, OSError) as error:
            report_error(error, self.session.options)

    async def _handle(self, line: str) -> None:
        """Runs a line as a command, or sends it to the model."""
        word, _, rest = line.partition(" ")
        command = COMMANDS.get(word)
        if command is not None:
            await command[0](self, rest.strip())
        elif re.fullmatch(r"/\w+", word):
            write_note(f"no command is called {word}.{did_you_mean(suggest(word, COMMANDS))} /help lists them.")
        else:
            await self._report(await self.conversation.send(line))

    async def _report(self, outcome: TurnOutcome) -> None:
        """Reports how a turn ended; asks for the results that it waits for."""
        if outcome.ended == "suspended":
            names = ", ".join(sorted({call.call.name for call in outcome.pending}))
            write_note(f"{names}: waiting for your answer. /resume asks again; any other message abandons it.")
        elif outcome.ended == "pending":
            await self.resume("")
        else:
            report_end(outcome)

    async def resume(self, _rest: str) -> None:
        """Asks for the answers and results that the suspended turn waits for, and resumes it."""
        suspended = self.conversation.suspended
        if suspended is None:
            write_note("no call is waiting for an answer")
            return
        offered = {tool_key(tool): tool for tool in await self._resolve_tools()}
        answers = {
            call.id: await self.approve(attrs.evolve(call, tool=offered.get(call.spec_digest)), None)
            for call in suspended.pending
        }
        answers = {id_: answer for id_, answer in answers.items() if not isinstance(answer, Later)}
        results: dict[str, str] = {}
        for call in suspended.for_host:
            write_note(one_line(f"-> {call.name} {call.arguments}"))
            try:
                result = await self.prompts.ask("Its result (empty: later): ")
            except (EOFError, KeyboardInterrupt):
                break
            if result.strip():
                results[call.id] = result
        if answers or results:
            await self._report(await self.conversation.resume(answers, results))

    async def show_tools(self, _rest: str) -> None:
        """Lists the tools offered to the model."""
        write_note(tools_text((await self._resolve_tools()).tools, stderr_screen()), is_visible=True)

    async def _resolve_tools(self) -> ResolvedTools:
        conversation = self.conversation
        return await conversation.registry.resolve(conversation.context, where=conversation.options.get("where"))

    async def set_where(self, rest: str) -> None:
        """Offers only tools that match a predicate from now on, or all."""
        self.conversation.options["where"] = self.session.where(rest or None)
        await self.show_tools("")

    async def save(self, rest: str) -> None:
        """Saves the conversation in a file, now and after each message; only a saved conversation is overwritten."""
        if rest:
            read_conversation(rest)
            self.conversation.file = rest
        if self.conversation.file is None:
            raise click.UsageError("no file is given: /save FILE")
        self.conversation.save()
        write_note(f"saved in {self.conversation.file}, which is updated from now on")

    async def show_diff(self, rest: str) -> None:
        """Shows what a turn has changed in files."""
        text = await run_for_turn(diff_text, self.conversation.context, rest)
        write_note(text, is_visible=True)

    async def undo(self, rest: str) -> None:
        """Makes files as they were before a turn, and lets the model know."""
        text, model_note = await run_for_turn(undo_turn, self.conversation.context, rest)
        write_note(text, is_visible=True)
        if model_note:
            self.conversation.tell(model_note)

    async def help(self, _rest: str) -> None:
        """Lists the commands."""
        write_note("".join(f"{name:<8} {text}\n" for name, (_, text) in COMMANDS.items()))


_Command: TypeAlias = Callable[[InteractiveChat, str], Awaitable[None]]


async def end(_chat: InteractiveChat, _rest: str) -> None:
    """Does nothing: `run` handles `/exit`."""


COMMANDS: Final[Mapping[str, tuple[_Command, str]]] = {
    "/tools": (InteractiveChat.show_tools, "List the tools offered to the model."),
    "/where": (InteractiveChat.set_where, "Offer only tools that match: /where read_only. Alone: all."),
    "/resume": (InteractiveChat.resume, "Ask again about waiting calls, and resume the turn."),
    "/diff": (InteractiveChat.show_diff, "Show which files the last turn has changed: /diff; the one before: /diff 2."),
    "/undo": (InteractiveChat.undo, "Undo the changes of files by the last turn: /undo; the one before: /undo 2."),
    "/save": (InteractiveChat.save, "Save the conversation in a file: /save FILE."),
    "/help": (InteractiveChat.help, "List the commands."),
    "/exit": (end, "End the conversation."),
}
