"""The turns of a host: what runs, what waits for an answer, and what has happened in each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from attrs import define, field, frozen

from pegboard import (
    Model,
    ModelRequest,
    ReadonlyContext,
    ToolRegistry,
    Turn,
    TurnEnded,
    TurnOutcome,
    ask_later,
    resumed_turn_of,
    turn_of,
)


class ConflictError(Exception):
    """The turn isn't in a state that allows this."""


@define(eq=False)
class RunningTurn:
    """One turn, from its request to its end, suspensions included.

    Attributes:
        id: As in its URL; the session that approvals are good for.
        outcome: What came of it; `None` while it runs.
        events: What has happened, as JSON, oldest first.
    """

    id: str
    outcome: TurnOutcome | None = None
    events: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    turn: Turn | None = field(default=None, init=False)
    task: asyncio.Task[None] | None = field(default=None, init=False)
    _changed: asyncio.Event = field(factory=asyncio.Event, init=False)

    @property
    def context(self) -> ReadonlyContext:
        """For whom its tools run. A real host puts the user here who has logged in."""
        return ReadonlyContext(session=self.id)

    def to_json(self) -> dict[str, Any]:
        """What clients see: the state, the answer, and which calls wait for an approval."""
        if self.outcome is None:
            return {"id": self.id, "state": "running"}
        waiting = [
            {
                "id": each.id,
                "tool": each.call.name,
                "arguments": each.call.arguments,
                # Hidden characters are shown as \u{...} in it already.
                "summary": each.preview.summary if each.preview else None,
            }
            for each in self.outcome.pending
        ]
        return {"id": self.id, "state": self.outcome.ended, "text": self.outcome.text, "waiting": waiting}

    def add(self, event: dict[str, Any]) -> None:
        """Keeps an event, and wakes those who follow."""
        self.events.append(event)
        self._changed.set()
        self._changed = asyncio.Event()

    async def follow(self, start: int = 0) -> AsyncGenerator[tuple[int, dict[str, Any]]]:
        """Each event from `start` on, as it comes, with its number; ends when the turn ends or is suspended."""
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
    """All turns of the host. What has ended or waits is in files, so that it outlives the process.

    Attributes:
        registry: The tools.
        model: Which model answers.
        folder: Where the files are. The host alone writes there; else give `dumps` and `loads` a `key`.
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
        """Starts a turn with what the user wrote."""
        running = self._turns.setdefault(id_ := str(uuid4()), RunningTurn(id_))
        self._run(running, turn_of(self.model, text, self.registry, running.context, approver=ask_later))
        return running

    def resume(self, running: RunningTurn, answers: Mapping[str, Any]) -> None:
        """Goes on with a suspended turn.

        Args:
            running: The turn.
            answers: By the waiting call's id, such as `{"answer": "once"}` or `{"answer": "reject"}`. They may come in
                parts; unknown ones change nothing.

        Raises:
            ConflictError: It waits for nothing.
        """
        before = running.outcome
        if before is None or not len(before.pending):
            raise ConflictError("nothing waits for an approval")
        running.outcome = None  # from here on it runs: a second answer at the same time is a conflict
        turn = resumed_turn_of(
            self.model,
            ModelRequest(),
            self.registry,
            running.context,
            suspended=before,
            answers=answers,
            approver=ask_later,
        )
        self._run(running, turn)

    async def cancel(self, running: RunningTurn) -> None:
        """Ends a turn now; its history is complete, each call has a result.

        Raises:
            ConflictError: It doesn't run.
        """
        if running.outcome is not None or running.turn is None or running.task is None:
            raise ConflictError("the turn doesn't run")
        running.turn.interrupt("cancelled by the client")
        await asyncio.wait([running.task])

    async def close(self) -> None:
        """Ends all turns that run."""
        for running in self._turns.values():
            if running.outcome is None:
                await self.cancel(running)

    def _run(self, running: RunningTurn, turn: Turn) -> None:
        running.turn = turn
        running.task = asyncio.create_task(self._follow(running, turn))

    async def _follow(self, running: RunningTurn, turn: Turn) -> None:
        """Runs a turn to its end, and keeps what happens."""
        try:
            async for event in turn.events():
                if isinstance(event, TurnEnded):
                    running.outcome = event.outcome
                running.add(event.to_json())
                if isinstance(event, TurnEnded):
                    self._save(running.id, event.outcome)
        except Exception:  # its outcome has it, too: it ended by "failed"
            logging.getLogger(__name__).exception("turn %s failed", running.id)

    def _save(self, id_: str, outcome: TurnOutcome) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self._file(id_).with_suffix(".new")
        new.write_text(outcome.dumps(), encoding="utf-8")
        new.replace(self._file(id_))

    def _file(self, id_: str) -> Path:
        return self.folder / f"{id_}.json"
