"""`Talk`: a conversation in a terminal, with lines that can be edited, approvals in between, and commands."""

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
from pegboard.cli.output import one_line, quiet, remark, report_error, stderr_screen, tools_text
from pegboard.cli.run import dialogue, flush_input, show_request
from pegboard.dispatch.approval.grants import tool_key
from pegboard.errors import did_you_mean, suggest
from pegboard.files import user_folder
from pegboard_chat.conversation import Conversation, check_place, report_end

if TYPE_CHECKING:
    from pegboard import ApprovalRequest, ResolvedTools, ToolContext, TurnOutcome
    from pegboard.cli.session import Session
    from pegboard.dispatch.approval.request import Answer


class Person(Protocol):
    """The person at the terminal. Both methods raise `EOFError` at Ctrl-D, and `KeyboardInterrupt` at Ctrl-C."""

    async def says(self) -> str:
        """What they say next."""
        ...

    async def answers(self, question: str) -> str:
        """What they answer; what was typed before the question was shown doesn't count."""
        ...


def terminal() -> Person:
    """The person at this terminal, by prompt_toolkit; what they say is remembered from one conversation to the next."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.input.typeahead import clear_typeahead

    file = Path(user_folder("state"), "chat-lines")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))  # only its owner reads it
    lines: PromptSession[str] = PromptSession(
        "> ", history=FileHistory(file), completer=WordCompleter([*COMMANDS], sentence=True)
    )
    questions: PromptSession[str] = PromptSession()

    class AtTerminal:
        async def says(self) -> str:
            return await lines.prompt_async()

        async def answers(self, question: str) -> str:
            flush_input(questions.input.fileno())
            clear_typeahead(questions.input)
            return await questions.prompt_async(question, handle_sigint=False)

    return AtTerminal()


@define(eq=False)
class Talk:
    """A conversation with a person, who is asked about calls as they come.

    Attributes:
        conversation: With the model.
        session: Of the command.
        person: At the terminal.
        asks: Whether the person approves calls; else what the conversation's options have.
    """

    one_at_a_time: ClassVar[bool] = True
    conversation: Conversation
    session: Session
    person: Person
    asks: bool = True

    async def run(self) -> None:
        """Talks until the person ends it."""
        if self.asks:
            self.conversation.options["approver"] = self
        remark(f"{self.conversation.model.name} listens. /help lists commands; Ctrl-D ends the conversation.")
        await self._carefully(self.go_on("") if self.conversation.suspended else None)
        while True:
            try:
                line = (await self.person.says()).strip()
            except KeyboardInterrupt:  # the line is dropped
                continue
            except EOFError:
                return
            if line == "/exit":
                return
            await self._carefully(self._take(line) if line else None)

    async def approve(self, request: ApprovalRequest, _context: ToolContext | None) -> Answer:
        """Shows a request, and asks; at Ctrl-D the call waits, and the turn is suspended."""
        with quiet():
            rejected = show_request(request)
            if rejected is not None:
                return rejected
            asking = dialogue(request)
            try:
                question = next(asking)
                while True:
                    shown = question.replace(", or n and why", ", n and why, or [l]ater")
                    line = await self.person.answers(shown)
                    if shown != question and line.strip().lower() in ("l", "later"):
                        return Later()
                    question = asking.send(line)
            except StopIteration as ended:
                return ended.value
            except KeyboardInterrupt:
                return Reject()
            except EOFError:
                return Later()

    async def _carefully(self, work: Awaitable[None] | None) -> None:
        """Does something; an error ends it, and not the conversation."""
        try:
            if work is not None:
                await work
        except (PegboardError, click.ClickException, OSError) as error:
            report_error(error, self.session.options)

    async def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        command = COMMANDS.get(word)
        if command is not None:
            await command[0](self, rest.strip())
        elif re.fullmatch(r"/\w+", word):
            remark(f"no command is called {word}.{did_you_mean(suggest(word, COMMANDS))} /help lists them.")
        else:
            await self._settle(await self.conversation.say(line))

    async def _settle(self, outcome: TurnOutcome) -> None:
        """Reports how a turn ended; asks for the results that it waits for."""
        if outcome.ended == "suspended":
            names = ", ".join(sorted({call.call.name for call in outcome.pending}))
            remark(f"{names}: waits for your answer. /resume asks again; whatever else you say leaves it undone.")
        elif outcome.ended == "pending":
            await self.go_on("")
        else:
            report_end(outcome)

    async def go_on(self, _rest: str) -> None:
        """Asks for what the suspended turn waits for, and goes on with it."""
        suspended = self.conversation.suspended
        if suspended is None:
            remark("nothing waits for an answer")
            return
        offered = {tool_key(tool): tool for tool in await self._offered()}
        answers = {
            call.id: await self.approve(attrs.evolve(call, tool=offered.get(call.spec_digest)), None)
            for call in suspended.pending
        }
        answers = {id_: answer for id_, answer in answers.items() if not isinstance(answer, Later)}
        results: dict[str, str] = {}
        for call in suspended.for_host:
            remark(one_line(f"-> {call.name} {call.arguments}"))
            try:
                result = await self.person.answers("Its result (nothing: later): ")
            except (EOFError, KeyboardInterrupt):
                break
            if result.strip():
                results[call.id] = result
        if answers or results:
            await self._settle(await self.conversation.resume(answers, results))

    async def show_tools(self, _rest: str) -> None:
        """Shows the tools that the model is offered."""
        remark(tools_text((await self._offered()).tools, stderr_screen()), is_visible=True)

    async def _offered(self) -> ResolvedTools:
        conversation = self.conversation
        return await conversation.registry.resolve(conversation.context, where=conversation.options.get("where"))

    async def set_where(self, rest: str) -> None:
        """Offers only tools that fit a predicate from now on, or all."""
        self.conversation.options["where"] = self.session.where(rest or None)
        await self.show_tools("")

    async def save(self, rest: str) -> None:
        """Keeps the conversation in a file, now and from now on."""
        if rest:
            check_place(rest)
            self.conversation.file = rest
        if self.conversation.file is None:
            raise click.UsageError("where to? /save FILE")
        self.conversation.save()
        remark(f"kept in {self.conversation.file}, from now on as it grows")

    async def help(self, _rest: str) -> None:
        """Shows the commands."""
        remark("".join(f"{name:<8} {text}\n" for name, (_, text) in COMMANDS.items()))


_Command: TypeAlias = Callable[[Talk, str], Awaitable[None]]


async def end(_talk: Talk, _rest: str) -> None:
    """`run` ends at it."""


COMMANDS: Final[Mapping[str, tuple[_Command, str]]] = {
    "/tools": (Talk.show_tools, "Show the tools that the model is offered."),
    "/where": (Talk.set_where, "Offer only tools that fit: /where read_only. Alone: all."),
    "/resume": (Talk.go_on, "Ask again about calls that wait, and go on with them."),
    "/save": (Talk.save, "Keep the conversation in a file: /save FILE."),
    "/help": (Talk.help, "Show this."),
    "/exit": (end, "End the conversation."),
}
