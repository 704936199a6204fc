"""Long-running operations and their completions as data, and the protocol of a store that processes share."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

import attrs
from attrs import field

from pegboard.dispatch.executors.execution import ExecutionRequest
from pegboard.errors import TurnAbortedError, log_failure
from pegboard.schema.converter import JsonRecord, json_key
from pegboard.tools.content import ToolResult
from pegboard.typing import frozen

T = TypeVar("T")


@frozen
class Operation(JsonRecord):
    """Long-running operation, which continues after the first result of its call.

    Attributes:
        id: The operation's id, which the model sees.
        call_id: The call's id.
        tool: The tool's name.
        session: The conversation's id, or `None`.
        started: Start time in seconds since 1970 (UTC).
        replaces: Whether its result replaces the call's pending one; else it is an additional result.
        is_background: Whether it runs in this process and completes itself; else the host has to complete it.
        user: The call's user, or `None`.
    """

    id: str
    call_id: str
    tool: str
    session: str | None
    started: float
    replaces: bool = True
    is_background: bool = False
    user: str | None = None


@frozen
class Completion(JsonRecord):
    """Completion of a long-running operation: its result or error.

    Attributes:
        operation: The operation.
        result: Its result, validated and truncated as any, as the after callbacks leave it.
        fatal: The error by which they end the turn, or `None`.
    """

    operation: Operation
    result: ToolResult
    fatal: BaseException | None = field(default=None, metadata=json_key(""))

    @property
    def call_id(self) -> str:
        """The call's id."""
        return self.operation.call_id

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.operation.tool

    @property
    def replaces(self) -> bool:
        """Whether it replaces the call's pending result; else it is a separate message."""
        return self.operation.replaces


class OperationStore(Protocol):
    """Store of the operations that hosts complete, for several processes; from `registry.provide` or a plugin.

    A value, or one that a plain factory makes. Called in several threads; may block, and raise anything. What isn't
    completed or taken for a month may be dropped. All data is JSON text.
    """

    def add(self, id: str, data: str, *, call_id: str, user: str | None, session: str | None) -> None:  # noqa: A002
        """Stores a pending operation."""

    def find(self, name: str | None = None) -> Sequence[str]:
        """The data of the pending operations with this id, or this call id, or of all; the oldest first."""
        ...

    def claim(self, id: str, seconds: float) -> bool:  # noqa: A002
        """Reserves a pending operation for some seconds; false if it isn't pending, or another claim lasts."""
        ...

    def finish(self, id: str, data: str) -> bool:  # noqa: A002
        """Stores the completion of a pending operation, which isn't pending afterwards; true only the first time."""
        ...

    def take(
        self, session: str | None, calls: Collection[str] | None = None, users: Collection[str | None] | None = None
    ) -> Sequence[str]:
        """Removes completions of a session, perhaps of these calls or users only, and returns their data, in order.

        Each is returned once, to one process.
        """
        ...


@frozen
class StoredCall(JsonRecord):
    """The call of a pending operation, for the process that completes it."""

    operation: Operation
    request: ExecutionRequest  # as an executor would get it
    index: int = 0  # in its batch


NO_CALL: Final = "{}"  # the data of background work, which is stored as pending only until its result is, right after


def read_calls(texts: Iterable[str]) -> list[StoredCall]:
    """Parses what `OperationStore.find` returns; what can't be read is logged."""
    return list(_read((each for each in texts if each != NO_CALL), "operation", StoredCall.from_json))


def _read(texts: Iterable[str], what: str, read: Callable[[Any], T]) -> Iterator[T]:
    for text in texts:
        try:
            yield read(json.loads(text))
        except (ValueError, TypeError) as error:
            log_failure(f"reading a stored {what}", error)


def write_completion(completion: Completion) -> str:
    """A completion as JSON text, with the reason why its callbacks end the turn."""
    fatal = {} if completion.fatal is None else {"fatal": getattr(completion.fatal, "reason", f"{completion.fatal}")}
    return json.dumps(completion.to_json() | fatal)


def read_completions(texts: Iterable[str]) -> list[Completion]:
    """Parses what `OperationStore.take` returns; what can't be read is logged."""

    def read(data: Any) -> Completion:
        fatal = TurnAbortedError(data["fatal"]) if "fatal" in data else None
        return attrs.evolve(Completion.from_json(data), fatal=fatal)

    return list(_read(texts, "completion", read))
