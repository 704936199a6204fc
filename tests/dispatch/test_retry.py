from __future__ import annotations

import asyncio

import pytest

from pegboard.dispatch.limits import CallError
from pegboard.dispatch.retry import FIRST_PAUSE, LONGEST_PAUSE, retried, retries
from pegboard.errors import FatalToolError, ToolError
from pegboard.tools.origin import Origin, Policy
from pegboard.tools.spec import ToolAnnotations, ToolSpec
from pegboard.tools.tool import Tool

AGAIN = ToolError("not now", retryable=True)


def made(*, idempotent=True, times=2, trusted=True):
    spec = ToolSpec("flaky", annotations=ToolAnnotations(idempotent_hint=idempotent))
    return Tool(spec, policy=Policy(retries=times), origin=Origin(trusted=trusted))


def run(flaky, *outcomes, **options):
    """Attempts with these outcomes; gives what came of them, how many there were, the pauses and what was told."""
    left, pauses, told = list(outcomes), [], []

    async def attempt():
        outcome = left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def sleep(seconds):
        pauses.append(seconds)

    def on_retry(number, error, seconds):
        told.append((number, error, seconds))

    async def main():
        try:
            return await retried(attempt, flaky, on_retry=on_retry, sleep=sleep, **options)
        except BaseException as error:  # noqa: BLE001  what came of it
            return error

    answer = asyncio.run(main())
    return answer, len(outcomes) - len(left), pauses, told


def test_an_error_that_the_tool_calls_retryable_is_tried_again():
    answer, attempts, pauses, told = run(made(), AGAIN, "at last")
    assert (answer, attempts) == ("at last", 2)
    assert told == [(1, AGAIN, pauses[0])]


def test_the_last_error_stands_when_all_attempts_are_used_up():
    last = ToolError("still not", retryable=True)
    answer, attempts, _, told = run(made(), AGAIN, AGAIN, last)
    assert (answer, attempts) == (last, 3)
    assert [number for number, _, _ in told] == [1, 2]


def test_pauses_are_of_a_random_length_that_may_double_each_time():
    _, _, pauses, _ = run(made(times=9), *[AGAIN] * 10)
    assert len(set(pauses)) == len(pauses)
    for number, pause in enumerate(pauses):
        assert 0 <= pause <= min(FIRST_PAUSE * 2**number, LONGEST_PAUSE)


@pytest.mark.parametrize(("asked", "least"), [(45, 45), (60.5, 60.5), (0, 0), (-1, 0), (float("inf"), 0), ("9", 0)])
def test_an_error_may_ask_for_a_longer_pause(asked, least):
    error = ToolError("not now", retryable=True)
    error.retry_after = asked
    _, attempts, pauses, _ = run(made(), error, "at last")
    assert attempts == 2
    assert least <= pauses[0] <= max(least, FIRST_PAUSE)


def test_no_pause_is_begun_that_would_outlast_the_time_limit():
    """The tool's own words are worth more than a timeout."""
    error = ToolError("not now", retryable=True)
    error.retry_after = 100
    assert run(made(), error, "too late", limit=99.0) == (error, 1, [], [])
    assert run(made(), error, "at last", limit=1000.0)[0] == "at last"


@pytest.mark.parametrize(
    "error",
    [
        ToolError("no"),
        ToolError("no", retryable="perhaps"),
        ValueError("no"),
        TimeoutError("no"),
        SystemExit(3),
        FatalToolError("no more"),
        CallError("timeout", "too long"),
        asyncio.CancelledError(),
    ],
)
def test_no_other_error_is_tried_again(error):
    answer, attempts, _, told = run(made(), error)
    assert (attempts, told) == (1, [])
    assert type(answer) is type(error)


@pytest.mark.parametrize("facts", [{"idempotent": None}, {"idempotent": False}, {"trusted": False}, {"times": 0}])
def test_only_a_tool_that_is_known_to_be_idempotent_is_tried_again(facts):
    flaky = made(**facts)
    assert not retries(flaky)
    assert run(flaky, AGAIN) == (AGAIN, 1, [], [])


def test_an_attempt_may_be_any_function_that_gives_an_awaitable():
    async def main():
        future = asyncio.get_running_loop().create_future()
        future.set_result("at once")
        return await retried(lambda: future, made(), on_retry=print)

    assert asyncio.run(main()) == "at once"


def test_a_known_idempotent_tool_with_retries_is():
    assert retries(made())


def test_cancellation_ends_a_pause():
    begun = asyncio.Event()

    async def attempt():
        raise AGAIN

    async def sleep(_seconds):
        begun.set()
        await asyncio.Event().wait()

    async def main():
        running = asyncio.ensure_future(retried(attempt, made(), on_retry=lambda *_: None, sleep=sleep))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())


def test_pauses_are_real_by_default(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    outcomes = [AGAIN, "at last"]

    async def attempt():
        outcome = outcomes.pop(0)
        if outcome is AGAIN:
            raise outcome
        return outcome

    assert asyncio.run(retried(attempt, made(), on_retry=lambda *_: None)) == "at last"
    assert len(slept) == 1
