"""A conversation with a model that may call tools, saved in a file after each turn if one is given."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

import click
from attrs import define, evolve, field, frozen

from pegboard import (
    Message,
    Model,
    ModelRequest,
    ReadonlyContext,
    ToolRegistry,
    Turn,
    TurnOutcome,
)
from pegboard.cli import handle_interrupts, unanswered_text, write_note
from pegboard.errors import PendingError
from pegboard.events import MessageAdded, RoundStarted
from pegboard.files import os_error_text, read_bounded, write_atomic
from pegboard.typing import JsonObject
from pegboard_chat.renderer import ChatRenderer

MOST_BYTES: Final = 100_000_000
FORMAT: Final = 1
MOST_ID: Final = 200  # characters of a session's id
SUCCESSFUL: Final = ("answered", "results", "stopped", "escalated", "transferred")  # ends of a turn with exit code 0


@frozen
class SavedConversation:
    """The content of a conversation file.

    Attributes:
        messages: The messages, oldest first.
        suspended: The last turn, if its calls wait for the user; or `None`.
        session: The conversation's id; a new one if it has none.
        state: The session's state, such as the agents that work in the background and can be resumed.
    """

    messages: tuple[Message, ...] = ()
    suspended: TurnOutcome | None = None
    session: str = field(factory=lambda: f"chat_{uuid4().hex}")
    state: Mapping[str, Any] = field(factory=dict[str, Any])


def read_conversation(file: str) -> SavedConversation:
    """Reads a conversation that will be saved in the same file; an empty one if that doesn't exist.

    Raises:
        click.UsageError: The file can't be read, isn't a conversation, or is in a folder that isn't writable.
    """
    folder = Path(file).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise click.UsageError(f"{file} can't be written: {folder} isn't a writable folder")
    try:
        data: Any = json.loads(read_bounded(file, MOST_BYTES))
    except FileNotFoundError:
        return SavedConversation()
    except OSError as error:
        raise click.UsageError(f"{file} can't be read: {os_error_text(error)}") from None
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file} isn't valid JSON: {error}") from None
    facts = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if (found := facts.get("format", FORMAT)) != FORMAT:
        raise click.UsageError(f"{file} has format {found!r}; this pegboard knows format {FORMAT}")
    listed: object = facts.get("messages") if "format" in facts else None
    if not isinstance(listed, list):
        raise click.UsageError(f"{file} isn't a conversation saved by pegboard")
    try:
        messages = tuple(Message.from_json(each) for each in cast("list[object]", listed))
        suspended = TurnOutcome.from_json(facts["suspended"]) if facts.get("suspended") else None
    except (ValueError, PendingError) as error:
        raise click.UsageError(f"{file} isn't a valid conversation: {error}") from None
    return SavedConversation(messages, suspended, **_read_session(file, facts))


def _read_session(file: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The session's id, if the file has one, and its state."""
    own = {name: facts[name] for name in ("session", "state") if facts.get(name) is not None}
    session, state = own.get("session", "?"), own.get("state", {})
    if not isinstance(session, str) or not 0 < len(session) <= MOST_ID:
        raise click.UsageError(f"{file} isn't a valid conversation: session must be a text of 1-{MOST_ID} characters")
    if not isinstance(state, dict):
        raise click.UsageError(f"{file} isn't a valid conversation: state must be an object")
    return own


def write_conversation(
    file: str,
    messages: Sequence[Message],
    suspended: TurnOutcome | None = None,
    session: str | None = None,
    state: Mapping[str, Any] | None = None,
) -> None:
    """Writes a conversation atomically; only the file's owner can read it.

    Raises:
        click.ClickException: It can't be written.
    """
    data: JsonObject = {"format": FORMAT, "messages": [each.to_json() for each in messages]}
    if session is not None:
        data["session"] = session
    if state:
        data["state"] = dict(state)
    if suspended is not None:
        data["suspended"] = suspended.to_json()
    try:
        write_atomic(file, json.dumps(data).encode(), mode=0o600)
    except OSError as error:
        raise click.ClickException(f"{file} can't be written: {os_error_text(error)}") from None


@define(eq=False)
class Conversation:
    """A conversation with a model, turn by turn.

    Attributes:
        model: The model.
        registry: The registry of tools.
        request: The instructions and the messages so far.
        context: The user, the session and its state.
        options: Options of turns, as `TurnOptions`.
        renderer: Shows events.
        file: The file that the conversation is saved in, or `None`.
        suspended: The last turn, if its calls wait for the user; or `None`.
        listen: Called with each event, or `None`.
    """

    model: Model
    registry: ToolRegistry
    request: ModelRequest
    context: ReadonlyContext
    options: dict[str, Any]
    renderer: ChatRenderer
    file: str | None = None
    suspended: TurnOutcome | None = None
    listen: Callable[[Any], None] | None = None

    async def send(self, text: str) -> TurnOutcome:
        """Runs a turn with a message of the user; calls of a suspended turn are abandoned."""
        self.request, self.suspended = self.request.with_messages(text), None
        return await self._run(Turn(self.model, self.request, self.registry, self.context, **self.options))

    async def resume(self, answers: Mapping[str, Any], results: Mapping[str, Any]) -> TurnOutcome:
        """Resumes the suspended turn.

        Args:
            answers: Call id -> answer, for calls that wait for an approval.
            results: Call id -> result, for calls that wait for their result.
        """
        assert self.suspended is not None
        turn = Turn(
            self.model,
            self.request,
            self.registry,
            self.context,
            resume=self.suspended,
            answers=answers,
            tool_results=results,
            **self.options,
        )
        return await self._run(turn)

    def tell(self, text: str) -> None:
        """Adds a message of the host, which the model reads next, also in a turn that is suspended now; saves both.

        Raises:
            click.ClickException: The file can't be written.
        """
        message = Message.system(text)
        self.request = self.request.with_messages(message)
        if self.suspended is not None:
            self.suspended = self.suspended.evolve(messages=(*self.suspended.messages, message))
        self.save()

    def save(self) -> None:
        """Writes the conversation to its file, if it has one.

        Raises:
            click.ClickException: It can't be written.
        """
        if self.file is not None:
            context = self.context
            write_conversation(self.file, self.request.messages, self.suspended, context.session, context.state)

    async def _run(self, turn: Turn) -> TurnOutcome:
        try:
            with self.renderer.status, handle_interrupts(turn.interrupt):
                async for event in turn.events():
                    self.renderer.on_event(event)
                    if self.suspended is None and isinstance(event, RoundStarted | MessageAdded):
                        if isinstance(event, MessageAdded):
                            self.request = self.request.with_messages(event.message)
                        with suppress(click.ClickException):  # for a process that is killed; reported at the end
                            self.save()
                    if self.listen is not None:
                        self.listen(event)
        finally:
            self.renderer.end()
            if turn.outcome is not None:  # saved even if the turn raised
                self._update(turn.outcome)
        assert turn.outcome is not None
        return turn.outcome

    def _update(self, outcome: TurnOutcome) -> None:
        self.request = self.request.evolve(messages=outcome.messages)
        self.context = evolve(self.context, state=dict(outcome.state))
        self.suspended = outcome if outcome.ended in ("suspended", "pending") else None
        self.save()


@asynccontextmanager
async def closing(model: Any) -> AsyncGenerator[Any]:
    """Closes the model at the end, if it has `aclose`."""
    try:
        yield model
    finally:
        close = getattr(model, "aclose", None)
        if close is not None:
            await close()


def report_end(outcome: TurnOutcome) -> int:
    """Reports why a turn has no answer; returns the exit code."""
    if outcome.ended in SUCCESSFUL:
        return 0
    if outcome.ended == "suspended":
        for text in sorted({unanswered_text(call) for call in outcome.pending}):
            write_note(text)
        return 1
    detail = "" if outcome.detail in (None, outcome.ended) else f" ({outcome.detail})"
    write_note(f"the turn ended: {outcome.ended}{detail}")
    return 130 if outcome.ended in ("interrupted", "cancelled") else 1
