from __future__ import annotations

import pytest

from pegboard import ReadonlyContext
from pegboard_guard.scope import course_of, scope_of, streak_of

NOBODY = ReadonlyContext()


@pytest.mark.parametrize("per", ["session", "user", "registry"])
def test_calls_that_name_nothing_count_together(per):
    assert scope_of(NOBODY, per) == scope_of(ReadonlyContext(agent="x"), per) is not None


def test_a_turn_is_an_invocation_or_else_a_message_of_the_models():
    assert scope_of(NOBODY, "turn") is None
    turn = scope_of(ReadonlyContext(session="s", invocation="i", message="m1"), "turn")
    assert turn == scope_of(ReadonlyContext(session="s", invocation="i", message="m2"), "turn")
    assert turn != scope_of(ReadonlyContext(session="other", invocation="i"), "turn")
    assert (
        scope_of(ReadonlyContext(message="m1"), "turn") != scope_of(ReadonlyContext(message="m2"), "turn") is not None
    )


def test_a_message_is_no_course_of_a_turn():
    """What came first came in an earlier message."""
    assert course_of(ReadonlyContext(message="m"), "turn") is None
    assert course_of(ReadonlyContext(invocation="i"), "turn") is not None
    assert course_of(NOBODY, "session") is not None


def test_a_row_is_the_sessions_or_else_the_turns():
    assert streak_of(NOBODY) is None
    assert streak_of(ReadonlyContext(session="s", invocation="i")) == streak_of(ReadonlyContext(session="s"))
    assert streak_of(ReadonlyContext(invocation="i")) is not None
