"""The child process of one of llm's plugins, seen from here: its start, its calls and its end."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final

from attrs import define, field

from pegboard.json import size_text
from pegboard.programs import OutputBuffer, RunningProgram
from pegboard_llm.packages import Package
from pegboard_llm.worker import JOB

LOAD_SECONDS: Final = 60.0
"""How long a plugin may take to load, and to make its toolboxes."""

_MOST_ANSWER: Final = 64 << 20
_MOST_PRINTED: Final = 8_192
_PAUSE: Final = 0.01
_PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; sys.argv[:] = ['llm']; from pegboard_llm.worker import main; main()"
)


class WorkerError(Exception):
    """A child process didn't answer."""


@define(eq=False)
class _Answers(OutputBuffer):
    """The answers of a child process, by the number of the call; the first one, its tools, is that of `None`."""

    by_call: dict[int | None, dict[str, Any]] = field(factory=dict[int | None, dict[str, Any]], init=False)
    fault: str | None = field(default=None, init=False)
    _part: bytearray = field(factory=bytearray, init=False)

    def add(self, data: bytes) -> None:
        """Reads output."""
        with self.lock:
            self.size += len(data)
            self._part += data
            if b"\n" in data:
                *lines, rest = self._part.split(b"\n")
                self._part = bytearray(rest)
                for line in lines:
                    self._read(line)
            if len(self._part) > self.most:
                self.fault = f"it answered more than {size_text(self.most)}"
                self._part.clear()

    def _read(self, line: bytearray) -> None:
        try:
            answer: dict[str, Any] = json.loads(line)
            self.by_call[answer.get("id")] = answer
        except (ValueError, AttributeError, TypeError, RecursionError):
            self.fault = "its answer isn't JSON"


class Worker:
    """Child process that has loaded a plugin, and runs its tools. Its methods may be used in any thread and loop.

    A thread of it can't be stopped: once a call was cancelled, it takes no more calls, and ends after those that run.

    Args:
        package: The plugin.
        specs: Its toolboxes in the settings.
    """

    def __init__(self, package: Package, specs: Sequence[str]) -> None:
        job = {"name": package.name, "value": package.value, "toolboxes": [*specs]}
        path = [os.path.abspath(each) for each in sys.path if each]  # noqa: PTH100  texts
        self._answers = _Answers(_MOST_ANSWER)
        self._program = RunningProgram(
            [sys.executable, "-P", "-c", _PROGRAM, *path],
            self._answers,
            errors=OutputBuffer(_MOST_PRINTED, 0),
            env={**os.environ, JOB: json.dumps(job)},
            stdin=None,
        )
        self._program.start()
        self._numbers = count()
        self._calls: set[int] = set()
        self._unsent = bytearray()
        self._is_retired = False

    @property
    def is_usable(self) -> bool:
        """Whether it takes calls."""
        return not (self._is_retired or self._program.is_over or self._answers.fault)

    @property
    def output_tail(self) -> str:
        """The end of what it has printed."""
        return self._program.errors.tail.decode(errors="replace") if self._program.errors is not None else ""

    def end(self) -> None:
        """Kills it, with all that it has started."""
        self._program.end(now=True)

    async def load(self) -> dict[str, Any]:
        """The plugin's tools, as `worker.load` gives them.

        Raises:
            WorkerError: There is no answer in time, or none at all.
        """
        return await self._answer(None, LOAD_SECONDS)

    async def call(self, tool: str, arguments: Mapping[str, Any], call_id: str) -> dict[str, Any]:
        """The result of a call, as `worker.run_tool` gives it.

        Raises:
            WorkerError: It has ended without an answer.
        """
        number = next(self._numbers)
        self._calls.add(number)
        try:
            await self.load()
            line = {"id": number, "tool": tool, "arguments": dict(arguments), "call_id": call_id}
            await self._send(json.dumps(line).encode() + b"\n")
            return await self._answer(number, None)
        except asyncio.CancelledError:
            self._is_retired = True
            raise
        finally:
            self._calls.discard(number)
            self._answers.by_call.pop(number, None)
            if self._is_retired and not self._calls:
                self.end()

    async def _answer(self, call: int | None, seconds: float | None) -> dict[str, Any]:
        answers = self._answers
        await self._program.until(lambda: call in answers.by_call or answers.fault is not None, seconds)
        if (answer := answers.by_call.get(call)) is not None:
            return answer
        if answers.fault is None and not self._program.is_over:
            self.end()
            raise WorkerError(f"it took longer than {seconds:g} s")
        self.end()
        if answers.fault is not None:
            raise WorkerError(answers.fault)
        failure, code = self._program.failure, self._program.code
        raise WorkerError(
            f"it ended the process (exit code {code})" if failure is None else f"it can't start: {failure}"
        )

    async def _send(self, line: bytes) -> None:
        self._unsent += line  # in one operation: calls may come from several threads
        with suppress(BrokenPipeError):
            while self._unsent:
                with self._answers.lock:
                    sent = self._program.write(bytes(self._unsent[:65536]))
                    del self._unsent[:sent]
                if not sent:
                    await asyncio.sleep(_PAUSE)
