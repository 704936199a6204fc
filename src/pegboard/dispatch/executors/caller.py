"""The caller of a tool that runs elsewhere, for the tool's side: the context's host and stores there, and errors."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import iscoroutine
from typing import Any, Final, NoReturn, Protocol

from attrs import define, frozen

from pegboard.dispatch.approval.pending import RefusedError
from pegboard.dispatch.running import pause_deadlines
from pegboard.dispatch.state import CallState
from pegboard.errors import FatalToolError, ToolError
from pegboard.tools.call import CallError, Confirmation
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ToolContext
from pegboard.tools.stores import Artifacts, Memory, MemoryEntry
from pegboard.typing import JsonMapping, JsonObject


class Caller(Protocol):
    """The caller of a request, as the side that runs the tool reaches it; an `ExecutorCall` is one.

    Its methods are called in the event loop that runs the tool.
    """

    def emit(self, event: JsonObject) -> None:
        """Sends an event of the tool, as `ExecutorCall.emit` takes it."""

    async def answer(self, question: str, given: JsonObject) -> Any:
        """The caller's answer to a question, as `ExecutorCall.answer` gives it.

        Raises:
            BaseException: What `ExecutorCall.answer` raised, as `error_from_json` reads it.
        """
        ...


_TEXT: Final = "a tool that runs elsewhere can't {}; run it with executor='thread'"


@define(eq=False)
class CallerHost:
    """The host of one call's context where its tool runs: what the tool asks for is done by the caller.

    Attributes:
        caller: The caller.
    """

    caller: Caller

    @property
    def services(self) -> dict[type, Any]:
        """The caller's memory and artifacts, by type, for the context's services."""
        return {Memory: _CallerMemory(self.caller), Artifacts: _CallerArtifacts(self.caller)}

    async def ask(
        self,
        context: ToolContext,
        permission: str,
        patterns: Sequence[str],
        always: Sequence[str],
        metadata: Mapping[str, Any],
    ) -> None:
        """Returns if the call may go on; raises if it may not."""
        wanted = {"permission": permission, "patterns": list(patterns), "always": list(always)}
        await self._wait(context, "ask", {**wanted, "metadata": dict(metadata)})

    def allows(self, context: ToolContext, permission: str, subject: str | None) -> bool:
        """Whether the caller's rules let the call access this.

        Raises:
            RunningLoopError: This is the event loop: only plain functions can ask.
        """
        answer = self.caller.answer("allows", {"permission": permission, "subject": subject})
        return context.wait(answer) is True

    def allowed_names(
        self, context: ToolContext, permission: str, folder: str, names: Sequence[str]
    ) -> tuple[str, ...]:
        """The names in a folder that the caller's rules let the call access.

        Raises:
            RunningLoopError: See `allows`.
        """
        given = {"permission": permission, "folder": folder, "names": list(names)}
        return tuple(context.wait(self.caller.answer("allowed_names", given)))

    async def request_confirmation(self, context: ToolContext, hint: str, payload: Any) -> Confirmation:
        """The user's answer to `hint`."""
        answer = await self._wait(context, "request_confirmation", {"hint": hint, "payload": payload})
        return Confirmation.from_data(answer)

    async def call(self, context: ToolContext, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
        """Runs another tool of the caller inside this call."""
        given = {"name": name, "arguments": arguments if isinstance(arguments, str) else dict(arguments)}
        return ToolResult.from_data(await self._wait(context, "call", given))

    def suspend(self, _context: ToolContext, hint: str, _payload: Any, _stored: Any, _request: str | None) -> NoReturn:
        """Raises `LookupError`: the caller waits for this run."""
        raise LookupError(_TEXT.format(f"wait for an answer ({hint})"))

    def inherited(self, _context: ToolContext) -> Mapping[str, Any]:
        """Raises `LookupError`: there is no registry here that could run turns by the caller's rules."""
        raise LookupError(_TEXT.format("run turns of its caller"))

    def background(self, _context: ToolContext, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Raises `LookupError`: only the result of this run is sent."""
        if iscoroutine(work):
            work.close()
        raise LookupError(_TEXT.format("run background work"))

    async def _wait(self, context: ToolContext, question: str, given: JsonObject) -> Any:
        """The answer to a question that the user, or another tool, takes time for: the call's own time stops."""
        if isinstance(context.internals.frame, CallState):
            with pause_deadlines(context.internals.frame):
                return await self.caller.answer(question, given)
        began = time.monotonic()
        try:
            return await self.caller.answer(question, given)
        finally:
            if context.deadline is not None:
                context.deadline += time.monotonic() - began


# The parameters `user` and `session` of the stores are ignored: the caller knows whose call it is.


@frozen(eq=False)
class _CallerMemory(Memory):
    """The memory of the call's user, at the caller."""

    caller: Caller

    async def search(self, query: str, *, session: Any = None, limit: int = 10, **_: Any) -> tuple[MemoryEntry, ...]:
        given = {"query": query, "session_only": session is not None, "limit": limit}
        return tuple(MemoryEntry(**entry) for entry in await self.caller.answer("memory.search", given))

    async def add(
        self, text: str, *, author: str | None = None, metadata: Mapping[str, Any] | None = None, **_: Any
    ) -> MemoryEntry:
        given = {"text": text, "author": author, "metadata": dict(metadata or {})}
        return MemoryEntry(**await self.caller.answer("memory.add", given))


@frozen(eq=False)
class _CallerArtifacts(Artifacts):
    """The artifacts of the call's conversation and user, at the caller."""

    caller: Caller

    async def save(self, name: str, content: Any, **_: Any) -> int:
        return await self.caller.answer("artifacts.save", {"name": name, "content": content.to_json()})

    async def load(self, name: str, version: int | None = None, **_: Any) -> Any:
        content = await self.caller.answer("artifacts.load", {"name": name, "version": version})
        return ToolResult.from_json({"content": [content]}).content[0]

    async def list(self, **_: Any) -> tuple[str, ...]:
        return tuple(await self.caller.answer("artifacts.list", {}))

    async def delete(self, name: str, **_: Any) -> None:
        await self.caller.answer("artifacts.delete", {"name": name})


def error_to_json(error: BaseException) -> JsonObject:
    """Serializes an exception for the other side: its type, so that a tool can catch it, and texts that it may know."""
    if isinstance(error, CallError):
        name = "refused" if isinstance(error, RefusedError) else "call"
        return {"type": name, "kind": error.kind, "text": error.text}
    if isinstance(error, ToolError):
        return {"type": "tool", "text": f"{error.text}", "retryable": bool(error.retryable), "hint": error.hint}
    if isinstance(error, FatalToolError):
        return {"type": "fatal", "text": f"{error}"}
    if isinstance(error, LookupError):
        return {"type": "lookup", "text": f"{error.args[0] if error.args else ''}"}
    return {"type": "other", "text": f"the host failed: {type(error).__name__}"}


def error_from_json(data: JsonMapping) -> BaseException:
    """The exception to raise for what `error_to_json` has written; an invalid one becomes a `RuntimeError`."""
    try:
        return _ERRORS[data["type"]](data)
    except (LookupError, TypeError):
        return RuntimeError("the other side failed, and its error can't be read")


_ERRORS: Final[Mapping[Any, Callable[[JsonMapping], BaseException]]] = {
    "refused": lambda data: RefusedError(data["kind"], data["text"]),
    "call": lambda data: CallError(data["kind"], data["text"]),
    "tool": lambda data: ToolError(data["text"], retryable=data["retryable"], hint=data["hint"]),
    "fatal": lambda data: FatalToolError(data["text"]),
    "lookup": lambda data: LookupError(data["text"]),
    "other": lambda data: RuntimeError(data["text"]),
}
