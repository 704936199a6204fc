"""A time limit on code that can't be interrupted."""

from __future__ import annotations

import threading

import pytest

from pegboard.plugins.limit import within


def test_gives_what_the_function_gives() -> None:
    """Arguments go in, the value comes out, from a daemon thread."""
    assert within(5, lambda a, b: (a + b, threading.current_thread().daemon), 1, 2) == (3, True)


def test_raises_what_the_function_raises() -> None:
    """`SystemExit` is an error like any other here."""
    with pytest.raises(SystemExit):
        within(5, exit, 3)


def test_gives_up_past_the_limit() -> None:
    """The work is left behind, not waited for."""
    go_on = threading.Event()
    with pytest.raises(TimeoutError, match=r"longer than 0\.01 s"):
        within(0.01, go_on.wait)
    go_on.set()
