"""Callbacks round one call: before, after, on error, around; each within a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import partial
from inspect import isawaitable
from typing import Any, Final

from attrs import define, field, frozen

from pegboard.callbacks import Callback, ChainError
from pegboard.dispatch.results import hold_to_limits
from pegboard.dispatch.state import CallServices, CallState, plain, read_only
from pegboard.dispatch.timeout import Deadline, LimitExpiredError, cancels_the_call, running_task, watched, within
from pegboard.errors import FatalToolError, TurnAbortedError, log_failure
from pegboard.tools.call import CallError
from pegboard.tools.content import ToolResult

_MOST_RUNS: Final = 100
"""How often one wrapper may run what stands inside it."""


async def _answer_of(link: Callback, services: CallServices, *facts: Any) -> Any:
    """What one member answers to the facts.

    A plain one is called in a thread, unless it is marked as quick: whatever it waits for, the loop goes on.

    Raises:
        TimeoutError: It gave no answer in time.
        BaseException: Whatever it raised.
    """
    limits, watchdog = services.limits, services.watchdog
    name = "" if watchdog is None else f"callback of {link.owner}"
    try:
        if link.blocking:
            running = services.threads.run(link.function, *facts)
            answer = await within(limits.callback_timeout, running, grace=limits.grace)
        else:
            answer = watched(watchdog, name, link.function, *facts)
        if answer is not None and isawaitable(answer):
            rest = within(limits.callback_timeout, answer, grace=limits.grace, watchdog=watchdog, name=name)
            answer = await rest
    except LimitExpiredError:
        raise TimeoutError(f"gave no answer within {limits.callback_timeout:g} s") from None
    return answer


class _InnerError(Exception):
    """What stands inside a wrapper has raised, and the wrapper let it through.

    Attributes:
        error: What it raised.
    """

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(str(error))


async def _answer_round(
    link: Callback, services: CallServices, run_inner: Callable[[], Awaitable[Any]], *facts: Any
) -> Any:
    """What one wrapper gives; it gets the facts and `call_next`, and its own time stands still while that runs.

    Args:
        link: The wrapper.
        services: How it is asked.
        run_inner: Runs what stands inside, and gives what that gave.
        facts: What it is handed before `call_next`.

    Raises:
        InnerError: What `run_inner` raised, where the wrapper let it through.
        TimeoutError: It took too long by itself.
        BaseException: Whatever the wrapper itself raised.
    """
    limits, watchdog = services.limits, services.watchdog
    name = "" if watchdog is None else f"callback of {link.owner}"
    deadline = Deadline(running_task(), limits.callback_timeout, limits.grace, watchdog, name)
    call_next = _CallNext(run_inner, deadline)
    try:
        return await within(deadline, _answer(link, services, *facts, call_next))
    except LimitExpiredError:
        raise TimeoutError(f"took more than {limits.callback_timeout:g} s beside what it stands round") from None
    except BaseException as error:
        if call_next.has_raised(error):
            raise _InnerError(error) from error
        raise
    finally:
        await call_next.end(limits.grace)


async def _answer(link: Callback, services: CallServices, *arguments: Any) -> Any:
    if link.blocking:
        answer = await services.threads.run(link.function, *arguments)
    else:
        answer = link.function(*arguments)
    return await answer if isawaitable(answer) else answer


@define(eq=False)
class _CallNext:
    """Runs what stands inside one wrapper; the wrapper's own time stands still meanwhile."""

    _run_inner: Callable[[], Awaitable[Any]]
    _deadline: Deadline
    _is_open: bool = True
    _task: asyncio.Task[Any] | None = None
    _runs: int = 0
    _raised: list[BaseException] = field(factory=list[BaseException])

    def __call__(self) -> Coroutine[Any, Any, Any]:
        """Await what it gives."""
        return self._run()

    def has_raised(self, error: BaseException) -> bool:
        """Whether an exception came from inside."""
        return any(error is each for each in self._raised)

    async def end(self, grace: float) -> None:
        """Runs nothing any more; what a wrapper has left running in a task of its own is cancelled."""
        self._is_open = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=2 * grace)

    async def _run(self) -> Any:
        self._begin()
        self._deadline.pause()
        try:
            return await self._run_inner()
        except BaseException as error:
            self._raised.append(error)
            raise
        finally:
            self._deadline.resume()
            self._task = None

    def _begin(self) -> None:
        if not self._is_open:
            raise RuntimeError("call_next() runs nothing any more: its wrapper is done")
        if self._task is not None:
            raise RuntimeError("call_next() is running already; await it before the next call")
        if self._runs == _MOST_RUNS:
            raise RuntimeError(f"call_next() was called more than {_MOST_RUNS} times")
        self._task = running_task()
        self._runs += 1


async def _asked(link: Callback, state: CallState, *facts: Any) -> Any:
    """What one callback answers; it gets the context, the tool and the facts.

    A plain one is called in a thread, unless it is marked as quick: whatever it waits for, the loop goes on.

    Raises:
        CallError: `callback_failure`: it raised, or took too long.
        asyncio.CancelledError: The caller was cancelled.
    """
    try:
        return await _answer_of(link, state.services, state.context, state.tool, *facts)
    except BaseException as error:  # a callback's SystemExit costs this call only
        if cancels_the_call(error) or isinstance(error, CallError):  # what it asked for was denied
            raise
        raise _failure(state, link, error) from error


def _failure(state: CallState, link: Callback, error: BaseException) -> CallError:
    """The model learns that something failed; the operator, who and how, and what was being handled."""
    from pegboard.errors import detail_of

    if state.services.observe is not None:
        state.services.observe(f"callback of {link.owner}", error)
    if isinstance(state.error, FatalToolError):
        state.fatal = state.error
    detail = f"{ChainError(link, error)}\n{detail_of(error)}"
    if state.error is not None:
        detail += f"\nIt was handling:\n{detail_of(state.error)}"
    text = f"{state.call.name} was not completed: a check round it failed."
    return CallError("callback_failure", text, detail=detail)


def shown(state: CallState) -> Mapping[str, Any]:
    """The arguments as callbacks see them; made once for as long as they stay what they are."""
    made = state.shown
    if made is None or made[0] is not state.arguments:
        made = state.shown = state.arguments, read_only(state.arguments, is_tree=state.parsed)
    return made[1]


@frozen(eq=False)
class Chain:
    """Callbacks in their order, plugins' first, each asked within its time limit.

    Attributes:
        links: The callbacks.
        services: How they are asked.
    """

    links: tuple[Callback, ...]
    services: CallServices

    def __bool__(self) -> bool:
        """Whether anybody is there."""
        return bool(self.links)

    async def answers(self, *facts: Any) -> Any:
        """The first answer that is not `None`, and who gave it; no later one is asked.

        Returns:
            `(answer, link)`, or `None` where none answers.

        Raises:
            ChainError: A callback failed, or took too long; `link` is who, `__cause__` what it raised.
        """
        for link in self.links:
            try:
                answer = await _answer_of(link, self.services, *facts)
            except BaseException as error:
                raise _own(link, error) from error
            if answer is not None:
                return answer, link
        return None

    async def tell(self, *facts: Any) -> None:
        """Calls all of them; a failure is logged, and disturbs no other."""
        for link in self.links:
            try:
                await _answer_of(link, self.services, *facts)
            except BaseException as error:
                if cancels_the_call(error):
                    raise
                log_failure(f"callback of {link.owner}", error)

    async def around_all(self, run: Callable[[], Awaitable[Any]], *facts: Any) -> Any:
        """What the outermost wrapper gives; the first in order is the outermost, `run` the innermost.

        Raises:
            ChainError: A wrapper failed by itself.
            BaseException: What `run` raised, where the wrappers let it through.
        """
        for link in reversed(self.links):
            run = partial(self._round, link, run, facts)
        return await run()

    async def _round(self, link: Callback, run: Callable[[], Awaitable[Any]], facts: tuple[Any, ...]) -> Any:
        try:
            return await _answer_round(link, self.services, run, *facts)
        except _InnerError as inner:
            raise inner.error from None
        except BaseException as error:
            raise _own(link, error) from error

    def __iter__(self) -> Iterator[Callback]:
        return iter(self.links)


def _own(link: Callback, error: BaseException) -> BaseException:
    """The failure of one callback; a cancellation of the caller stays one."""
    return error if cancels_the_call(error) else ChainError(link, error)


async def wrapped(state: CallState, run_inner: Callable[[], Awaitable[Any]]) -> Any:
    """What the outermost wrapper gives: what the tool gave, or something instead of it.

    Nothing is edited after approval: `call_next` takes no arguments. It may be called again, for a retry, or not at
    all; never twice at once, nor when its wrapper is done. For a call that a person approved it runs once: an approval
    is for one run.

    Args:
        state: The call; its `services.callbacks.wrap` stand round it, the first one outermost.
        run_inner: Runs the tool once, and gives what it gave.

    Raises:
        CallError: `callback_failure`: a wrapper raised something of its own, or took too long by itself.
        BaseException: What the tool raised, where the wrappers let it through.
    """
    run = run_inner
    for link in reversed(state.services.callbacks.wrap):
        run = partial(_round, link, state, run)
    return await run()


async def _round(link: Callback, state: CallState, run_inner: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await _answer_round(link, state.services, run_inner, state.context, state.tool, shown(state))
    except _InnerError as inner:
        raise inner.error from None
    except BaseException as error:  # a wrapper's SystemExit costs this call only
        if cancels_the_call(error):
            raise
        raise _failure(state, link, error) from error


@frozen
class ChangeArguments:
    """A before callback's answer: go on with these arguments, which are validated again.

    Attributes:
        arguments: All of them, not only what changed; copied, so that nothing changes them later.
    """

    arguments: dict[str, Any] = field(converter=plain)


@frozen
class Deny:
    """A before callback's answer: the tool doesn't run.

    Attributes:
        reason: For the model.
    """

    reason: str = field(converter=str)


@frozen
class Abort:
    """A before or an after callback's answer: the turn ends, once every call has its result.

    Before, the tool doesn't run; after, its result stands.

    Attributes:
        reason: For the model, and for the host.
    """

    reason: str = field(converter=str)


async def before(state: CallState) -> None:
    """Asks each callback; fills in `state.result` where one answers, `state.arguments` where one changes them.

    Raises:
        CallError: `denied`, or `callback_failure` where a callback raised, took too long or answered nonsense.
    """
    for link in state.services.callbacks.before:
        answer = await _asked(link, state, shown(state))
        if isinstance(answer, ToolResult):
            state.result = await hold_to_limits(state, answer)
            return
        if isinstance(answer, Abort):
            _abort(state, answer)
            state.result = ToolResult.error("aborted", f"{state.call.name} was not run: {answer.reason}")
            return
        if isinstance(answer, Deny):
            raise CallError("denied", f"{state.call.name} was denied: {answer.reason}")
        if isinstance(answer, ChangeArguments):
            state.arguments, state.parsed, state.changed = answer.arguments, False, True
        elif answer is not None:
            raise _nonsense(state, link, answer, "ToolResult, ChangeArguments, Deny, Abort")


async def on_error(state: CallState) -> None:
    """Asks each callback; the first result clears the error.

    Raises:
        CallError: `callback_failure`, which then stands instead of the error.
    """
    for link in state.services.callbacks.on_error:
        answer = await _asked(link, state, shown(state), state.error)
        if answer is not None:
            if not isinstance(answer, ToolResult):
                raise _nonsense(state, link, answer, "ToolResult")
            state.result, state.error = await hold_to_limits(state, answer), None
            return


async def after(state: CallState) -> None:
    """Shows each callback the result; the first that answers replaces it, or ends the turn.

    Raises:
        CallError: `callback_failure`, which then stands instead of the result.
    """
    for link in state.services.callbacks.after:
        answer = await _asked(link, state, shown(state), state.result)
        if isinstance(answer, Abort):
            return _abort(state, answer)
        if answer is not None:
            if not isinstance(answer, ToolResult):
                raise _nonsense(state, link, answer, "ToolResult, Abort")
            state.result = await hold_to_limits(state, answer)
            return None
    return None


def _abort(state: CallState, answer: Abort) -> None:
    if state.fatal is None:
        state.fatal = TurnAbortedError(answer.reason)


def _nonsense(state: CallState, link: Callback, answer: object, wanted: str) -> CallError:
    return _failure(state, link, TypeError(f"answered {type(answer).__name__}; it may answer {wanted} or None"))


__all__ = ["Abort", "Chain", "ChangeArguments", "Deny", "after", "before", "on_error", "shown"]
