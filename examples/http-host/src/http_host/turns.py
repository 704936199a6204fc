"""The turns of a host, with their states and events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from attrs import define, field, frozen

from pegboard import Model, ModelRequest, ReadonlyContext, ToolRegistry, Turn, TurnOutcome
from pegboard.approval import ask_later
from pegboard.events import TurnEnded


class ConflictError(Exception):
    """The turn isn't in a state that allows this."""


@define(eq=False)
class RunningTurn:
    """One turn, from its request to its end, suspensions included.

    Attributes:
        id: The id in its URL, also the session of its approvals.
        outcome: Its outcome; `None` while it runs.
        events: Its events as JSON, oldest first.
    """

    id: str
    outcome: TurnOutcome | None = None
    events: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    turn: Turn | None = field(default=None, init=False)
    task: asyncio.Task[None] | None = field(default=None, init=False)
    _changed: asyncio.Event = field(factory=asyncio.Event, init=False)

    @property
    def context(self) -> ReadonlyContext:
        """The context of its tools. A real host also sets the logged-in user."""
        return ReadonlyContext(session=self.id)

    def to_json(self) -> dict[str, Any]:
        """The turn for clients: the state, the answer, and the calls that wait for an approval."""
        if self.outcome is None:
            return {"id": self.id, "state": "running"}
        waiting = [
            {
                "id": each.id,
                "tool": each.call.name,
                "arguments": each.call.arguments,
                # Hidden characters are already escaped as \u{...} in it.
                "summary": each.preview.summary if each.preview else None,
            }
            for each in self.outcome.pending
        ]
        return {"id": self.id, "state": self.outcome.ended, "text": self.outcome.text, "waiting": waiting}

    def add(self, event: dict[str, Any]) -> None:
        """Stores an event, and wakes the followers."""
        self.events.append(event)
        self._changed.set()
        self._changed = asyncio.Event()

    async def follow(self, start: int = 0) -> AsyncGenerator[tuple[int, dict[str, Any]]]:
        """Yields the number and the event, from `start` on, until the turn ends or is suspended."""
        while True:
            changed = self._changed
            while start < len(self.events):
                yield start, self.events[start]
                start += 1
            if self.outcome is not None:
                return
            await changed.wait()


@frozen
class Turns:
    """All turns of the host; ended and suspended ones are stored in files, so that they survive a restart.

    Attributes:
        registry: The tools.
        model: The model.
        folder: The folder of the files. If others can write there, give `dumps` and `loads` a `key`.
    """

    registry: ToolRegistry
    model: Model
    folder: Path
    _turns: dict[str, RunningTurn] = field(factory=dict[str, RunningTurn], init=False)

    def find(self, id_: str) -> RunningTurn | None:
        """The turn with this id, from memory or from its file."""
        if id_ not in self._turns and self._file(id_).exists():
            outcome = TurnOutcome.loads(self._file(id_).read_bytes())
            self._turns[id_] = RunningTurn(id_, outcome, [TurnEnded(outcome).to_json()])
        return self._turns.get(id_)

    def start(self, text: str) -> RunningTurn:
        """Starts a turn with the user's message."""
        running = self._turns.setdefault(id_ := str(uuid4()), RunningTurn(id_))
        self._run(running, Turn(self.model, text, self.registry, running.context, approver=ask_later))
        return running

    def resume(self, running: RunningTurn, answers: Mapping[str, Any]) -> None:
        """Resumes a suspended turn.

        Args:
            running: The turn.
            answers: By the waiting call's id, such as `{"answer": "once"}` or `{"answer": "reject"}`. They may come in
                parts; unknown ones are ignored.

        Raises:
            ConflictError: No call is waiting.
        """
        before = running.outcome
        if before is None or not len(before.pending):
            raise ConflictError("nothing waits for an approval")
        running.outcome = None  # it is running now: a second answer at the same time is a conflict
        turn = Turn(
            self.model,
            ModelRequest(),
            self.registry,
            running.context,
            resume=before,
            answers=answers,
            approver=ask_later,
        )
        self._run(running, turn)

    async def cancel(self, running: RunningTurn) -> None:
        """Ends a turn now; its history is complete, each call has a result.

        Raises:
            ConflictError: It isn't running.
        """
        if running.outcome is not None or running.turn is None or running.task is None:
            raise ConflictError("the turn isn't running")
        running.turn.interrupt("cancelled by the client")
        await asyncio.wait([running.task])

    async def close(self) -> None:
        """Ends all running turns."""
        for running in self._turns.values():
            if running.outcome is None:
                await self.cancel(running)

    def _run(self, running: RunningTurn, turn: Turn) -> None:
        running.turn = turn
        running.task = asyncio.create_task(self._follow(running, turn))

    async def _follow(self, running: RunningTurn, turn: Turn) -> None:
        """Runs a turn to its end, and stores its events."""
        try:
            async for event in turn.events():
                if isinstance(event, TurnEnded):
                    running.outcome = event.outcome
                running.add(event.to_json())
                if isinstance(event, TurnEnded):
                    self._save(running.id, event.outcome)
        except Exception:  # also in its outcome, which is "failed"
            logging.getLogger(__name__).exception("turn %s failed", running.id)

    def _save(self, id_: str, outcome: TurnOutcome) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self._file(id_).with_suffix(".new")
        new.write_text(outcome.dumps(), encoding="utf-8")
        new.replace(self._file(id_))

    def _file(self, id_: str) -> Path:
        return self.folder / f"{id_}.json"
