"""`retried`: calls of idempotent tools that say "try again" are tried again, after a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from pegboard.errors import ToolError
from pegboard.tools.tool import Tool

if TYPE_CHECKING:
    from tenacity import RetryCallState

FIRST_PAUSE: Final = 0.5
"""Seconds before the second attempt, at most; twice as many before each further one."""

LONGEST_PAUSE: Final = 30.0
"""Seconds between two attempts, at most, unless the tool asks for more."""


def retries(tool: Tool) -> bool:
    """Whether calls of this tool may be tried again.

    Its host allows it, and the tool says that the same call twice has the effect of one; the word of an untrusted
    origin doesn't count.
    """
    return tool.policy.retries > 0 and tool.spec.annotations.idempotent_hint is True and tool.origin.trusted


async def retried(
    attempt: Callable[[], Awaitable[Any]],
    tool: Tool,
    *,
    on_retry: Callable[[int, BaseException, float], None],
    limit: float | None = None,
    sleep: Callable[[float], Awaitable[None]] | None = None,
) -> Any:
    """Makes attempts until one succeeds, fails for good, or as many have been made as the tool's policy allows.

    A tool whose calls may not be tried again gets one attempt.

    Only a `ToolError` that says `retryable` leads to another attempt. Before each there is a pause: of a random length
    up to 0.5 s, 1 s, 2 s ... 30 s, so that calls that failed together don't come back together ("full jitter",
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/); or as long as the error's
    `retry_after` asks for, in seconds, if that is longer.

    Args:
        attempt: Runs the tool once. Whoever sets the time limit sets it round all attempts.
        tool: Whose policy counts.
        on_retry: Told before each pause: the attempts made so far, the error of the last, the pause in seconds.
        limit: Seconds for all attempts: no pause is begun that would not end within them. `None` is no limit.
        sleep: How to pause, for a number of seconds; `asyncio.sleep` by default.

    Returns:
        What the first attempt that succeeds gives.

    Raises:
        ToolError: The last attempt's.
        BaseException: Whatever else an attempt raised.
    """
    if not retries(tool):
        return await attempt()
    return await tried_again(
        attempt, tool.policy.retries, _asks_for_another, on_retry=on_retry, limit=limit, sleep=sleep
    )


async def tried_again(  # noqa: PLR0913  facets of one question, by name
    attempt: Callable[[], Awaitable[Any]],
    retries: int,
    asks: Callable[[BaseException], bool],
    *,
    on_retry: Callable[[int, BaseException, float], None],
    limit: float | None = None,
    sleep: Callable[[float], Awaitable[None]] | None = None,
) -> Any:
    """Makes one attempt and, while its error asks for another, so many more, with pauses as `retried` tells.

    Args:
        attempt: Tries once.
        retries: How many attempts may follow the first.
        asks: Whether an error asks for another.
        on_retry: As for `retried`.
        limit: As for `retried`.
        sleep: As for `retried`.
    """
    import asyncio

    import tenacity

    async def attempt_once() -> Any:  # tenacity awaits what an async function gives, and nothing else
        return await attempt()

    def tell(state: RetryCallState) -> None:
        assert state.outcome is not None
        error = state.outcome.exception()
        assert error is not None
        on_retry(state.attempt_number, error, state.upcoming_sleep)

    stop: Any = tenacity.stop_after_attempt(retries + 1)
    if limit is not None:
        stop |= tenacity.stop_before_delay(limit)
    attempts = tenacity.AsyncRetrying(
        sleep=sleep or asyncio.sleep,
        stop=stop,
        wait=_pause,
        retry=tenacity.retry_if_exception(asks),
        before_sleep=tell,
        reraise=True,
    )
    return await attempts(attempt_once)


def _asks_for_another(error: BaseException) -> bool:
    return isinstance(error, ToolError) and error.retryable is True


def _pause(state: RetryCallState) -> float:
    import tenacity

    pause = tenacity.wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE)(state)
    asked = getattr(state.outcome and state.outcome.exception(), "retry_after", None)
    if isinstance(asked, int | float) and isfinite(asked):
        return max(pause, asked)
    return pause


__all__ = ["retried", "retries", "tried_again"]
