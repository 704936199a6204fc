"""Callbacks of one call: before, after, on error, and around (middleware); each with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeAlias, cast

from attrs import converters, field

from pegboard.callbacks import Callback, ChainError
from pegboard.dispatch.results import failure_result, hold_to_limits
from pegboard.dispatch.state import NO_ARGUMENTS, CallbackState, CallState, Runtime, plain, read_only
from pegboard.errors import FatalToolError, ToolError, TurnAbortedError, detail_of, log_failure, tuple_of, with_name
from pegboard.threads import WorkerPool
from pegboard.timeout import Deadline, LimitExpiredError, cancels_the_call, running_task, watched
from pegboard.tools.call import CallError
from pegboard.tools.content import ToolResult, encodable_text
from pegboard.tools.limits import Limits
from pegboard.tools.tool import Tool
from pegboard.typing import define, frozen

_MOST_RUNS: Final = 100  # `call_next()` per wrapper


async def _call(link: Callback, threads: WorkerPool, *facts: Any) -> Any:
    """Calls one callback. A plain one runs in a thread, as it may block, unless it is marked as quick."""
    if link.blocking:
        answer = await threads.run_for(link.owner, partial(link.function, *facts))
    else:
        answer = link.function(*facts)
    return await answer if isawaitable(answer) else answer


@define(eq=False)
class _Run:
    """One run of a callback: its time limit, made once the callback waits, and its `call_next`, if it is a wrapper."""

    _chain: Chain
    _link: Callback
    _inner: Callable[[], Awaitable[Any]] | None  # what `call_next` runs
    _holds_grace: bool  # whether that ends in its own time when it is cancelled
    is_open: bool = True  # whether `call_next` may be called
    task: asyncio.Task[Any] | None = None  # in which `call_next` runs
    raised: tuple[BaseException, ...] = ()  # by `call_next`
    _runs: int = 0
    _deadline: Deadline | None = None
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop)

    def deadline(self) -> Deadline:
        """The time limit, which is paused while `call_next` runs, or the user is asked."""
        deadline = self._deadline
        if deadline is None:
            limits, watchdog = self._chain.limits, self._chain.runtime.watchdog
            deadline = Deadline(limits.callback_timeout, limits.grace, watchdog, title_of(self._link))
            deadline.loop = self._loop  # a nested call in a loop of its own may be the first to ask for it
            if self.task is not None:
                deadline.pause(holds_grace=self._holds_grace)
            self._deadline = deadline
        return deadline

    async def call_next(self) -> Any:
        """Runs what the callback wraps."""
        if not self.is_open:
            raise RuntimeError("call_next() was called after its wrapper had returned")
        if self.task is not None:
            raise RuntimeError("call_next() is running already; await it before the next call")
        if self._runs == _MOST_RUNS:
            raise RuntimeError(f"call_next() was called more than {_MOST_RUNS} times")
        assert self._inner is not None
        self.task = running_task()
        self._runs += 1
        if self._deadline is not None:
            self._deadline.pause(holds_grace=self._holds_grace)
        try:
            return await self._inner()
        except BaseException as error:
            self.raised += (error,)
            raise
        finally:
            if self._deadline is not None:
                self._deadline.resume()
            self.task = None


def _failure(state: CallState, link: Callback, error: BaseException) -> Exception:
    """The error of a failed callback; its detail for the operator has the callback and the error it handled."""
    if isinstance(error, CallError | ToolError):
        return error  # an error for the model, or a denied request of the callback
    log_failure(title_of(link), error)
    if isinstance(state.error, FatalToolError):
        state.end_turn(error=state.error)
    detail = f"{ChainError(link, error)}\n{detail_of(error)}"
    if state.error is not None:
        detail += f"\nIt was handling:\n{detail_of(state.error)}"
    return CallError("callback_failure", f"{state.call.name} was not completed: a callback failed.", detail=detail)


def arguments_of(state: CallState) -> Mapping[str, Any]:
    """Read-only view of the arguments for callbacks, cached: a copy for each of two takes a seventh of the call."""
    record = _record_of(state)
    if record.arguments is not state.arguments:
        record.arguments, record.view = state.arguments, read_only(state.arguments)
    return record.view


def _record_of(state: CallState) -> CallbackState:
    state.callbacks = state.callbacks or CallbackState()
    return state.callbacks


@define(eq=False)  # not frozen: each call with callbacks makes one or more
class Chain:
    """Chain of callbacks in order, plugins' first, each with a time limit.

    Attributes:
        links: The callbacks.
        runtime: Threads and watchdog.
        limits: The limits on calls.
        kinds: The types that they may answer with; any other answer than these and `None` is a failure.
        state: The call that they run for, or `None`.
        failure: Makes the exception that is raised for one that failed; its `__cause__` is what that one raised.
    """

    links: tuple[Callback, ...]
    runtime: Runtime
    limits: Limits
    kinds: tuple[type, ...] = (object,)
    state: CallState | None = None
    failure: Callable[[Callback, BaseException], BaseException] = ChainError

    def __iter__(self) -> Iterator[Callback]:
        return iter(self.links)

    async def ask(
        self,
        link: Callback,
        *facts: Any,
        around: Callable[[], Awaitable[Any]] | None = None,
        holds_grace: bool = False,
    ) -> Any:
        """Calls one callback within its time limit, which is paused while it asks the user; returns its answer.

        Args:
            link: The callback.
            facts: Its arguments.
            around: What its last argument, `call_next`, runs; the callback is middleware then, and has to answer.
            holds_grace: Whether a cancellation ends `around` in its own time, however long that takes.

        Raises:
            BaseException: What `failure` makes of a callback that failed, timed out or answered something else; or
                the exception of `around`, if the callback lets it through.
            asyncio.CancelledError: The caller was cancelled.
        """
        run, runtime = _Run(self, link, around, holds_grace), self.runtime
        record = CallbackState() if self.state is None else _record_of(self.state)
        enclosing, record.deadline = record.deadline, run.deadline
        try:
            coroutine = _call(link, runtime.threads, *facts, *(() if around is None else (run.call_next,)))
            try:
                waits_for = watched(runtime.watchdog, title_of(link), coroutine.send, None)
            except StopIteration as end:
                answer = end.value
            else:
                answer = await run.deadline().finish(coroutine, waits_for)
            if isinstance(answer, self.kinds) or (answer is None and around is None):
                return answer
            wanted = ", ".join(kind.__name__ for kind in self.kinds) + (" or None" if around is None else "")
            raise TypeError(f"answered {type(answer).__name__}; it may answer {wanted}")  # noqa: TRY301  as the callback
        except LimitExpiredError:
            late = TimeoutError(f"gave no answer within {self.limits.callback_timeout:g} s")
            raise self.failure(link, late) from late
        except BaseException as error:  # SystemExit, too, fails this call only
            is_from_inside = any(error is each for each in run.raised)
            failure = error if is_from_inside or cancels_the_call(error) else self.failure(link, error)
            if failure is error:
                raise
            raise failure from error
        finally:
            record.deadline = enclosing
            run.is_open = False
            if run.task is not None:  # the callback has left `call_next` in a task of its own
                run.task.cancel()
                await asyncio.wait([run.task], timeout=None if holds_grace else 2 * self.limits.grace)

    async def first_answer(self, *facts: Any) -> Any:
        """Calls the callbacks until one answers something other than `None`; returns that. Raises as `ask`."""
        for link in self.links:
            if (answer := await self.ask(link, *facts)) is not None:
                return answer
        return None

    async def tell(self, *facts: Any) -> None:
        """Calls all callbacks; logs their failures."""
        for link in self.links:
            try:
                await self.ask(link, *facts)
            except Exception as error:  # noqa: BLE001  of any kind that `failure` makes
                log_failure(title_of(link), error.__cause__ or error)

    async def around_all(self, run: Callable[[], Awaitable[Any]], *facts: Any) -> Any:
        """Runs the callbacks as middleware; the first is the outermost, `run` the innermost.

        Raises:
            BaseException: What `failure` makes of a wrapper that failed; or the exception of `run`, if the wrappers
                let it through.
        """
        for link in reversed(self.links):
            run = partial(self.ask, link, *facts, around=run)
        return await run()


def title_of(link: Callback) -> str:
    """The name of a callback in logs."""
    return f"callback of {link.owner}"


def chain_of(state: CallState, hook: str, *kinds: type) -> Chain:
    """The callbacks of a hook that apply to this call's tool, and the types of their answers."""
    links = tuple(link for link in state.snapshot.callbacks.get(hook, ()) if applies(state, link))
    return Chain(links, state.runtime, state.settings.limits, kinds, state, partial(_failure, state))


def applies(state: CallState, link: Callback) -> bool:
    """Whether a callback is called for this call's tool."""
    try:
        return link.where is None or (state.tool is not None and link.where(state.tool, state.request))
    except Exception as error:  # of a host's predicate
        raise _failure(state, link, error) from error


async def run_tool_wrapped(state: CallState, run_inner: Callable[[], Awaitable[Any]]) -> Any:
    """Runs the tool inside its middleware; returns the tool's result, or a wrapper's instead.

    `call_next` takes no arguments, so that nothing is changed after approval. It may be called again, for a retry, or
    not at all; but not concurrently, nor after its wrapper has returned. An approved call runs only once.
    Raises `callback_failure`, or the tool's exception, if the wrappers let it through.
    """
    return await chain_of(state, "wrap_tool", object).around_all(
        run_inner, state.context, state.tool, arguments_of(state)
    )


@frozen(eq=False)
class WrappedCall:
    """A call for its wrappers: what is known of it so far.

    Before `call_next()`, that is what the model wrote; after it, what ran.
    """

    _state: CallState

    @property
    def name(self) -> str:
        """The tool's name as it was called; after a repair, that of the repaired call."""
        return self._state.name

    @property
    def id(self) -> str:
        """The call's id; `""` if it has none."""
        made = self._state.made_context
        return self._state.id or ("" if made is None else made.call_id)

    @property
    def tool(self) -> Tool | None:
        """The tool, `None` if no offered one has the name; its `spec` has the description."""
        state = self._state
        if state.tool is not None or type(state.name) is not str:
            return state.tool
        named, tools = state.snapshot.named, state.snapshot.tools
        return named.get(state.name) or next((tool for tool in tools if tool.name == state.name), None)

    @property
    def arguments(self) -> Mapping[str, Any] | str | bytes:
        """The arguments, read-only: as the tool gets them, or, until they are parsed, as they were given."""
        state, raw = self._state, self._state.raw
        if state.arguments is NO_ARGUMENTS:
            return read_only(cast("Mapping[str, Any]", raw)) if isinstance(raw, Mapping) else raw
        return arguments_of(state)

    @property
    def depth(self) -> int:
        """The number of calls that enclose this one."""
        return self._state.depth

    @property
    def trace(self) -> dict[str, str]:
        """The trace context that the call passes on, to be filled; see `ToolContext.trace`."""
        made = self._state.made_context
        return _record_of(self._state).trace if made is None else made.trace


@frozen
class ChangeArguments:
    """A before callback's answer: continue with these arguments, which are validated again.

    Attributes:
        arguments: All arguments, not only the changed ones; copied.
    """

    arguments: dict[str, Any] = field(converter=with_name("arguments", plain))


def texts(what: str, given: Iterable[Any]) -> tuple[str, ...]:
    """One or several strings as a tuple, without lone surrogates; `ValueError` if there are none or one is empty."""
    found = (given,) if isinstance(given, str) else tuple_of(what, str)(given)
    if not found or not all(found):
        raise ValueError(f"{what} must not be empty, got {found!r:.100}")
    return tuple(encodable_text(each) for each in found)


def _permission(given: Any) -> str:
    (name,) = texts("permission", (given,))
    from pegboard.dispatch.permissions.rule import is_name  # loaded where there are rules

    if not is_name(name):
        raise ValueError(f"a permission is a name, not a pattern, and without hidden characters: {name!r:.100}")
    return name


@frozen
class Ask:
    """A before callback's answer: the call needs another permission, from the rules or the user.

    If the call needs one anyway, the user is asked about both at once.

    Attributes:
        permission: Its name, such as `"edit"`.
        patterns: What it is requested for, such as paths.
        always: Wider patterns that the user may choose for the answer "always".
        metadata: Data for the user interface, such as the reason.
        arguments: New arguments, as in `ChangeArguments`; `None` leaves them.

    Raises:
        ValueError: No patterns, an empty string, or a permission that is a pattern or has hidden characters.
        TypeError: A value that isn't a string.
    """

    permission: str = field(converter=_permission)
    patterns: tuple[str, ...] = field(default=("*",), converter=lambda given: texts("patterns", given))
    always: tuple[str, ...] = field(default=(), converter=lambda given: texts("always", given) if given else ())
    metadata: Mapping[str, Any] = field(factory=dict[str, Any], converter=with_name("metadata", dict[str, Any]))
    arguments: dict[str, Any] | None = field(default=None, converter=converters.optional(with_name("arguments", plain)))


@frozen
class Deny:
    """A before callback's answer: the tool doesn't run.

    Attributes:
        reason: For the model.
    """

    reason: str = field(converter=str)


@frozen
class Abort:
    """A callback's answer, before, after or on an error: end the turn, once every call has its result.

    Before, the tool doesn't run; after or on an error, the result or error stays.

    Attributes:
        reason: For the model, and for the host.
    """

    reason: str = field(converter=str)


BeforeAnswer: TypeAlias = ToolResult | ChangeArguments | Ask | Deny | Abort | None
"""The possible answers of a before callback."""


async def before(state: CallState) -> tuple[ToolResult | None, tuple[Ask, ...]]:
    """Calls each callback, one of which may change `state.arguments` or raise a denial.

    Returns the result, if one answers it, and the permissions that they ask for.
    """
    chain = chain_of(state, "before_tool", ToolResult, ChangeArguments, Ask, Deny, Abort)
    demands: list[Ask] = []
    for link in chain:
        answer = await chain.ask(link, state.context, state.tool, arguments_of(state))
        if isinstance(answer, ToolResult):
            return await hold_to_limits(state, answer), ()
        if isinstance(answer, Abort):
            state.end_turn(error=state.fatal or TurnAbortedError(answer.reason))
            return ToolResult.error("aborted", _with_reason(f"{state.call.name} was not run", answer.reason)), ()
        if isinstance(answer, Deny):
            raise CallError("denied", _with_reason(f"{state.call.name} was denied", answer.reason))
        if isinstance(answer, Ask):
            demands.append(answer)
        if answer is not None and answer.arguments is not None:
            state.change_arguments(answer.arguments)
    return None, tuple(demands)


def _with_reason(text: str, reason: str) -> str:
    return f"{text}: {reason}" if reason else f"{text}."


async def on_error(state: CallState) -> ToolResult | None:
    """Calls the callbacks until one gives a result, which clears the error. `Abort` leaves it and ends the turn.

    One that fails replaces the error by `callback_failure`.
    """
    error, given = state.error, state.result
    if error is None and given is not None:  # the tool returned an error result
        error = CallError(given.kind or "tool_failure", given.text, detail=given.detail)
    chain = chain_of(state, "on_tool_error", ToolResult, Abort)
    answer = await chain.first_answer(state.context, state.tool, arguments_of(state), error)
    return None if answer is None else await _apply(state, answer)


async def after(state: CallState) -> ToolResult | None:
    """Passes the result through each callback, which may replace it or end the turn.

    A failure of one becomes the result, which the others see.
    """
    chain, result = chain_of(state, "after_tool", ToolResult, Abort), state.result
    for link in chain:
        try:
            answer = await chain.ask(link, state.context, state.tool, arguments_of(state), result)
            if answer is not None:
                result = await _apply(state, answer) or result
        except (CallError, ToolError) as error:
            result = failure_result(state, error)
    return result


async def _apply(state: CallState, answer: ToolResult | Abort) -> ToolResult | None:
    """The result by which an answer replaces the present one; `None` if it ends the turn."""
    if isinstance(answer, ToolResult):
        return await hold_to_limits(state, answer)
    state.end_turn(error=state.fatal or TurnAbortedError(answer.reason))
    return None
