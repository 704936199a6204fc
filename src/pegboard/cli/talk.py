"""`Talk`: a turn as a person follows it: the answer on standard output, everything else beside it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from pegboard.cli.aside import write_past
from pegboard.cli.progress import Status
from pegboard.cli.render import one_line
from pegboard.cli.screen import Screen, stderr_screen
from pegboard.dispatch.events import CallEnded, CallPending, CallRunning, CallUpdated
from pegboard.messages.response import TextDelta
from pegboard.schema.json import json_text
from pegboard.tools.visible import visible
from pegboard.turn.events import AnswerDelta, Answered, ModelRetried, RoundStarted

if TYPE_CHECKING:
    from pegboard.messages.response import ModelResponse
    from pegboard.turn.events import TurnEvent

MOST_SHOWN: Final = 200
"""Characters of a call's arguments, and of its result, that are shown."""


@define
class Talk:
    """Shows events as they come.

    Attributes:
        status: The line that tells what is going on, where standard error is a terminal.
        speaks: Whether the answer is written as it comes; else somebody writes it at the end.
        screen: What standard error can show.
    """

    status: Status
    speaks: bool = True
    screen: Screen = field(factory=stderr_screen)
    _spoken: bool = field(default=False, init=False)
    _open: bool = field(default=False, init=False)

    def hear(self, event: TurnEvent) -> None:
        """Shows one event."""
        if isinstance(event, RoundStarted):
            self._spoken = False
            self.status.show(f"asking {event.request.model or 'the model'}")
        elif isinstance(event, AnswerDelta):
            if isinstance(event.delta, TextDelta):
                self._say(event.delta.text)
        elif isinstance(event, Answered):
            self._say_rest(event.response)
        elif isinstance(event, ModelRetried):
            self._aside(f"the model can't answer now ({event.cause}); again in {event.pause:.1f} s", "yellow")
        else:
            self._hear_call(event)

    def _hear_call(self, event: Any) -> None:
        if isinstance(event, CallPending):
            self._aside(f"-> {event.name} {_shown(event.arguments)}", "bold")
        elif isinstance(event, CallRunning):
            self.status.show(f"calling {event.name}")
        elif isinstance(event, CallUpdated) and event.progress is not None:
            text = f"{event.name}: {event.message}" if event.message else event.name
            self.status.show(text, event.progress / event.total if event.total else None)
        elif isinstance(event, CallEnded):
            style = "red" if event.result.is_error else "dim"
            self._aside(f"<- {event.name}: {_cut(event.result.text or _kinds(event.result.content))}", style)

    def end(self) -> None:
        """Ends the line that the answer stands in."""
        if self._open:
            write_past("\n")
            self._open = False

    def _say_rest(self, response: ModelResponse) -> None:
        """The answer of a model that doesn't stream; and the end of the line of one that does."""
        if not self._spoken:
            self._say(response.text)
        self.end()

    def _say(self, text: str) -> None:
        if not text:
            return
        self._spoken = True
        if self.speaks:
            self.status.clear()
            write_past(visible(text, newlines=True))
            self._open = not text.endswith("\n")

    def _aside(self, text: str, style: str) -> None:
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


__all__ = ["Talk"]
