from __future__ import annotations

import asyncio

import pytest

from pegboard.dispatch.failure import MOST_DETAIL, detail_of
from pegboard.dispatch.work import Limits
from pegboard.errors import FatalToolError, ToolError
from pegboard.tools.policy import Policy

EXPOSED = Limits(expose_errors=True)


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def raising(error):
    """Runs in the loop, not in a thread: `test_run.py` has both."""

    async def tool(**_):
        raise error

    return tool


def test_a_tool_error_speaks_for_itself(make, send):
    result = send(make(raising(ToolError("The file is locked.", retryable=True, hint="Try again later.")))).result
    assert (result.is_error, result.kind) == (True, "tool_failure")
    assert result.text == "The file is locked.\nTry again later."
    assert result.metadata == {"retryable": True}
    assert "test_failure.py" in result.detail
    assert "test_failure.py" not in result.text


def test_a_tool_error_without_a_hint_is_its_text(make, send):
    result = send(make(raising(ToolError("Gone.")))).result
    assert (result.text, result.metadata) == ("Gone.", {"retryable": False})


def test_a_tool_error_whose_text_is_none_is_still_a_result(make, send):
    assert send(make(raising(ToolError(404)))).result.text == "404"


def test_a_tool_error_that_was_never_set_up_is_still_a_result(make, send):
    class CarelessError(ToolError):
        def __init__(self):
            pass

    result = send(make(raising(CarelessError()))).result
    assert (result.kind, result.text) == ("tool_failure", "probe failed.")
    assert "AttributeError" in result.detail


@pytest.mark.parametrize(
    "error",
    [
        ValueError("/etc/secret"),
        SystemExit("/etc/secret"),
        KeyboardInterrupt("/etc/secret"),
        RecursionError("/etc/secret"),
        GeneratorExit("/etc/secret"),
        MemoryError("/etc/secret"),
        TimeoutError("/etc/secret"),
        StopIteration("/etc/secret"),
        StopAsyncIteration("/etc/secret"),
        BaseExceptionGroup("/etc/secret", [SystemExit()]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_of_any_other_exception_the_model_learns_tool_and_type_only(make, send, error):
    work = send(make(raising(error)))
    assert (work.result.is_error, work.result.kind) == (True, "tool_failure")
    assert work.result.text == f"probe failed: {type(error).__name__}."
    assert "/etc/secret" in work.result.detail
    assert "Traceback" in work.result.detail
    assert work.fatal is None


def test_real_recursion_is_an_error_result(make, send):
    async def endless(depth=0):
        return await endless(depth + 1)

    assert send(make(endless)).result.text == "probe failed: RecursionError."


def test_expose_errors_lets_the_message_through(make, send):
    tool = make(raising(ValueError("no such row")))
    assert send(tool, limits=EXPOSED).result.text == "probe failed: ValueError: no such row."


@pytest.mark.parametrize("limits", [Limits(), EXPOSED])
@pytest.mark.parametrize("exposes", [True, False])
def test_the_tools_own_policy_decides_before_the_registrys(make, send, limits, exposes):
    tool = make(raising(ValueError("no such row")), policy=Policy(expose_errors=exposes))
    assert ("no such row" in send(tool, limits=limits).result.text) is exposes


def test_an_exception_without_a_text_is_still_a_result(make, send):
    result = send(make(raising(UnprintableError())), limits=EXPOSED).result
    assert result.text == "probe failed: UnprintableError: (no text)."


def test_exposed_text_is_bounded(make, send):
    assert len(send(make(raising(ValueError("x" * 10_000))), limits=EXPOSED).result.text) < 2100


def test_detail_is_bounded():
    assert len(detail_of(ValueError("x" * 10 * MOST_DETAIL))) == MOST_DETAIL


def test_detail_never_raises(monkeypatch):
    class BrokenError(Exception):
        @property
        def __cause__(self):
            raise RuntimeError

    assert detail_of(BrokenError()) == "BrokenError (its text failed: RuntimeError)"


def test_a_fatal_error_has_a_result_and_is_handed_on_beside_it(make, send):
    error = FatalToolError("the account is closed")
    work = send(make(raising(error)))
    assert work.fatal is error
    assert (work.result.kind, work.result.text) == ("tool_failure", "probe failed: FatalToolError.")


def test_a_tools_own_cancellation_is_an_error_result(make, send):
    """Nobody has cancelled the call; whoever waits for it must not be cancelled by it."""
    work = send(make(raising(asyncio.CancelledError())))
    assert (work.result.kind, work.result.is_error) == ("aborted", True)
