"""Callbacks round one call: before, after, on error, around (middleware); each within a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from attrs import converters, define, field, frozen

from pegboard.callbacks import Callback, ChainError
from pegboard.dispatch.permissions.rule import is_name
from pegboard.dispatch.results import failure_result, hold_to_limits
from pegboard.dispatch.state import CallServices, CallState, plain, read_only
from pegboard.errors import FatalToolError, ToolError, TurnAbortedError, detail_of, log_failure
from pegboard.timeout import Deadline, LimitExpiredError, cancels_the_call, running_task, within
from pegboard.tools.call import CallError
from pegboard.tools.content import ToolResult, writable

_MOST_RUNS: Final = 100  # how often one wrapper may run what stands inside it


async def _called(link: Callback, services: CallServices, *facts: Any) -> Any:
    """What one member answers. A plain one runs in a thread, unless it is marked as quick: it may block."""
    if link.blocking:
        answer = await services.threads.run_for(link.owner, partial(link.function, *facts))
    else:
        answer = link.function(*facts)
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

    async def __call__(self) -> Any:
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

    def has_raised(self, error: BaseException) -> bool:
        """Whether an exception came from inside."""
        return any(error is each for each in self._raised)

    async def end(self, grace: float) -> None:
        """Runs nothing any more; what a wrapper has left running in a task of its own is cancelled."""
        self._is_open = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=2 * grace)

    def _begin(self) -> None:
        if not self._is_open:
            raise RuntimeError("call_next() runs nothing any more: its wrapper is done")
        if self._task is not None:
            raise RuntimeError("call_next() is running already; await it before the next call")
        if self._runs == _MOST_RUNS:
            raise RuntimeError(f"call_next() was called more than {_MOST_RUNS} times")
        self._task = running_task()
        self._runs += 1


def _failure(state: CallState, link: Callback, error: BaseException) -> Exception:
    """The model learns that something failed; the operator, who and how, and what was being handled."""
    if isinstance(error, CallError | ToolError):
        return error  # what the callback says, as a tool does, or what it asked for was denied
    log_failure(_title_of(link), error)
    if isinstance(state.error, FatalToolError):
        state.fatal = state.error
    detail = f"{ChainError(link, error)}\n{detail_of(error)}"
    if state.error is not None:
        detail += f"\nIt was handling:\n{detail_of(state.error)}"
    text = f"{state.call.name} was not completed: a check round it failed."
    return CallError("callback_failure", text, detail=detail)


def arguments_of(state: CallState) -> Mapping[str, Any]:
    """The arguments as callbacks see them; made once for as long as they stay what they are.

    A copy for each of two callbacks takes a seventh of the call.
    """
    made = state.shown
    if made is None or made[0] is not state.arguments:
        made = state.shown = state.arguments, read_only(state.arguments)
    return made[1]


@frozen(eq=False)
class Chain:
    """Callbacks in their order, plugins' first, each asked within its time limit.

    Attributes:
        links: The callbacks.
        services: How they are asked.
        state: The call that they are about, or `None`.
    """

    links: tuple[Callback, ...]
    services: CallServices
    state: CallState | None = None
    _failure: Callable[[Callback, BaseException], BaseException] = ChainError

    def __iter__(self) -> Iterator[Callback]:
        return iter(self.links)

    async def ask(self, link: Callback, *facts: Any) -> Any:
        """What one of them answers.

        Raises:
            ChainError: It failed, or took too long; `callback` is the member, `__cause__` what it raised.
            asyncio.CancelledError: The caller was cancelled.
        """
        return await self._asked(link, self._limit_of(link), facts)

    async def answers(self, *facts: Any) -> Any:
        """The first answer that is not `None`, and its callback; no later one is asked.

        Returns:
            `(answer, link)`, or `None` where none answers.

        Raises:
            ChainError: As `ask`.
        """
        for link in self.links:
            answer = await self.ask(link, *facts)
            if answer is not None:
                return answer, link
        return None

    async def tell(self, *facts: Any) -> None:
        """Calls all of them; a failure is logged, and disturbs no other."""
        for link in self.links:
            try:
                await self.ask(link, *facts)
            except ChainError as error:
                log_failure(_title_of(link), error.__cause__ or error)

    async def around_all(self, run: Callable[[], Awaitable[Any]], *facts: Any) -> Any:
        """Runs the wrappers as middleware; the first in order is the outermost, `run` the innermost.

        Raises:
            ChainError: A wrapper failed by itself.
            BaseException: What `run` raised, where the wrappers let it through.
        """
        for link in reversed(self.links):
            run = partial(self._round, link, run, facts)
        return await run()

    async def _round(self, link: Callback, run: Callable[[], Awaitable[Any]], facts: tuple[Any, ...]) -> Any:
        deadline = self._limit_of(link)
        call_next = _CallNext(run, deadline)
        try:
            return await self._asked(link, deadline, (*facts, call_next), call_next.has_raised)
        finally:
            await call_next.end(deadline.grace)

    def _limit_of(self, link: Callback) -> Deadline:
        limits, watchdog = self.services.limits, self.services.watchdog
        return Deadline(running_task(), limits.callback_timeout, limits.grace, watchdog, _title_of(link))

    async def _asked(
        self,
        link: Callback,
        deadline: Deadline,
        facts: Sequence[Any],
        is_from_inside: Callable[[BaseException], bool] = lambda _: False,
    ) -> Any:
        """What a callback gives within its limit, which is paused while it asks a person."""
        state = self.state
        around = None if state is None else state.callback
        try:
            if state is not None:
                state.callback = deadline
            return await within(deadline, _called(link, self.services, *facts))
        except LimitExpiredError:
            late = TimeoutError(f"gave no answer within {self.services.limits.callback_timeout:g} s")
            raise self._failure(link, late) from late
        except BaseException as error:  # a callback's SystemExit costs this call only
            own = is_from_inside(error) or cancels_the_call(error)
            failure = error if own else self._failure(link, error)
            if failure is error:
                raise
            raise failure from error
        finally:
            if state is not None:
                state.callback = around


def _title_of(link: Callback) -> str:
    return f"callback of {link.owner}"


def _chain_of(state: CallState, hook: str) -> Chain:
    """The callbacks of a hook that are about this call's tool."""
    links = tuple(link for link in state.services.callbacks.get(hook, ()) if _is_about(state, link))
    return Chain(links, state.services, state, partial(_failure, state))


def _is_about(state: CallState, link: Callback) -> bool:
    try:
        return link.where is None or (state.tool is not None and link.where(state.tool, state.context.request))
    except Exception as error:  # a host's own predicate
        raise _failure(state, link, error) from error


async def wrapped(state: CallState, run_inner: Callable[[], Awaitable[Any]]) -> Any:
    """Runs the tool inside its middleware, and gives what the tool gave, or a wrapper instead of it.

    Nothing is edited after approval: `call_next` takes no arguments. It may be called again, for a retry, or not at
    all; never twice at once, nor when its wrapper is done. For a call that a person approved it runs once: an approval
    is for one run.

    Raises:
        CallError: `callback_failure`: a wrapper raised something of its own, or took too long by itself.
        BaseException: What the tool raised, where the wrappers let it through.
    """
    return await _chain_of(state, "wrap_tool").around_all(run_inner, state.context, state.tool, arguments_of(state))


@frozen
class ChangeArguments:
    """A before callback's answer: go on with these arguments, which are validated again.

    Attributes:
        arguments: All of them, not only what changed; copied, so that nothing changes them later.
    """

    arguments: dict[str, Any] = field(converter=plain)


def texts(what: str, given: Iterable[Any]) -> tuple[str, ...]:
    """Texts that JSON can say.

    Raises:
        ValueError: There is none, or an empty one.
        TypeError: Something that is no text.
    """
    said = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(each, str) for each in said):
        raise TypeError(f"{what} must be text, got {said!r:.100}")
    if not said or not all(said):
        raise ValueError(f"{what} must say something, got {said!r:.100}")
    return tuple(writable(each) for each in said)


def _permission(given: Any) -> str:
    (name,) = texts("permission", [given])
    if not is_name(name):
        raise ValueError(f"a permission is a name, not a pattern, and without hidden characters: {name!r:.100}")
    return name


@frozen
class Ask:
    """A before callback's answer: the call needs one permission more, which rules or a person give.

    Where the call needs one anyway, a person is asked about both at once.

    Attributes:
        permission: Its name, such as `"edit"`.
        patterns: What it is asked for, such as paths.
        always: Wider patterns, which a person may choose for an answer "always".
        metadata: Facts for the user interface, such as the reason.
        arguments: What the call goes on with, as of `ChangeArguments`; `None` leaves them.

    Raises:
        ValueError: No patterns, an empty text, or a permission that is a pattern or has hidden characters.
        TypeError: Something that is no text.
    """

    permission: str = field(converter=_permission)
    patterns: tuple[str, ...] = field(default=("*",), converter=lambda given: texts("patterns", given))
    always: tuple[str, ...] = field(default=(), converter=lambda given: texts("always", given) if given else ())
    metadata: Mapping[str, Any] = field(factory=dict[str, Any], converter=dict)
    arguments: dict[str, Any] | None = field(default=None, converter=converters.optional(plain))


@frozen
class Deny:
    """A before callback's answer: the tool doesn't run.

    Attributes:
        reason: For the model.
    """

    reason: str = field(converter=str)


@frozen
class Abort:
    """The answer of a callback before, after or on an error: the turn ends, once every call has its result.

    Before, the tool doesn't run; after, its result stands, and so does an error.

    Attributes:
        reason: For the model, and for the host.
    """

    reason: str = field(converter=str)


BeforeAnswer: TypeAlias = ToolResult | ChangeArguments | Ask | Deny | Abort | None
"""What a callback before a tool may answer."""


async def before(state: CallState) -> None:
    """Asks each callback; fills in `state.result` where one answers, `state.arguments` where one changes them.

    Raises:
        CallError: `denied`, or `callback_failure` where a callback raised, took too long or answered nonsense.
    """
    chain = _chain_of(state, "before_tool")
    for link in chain:
        answer = await chain.ask(link, state.context, state.tool, arguments_of(state))
        if isinstance(answer, ToolResult):
            state.result = await hold_to_limits(state, answer)
            return
        if isinstance(answer, Abort):
            state.fatal = state.fatal or TurnAbortedError(answer.reason)
            state.result = ToolResult.error("aborted", _with_reason(f"{state.call.name} was not run", answer.reason))
            return
        if isinstance(answer, Deny):
            raise CallError("denied", _with_reason(f"{state.call.name} was denied", answer.reason))
        if isinstance(answer, Ask):
            state.demands += (answer,)
        elif answer is not None and not isinstance(answer, ChangeArguments):
            raise _nonsense(state, link, answer, "ToolResult, ChangeArguments, Ask, Deny, Abort")
        if answer is not None and answer.arguments is not None:
            state.arguments, state.parsed, state.changed = answer.arguments, False, True


def _with_reason(text: str, reason: str) -> str:
    return f"{text}: {reason}" if reason else f"{text}."


async def on_error(state: CallState) -> None:
    """Asks each callback; the first result clears the error, `Abort` leaves it and ends the turn.

    Raises:
        CallError: `callback_failure`, which then stands instead of the error.
    """
    error, given = state.error, state.result
    if error is None and given is not None:  # the tool has answered that it failed
        error = CallError(given.kind or "tool_failure", given.text, detail=given.detail)
    answered = await _chain_of(state, "on_tool_error").answers(state.context, state.tool, arguments_of(state), error)
    if answered is not None:
        await _take(state, *answered)


async def after(state: CallState) -> None:
    """Shows each callback the result as the one before has left it; any may replace it, or end the turn.

    One that fails makes it an error, which the others see.
    """
    chain = _chain_of(state, "after_tool")
    for link in chain:
        try:
            answer = await chain.ask(link, state.context, state.tool, arguments_of(state), state.result)
            if answer is not None:
                await _take(state, answer, link)
        except (CallError, ToolError) as error:
            state.result = failure_result(state, error)


async def _take(state: CallState, answer: object, link: Callback) -> None:
    """Replaces the result, or notes that the turn ends."""
    if isinstance(answer, Abort):
        state.fatal = state.fatal or TurnAbortedError(answer.reason)
    elif isinstance(answer, ToolResult):
        state.result, state.error = await hold_to_limits(state, answer), None
    else:
        raise _nonsense(state, link, answer, "ToolResult, Abort")


def _nonsense(state: CallState, link: Callback, answer: object, wanted: str) -> Exception:
    return _failure(state, link, TypeError(f"answered {type(answer).__name__}; it may answer {wanted} or None"))
