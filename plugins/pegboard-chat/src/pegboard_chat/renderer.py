"""`ChatRenderer`: streams the answer to standard output, and calls, results and retries to standard error.

Calls of agents are shown, too, their answers aren't.

While a question is open in the terminal, results of other calls are held back.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from pegboard.cli import (
    OPEN_QUESTIONS,
    Screen,
    Status,
    image_escapes,
    one_line,
    show_progress,
    stderr_screen,
    write_unbuffered,
)
from pegboard.events import AnswerDelta, Answered, CallEnded, CallPending, CallUpdated, ModelRetried, RoundStarted
from pegboard.json import json_text
from pegboard.messages import TextDelta
from pegboard.text import visible

if TYPE_CHECKING:
    from pegboard.events import TurnEvent

MOST_SHOWN: Final = 200  # characters shown of a call's arguments, and of its result


@define
class ChatRenderer:
    """Renderer of a turn's events.

    Attributes:
        status: The status line.
        streams: Whether the answer is written as it arrives; otherwise the caller writes it at the end.
        screen: The screen of standard error.
    """

    status: Status
    streams: bool = True
    screen: Screen = field(factory=stderr_screen)
    _written: bool = field(default=False, init=False)
    _open: bool = field(default=False, init=False)
    _held: str = field(default="", init=False)

    def on_event(self, event: TurnEvent) -> None:
        """Shows one event."""
        self._release()
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
            self._remark(f"the model is unavailable ({event.cause}); retrying in {event.pause:.1f} s", "yellow")
        elif not self._show_call(event):
            show_progress(self.status, event)

    def _show_call(self, event: Any, by: str = "") -> bool:
        """Shows the begin or the end of a call, or of one by an agent that a call runs; returns whether it is one."""
        if isinstance(event, CallPending):
            arguments: Any = event.arguments
            text = arguments if isinstance(arguments, str) else str(json_text(dict(arguments)))
            self._remark(f"{by}-> {event.name} {_cut(text)}", "dim" if by else "bold")
        elif isinstance(event, CallEnded):
            kinds = ", ".join(f"[{item.type}]" for item in event.result.content) or "nothing"
            style = "red" if event.result.is_error else "dim"
            text, images = _cut(event.result.text or kinds), "" if by else image_escapes(event.result, self.screen)
            self._remark(f"{by}<- {event.name}: {text}", style, images)
        else:
            inner = event.content if isinstance(event, CallUpdated) else event
            agent = getattr(inner, "agent", None)  # of pegboard-agents, which needn't be installed
            return isinstance(agent, str) and self._show_call(getattr(inner, "event", None), f"{by}{agent} ")
        return True

    def end(self) -> None:
        """Ends the answer's line, and shows what was held back."""
        if self._open:
            write_unbuffered("\n")
            self._open = False
        self._release()

    def _write(self, text: str) -> None:
        if not text:
            return
        self._written = True
        if self.streams:
            self.status.clear()
            write_unbuffered(visible(text, newlines=True))
            self._open = not text.endswith("\n")

    def _remark(self, text: str, style: str, below: str = "") -> None:
        self._held += f"{self.screen.styled(one_line(text), style)}\n{below}"
        self._release()

    def _release(self) -> None:
        if self._held and not OPEN_QUESTIONS:
            held, self._held = self._held, ""
            self.status.clear()
            self.end()
            sys.stderr.write(held)
            sys.stderr.flush()


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
