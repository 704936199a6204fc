"""A chat: shown on the terminal as it comes, kept in a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click
from attrs import define, field

from pegboard.cli.output import one_line
from pegboard.cli.terminal import Screen, Status, stderr_screen, write_through
from pegboard.dispatch.events import CallEnded, CallPending, CallRunning, CallUpdated
from pegboard.messages.response import TextDelta
from pegboard.schema.json import json_text
from pegboard.tools.visible import visible
from pegboard.turn.events import AnswerDelta, Answered, ModelRetried, RoundStarted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pegboard.messages.message import Message
    from pegboard.messages.response import ModelResponse
    from pegboard.turn.events import TurnEvent

MOST_BYTES: Final = 100_000_000
FORMAT: Final = 1
MOST_SHOWN: Final = 200
"""Characters of a call's arguments, and of its result, that are shown."""


def read_conversation(file: str) -> tuple[Message, ...]:
    """The messages that a file holds; none where there is no such file yet.

    Raises:
        click.UsageError: It can't be read, or holds no conversation.
    """
    from pegboard.messages.message import Message

    path = Path(file)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise click.UsageError(f"{file} has more than {MOST_BYTES:,} bytes")
        data: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise click.UsageError(f"{file} can't be read: {error.strerror}") from None
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
    import os

    folder = Path(file).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise click.UsageError(f"{file} can't be written: {folder} is no folder that may be written to")


def write_conversation(file: str, messages: Sequence[Message]) -> None:
    """Puts the conversation into the file, all of it or nothing; only its owner can read it.

    Raises:
        click.ClickException: It can't be written.
    """
    import os
    import tempfile

    text = json.dumps({"format": FORMAT, "messages": [each.to_json() for each in messages]})
    path = Path(file)
    try:
        descriptor, new = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(new).replace(path)
        except OSError:
            Path(new).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise click.ClickException(f"{file} can't be written: {error.strerror}") from None


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
            self._write_rest(event.response)
        elif isinstance(event, ModelRetried):
            self._remark(f"the model can't answer now ({event.cause}); again in {event.pause:.1f} s", "yellow")
        else:
            self._on_call(event)

    def _on_call(self, event: Any) -> None:
        if isinstance(event, CallPending):
            self._remark(f"-> {event.name} {_shown(event.arguments)}", "bold")
        elif isinstance(event, CallRunning):
            self.status.show(f"calling {event.name}")
        elif isinstance(event, CallUpdated) and event.progress is not None:
            text = f"{event.name}: {event.message}" if event.message else event.name
            self.status.show(text, event.progress / event.total if event.total else None)
        elif isinstance(event, CallEnded):
            style = "red" if event.result.is_error else "dim"
            self._remark(f"<- {event.name}: {_cut(event.result.text or _kinds(event.result.content))}", style)

    def end(self) -> None:
        """Ends the line that the answer stands in."""
        if self._open:
            write_through("\n")
            self._open = False

    def _write_rest(self, response: ModelResponse) -> None:
        """The answer of a model that doesn't stream; and the end of the line of one that does."""
        if not self._written:
            self._write(response.text)
        self.end()

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


def _shown(arguments: Any) -> str:
    return _cut(arguments if isinstance(arguments, str) else str(json_text(dict(arguments))))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _kinds(content: Any) -> str:
    return ", ".join(f"[{item.to_json()['type']}]" for item in content) or "nothing"
