"""A conversation with a model that may call tools: turn by turn, each kept in a file where one is named."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

import click
from attrs import define, evolve, field, frozen

from pegboard import (
    Message,
    MessageAdded,
    Model,
    ModelRequest,
    PendingError,
    ReadonlyContext,
    RoundStarted,
    ToolRegistry,
    Turn,
    TurnOutcome,
    resumed_turn_of,
    turn_of,
)
from pegboard.cli.output import remark
from pegboard.cli.run import interruptible, unanswered
from pegboard.files import read_bounded, reason, write_whole
from pegboard.typing import JsonObject
from pegboard_chat.renderer import ChatRenderer

MOST_BYTES: Final = 100_000_000
FORMAT: Final = 1
WELL: Final = ("answered", "results", "stopped", "escalated", "transferred")  # the ends of a turn that are no failure


@frozen
class Kept:
    """What a file holds of a conversation.

    Attributes:
        messages: The messages, oldest first.
        suspended: The last turn, where calls of it wait for a person; or `None`.
    """

    messages: tuple[Message, ...] = ()
    suspended: TurnOutcome | None = None


def read_conversation(file: str) -> Kept:
    """What a file holds; nothing where there is no such file yet.

    Raises:
        click.UsageError: It can't be read, or holds no conversation.
    """
    try:
        data: Any = json.loads(read_bounded(file, MOST_BYTES))
    except FileNotFoundError:
        return Kept()
    except OSError as error:
        raise click.UsageError(f"{file} can't be read: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file} holds no JSON: {error}") from None
    facts = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if (found := facts.get("format", FORMAT)) != FORMAT:
        raise click.UsageError(f"{file} has format {found!r}; this pegboard knows format {FORMAT}")
    listed: object = facts.get("messages") if "format" in facts else None
    if not isinstance(listed, list):
        raise click.UsageError(f"{file} holds no conversation that this pegboard has written")
    try:
        messages = tuple(Message.from_json(each) for each in cast("list[object]", listed))
        suspended = TurnOutcome.from_json(facts["suspended"]) if facts.get("suspended") else None
    except (ValueError, PendingError) as error:
        raise click.UsageError(f"{file} holds no conversation: {error}") from None
    return Kept(messages, suspended)


def check_place(file: str) -> None:
    """Looks whether the conversation can be kept there, before anything is asked.

    Raises:
        click.UsageError: Nothing can be written there.
    """
    folder = Path(file).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise click.UsageError(f"{file} can't be written: {folder} is no folder that may be written to")


def write_conversation(file: str, messages: Sequence[Message], suspended: TurnOutcome | None = None) -> None:
    """Puts the conversation into the file, all of it or nothing; only its owner can read it.

    Raises:
        click.ClickException: It can't be written.
    """
    data: JsonObject = {"format": FORMAT, "messages": [each.to_json() for each in messages]}
    if suspended is not None:
        data["suspended"] = suspended.to_json()
    try:
        write_whole(file, json.dumps(data).encode(), mode=0o600)
    except OSError as error:
        raise click.ClickException(f"{file} can't be written: {reason(error)}") from None


def _nothing(_event: Any) -> None:
    """Listener of a turn that shows nothing."""


@define(eq=False)
class Conversation:
    """A conversation with a model; its turns run one after the other.

    Attributes:
        model: Answers.
        registry: The tools.
        request: The conversation so far, and the instructions before it.
        context: Of the user; its state is the session's.
        options: As `TurnOptions`: which tools, who approves, how much.
        renderer: Shows each turn as it comes.
        file: Where the conversation is kept, or `None`.
        suspended: The last turn, where calls of it wait for a person; or `None`.
        listen: Gets each event.
    """

    model: Model
    registry: ToolRegistry
    request: ModelRequest
    context: ReadonlyContext
    options: dict[str, Any]
    renderer: ChatRenderer
    file: str | None = None
    suspended: TurnOutcome | None = None
    listen: Callable[[Any], None] = field(default=_nothing)

    async def say(self, text: str) -> TurnOutcome:
        """Runs a turn with what the user says. Calls that wait for a person are left as they are, and don't run."""
        self.request, self.suspended = self.request.with_messages(text), None
        return await self._run(turn_of(self.model, self.request, self.registry, self.context, **self.options))

    async def resume(self, answers: Mapping[str, Any], results: Mapping[str, Any]) -> TurnOutcome:
        """Goes on with the suspended turn.

        Args:
            answers: By the id of a call that waits for an approval.
            results: By the id of a call that waits for its result.
        """
        assert self.suspended is not None
        turn = resumed_turn_of(
            self.model,
            self.request,
            self.registry,
            self.context,
            suspended=self.suspended,
            answers=answers,
            tool_results=results,
            **self.options,
        )
        return await self._run(turn)

    def save(self) -> None:
        """Writes the conversation to its file, where it has one.

        Raises:
            click.ClickException: It can't be written.
        """
        if self.file is not None:
            write_conversation(self.file, self.request.messages, self.suspended)

    async def _run(self, turn: Turn) -> TurnOutcome:
        try:
            with self.renderer.status, interruptible(turn.interrupt):
                async for event in turn.events():
                    self.renderer.on_event(event)
                    if self.suspended is None and isinstance(event, RoundStarted | MessageAdded):
                        if isinstance(event, MessageAdded):
                            self.request = self.request.with_messages(event.message)
                        with suppress(click.ClickException):  # the process may be killed; at the end it is told
                            self.save()
                    self.listen(event)
        finally:
            self.renderer.end()
            if turn.outcome is not None:  # it is kept however the turn ends
                self._take(turn.outcome)
        assert turn.outcome is not None
        return turn.outcome

    def _take(self, outcome: TurnOutcome) -> None:
        self.request = self.request.evolve(messages=outcome.messages)
        self.context = evolve(self.context, state=dict(outcome.state))
        self.suspended = outcome if outcome.ended in ("suspended", "pending") else None
        self.save()


@asynccontextmanager
async def closing(model: Any) -> AsyncGenerator[Any]:
    """Closes the model at the end, where it can be."""
    try:
        yield model
    finally:
        close = getattr(model, "aclose", None)
        if close is not None:
            await close()


def report_end(outcome: TurnOutcome) -> int:
    """Reports why there is no answer, where there is none; gives the exit code."""
    if outcome.ended in WELL:
        return 0
    if outcome.ended == "suspended":
        for text in sorted({unanswered(call) for call in outcome.pending}):
            remark(text)
        return 1
    detail = "" if outcome.detail in (None, outcome.ended) else f" ({outcome.detail})"
    remark(f"the turn ended: {outcome.ended}{detail}")
    return 130 if outcome.ended in ("interrupted", "cancelled") else 1
