"""`Hosted`: what a running call may ask of dispatch: a permission, an answer, another tool, time after its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from pegboard.dispatch.approve import ask_inside, confirm_inside
from pegboard.dispatch.calling import work_inside
from pegboard.dispatch.run import deadline_of
from pegboard.dispatch.stages import Way, travel_alone
from pegboard.dispatch.telling import tell_end, tell_pending
from pegboard.dispatch.work import Work
from pegboard.errors import CallStoppedError
from pegboard.tools.call import Confirmation, ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ToolContext


@frozen(eq=False)
class Hosted:
    """The `CallHost` of calls that dispatch runs.

    Attributes:
        way: The stages that calls from inside a tool pass: the same as all.
    """

    way: Way

    async def ask(
        self,
        context: ToolContext,
        permission: str,
        patterns: Sequence[str],
        always: Sequence[str],
        metadata: Mapping[str, Any],
    ) -> None:
        """Comes back where the rules, or a person, let the call go on; the tool's time stands still meanwhile."""
        work = work_of(context)
        with _time_stands_still(work):
            await ask_inside(work, permission, patterns, always, metadata)

    async def request_confirmation(self, context: ToolContext, hint: str, payload: Any) -> Confirmation:
        """What a person says; the tool's time stands still meanwhile."""
        work = work_of(context)
        with _time_stands_still(work):
            return await confirm_inside(work, hint, payload)

    async def call(self, context: ToolContext, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
        """Runs another tool by the same rules as any call: of the same request, for the same user and session.

        It holds what its caller holds, and has its own time limit. What it asks of the host is added to its caller's.

        Raises:
            FatalToolError: The inner tool ends the turn.
            TurnAbortedError: A callback ends the turn.
        """
        outer = work_of(context)
        if context.depth >= outer.around.limits.depth:
            text = f"{name} was not run: tools call tools more than {outer.around.limits.depth} deep here."
            return ToolResult.error("limit", text)
        outer.calls += 1
        inner = work_inside(outer, ToolCall(name, arguments, f"{context.call_id}/{outer.calls}"))
        if inner.around.events is not None:
            tell_pending(inner)
        with _time_stands_still(outer):  # the inner call has a limit of its own, and may wait for a person
            try:
                await travel_alone(inner, self.way)
            finally:
                if inner.around.events is not None and inner.result is not None:
                    tell_end(inner)
        if inner.fatal is not None:
            raise inner.fatal
        outer.ends = outer.ends or inner.ends
        if inner.context.said is not None:
            context.actions.add(inner.context.said.actions)
        assert inner.result is not None
        if inner.result.kind == "confirmation_required":
            text = f"{name} was not run: its approval comes later, and a tool that calls it can't wait so long."
            return ToolResult.error("denied", text)
        return inner.result

    def background(self, context: ToolContext, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Goes on after the call's first result; what comes of it replaces that result, once."""
        call = work_of(context)
        operations = call.around.operations
        assert operations is not None
        return operations.go_on(call, work)


def work_of(context: ToolContext) -> Work:
    """The call that this context belongs to.

    Raises:
        CallStoppedError: It has its result already: a thread that was abandoned, or work after the call's end.
    """
    if not isinstance(context.frame, Work):
        raise CallStoppedError("the call has its result already; nothing can be asked for it any more")
    return context.frame


@contextmanager
def _time_stands_still(work: Work) -> Generator[None]:
    deadline = deadline_of(work)
    deadline.pause()
    try:
        yield
    finally:
        deadline.resume()
